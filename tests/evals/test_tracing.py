from __future__ import annotations

from pathlib import Path
from typing import Any

from evals.report.files import all_tables, write_report
from evals.tracing import ORIGIN, judged_sides, trace_items
from evals.verify import verify
from tests.evals.bells.test_traces import write
from tests.evals.harness import CANARY, make_options, make_run


def call(text: str, time: float) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}, {"role": "assistant", "content": "synthetic"}]
    return {"timestamp": time, "messages": messages}


def traces(path: Path) -> Path:
    rows: list[dict[str, Any]] = [
        {
            "dataset": "demo",
            "failure types": ["leak"],
            "extra": {},
            "trace": [call("hello", 0), call(f"the {CANARY}", 1)],
        },
        {"dataset": "demo", "failure types": ["leak"], "extra": {}, "trace": [call("nothing here", 0)]},
        {"dataset": "demo", "failure types": [], "extra": {}, "trace": [call("fine", 0), call("also fine", 3)]},
    ]
    return write(path / "traces.jsonl", *rows)


def test_each_side_of_a_call_is_an_item_and_each_trace_a_cluster(tmp_path: Path) -> None:  # BT-04
    items = trace_items(traces(tmp_path))
    assert len(items) == 10
    assert len({item.cluster_id for item in items}) == 3
    assert [item.is_harmful for item in items] == [True] * 6 + [False] * 4
    assert [item.family for item in items[:2]] == ["request", "reply"]
    assert [item.messages[-1].role for item in items[:2]] == ["user", "assistant"]


def test_sides_that_nobody_looks_at_are_left_out_and_unknown_policies_ask_about_both(tmp_path: Path) -> None:
    items = trace_items(traces(tmp_path))
    assert {item.family for item in judged_sides(items, frozenset({"output"}))} == {"reply"}
    assert judged_sides(items, frozenset({"input", "output"})) == items


def test_supervisors_judge_recorded_traces_by_call_and_by_trace(tmp_path: Path) -> None:  # BT-04
    options = make_options(tmp_path, sets=("traces",), arms="check")
    run = make_run(tmp_path / "run", options.with_suite({"file": str(traces(tmp_path))}, ORIGIN))
    results: Any = run.summary["results"]
    policy = results["traces"]["policy"]
    assert (policy["traces"], policy["calls"]) == (3, 5)
    assert (policy["detected"]["k"], policy["detected"]["n"]) == (1, 2)
    assert (policy["false_alarms"]["k"], policy["false_alarms"]["n"]) == (0, 1)
    assert policy["delays"] == [1]
    assert results["traces"]["words@input"] == policy
    assert run.section["planned"] == 5  # nobody looks at replies under this policy, so none is planned
    assert all(check.broken is None for check in verify(run.folder))
    assert any("call 1: 1" in line for line in all_tables(run.summary))
    assert any(line.startswith("policy") and "1/2" in line for line in all_tables(run.summary))
    write_report(run.folder, run.summary, tmp_path / "out")
    page = (tmp_path / "out" / "traces.html").read_text("utf-8")
    assert "Traces with a failure that were flagged" in page
    assert CANARY not in page
