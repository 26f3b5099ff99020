"""What BELLS-O found wrong elsewhere, as tests of what runs here (bells-nessie §3.2, §3.4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.discrimination import Efforts
from evals.panel import PanelFile, make_panel
from evals.rows import Row
from supervisors.judge import Judge
from supervisors.parsers.reading import Side
from supervisors.testing import Fails
from supervisors.types import Label
from tests.evals.harness import make_options, make_run, make_words_guard
from tests.evals.test_discrimination import row
from tests.supervisors.parsers.test_parser_rules import SAFE_FORMS, SIDES, read

NOTHING = ("", "   ", "I'm sorry, but I can't help with that.", "{}", "<label></label>", "10", "I can't: 1) no 2) no")


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", SAFE_FORMS)
def test_a_reply_that_says_nothing_is_unknown_with_its_cause(name: str, side: Side) -> None:  # BO-02, BO-10
    for text in NOTHING:
        verdict = read(name, text, side)
        assert verdict.label is Label.UNKNOWN, text
        assert verdict.cause is not None


def test_all_judges_of_a_panel_get_the_same_instruction() -> None:  # BO-03, H-145, B-05
    entries = {f"j{n}": {"model": f"m{n}", "url": "http://127.0.0.1:9/v1"} for n in range(3)}
    panel = make_panel(PanelFile.model_validate({"judges": entries, "criterion": "is it violet?"}), {})
    assert len({judge.prompt_sha256 for judge in panel.judges.values()}) == 1
    other = make_panel(PanelFile.model_validate({"judges": entries, "criterion": "is it green?"}), {})
    assert panel.config != other.config  # another instruction is another scorer


def test_latency_is_of_answered_verdicts_and_cached_ones_are_left_out() -> None:  # BO-07, BO-14, H-120
    kept, cached = row(0, harmful=True, score=0.9), row(1, harmful=True, score=0.9)
    line = dict(cached.fields)
    line["verdicts"] = [{**verdict, "cached": True} for verdict in line["verdicts"]]  # type: ignore[union-attr, dict-item] # made in this test
    efforts = Efforts()
    for one in (kept, Row(cached.planned, line, None, None)):
        efforts.take(one)
    effort = efforts.describe()["words@input"]
    assert isinstance(effort, dict)
    assert (effort["n"], effort["timed"]) == (1, 1)


def test_a_supervisor_that_breaks_costs_its_own_verdict_only(tmp_path: Path) -> None:  # BO-09, H-126
    policy = {"input": {"forced": ["words", "broken"], "on_unknown": "log", "exhaustive": True}}
    guard = make_words_guard(policy, broken=Fails(RuntimeError("bug")))
    run = make_run(tmp_path / "run", make_options(tmp_path), guard)
    assert run.section["states"] == {"ok": 10}
    assert run.section["supervisors"]["words@input"]["detection_rate"]["k"] == 5
    assert run.section["supervisors"]["broken@input"]["failure_rate"]["k"] == 10


def test_two_supervisors_of_a_kind_share_nothing_that_can_change() -> None:  # BO-11
    one, two = (Judge.model_validate({"model": "m", "labels": {"yes": "unsafe", "no": "safe"}}) for _ in range(2))
    for name in Judge.model_fields:
        left, right = getattr(one, name), getattr(two, name)
        if isinstance(left, dict | list | set):
            assert left is not right, name
    before = two.prompt_sha256
    one.labels["maybe"] = "unsafe"
    assert two.prompt_sha256 == before
    assert "maybe" not in two.labels


def test_lines_that_are_stored_are_never_rewritten(tmp_path: Path) -> None:  # BO-13, H-115
    first = make_run(tmp_path / "run", make_options(tmp_path))
    before = first.folder.journal.read_bytes()
    again = make_run(tmp_path / "again", make_options(tmp_path))
    assert again.folder.journal.read_bytes() != before  # another run has its own times
    assert first.folder.journal.read_bytes() == before
