from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.bells.traces import Call, Trace, judge_trace, read_traces, report_traces, to_line, to_text
from evals.statistics.jsonable import Json
from supervisors.errors import DatasetError
from supervisors.types import Label

EXAMPLE = (
    '{"dataset":"demo","failure types":[],"extra":{},"trace":[{"timestamp":0.0,"messages":'
    '[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]}]}'
)


def write(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join([line if isinstance(line, str) else json.dumps(line) for line in lines]), "utf-8")
    return path


def test_the_published_example_is_read_and_written_as_it_is(tmp_path: Path) -> None:  # BT-01
    (trace,) = read_traces(write(tmp_path / "t.jsonl", EXAMPLE))
    assert trace == Trace("demo", (), (Call(0.0, (("user", "hello"), ("assistant", "hi"))),))
    assert to_line(trace) == json.loads(EXAMPLE)


def test_a_round_trip_changes_nothing_and_keeps_what_it_does_not_know(tmp_path: Path) -> None:  # BT-01, BT-02
    row = {
        "dataset": "agents", "failure types": ["power"], "extra": {"game": "x"}, "version": 3,
        "trace": [
            {
                "timestamp": 0.0,
                "messages": [{"role": "user", "content": "a\u2028b"}, {"role": "assistant", "content": ""}],
            },
            {"timestamp": 2.5, "messages": [{"role": "user", "content": "c"}], "extra": {"step": 2}},
        ],
    }  # fmt: skip
    traces = read_traces(write(tmp_path / "t.jsonl", row))
    assert to_line(traces[0]) == row
    assert read_traces(write(tmp_path / "again.jsonl", to_line(traces[0]))) == traces


def test_calls_of_the_recorder_become_one_trace_with_relative_times(tmp_path: Path) -> None:  # BT-01
    calls = [
        {"timestamp": 1700000000.5, "messages": [{"role": "user", "content": "a"}]},
        {"timestamp": 1700000003.0, "messages": [{"role": "user", "content": "b"}]},
    ]
    (trace,) = read_traces(write(tmp_path / "run7.jsonl", *calls))
    assert (trace.dataset, trace.failure_types) == ("run7", ())
    assert [call.timestamp for call in trace.calls] == [0.0, 2.5]


def test_parts_that_are_no_text_become_placeholders_and_tool_calls_are_kept(tmp_path: Path) -> None:  # BT-02
    image: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert to_text([{"type": "text", "text": "look"}, image]).startswith("look\n[image sha256=")
    assert to_text(None) == ""
    tools = [{"id": "1", "function": {"name": "open", "arguments": "{}"}}]
    call = {"timestamp": 0, "messages": [{"role": "assistant", "content": None, "tool_calls": tools}]}
    row: dict[str, Any] = {"dataset": "d", "failure types": [], "extra": {}, "trace": [call]}
    (trace,) = read_traces(write(tmp_path / "t.jsonl", row))
    assert trace.calls[0].extra["tool_calls"] == tools


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no json", "line 1 is no JSON"),
        ("[1]", "line 1: expected an object, got list"),
        ('{"trace": 3, "dataset": "d"}', "line 1: `trace` and `failure types` must be lists"),
        ('{"trace": [{"timestamp": 0}]}', "line 1: a call needs `messages`"),
        ('{"timestamp": true, "messages": [{"role": "user", "content": "a"}]}', "a `timestamp` in seconds"),
    ],
)
def test_a_line_that_is_no_trace_is_named(line: str, message: str, tmp_path: Path) -> None:  # BT-01
    with pytest.raises(DatasetError, match=message):
        read_traces(write(tmp_path / "t.jsonl", line))


@pytest.mark.parametrize(
    ("calls", "label", "first"),
    [("sus", Label.UNSAFE, 1), ("ss", Label.SAFE, None), ("s?", Label.UNKNOWN, None), ("?u", Label.UNSAFE, 1),
     ("", Label.UNKNOWN, None)],
)  # fmt: skip
def test_a_trace_is_flagged_by_any_call_and_unknown_only_if_none_is(
    calls: str, label: Label, first: int | None
) -> None:  # BT-04
    words = {"s": Label.SAFE, "u": Label.UNSAFE, "?": Label.UNKNOWN}
    found = judge_trace([words[call] for call in calls])
    assert (found.label, found.first) == (label, first)


def test_rates_are_over_traces_and_over_calls_and_delays_are_counted() -> None:  # BT-04
    safe, unsafe, unknown = Label.SAFE, Label.UNSAFE, Label.UNKNOWN
    broken, clean = Trace("d", ("power",), ()), Trace("d", (), ())
    report = report_traces(
        [
            (broken, judge_trace([safe, unsafe])),
            (broken, judge_trace([safe, unknown])),
            (clean, judge_trace([safe, safe])),
        ]
    )
    assert (report.detected.k, report.detected.n, report.detected.planned) == (1, 1, 2)
    assert (report.false_alarms.k, report.false_alarms.n) == (0, 1)
    assert (report.calls_in_failures.k, report.calls_in_failures.n) == (1, 3)
    assert report.calls_in_clean.n == 2
    assert report.delays == (1,)
