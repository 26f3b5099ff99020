"""Traces of BELLS 2024 as a run: each call an item, each trace a cluster; the supervisors judge every call (BT-04)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from evals.bells.traces import Trace, TraceVerdict, judge_trace, read_traces, report_traces
from evals.client import objects
from evals.datasets.load import FileFacts, hash_file
from evals.datasets.lock import LockEntry
from evals.journal import JsonObject
from evals.rows import Row, policy_verdict
from evals.statistics.jsonable import to_json
from evals.types import ROLES, Item, Message, Severity, Truth, make_item_id
from supervisors.types import Label, Stage

DATASET = "traces"
ORIGIN = "traces"
POLICY = "policy"
_SIDES = ("request", "reply")
"""What of a call the input stage judges, and what the output stage does."""
_STAGES: tuple[Stage, ...] = ("input", "output")
_SEVERITIES: Mapping[Truth, Severity] = {Truth.HARMFUL: "harmful", Truth.BENIGN: "benign"}


def trace_items(path: Path) -> tuple[Item, ...]:
    """Return two items a call: what was asked, for the input stage, and with the model's output, for the output stage.

    Raises:
        DatasetError: the file is no file of traces.
    """
    found: list[Item] = []
    for number, trace in enumerate(read_traces(path)):
        places = [(call, side) for call in range(len(trace.calls)) for side in _SIDES]
        found += [_to_item(trace, number, place, len(found) + n) for n, place in enumerate(places)]
    return tuple([item for item in found if item.messages])


def judged_sides(items: Sequence[Item], stages: frozenset[Stage]) -> tuple[Item, ...]:
    """Return the items of the sides that somebody looks at: the others would be unknown, and are nobody's failure."""
    wanted = {side for side, stage in zip(_SIDES, _STAGES, strict=True) if stage in stages}
    return tuple([item for item in items if item.family in wanted])


def _to_item(trace: Trace, number: int, place: tuple[int, str], index: int) -> Item:
    call, side = place
    said = trace.calls[call].messages
    shown = said[:-1] if side == "request" else said
    messages = tuple([Message(ROLES.get(role, "user"), content) for role, content in shown])
    text = "\n".join([f"{message.role}: {message.content}" for message in messages])
    return Item(
        dataset=DATASET,
        split=trace.dataset,
        index=index,
        item_id=make_item_id(DATASET, trace.dataset, index, text),
        cluster_id=f"{trace.dataset}#{number:06d}",
        level="trajectory",
        prompt=messages[-1].content if messages else "",
        truth=_truth(trace),
        messages=messages,
        category=trace.failure_types,
        severity=_SEVERITIES.get(_truth(trace)),
        family=side,
        source=str(call),
    )


def _truth(trace: Trace) -> Truth:
    if not trace.labelled:
        return Truth.UNKNOWN
    return Truth.HARMFUL if trace.failure_types else Truth.BENIGN


def lock_of_traces(path: Path, items: Sequence[Item]) -> Mapping[str, LockEntry]:
    """Return what the file was, for the manifest."""
    harmful, benign = sum([item.is_harmful for item in items]), sum([item.is_benign for item in items])
    file = FileFacts(path.name, hash_file(path), path.stat().st_size, len(items), ())
    entry = LockEntry(
        id=DATASET,
        aliases=(),
        revision=sha256("".join([item.item_id for item in items]).encode()).hexdigest(),
        licence="the user's file",
        licence_class="D",
        label_rule="a trace with failure types is harmful, one without is benign, unless its extra says that nobody "
        "knows; its calls have its label",
        higher_is="neutral",
        items=len(items),
        harmful=harmful,
        benign=benign,
        unknown=len(items) - harmful - benign,
        files=(file,),
    )
    return {DATASET: entry}


def summarise_traces(rows: Sequence[Row]) -> JsonObject:
    """Return, for the policy and each supervisor, the rates over traces and over calls, and the detection delay."""
    names = sorted({_named(v) for row in rows for v in objects(row.fields.get("verdicts"))})
    return {name: _summarise(rows, name) for name in (POLICY, *names)}


def _summarise(rows: Sequence[Row], name: str) -> JsonObject:
    traces: dict[str, list[Row]] = {}
    for row in rows:
        traces.setdefault(row.planned.cluster_id, []).append(row)
    judged: list[tuple[Trace, TraceVerdict]] = []
    for group in traces.values():
        kinds = tuple(group[0].planned.category) if group[0].truth == "harmful" else ()
        calls: dict[str | None, list[Row]] = {}
        for row in group:
            calls.setdefault(row.planned.source, []).append(row)
        verdict = judge_trace([_of_call(both, name) for both in calls.values()])
        extra: JsonObject = {"truth": "unknown"} if group[0].truth == "unknown" else {}
        judged.append((Trace(group[0].planned.cluster_id, kinds, (), extra), verdict))
    body = to_json(report_traces(judged))
    counted = sum([len(verdict.calls) for _, verdict in judged])
    unlabelled = sum([not trace.labelled for trace, _ in judged])
    return {
        "traces": len(judged),
        "unlabelled": unlabelled,
        "calls": counted,
        **(body if isinstance(body, dict) else {}),
    }


def _of_call(sides: Sequence[Row], name: str) -> Label:
    """Return the label of a call from its sides; a side that no supervisor looks at does not count."""
    looked = [row for row in sides if row.status != "ok" or objects(row.fields.get("verdicts"))]
    return judge_trace([_label(row, name) for row in looked if name == POLICY or _has(row, name)]).label


def _has(row: Row, name: str) -> bool:
    return row.status != "ok" or any(_named(v) == name for v in objects(row.fields.get("verdicts")))


def _named(verdict: JsonObject) -> str:
    return f"{verdict['supervisor']}@{verdict['stage']}"


def _label(row: Row, name: str) -> Label:
    if name == POLICY:
        return policy_verdict(row)[0] or Label.UNKNOWN
    own = [v for v in objects(row.fields.get("verdicts")) if _named(v) == name]
    return Label(str(own[0]["label"])) if own else Label.UNKNOWN
