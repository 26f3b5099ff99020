from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

from evals.exits import Exit
from evals.gate.decide import decide_absolute
from evals.gate.output import gate_lines, to_junit, to_markdown, write_gate
from evals.gate.rules import AbsoluteRule
from evals.gate.run import Verdict
from tests.evals.synthetic import side

RUN = side("run", benign="1" * 45 + "0" * 255)
FAILED = Verdict(
    "run|a<b", "base", "fail", Exit.GATE_FAILED,
    (decide_absolute(AbsoluteRule(metric="false_positive_rate", max=0.05), RUN),), ("a note",),
)  # fmt: skip
STOPPED = Verdict("run", None, None, Exit.INCOMPLETE, (), ("3 of 10 trials ended in an error",))


def test_each_rule_is_printed_with_what_it_rests_on() -> None:  # H-168
    lines = "\n".join(gate_lines(FAILED))
    for word in ("fail", "at most 0.05", "0.15", "300", "a note", "FAILED (exit code 10)"):
        assert word in lines


def test_a_pull_request_gets_a_table_that_no_name_can_break() -> None:  # H-168
    text = to_markdown(FAILED)
    assert "run\\|a&lt;b" in text
    assert text.count("\n| ") == 3


def test_a_failed_rule_is_a_failure_and_a_stop_is_an_error_for_the_job() -> None:  # H-168
    failed, stopped = (Xml.fromstring(to_junit(one)) for one in (FAILED, STOPPED))  # noqa: S314 - our own text
    assert (failed.attrib["tests"], failed.attrib["failures"], failed.attrib["errors"]) == ("1", "1", "0")
    assert (stopped.attrib["tests"], stopped.attrib["errors"]) == ("1", "1")
    error = stopped.find("testcase/error")
    assert error is not None
    assert "ended in an error" in error.attrib["message"]


def test_json_markdown_and_junit_are_written(tmp_path: Path) -> None:  # H-168
    write_gate(FAILED, tmp_path / "gate")
    body = json.loads((tmp_path / "gate" / "gate.json").read_text())
    assert (body["decision"], body["code"], body["rulings"][0]["verdict"]) == ("fail", 10, "fail")
    assert sorted(path.name for path in (tmp_path / "gate").iterdir()) == ["gate.json", "gate.md", "gate.xml"]
