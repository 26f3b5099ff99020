"""Published numbers that stand beside ours, and the ranking and prices of BELLS-O (BO-04 to BO-06).

Source: arXiv 2507.06282 (BELLS), arXiv 2606.20668 (BELLS-O), arXiv 2602.16756 (NESSiE).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import cast

from evals.bells.score import PUBLISHED_SIZES, BellsScore, Cells, score
from evals.bells.verdicts import FAMILIES
from evals.statistics.rates import rate

GPU_USD_PER_HOUR = 2.39
"""Price behind the published costs of guards on own hardware; a parameter of `local_cost`."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A system of BELLS-O; None where nothing was measured.

    Args:
        system: its name.
        detection_rate: flagged share of harmful prompts.
        false_positive_rate: flagged share of benign prompts.
        latency_s: mean seconds.
        cost_usd: of the whole set.
        published_rank: mean of its four ranks among all systems of the publication.
    """

    system: str
    detection_rate: float | None
    false_positive_rate: float | None
    latency_s: float | None
    cost_usd: float | None = None
    published_rank: float | None = None


def _load() -> Mapping[str, object]:
    text = files("evals.bells").joinpath("reference.json").read_text("utf-8")
    return cast("Mapping[str, object]", json.loads(text))  # our own file, held by tests


def bells_scores() -> Mapping[str, BellsScore]:
    """Return system → published BELLS score, computed from its counts."""
    listed = cast("Mapping[str, object]", _load()["bells"])["systems"]
    found: dict[str, BellsScore] = {}
    for entry in cast("Sequence[Mapping[str, object]]", listed):
        counts = cast("Mapping[str, tuple[int, int]]", entry["counts"])
        rates = {name: rate(*pair) for name, pair in counts.items()}
        cells = Cells(
            families={family: rates[family] for family in FAMILIES}, direct=rates["direct"], benign=rates["benign"]
        )
        found[str(entry["system"])] = score(cells, PUBLISHED_SIZES)
    return found


def bells_o_table(stage: str) -> tuple[Ranked, ...]:
    """Return the published rows of a stage: input, output or jailbreak; fifteen systems of each."""
    listed = cast("Mapping[str, object]", _load()["bells-o"])[stage]
    rows = cast("Sequence[Mapping[str, str | float]]", listed)
    return tuple(
        [
            Ranked(
                system=str(row["system"]),
                detection_rate=round(float(row["dr_percent"]) / 100, 6),
                false_positive_rate=round(float(row["fpr_percent"]) / 100, 6),
                latency_s=float(row["latency_ms"]) / 1000,
                cost_usd=float(row["cost_usd"]) if "cost_usd" in row else None,
                published_rank=float(row["rank"]),
            )
            for row in rows
        ]
    )


def nessie_rows() -> tuple[tuple[str, str], ...]:
    """Return system → published SH or Safe in words; never comparable with rows in our own wording."""
    listed = cast("Mapping[str, object]", _load()["nessie"])["systems"]
    rows = cast("Sequence[Mapping[str, str | float]]", listed)
    return tuple([(str(r["system"]), f"SH {r['sh']}" if "sh" in r else f"safe {r['safe']}") for r in rows])


def rank_systems(systems: Sequence[Ranked]) -> Mapping[str, float]:
    """Return system → mean of four competition ranks, ties sharing the smaller one (BO-05).

    It changes with the field, and for guards on own hardware cost is a multiple of latency, which then counts twice: it
    is an answer to a question about a table, never a default order. A system without one of the four has no rank.
    """
    whole = [s for s in systems if None not in (s.detection_rate, s.false_positive_rate, s.latency_s, s.cost_usd)]
    columns: list[list[float]] = [
        [-(s.detection_rate or 0.0) for s in whole],
        [s.false_positive_rate or 0.0 for s in whole],
        [s.latency_s or 0.0 for s in whole],
        [s.cost_usd or 0.0 for s in whole],
    ]
    sums = {s.system: 0 for s in whole}
    for column in columns:
        for system, value in zip(whole, column, strict=True):
            sums[system.system] += 1 + sum([other < value for other in column])
    return {name: total / len(columns) for name, total in sums.items()}


def local_cost(items: int, latency_s: float, usd_per_hour: float = GPU_USD_PER_HOUR) -> float:
    """Return what a guard on own hardware costs over a set (BO-06)."""
    return items * latency_s * usd_per_hour / 3600
