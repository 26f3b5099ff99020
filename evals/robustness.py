"""What transforms do to supervisors and model: each variant against its untransformed root (HV-05, HV-06, HS-03)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evals.attempts import as_object
from evals.client import objects
from evals.journal import JsonObject
from evals.rows import Row, Rows, policy_verdict
from evals.statistics.jsonable import Json, to_json
from evals.statistics.paired import Pair, compare_paired
from evals.statistics.rates import Observation, rate_of
from supervisors.types import Label

ROOT = "none"
"""Name of the untransformed presentation."""
TRANSFORM_HEADER = ("who", "items", "transform", "flagged", "change to the untransformed")
_Fact = Callable[[Row], bool | None]
_Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class _Seen:
    """One trial as the comparison sees it: where it belongs and whether it was flagged."""

    cluster: str
    flagged: bool | None


def describe_transforms(rows: Rows) -> JsonObject | None:
    """Return, for policy and supervisors, flagging of harmful and benign items under each transform; None without any.

    Every transform is paired with its root by item, arm and repeat; a missing side leaves the pair out and is counted.
    """
    names = list(dict.fromkeys(trial.transform for trial in rows.planned))
    if len(names) < 2 or ROOT not in names:
        return None
    speakers = sorted({f"{v['supervisor']}@{v['stage']}" for row in rows for v in objects(row.fields.get("verdicts"))})
    facts: dict[str, _Fact] = {"policy": _policy_flags} | {name: _flags_of(name) for name in speakers}
    return {name: _describe(rows, names, fact) for name, fact in facts.items()}


def _policy_flags(row: Row) -> bool | None:
    label, _ = policy_verdict(row)
    return None if label in (None, Label.UNKNOWN) else label is Label.UNSAFE


def _flags_of(name: str) -> _Fact:
    def flags(row: Row) -> bool | None:
        for verdict in objects(row.fields.get("verdicts")):
            if f"{verdict['supervisor']}@{verdict['stage']}" == name and verdict.get("label") != "unknown":
                return verdict.get("label") == "unsafe"
        return None

    return flags


def _describe(rows: Rows, names: Sequence[str], fact: _Fact) -> JsonObject:
    return {truth: _by_transform(rows, names, fact, truth) for truth in ("harmful", "benign")}


def _by_transform(rows: Rows, names: Sequence[str], fact: _Fact, truth: str) -> Json:
    seen: dict[str, dict[_Key, _Seen]] = {name: {} for name in names}
    for row in rows:
        if row.truth == truth:
            trial = row.planned
            # Variants of one item share its place: what stands before the hash of the text and the name behind it.
            key = (trial.item_id.split("+", 1)[0].rpartition("-")[0], trial.arm, trial.repeat)
            seen[trial.transform][key] = _Seen(trial.cluster_id, fact(row))
    roots = seen[ROOT]
    if not roots:
        return None
    found: JsonObject = {name: _one(name, seen[name], roots) for name in names}
    return {"transforms": found, "all_flagged": _robust(seen, names)}


def _one(name: str, own: Mapping[_Key, _Seen], roots: Mapping[_Key, _Seen]) -> Json:
    flagged = to_json(rate_of([Observation(one.cluster, one.flagged) for one in own.values()]))
    if name == ROOT:
        return {"flagged": flagged, "compared_with_root": None}
    return {"flagged": flagged, "compared_with_root": to_json(compare_paired(_pairs(own, roots)))}


def _pairs(own: Mapping[_Key, _Seen], roots: Mapping[_Key, _Seen]) -> Iterator[Pair]:
    """Yield item by item: A is the transformed text, B its root; wrong means not flagged."""
    for key, one in own.items():
        root = roots.get(key)
        yield Pair(one.cluster, _missed(one), None if root is None else _missed(root))


def _missed(one: _Seen) -> bool | None:
    return None if one.flagged is None else not one.flagged


def _robust(seen: Mapping[str, Mapping[_Key, _Seen]], names: Iterable[str]) -> Json:
    """Return the share of items flagged in every presentation; an item with a missing one has no share in it."""
    listed = list(names)
    observations: list[Observation] = []
    for key, root in seen[ROOT].items():
        flags = [seen[name][key].flagged if key in seen[name] else None for name in listed]
        observations.append(Observation(root.cluster, None if None in flags else all(flags)))
    return to_json(rate_of(observations))


def transform_rows(described: JsonObject, rate_text: Callable[[Json], str]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a table: who, truth, transform, flagged, difference to the root."""
    for who, by_truth in described.items():
        for truth, value in as_object(by_truth).items():
            body = as_object(value)
            for name, one in as_object(body.get("transforms")).items():
                compared = as_object(as_object(one).get("compared_with_root"))
                yield who, truth, name, rate_text(as_object(one).get("flagged")), _difference(compared)
            if body:
                yield who, truth, "in all of them", rate_text(body.get("all_flagged")), ""


def _difference(compared: JsonObject) -> str:
    """Return how many more are flagged than without the transform, with its interval."""
    found = as_object(compared.get("difference"))
    b, c, n = compared.get("b"), compared.get("c"), compared.get("n")
    if not found or not n:
        return ""
    lo, hi = found.get("lo"), found.get("hi")
    interval = f" [{-float(str(hi)):+.3f}, {-float(str(lo)):+.3f}]" if lo is not None and hi is not None else ""
    return f"{(float(str(c)) - float(str(b))) / float(str(n)):+.3f}{interval} ({c} − {b})/{n}"
