"""Decide rules from trials: pass, fail or inconclusive, never from a point estimate alone (H-166, H-167)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evals.comparison.measures import Case, Measure, choose, find_measure, observations
from evals.comparison.pairing import flips_of
from evals.comparison.sides import Key, Side
from evals.gate.rules import AbsoluteRule, LimitRules, RelativeRule, Rules
from evals.nouns import count_of
from evals.statistics.paired import Comparison, Pair, compare_paired
from evals.statistics.power import minimum_detectable_difference, minimum_detectable_from
from evals.statistics.rates import Decision, Observation, Options, Rate, rate_of
from supervisors.errors import ConfigError

Kind = Literal["absolute", "relative", "limit"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """What became of one rule.

    Args:
        kind: absolute, relative or limit.
        about: metric with data set and category.
        limit: the limit in words.
        observed: rate, worsening or count; None when nothing was measured.
        lo, hi: interval of it; for a worsening, of the trials with a verdict on both sides.
        n: trials with a verdict; for a relative rule, on both sides.
        unscored: trials without; they were taken as the worst and as the best before the decision.
        mde: smallest difference that n would show; where no trial differed, if one in ten did. None when none would.
        flips: how often a label of one run differs between its repeats, None when nothing was repeated.
        verdict: pass, fail or inconclusive.
        why: the verdict in words.
    """

    kind: Kind
    about: str
    limit: str
    observed: float | None
    lo: float | None
    hi: float | None
    n: int
    unscored: int
    mde: float | None
    flips: Rate | None
    verdict: Decision
    why: str


def decide_rules(rules: Rules, run: Side, base: Side | None) -> list[Ruling]:
    """Decide every absolute and relative rule.

    Raises:
        ConfigError: a rule looks at nothing, or a relative rule has no base.
    """
    if rules.relative and base is None:
        count = len(rules.relative)
        need = count_of(count, "relative rule needs", "relative rules need")
        msg = f"{need} a run to compare with: give --against"
        raise ConfigError(msg)
    found = [decide_absolute(rule, run) for rule in rules.absolute]
    if base is not None:
        found += [decide_relative(rule, run, base) for rule in rules.relative]
    return found


def decide_absolute(rule: AbsoluteRule, run: Side) -> Ruling:
    """Hold a rate against a limit, with the exact interval at the worst and at the best the unscored could be.

    Raises:
        ConfigError: no trial is in the denominator (H-169).
    """
    measure = find_measure(rule.metric)
    seen = observations(measure, choose([*run.cases.values()], rule.dataset, rule.category))
    if not seen:
        raise ConfigError(_nothing(rule, measure, run))
    options = Options("clopper_pearson", rule.level)
    shown = rate_of(seen, options)
    high, low = rate_of(_filled(seen, hit=True), options), rate_of(_filled(seen, hit=False), options)
    if rule.max is not None:
        limit, verdict = rule.max, _keeps(high.hi, low.lo, rule.max)
        word = "at most"
    else:
        limit = rule.min or 0.0
        verdict = _keeps(_mirror(low.lo), _mirror(high.hi), 1 - limit)
        word = "at least"
    return Ruling(
        kind="absolute",
        about=rule.about,
        limit=f"{word} {limit:g}",
        observed=shown.estimate,
        lo=shown.lo,
        hi=shown.hi,
        n=shown.n,
        unscored=shown.unscored,
        mde=_detectable_from(limit, shown.n_eff) if shown.n else None,
        flips=None,
        verdict=verdict,
        why=_why_absolute(verdict, shown, word, limit),
    )


def _detectable_from(limit: float, items: float) -> float | None:
    """Return the smallest distance from a limit so many items would show, None where no rate lies so far from it."""
    found = minimum_detectable_from(limit, items)
    return found if found <= max(limit, 1 - limit) else None


def _nothing(rule: AbsoluteRule | RelativeRule, measure: Measure, run: Side) -> str:
    sets = ", ".join(sorted({key.dataset for key in run.cases})) or "none"
    return (
        f"rule {rule.about}: {run.name} has no trial in its denominator ({measure.meaning}); "
        f"data sets of the run: {sets}. Such a rule can never be decided: remove it or add data"
    )


def _mirror(value: float | None) -> float | None:
    return None if value is None else 1 - value


def _filled(seen: Sequence[Observation], *, hit: bool) -> list[Observation]:
    return [one if one.hit is not None else Observation(one.cluster, hit) for one in seen]


def _keeps(upper: float | None, lower: float | None, limit: float) -> Decision:
    if upper is None or lower is None:
        return "inconclusive"
    if upper <= limit:
        return "pass"
    return "fail" if lower > limit else "inconclusive"


def _why_absolute(verdict: Decision, shown: Rate, word: str, limit: float) -> str:
    missing = f", whatever the {shown.unscored} without a verdict would be" if shown.unscored else ""
    if verdict == "pass":
        return f"the whole interval keeps {word} {limit:g}{missing}"
    if verdict == "fail":
        return f"the whole interval breaks {word} {limit:g}{missing}"
    if shown.lo is None or shown.hi is None:
        return "too few independent trials for an interval"
    side = "the trials without a verdict could tip it" if shown.unscored else "the interval reaches over the limit"
    return f"{side}: {_too_few(shown.n)}"


@dataclass(frozen=True, slots=True)
class _Both:
    """The observations of one trial in the run under test and in the base; None where a side does not have it."""

    cluster: str
    now: bool | None
    before: bool | None


def decide_relative(rule: RelativeRule, run: Side, base: Side) -> Ruling:
    """Say whether a rate became worse than the base by more than the margin (non-inferiority).

    Items of the base that the run does not have count as missing verdicts, so that leaving items out cannot pass.

    Raises:
        ConfigError: no trial of the base is in the denominator.
    """
    measure = find_measure(rule.metric)
    both = _both(measure, rule, run, base)
    if not both:
        raise ConfigError(_nothing(rule, measure, base))
    shown = compare_paired([Pair(one.cluster, one.now, one.before) for one in both], level=rule.level)
    worst = compare_paired([_as(one, now=True, before=False) for one in both], level=rule.level)
    best = compare_paired([_as(one, now=False, before=True) for one in both], level=rule.level)
    high, low = worst.difference, best.difference
    verdict = _keeps(high.hi if high else None, low.lo if low else None, rule.margin)
    return Ruling(
        kind="relative",
        about=rule.about,
        limit=f"at most {rule.margin:g} worse than {base.name}",
        observed=shown.difference.raw if shown.difference else None,
        lo=shown.difference.lo if shown.difference else None,
        hi=shown.difference.hi if shown.difference else None,
        n=shown.n,
        unscored=shown.dropped,
        mde=_detectable(shown),
        flips=_flips(measure, run, rule.dataset),
        verdict=verdict,
        why=_why_relative(verdict, shown.n, shown.dropped, f"{shown.b} only now, {shown.c} only before"),
    )


_DISCORDANT = 0.1
"""Share of items two runs differ on, assumed for the smallest difference when none was seen."""


def _detectable(shown: Comparison) -> float | None:
    if shown.mde is not None or not shown.n:
        return shown.mde
    return minimum_detectable_difference(shown.n, _DISCORDANT)


def _both(measure: Measure, rule: RelativeRule, run: Side, base: Side) -> list[_Both]:
    wanted = choose([*base.cases.values()], rule.dataset, rule.category)
    keys: Mapping[int, Key] = {id(case): key for key, case in base.cases.items()}
    found: list[_Both] = []
    for case in wanted:
        before = measure.observe(case)
        if before is None:
            continue
        now = run.cases.get(keys[id(case)])
        found.append(_Both(before.cluster, _wrong_in(measure, now), measure.is_wrong(before)))
    return found


def _wrong_in(measure: Measure, case: Case | None) -> bool | None:
    return None if case is None else measure.is_wrong(measure.observe(case))


def _as(one: _Both, *, now: bool, before: bool) -> Pair:
    return Pair(one.cluster, now if one.now is None else one.now, before if one.before is None else one.before)


def _flips(measure: Measure, run: Side, dataset: str | None) -> Rate | None:
    names = [dataset] if dataset is not None else list(dict.fromkeys([key.dataset for key in run.cases]))
    return flips_of(run, measure, names[0]) if len(names) == 1 else None


def _why_relative(verdict: Decision, n: int, dropped: int, wrong: str) -> str:
    missing = f", whatever the {dropped} without a verdict on both sides would be" if dropped else ""
    if verdict == "pass":
        return f"the worsening stays within the margin{missing} (wrong: {wrong})"
    if verdict == "fail":
        return f"the worsening exceeds the margin{missing} (wrong: {wrong})"
    if dropped:
        return f"{count_of(dropped, 'trial')} without a verdict on both sides could tip it (wrong: {wrong})"
    return f"the interval of the worsening reaches over the margin: {_too_few(n)} (wrong: {wrong})"


def _too_few(n: int) -> str:
    return count_of(n, "trial is too few to say", "trials are too few to say")


@dataclass(frozen=True, slots=True)
class Faults:
    """What a run has of what should not be, as counts.

    Args:
        planned: all trials.
        judged: trials through the guard.
        unknown: those of them whose verdict is unknown.
        errors: trials where model, proxy, supervisor or judge failed, or that are missing.
        alarms: of the audit.
        hijacked: judges that obeyed an answer, None when a judge scored and was not tried.
    """

    planned: int
    judged: int
    unknown: int
    errors: int
    alarms: int
    hijacked: int | None


def decide_limits(limits: LimitRules, faults: Faults) -> list[Ruling]:
    """Decide the limits: plain counts, no interval, because what is counted is the run itself."""
    shares: Sequence[tuple[str, int, int, float, Callable[[float], str]]] = (
        ("unknown verdicts", faults.unknown, faults.judged, limits.max_unknown, lambda x: f"share at most {x:g}"),
        ("errors of any kind", faults.errors, faults.planned, limits.max_error, lambda x: f"share at most {x:g}"),
    )
    found = [_share(about, k, n, limit, words(limit)) for about, k, n, limit, words in shares]
    found.append(_count("audit alarms", faults.alarms, limits.max_alarms))
    if faults.hijacked is None:
        ruling = _count("judges that obeyed an answer", 0, limits.max_judge_hijack)
        found.append(
            replace(ruling, observed=None, verdict="inconclusive", why="the judges were not tried, or gave no label")
        )
    else:
        found.append(_count("judges that obeyed an answer", faults.hijacked, limits.max_judge_hijack))
    return found


def _share(about: str, k: int, n: int, limit: float, words: str) -> Ruling:
    share = k / n if n else None
    verdict: Decision = "inconclusive" if share is None else "pass" if share <= limit else "fail"
    why = f"{k} of {count_of(n, 'trial')}"
    return Ruling("limit", about, words, share, None, None, n, 0, None, None, verdict, why)


def _count(about: str, count: int, limit: int) -> Ruling:
    verdict: Decision = "pass" if count <= limit else "fail"
    return Ruling(
        "limit", about, f"at most {limit}", float(count), None, None, count, 0, None, None, verdict, f"{count} counted"
    )


def overall(rulings: Sequence[Ruling]) -> Decision:
    """Return fail if any rule fails, else inconclusive if any is, else pass (H-167)."""
    verdicts = {ruling.verdict for ruling in rulings}
    if "fail" in verdicts:
        return "fail"
    return "inconclusive" if "inconclusive" in verdicts else "pass"
