"""The two-dimensional BELLS table of each supervisor, with its families, sources and categories (B-04, B-08, B-12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from evals.bells.resampling import resample_verdicts
from evals.bells.score import REFERENCE, BellsScore, flag_rate, score, to_cells
from evals.bells.verdicts import ADVERSARIALITIES, SEVERITIES, BellsItem, ItemVerdict, by_supervisor
from evals.statistics.bootstrap import Bootstrap
from evals.statistics.rates import Rate
from supervisors.types import Label

SEED = 0
"""The interval of the same verdicts is the same number wherever it is shown."""
DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Effort:
    """What the verdicts cost, over those where it was measured.

    Args:
        timed: verdicts with a time.
        median_s: median seconds, None without one.
        priced: verdicts with a cost.
        total_cost: US dollars, None without one.
    """

    timed: int
    median_s: float | None
    priced: int
    total_cost: float | None


@dataclass(frozen=True, slots=True)
class SupervisorTable:
    """Everything the replay says about one supervisor.

    Args:
        supervisor: its name.
        score: BELLS score with DR_adv, DR_direct and FPR.
        cells: severity → adversariality → flag rate.
        families: family → flag rate on harmful jailbroken items.
        sources: source → flag rate on harmful jailbroken items.
        categories: category → flag rate on harmful direct items.
        unknown: label-less verdicts.
        emerging: flag rate on harmful jailbroken items newer than the supervisor; None when its release is unknown.
        effort: time and cost.
        resampled: the score's interval by resampling questions, beside the delta method's; None without a score (B-09).
    """

    supervisor: str
    score: BellsScore
    cells: Mapping[str, Mapping[str, Rate]]
    families: Mapping[str, Rate]
    sources: Mapping[str, Rate]
    categories: Mapping[str, Rate]
    unknown: int
    emerging: Rate | None
    effort: Effort
    resampled: Bootstrap | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which supervisors and items a table shows; None does not filter.

    Args:
        min_score: smallest BELLS score; supervisors without a score are dropped.
        max_fpr: largest FPR; supervisors without one are dropped.
        categories: harm categories of direct harmful items to keep.
        family: jailbreak family of harmful items to keep.
    """

    min_score: float | None = None
    max_fpr: float | None = None
    categories: frozenset[str] | None = None
    family: str | None = None


def build_table(
    verdicts: Iterable[ItemVerdict], *, sizes: Mapping[str, int] | None = None, released: str | None = None
) -> SupervisorTable:
    """Build the table of one supervisor.

    Args:
        verdicts: its verdicts.
        sizes: family sizes behind the weights of the score, see `score`.
        released: ISO date of its release, to tell emerging families apart.

    Raises:
        ValueError: verdicts of several supervisors, or none.
    """
    listed = list(verdicts)
    names = sorted({verdict.supervisor for verdict in listed})
    if len(names) != 1:
        msg = f"a table is of one supervisor, got verdicts of {', '.join(names) or 'none'}"
        raise ValueError(msg)
    harmful = [v for v in listed if v.item.severity == "harmful"]
    jailbroken = [v for v in harmful if v.item.adversariality == "jailbroken"]
    newer = [v for v in jailbroken if _is_newer(v.item, released)]
    scored = score(to_cells(listed), sizes)
    return SupervisorTable(
        supervisor=names[0],
        score=scored,
        cells={row: {column: _cell(listed, row, column) for column in ADVERSARIALITIES} for row in SEVERITIES},
        families=_rates_by(jailbroken, lambda item: item.family),
        sources=_rates_by(jailbroken, lambda item: item.source),
        categories=_rates_by([v for v in harmful if v.item.adversariality == "direct"], lambda item: item.category),
        unknown=sum([verdict.label is Label.UNKNOWN for verdict in listed]),
        emerging=None if released is None else flag_rate(newer),
        effort=_effort(listed),
        resampled=None if scored.score is None else resample_verdicts(listed, scored.sizes, seed=SEED, draws=DRAWS),
    )


def build_tables(
    verdicts: Iterable[ItemVerdict],
    *,
    sizes: Mapping[str, int] | None = None,
    released: Mapping[str, str] | None = None,
    keep: Filter | None = None,
) -> tuple[SupervisorTable, ...]:
    """Build the tables of all supervisors that pass the filter, best score first, those without a score last."""
    chosen = keep or Filter()
    kept = [verdict for verdict in verdicts if _keeps_item(chosen, verdict.item)]
    dates = released or {}
    tables = [build_table(group, sizes=sizes, released=dates.get(name)) for name, group in by_supervisor(kept).items()]
    shown = [table for table in tables if _keeps_supervisor(chosen, table)]
    return tuple(sorted(shown, key=lambda table: (-(table.score.score or 0.0), table.supervisor)))


def _cell(verdicts: Sequence[ItemVerdict], severity: str, adversariality: str) -> Rate:
    return flag_rate([v for v in verdicts if (v.item.severity, v.item.adversariality) == (severity, adversariality)])


def _rates_by(verdicts: Sequence[ItemVerdict], name: Callable[[BellsItem], str | None]) -> Mapping[str, Rate]:
    split: dict[str, list[ItemVerdict]] = {}
    for verdict in verdicts:
        split.setdefault(name(verdict.item) or "(none)", []).append(verdict)
    return {group: flag_rate(split[group]) for group in sorted(split)}


def _is_newer(item: BellsItem, released: str | None) -> bool:
    """Compare ISO dates as far as both are precise; the same month is not newer."""
    if released is None or item.published_at is None:
        return False
    precision = min(len(item.published_at), len(released))
    return item.published_at[:precision] > released[:precision]


def _effort(verdicts: Sequence[ItemVerdict]) -> Effort:
    seconds = [v.seconds for v in verdicts if v.seconds is not None]
    costs = [v.cost for v in verdicts if v.cost is not None]
    return Effort(len(seconds), median(seconds) if seconds else None, len(costs), sum(costs) if costs else None)


def _keeps_item(chosen: Filter, item: BellsItem) -> bool:
    if chosen.family is not None and item.adversariality == "jailbroken" and item.severity == "harmful":
        return item.family == chosen.family
    if chosen.categories is not None and item.adversariality == "direct" and item.severity == "harmful":
        return item.category in chosen.categories
    return True


def _keeps_supervisor(chosen: Filter, table: SupervisorTable) -> bool:
    if chosen.min_score is not None and (table.score.score is None or table.score.score < chosen.min_score):
        return False
    fpr = table.score.fpr.estimate
    return chosen.max_fpr is None or (fpr is not None and fpr <= chosen.max_fpr)


def to_text(tables: Sequence[SupervisorTable]) -> str:
    """Write the tables as Markdown: the score never without its three rates and the reference line."""
    lines = [
        "| supervisor | BELLS | DR adversarial | DR direct | FPR direct | unknown |",
        "|---|---|---|---|---|---|",
        *[_score_line(table) for table in tables],
        f"| *never flags / always flags* | {REFERENCE:.5f} | 0 / 1 | 0 / 1 | 0 / 1 | |",
    ]
    for table in tables:
        lines += ["", *_cells_text(table)]
    return "\n".join(lines) + "\n"


def _score_line(table: SupervisorTable) -> str:
    found = table.score
    if found.score is None:
        total = f"n/a ({found.reason})"
    elif found.lo is None or found.hi is None:
        total = f"{found.score:.5f} (no interval)"
    else:
        total = f"{found.score:.5f} ({found.lo:.5f} – {found.hi:.5f}{_resampled_text(table.resampled)})"
    adversarial = "n/a" if found.dr_adv.estimate is None else f"{found.dr_adv.estimate:.5f}"
    return f"| {table.supervisor} | {total} | {adversarial} | {found.dr_direct} | {found.fpr} | {table.unknown} |"


def _resampled_text(found: Bootstrap | None) -> str:
    return (
        "" if found is None or found.lo is None or found.hi is None else f"; bootstrap {found.lo:.5f} – {found.hi:.5f}"
    )


def _cells_text(table: SupervisorTable) -> list[str]:
    weights = ", ".join([f"{family} {weight:.6f}" for family, weight in table.score.weights.items()])
    lines = [
        f"**{table.supervisor}**: flag rates; weights of the families: {weights or 'none'}",
        "",
        "| severity | direct | jailbroken |",
        "|---|---|---|",
        *[f"| {name} | {row['direct']} | {row['jailbroken']} |" for name, row in table.cells.items()],
    ]
    for title, rates in (("family", table.families), ("source", table.sources), ("category", table.categories)):
        lines += ["", f"| {title} | flag rate on harmful items |", "|---|---|"]
        lines += [f"| {name} | {rate} |" for name, rate in rates.items()]
    if table.emerging is not None:
        lines += ["", f"Emerging (newer than the supervisor): {table.emerging}"]
    return lines
