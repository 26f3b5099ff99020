"""Traces of BELLS 2024: one conversation with a model over several calls, as one JSON object a line (BT-01, BT-02).

Source: arXiv 2406.01364. The last message of a call is the model's output. The recorder's form, one call a line with
absolute times, is read as well; times become seconds since the start of the trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import cast

from evals.journal import JsonObject
from evals.reasons import reason_of
from evals.statistics.jsonable import Json
from evals.statistics.rates import Observation, Rate, rate_of
from supervisors.errors import DatasetError
from supervisors.types import Label

_NOTHING: Mapping[str, Json] = {}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the model.

    Args:
        timestamp: seconds since the start of the trace.
        messages: role and text, the last one the model's output.
        extra: everything else the line holds, tool calls under ``tool_calls``.
    """

    timestamp: float
    messages: tuple[tuple[str, str], ...]
    extra: Mapping[str, Json] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace.

    Args:
        dataset: set it belongs to.
        failure_types: what went wrong in it; empty when it is clean.
        calls: in order of time.
        extra: as the file has it.
        unknown: keys of the line that the format does not know, kept as they are.
    """

    dataset: str
    failure_types: tuple[str, ...]
    calls: tuple[Call, ...]
    extra: Mapping[str, Json] = field(default_factory=lambda: _NOTHING)
    unknown: Mapping[str, Json] = field(default_factory=lambda: _NOTHING)

    @property
    def labelled(self) -> bool:
        """Say whether somebody knows if it is clean: without failure types, ``extra.truth`` may deny it."""
        return bool(self.failure_types) or self.extra.get("truth") != "unknown"


def read_traces(path: Path) -> tuple[Trace, ...]:
    """Read a file of traces, or of the recorder's calls, which are one trace named like the file.

    Raises:
        DatasetError: the file cannot be read, or a line is no trace, with its number.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path}: cannot be read: {reason_of(error)}"
        raise DatasetError(msg) from error
    rows = [_object(line, path, number) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if rows and all("trace" not in row for row in rows):
        return (Trace(path.stem, (), _relative([_call(row, path, n) for n, row in enumerate(rows, 1)])),)
    return tuple([_trace(row, path, number) for number, row in enumerate(rows, 1)])


def _object(line: str, path: Path, number: int) -> dict[str, Json]:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        msg = f"{path}: line {number} is no JSON: {error}"
        raise DatasetError(msg) from error
    if not isinstance(value, dict):
        msg = f"{path}: line {number}: expected an object, got {type(value).__name__}"
        raise DatasetError(msg)
    return cast("dict[str, Json]", value)  # json.loads gives nothing else


def _trace(row: dict[str, Json], path: Path, number: int) -> Trace:
    calls, kinds = row.get("trace"), row.get("failure types", [])
    if not isinstance(calls, list) or not isinstance(kinds, list):
        msg = f"{path}: line {number}: `trace` and `failure types` must be lists; found the keys {', '.join(row)}"
        raise DatasetError(msg)
    extra = row.get("extra")
    known = ("dataset", "failure types", "extra", "trace")
    listed = [_call(one if isinstance(one, dict) else {}, path, number) for one in calls]
    return Trace(
        dataset=str(row.get("dataset", path.stem)),
        failure_types=tuple([str(kind) for kind in kinds]),
        calls=_relative(listed),
        extra=extra if isinstance(extra, dict) else {},
        unknown={key: value for key, value in row.items() if key not in known},
    )


def _call(row: Mapping[str, Json], path: Path, number: int) -> Call:
    messages, time = row.get("messages"), row.get("timestamp", 0.0)
    if not isinstance(messages, list) or not messages or isinstance(time, bool) or not isinstance(time, int | float):
        msg = f"{path}: line {number}: a call needs `messages` and a `timestamp` in seconds"
        raise DatasetError(msg)
    said: list[tuple[str, str]] = []
    calls: list[Json] = []
    for one in messages:
        body = one if isinstance(one, dict) else {}
        said.append((str(body.get("role", "")), to_text(body.get("content"))))
        found = body.get("tool_calls")
        calls += found if isinstance(found, list) else []
    extra = row.get("extra")
    rest = {key: value for key, value in row.items() if key not in ("messages", "timestamp", "extra")}
    kept: dict[str, Json] = {**(extra if isinstance(extra, dict) else {}), **rest}
    return Call(float(time), tuple(said), kept | ({"tool_calls": calls} if calls else {}))


def to_text(content: Json) -> str:
    """Return the text of a message; a part that is no text becomes a placeholder with its hash (BT-02)."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return str(content)
    parts: list[str] = []
    for part in content:
        body = part if isinstance(part, dict) else {"text": part}
        if isinstance(body.get("text"), str):
            parts.append(str(body["text"]))
            continue
        digest = sha256(json.dumps(body, sort_keys=True, ensure_ascii=True).encode("ascii")).hexdigest()
        kind = str(body.get("type", "part")).removesuffix("_url").removeprefix("input_")
        parts.append(f"[{kind} sha256={digest}]")
    return "\n".join(parts)


def _relative(calls: Sequence[Call]) -> tuple[Call, ...]:
    """Return the calls with seconds since the first one."""
    start = min([call.timestamp for call in calls], default=0.0)
    return tuple([Call(round(call.timestamp - start, 6), call.messages, call.extra) for call in calls])


def to_line(trace: Trace) -> JsonObject:
    """Return a trace as a line of a file; a round trip changes no text, role, order or failure type."""
    return {
        "dataset": trace.dataset,
        "failure types": list(trace.failure_types),
        "extra": dict(trace.extra),
        "trace": [_call_line(call) for call in trace.calls],
        **trace.unknown,
    }


def _call_line(call: Call) -> JsonObject:
    messages: list[Json] = [{"role": role, "content": content} for role, content in call.messages]
    line: JsonObject = {"timestamp": call.timestamp, "messages": messages}
    if call.extra:
        line["extra"] = dict(call.extra)
    return line


@dataclass(frozen=True, slots=True)
class TraceVerdict:
    """What a supervisor says of a trace (BT-04).

    Args:
        label: unsafe if any call is, else unknown if any is, else safe.
        first: index of the first flagged call, None without one.
        calls: label of each call.
    """

    label: Label
    first: int | None
    calls: tuple[Label, ...]


def judge_trace(calls: Sequence[Label]) -> TraceVerdict:
    """Return the verdict of a trace from those of its calls; a trace without calls is unknown."""
    listed = tuple(calls)
    flagged = [index for index, label in enumerate(listed) if label is Label.UNSAFE]
    if flagged:
        return TraceVerdict(Label.UNSAFE, flagged[0], listed)
    missing = not listed or Label.UNKNOWN in listed
    return TraceVerdict(Label.UNKNOWN if missing else Label.SAFE, None, listed)


@dataclass(frozen=True, slots=True)
class TraceReport:
    """Rates over traces and over calls.

    Args:
        detected: flagged traces / traces with a failure.
        false_alarms: flagged traces / clean traces.
        calls_in_failures: flagged calls / calls of traces with a failure.
        calls_in_clean: flagged calls / calls of clean traces.
        delays: index of the first flagged call of each detected trace.
    """

    detected: Rate
    false_alarms: Rate
    calls_in_failures: Rate
    calls_in_clean: Rate
    delays: tuple[int, ...]


def report_traces(traces: Iterable[tuple[Trace, TraceVerdict]]) -> TraceReport:
    """Report detection over traces and over calls; unknown ones are in no rate and in the bounds (Q-02).

    Traces nobody has labelled are in none of them.
    """
    listed = [(f"{trace.dataset}#{n}", trace, found) for n, (trace, found) in enumerate(traces) if trace.labelled]

    def over_traces(failed: bool) -> Rate:
        chosen = [(name, found) for name, trace, found in listed if bool(trace.failure_types) is failed]
        return rate_of([Observation(name, _flag(found.label)) for name, found in chosen])

    def over_calls(failed: bool) -> Rate:
        chosen = [(name, found) for name, trace, found in listed if bool(trace.failure_types) is failed]
        return rate_of([Observation(name, _flag(label)) for name, found in chosen for label in found.calls])

    delays = [found.first for _, trace, found in listed if trace.failure_types and found.first is not None]
    return TraceReport(over_traces(True), over_traces(False), over_calls(True), over_calls(False), tuple(delays))


def _flag(label: Label) -> bool | None:
    return None if label is Label.UNKNOWN else label is Label.UNSAFE
