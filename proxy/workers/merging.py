"""Metrics of several workers as one exposition. Pure.

Counters and histograms are added up over all workers there have been, dead ones as they were last shown, so that a
worker that dies neither resets nor doubles them (L-10). Gauges are those of the living.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from proxy.counting import Family, Sample

Rule = Literal["sum", "max", "mean"]

GAUGES: Final[Mapping[str, Rule]] = {
    "config_info": "max",
    "guardrail_breaker_state": "max",
    "guardrail_store_backlog": "sum",
    "guardrail_store_failing": "max",
    "guardrail_vote_agreement": "mean",
    "proxy_in_flight": "sum",
    "proxy_queue_depth": "sum",
}
"""What the gauge of all workers is."""

Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one worker shows, all of one moment.

    Args:
        boot: id of the process start.
        pid: of the process.
        config_version: in force.
        records: records its counters cover.
        families: its metrics.
        live: it answered just now; otherwise it is as it was last shown.
    """

    boot: str
    pid: int
    config_version: str
    records: int
    families: Sequence[Family]
    live: bool = True


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return it as JSON."""
    families = [
        [family.name, family.kind, family.help, [[one.name, dict(one.labels), one.value] for one in family.samples]]
        for family in snapshot.families
    ]
    return {
        "boot": snapshot.boot,
        "pid": snapshot.pid,
        "config_version": snapshot.config_version,
        "records": snapshot.records,
        "families": families,
    }


def from_json(row: Mapping[str, Any], *, live: bool) -> Snapshot:
    """Read what `to_json` made."""
    families = [
        Family(name, kind, text, [Sample(own, tuple(labels.items()), value) for own, labels, value in samples])
        for name, kind, text, samples in row["families"]
    ]
    return Snapshot(row["boot"], row["pid"], row["config_version"], row["records"], families, live)


def merge(snapshots: Sequence[Snapshot]) -> list[Family]:
    """Return the families of all workers as those of one."""
    found: dict[str, Family] = {}
    values: dict[str, dict[Key, list[float]]] = {}
    for snapshot in snapshots:
        for family in snapshot.families:
            if family.kind == "gauge" and not snapshot.live:
                continue
            found.setdefault(family.name, family)
            cells = values.setdefault(family.name, {})
            for one in family.samples:
                cells.setdefault((one.name, one.labels), []).append(one.value)
    return [
        Family(
            name, family.kind, family.help, [Sample(*key, _join(family, cell)) for key, cell in values[name].items()]
        )
        for name, family in found.items()
    ]


def _join(family: Family, values: Sequence[float]) -> float:
    rule: Rule = GAUGES[family.name] if family.kind == "gauge" else "sum"
    match rule:
        case "sum":
            return sum(values)
        case "max":
            return max(values)
        case "mean":
            return sum(values) / len(values)
