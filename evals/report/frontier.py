"""Several supervisors over several data sets in one table, and the Pareto front of detection against false alarms.

Every rate is taken from the summaries of runs; computed here are only means over data sets and quantiles of times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from evals.attempts import as_object
from evals.client import number, objects
from evals.journal import JsonObject
from evals.report.figures import sections_of
from evals.report.plots import Point, draw_plane
from evals.report.svg import Figure
from evals.rows import Row
from evals.statistics.clusters import Clusters
from evals.statistics.jsonable import Json
from evals.statistics.rates import Rate, macro_average
from evals.statistics.rates import rate as rate_from

_RATES = ("detection_rate", "false_positive_rate")


@dataclass(frozen=True, slots=True)
class Mean:
    """The unweighted mean of rates over data sets.

    Args:
        estimate: in 0..1.
        lo: lower end of its 95 % interval, None when a set has none.
        hi: upper end.
        sets: data sets.
        n: items over all sets.
    """

    estimate: float
    lo: float | None
    hi: float | None
    sets: int
    n: int

    @property
    def span(self) -> tuple[float, float] | None:
        """Return the interval."""
        return None if self.lo is None or self.hi is None else (self.lo, self.hi)

    def __str__(self) -> str:
        return f"{self.estimate:.3f}" + ("" if self.span is None else f" [{self.lo:.3f}, {self.hi:.3f}]")


@dataclass(slots=True)
class Measured:
    """What runs say of one supervisor.

    Args:
        name: as configured, with the stage where it judged the same data set at both.
        rates: data set → name of the rate → rate of the summary.
        seconds: of every verdict whose time was measured.
        cost_usd: sum of the reported costs, None when none was reported.
        priced: verdicts that report a cost.
        verdicts: verdicts counted.
        unknown: of them unknown.
    """

    name: str
    rates: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    seconds: list[float] = field(default_factory=list[float])
    cost_usd: float | None = None
    priced: int = 0
    verdicts: int = 0
    unknown: int = 0

    def mean(self, rate: str, sets: Sequence[str]) -> Mean | None:
        """Return the mean of a rate over data sets; None unless every one of them was measured."""
        return mean_of([self.rates.get(dataset, {}).get(rate) for dataset in sets])


def mean_of(rates: Sequence[Json]) -> Mean | None:
    """Return the mean of rates of a summary with its interval; None unless every one has a scored trial."""
    found = [_to_rate(as_object(rate)) for rate in rates]
    known = [rate for rate in found if rate is not None]
    if not known or len(known) < len(found):
        return None
    mean = macro_average(known)
    return Mean(mean.estimate or 0.0, mean.lo, mean.hi, len(known), sum([rate.n for rate in known]))


def _to_rate(body: JsonObject) -> Rate | None:
    """Return a stored rate with its effective number of trials, as far as a mean looks at it."""
    k, n = number(body.get("k")), number(body.get("n"))
    if not n or k is None:
        return None
    made = rate_from(int(k), int(n))
    n_eff = number(as_object(body.get("clusters")).get("n_eff"))
    ends = [number(body.get(end)) for end in ("lo", "hi")]
    clusters = None if n_eff is None else Clusters(0, None, None, n_eff, None, None, None)
    return replace(made, lo=ends[0], hi=ends[1], clusters=clusters)


@dataclass(frozen=True, slots=True)
class Frontier:
    """All supervisors of some runs.

    Args:
        measured: in the order in which the runs name them.
        harmful: data sets with harmful items.
        benign: data sets with benign items.
        larger: by name, what runs over more of the same sets say of some of them; no times.
    """

    measured: tuple[Measured, ...]
    harmful: tuple[str, ...]
    benign: tuple[str, ...]
    larger: Mapping[str, Measured] = field(default_factory=dict[str, Measured])

    def rates_of(self, one: Measured, dataset: str) -> JsonObject:
        """Return the rates on a data set, of the larger run where there is one."""
        larger = self.larger.get(one.name)
        return (one if larger is None else larger).rates.get(dataset, {}) or one.rates.get(dataset, {})


def read_frontier(runs: Iterable[tuple[JsonObject, Sequence[Row]]]) -> Frontier:
    """Put runs together.

    Args:
        runs: summary and rows of each; a supervisor of the same name in a later run adds its data sets.
    """
    found: dict[str, Measured] = {}  # by name and stage
    sets: dict[str, dict[str, None]] = {rate: {} for rate in _RATES}
    for summary, rows in runs:
        for section in sections_of(summary):
            for full, rates in as_object(section["supervisors"]).items():
                if "/" not in full:  # a member of a panel is listed by itself if it is configured by itself
                    one = found.setdefault(full, Measured(full))
                    one.rates[str(section["dataset"])] = as_object(rates)
                    for rate in _RATES:
                        if number(as_object(as_object(rates)[rate]).get("n")):
                            sets[rate][str(section["dataset"])] = None
        for row in rows:
            _add_times(found, row)
    return Frontier(_by_name(found.values()), tuple(sets[_RATES[0]]), tuple(sets[_RATES[1]]))


def _by_name(found: Iterable[Measured]) -> tuple[Measured, ...]:
    """Put the stages of a supervisor together, unless it judged one data set at both: those are two measurements."""
    named: dict[str, list[Measured]] = {}
    for one in found:
        named.setdefault(one.name.partition("@")[0], []).append(one)
    joined: list[Measured] = []
    for name, stages in named.items():
        sets = [dataset for one in stages for dataset in one.rates]
        joined += [_join(name, stages)] if len(set(sets)) == len(sets) else stages
    return tuple(joined)


def _mean_of(sets: Sequence[str]) -> str:
    return f"mean of {len(sets)} set{'' if len(sets) == 1 else 's'}"


def _join(name: str, stages: Sequence[Measured]) -> Measured:
    costs = [one.cost_usd for one in stages if one.cost_usd is not None]
    return Measured(
        name,
        {dataset: rates for one in stages for dataset, rates in one.rates.items()},
        [seconds for one in stages for seconds in one.seconds],
        sum(costs) if costs else None,
        sum([one.priced for one in stages]),
        sum([one.verdicts for one in stages]),
        sum([one.unknown for one in stages]),
    )


def _add_times(found: Mapping[str, Measured], row: Row) -> None:
    for verdict in objects(row.fields.get("verdicts")):
        one = found.get(f"{verdict['supervisor']}@{verdict['stage']}")
        if one is None or verdict.get("cause") == "skipped":
            continue
        one.verdicts += 1
        one.unknown += verdict.get("label") == "unknown"
        if verdict.get("cached") is True:  # took no effort
            continue
        seconds, cost = number(verdict.get("seconds")), number(verdict.get("cost"))
        one.seconds += [] if seconds is None else [seconds]
        if cost is not None:
            one.priced += 1
            one.cost_usd = (one.cost_usd or 0.0) + cost


def to_markdown(frontier: Frontier) -> list[str]:
    """Return three tables: the means with times and cost, detection by data set, false positives by data set.

    With larger runs their means stand beside those on the same prompts, and the tables by data set show theirs.
    """
    more = bool(frontier.larger)
    heads = ["supervisor", f"detection, {_mean_of(frontier.harmful)}"]
    heads += [f"false positives, {_mean_of(frontier.benign)}"]
    heads += ["detection, all prompts", "false positives, all prompts"] if more else []
    heads += ["unknown", "ms, median and p95", "USD of 1,000"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for one in frontier.measured:
        unknown = one.unknown / one.verdicts if one.verdicts else 0.0
        cost = "–" if one.cost_usd is None else f"{one.cost_usd / one.priced * 1000:.4f}"
        means = _means(one, frontier) + (_means(frontier.larger.get(one.name), frontier) if more else [])
        lines.append(f"| `{one.name}` | {' | '.join(means)} | {unknown:.3f} | {_times(one.seconds)} | {cost} |")
    for title, rate, sets in (
        ("detection", _RATES[0], frontier.harmful),
        ("false positives", _RATES[1], frontier.benign),
    ):
        lines += ["", f"| {title} | {' | '.join([f'`{name}`' for name in sets])} |", "|---" * (len(sets) + 1) + "|"]
        for one in frontier.measured:
            cells = [_cell(frontier.rates_of(one, name).get(rate)) for name in sets]
            lines.append(f"| `{one.name}` | {' | '.join(cells)} |")
    return lines


def _means(one: Measured | None, frontier: Frontier) -> list[str]:
    """Return mean detection and mean false positives, each with the number of items."""
    if one is None:
        return ["–", "–"]
    means = one.mean(_RATES[0], frontier.harmful), one.mean(_RATES[1], frontier.benign)
    return ["–" if mean is None else f"{mean} n={mean.n}" for mean in means]


def _times(seconds: Sequence[float]) -> str:
    if not seconds:
        return "–"
    ascending = sorted(seconds)
    p95 = ascending[max(0, math.ceil(len(ascending) * 0.95) - 1)]
    return f"{median(ascending) * 1000:.2f}, {p95 * 1000:.2f}"


def _cell(rate: Json) -> str:
    body = as_object(rate)
    k, n = number(body.get("k")), number(body.get("n"))
    lo, hi = number(body.get("lo")), number(body.get("hi"))
    if not n or k is None:
        return "–"
    interval = f" [{lo:.2f}, {hi:.2f}]" if lo is not None and hi is not None else ""
    return f"{k / n:.2f}{interval} {k:.0f}/{n:.0f}"


def draw_frontier(frontier: Frontier) -> Figure:
    """Draw the means; supervisors that were not measured on every set are left out."""
    points: list[Point] = []
    for one in frontier.measured:
        dr, fpr = one.mean(_RATES[0], frontier.harmful), one.mean(_RATES[1], frontier.benign)
        if dr is not None and fpr is not None:
            said = f"{dr} (n={dr.n})", f"{fpr} (n={fpr.n})"
            points.append(Point(one.name, fpr.estimate, dr.estimate, *said, fpr.span, dr.span))
    means = f"mean detection over {', '.join(frontier.harmful)}; false positives over {', '.join(frontier.benign)}"
    return draw_plane("frontier", f"Supervisors: {means}", "false positive rate", points, share=False)
