"""The summary: the only source of every number in a report, made again byte for byte from the run folder (H-174)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from evals.alike import Alike, count_alike
from evals.attempts import as_object
from evals.averages import describe_averages
from evals.bells.coherence import summarise_coherence
from evals.calibrating import corrected_rates, read_calibration
from evals.cases import summarise_nessie
from evals.cautions import count_behaviours, policy_versions, served_models, warn_of_run, watchers
from evals.client import number, objects
from evals.datasets.load import hash_file
from evals.design import summarise_bells
from evals.discrimination import describe_curves, describe_flow, describe_grid
from evals.effort import Latencies, Spent
from evals.folder import RunFolder, write_json
from evals.journal import JsonObject
from evals.ledger import Gate, Ledger, keep_ledger
from evals.lines import Counted
from evals.manifest import Manifest, read_manifest
from evals.metrics import METRICS, Outcome, count_labels, measure, measure_by
from evals.packed import Bag
from evals.plan import Plan, PlannedTrial, read_plan
from evals.questions import questions_of
from evals.robustness import describe_transforms
from evals.rows import SEEN, Row, Rows, join, policy_verdict, to_entry, to_outcome, truth_of
from evals.scoring import Scores, read_scores
from evals.state import Progress, read_counted
from evals.statistics.detection import soft_detection
from evals.statistics.jsonable import Json, to_json
from evals.statistics.judge_error import JudgeCalibration
from evals.statistics.paired import flip_rate
from evals.statistics.rates import Observation, count_rate
from evals.tracing import summarise_traces
from evals.voting import describe_votes
from supervisors.types import Cause, Label

SUMMARY_FORMAT = 2
_GROUPS = ("category", "family", "adversariality")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A run as read from its folder."""

    manifest: Manifest
    plan: Plan
    lines: Sequence[JsonObject]
    counted: Counted
    scores: tuple[Scores, ...]
    spent: Spent


def load_run(folder: RunFolder) -> Loaded:
    """Read manifest, plan, journal and scores.

    Raises:
        StoreError: a file is missing or corrupt.
    """
    manifest, plan, spent = read_manifest(folder), read_plan(folder.plan), Spent()
    contents, counted = read_counted(folder.journal, plan.keys, spent.take)
    return Loaded(manifest, plan, contents.lines, counted, read_scores(folder, plan.keys), spent)


def write_summary(folder: RunFolder) -> JsonObject:
    """Make the summary of a run and write it."""
    summary = summarise(folder, load_run(folder))
    write_json(folder.summary, summary)
    return summary


def summarise(folder: RunFolder, run: Loaded) -> JsonObject:
    """Return the summary: results without any time, then effort and times, then what proves them."""
    by_scorer = {scores.scorer_id: join(run.plan, run.counted, scores) for scores in run.scores}
    first = run.scores[0].scorer_id if run.scores else None
    rows = by_scorer[first] if first else join(run.plan, run.counted, None)
    latencies = Latencies()
    alike = count_alike(rows, latencies.take)
    states = alike.tally(lambda row: row.status)
    progress = Progress(len(rows), states["ok"], states["error"], states["skipped"], states["missing"])
    checked = {one.scorer_id: read_calibration(folder, one.scorer_id, one.config) for one in run.scores}
    return {
        "format_version": SUMMARY_FORMAT,
        "run_id": run.manifest.run_id,
        "results": {
            "progress": to_json(progress),
            "complete": progress.complete,
            "scorer": first,
            "scorers": {scores.scorer_id: scores.config for scores in run.scores},
            "calibrations": {name: to_json(found) for name, found in checked.items() if found is not None},
            "sections": _sections(run, rows, alike, checked.get(first or ""), first),
            "averages": describe_averages(alike.by_group(), allowed=_allows_seen(run)),
            "other_scorers": {
                name: _sections(run, other, count_alike(other), checked[name], name)
                for name, other in by_scorer.items()
                if name != first
            },
            "coherence": _coherence(run, rows),
            "nessie": summarise_nessie(rows) if run.manifest.origin == "nessie" else None,
            "traces": summarise_traces(rows) if run.manifest.origin == "traces" else None,
            "bells": summarise_bells(rows, allowed=_allows_seen(run)) if _is_jailbroken(alike) else None,
            "served_models": to_json(served_models(alike)),
            "policy_versions": to_json(policy_versions(alike)),
            "warnings": to_json(warn_of_run(run.manifest, alike)),
        },
        "effort": {**run.spent.describe(), "latency": latencies.describe()},
        "proof": {
            "manifest_sha256": hash_file(folder.manifest),
            "plan_sha256": run.manifest.plan_sha256,
            "journal": {"lines": len(run.lines), "head": run.lines[-1]["sha256"] if run.lines else None},
            "scores": {scores.scorer_id: _proof_of(folder, scores) for scores in run.scores},
        },
    }


def _proof_of(folder: RunFolder, scores: Scores) -> JsonObject:
    manifest = folder.scores / scores.scorer_id / "manifest.json"
    return {"lines": scores.lines, "head": scores.head, "manifest_sha256": hash_file(manifest)}


def _coherence(run: Loaded, rows: Sequence[Row]) -> Json:
    """Return coherence for runs whose guard asks the answering model for its own verdict, else None."""
    own = run.manifest.labels.get("self_judge")
    return summarise_coherence(rows, own) if own else None


def _allows_seen(run: Loaded) -> bool:
    """Say whether items seen in the guard's training count in the headline."""
    return bool(run.manifest.options.get("allow_contaminated"))


def _sections(run: Loaded, rows: Rows, alike: Alike, calibration: JudgeCalibration | None, scorer: str | None) -> Json:
    allowed = _allows_seen(run)
    config = next((one.config for one in run.scores if one.scorer_id == scorer), JsonObject())
    seed = int(number(as_object(run.manifest.options.get("selection")).get("seed")) or 0)
    groups = alike.by_group()
    return [
        {
            "dataset": dataset,
            "target": target,
            **section(group, groups[dataset, target], allowed=allowed, seed=seed),
            "panel": describe_votes(list(groups[dataset, target].where_judged()), seed, questions_of(config, dataset)),
            "corrected": corrected_rates(groups[dataset, target].where(_headline(allowed=allowed)), calibration),
        }
        for (dataset, target), group in rows.by_group().items()
    ]


def section(rows: Rows, alike: Alike, *, allowed: bool, seed: int = 0) -> JsonObject:
    """Return every number about one data set and one target.

    Args:
        rows: trials.
        alike: the same, counted.
        allowed: items seen in the guard's training count in the headline too.
        seed: of resampled intervals.
    """
    is_headline = _headline(allowed=allowed)
    through, headline = alike.where(_is_through), alike.where(is_headline)
    direct = rows.where(lambda trial: trial.arm == "direct") if len(through) < len(alike) else rows[:0]
    outcomes = headline.map(to_outcome)
    rates = {metric.name: to_json(measure(metric, outcomes)) for metric in METRICS}
    return {
        "planned": len(rows),
        "states": _count(alike, lambda row: row.status),
        "contamination": _count(through, lambda row: row.planned.contamination),
        "left_out": len(through) - len(headline),
        "rates": rates,
        "labels": to_json(count_labels(outcomes)),
        "causes": _causes(outcomes),
        "behaviours": count_behaviours(alike),
        "gates": _count(Alike((r, n) for r, n in through.counts() if r.status == "ok"), _gate),
        "groups": {group: _by_group(outcomes, group) for group in _GROUPS},
        "supervisors": _supervisors(headline),
        "watching": to_json(watchers(headline)),
        "curves": describe_curves(rows.where(is_headline), seed) if _any_score(headline) else {},
        "soft": _soft(headline),
        "grid": describe_grid(outcomes),
        "cells": _cells(through),
        "ledger": _ledger(headline, alone=len(direct) > 0),
        "flips": _flips(direct),
        "transforms": describe_transforms(rows.where(is_headline)) if _is_transformed(headline) else None,
    }


def _is_through(trial: PlannedTrial) -> bool:
    return trial.arm != "direct"


def _headline(*, allowed: bool) -> Callable[[PlannedTrial], bool]:
    """Return what a trial must be to count in a headline: through the guard, and not seen in its training."""
    return lambda trial: _is_through(trial) and (allowed or trial.contamination not in SEEN)


def _any_score(rows: Alike) -> bool:
    return any(verdict["scored"] for row, _ in rows.counts() for verdict in objects(row.fields.get("verdicts")))


def _is_jailbroken(rows: Alike) -> bool:
    return any(row.planned.adversariality == "jailbroken" for row, _ in rows.counts())


def _is_transformed(rows: Alike) -> bool:
    return len({row.planned.transform for row, _ in rows.counts()}) > 1


def _causes(outcomes: Bag[Outcome]) -> JsonObject:
    """Count why verdicts are unknown."""
    found: Counter[str] = Counter()
    for one, times in outcomes.counts():
        if one.verdict is Label.UNKNOWN and one.cause is not None:
            found[one.cause.value] += times
    return dict(sorted(found.items()))


def _gate(row: Row) -> str:
    return str(row.fields.get("gate"))


def _count(rows: Alike, name: Callable[[Row], str]) -> JsonObject:
    """Count trials by a name, in the order of the names."""
    return dict(sorted(rows.tally(name).items()))


def _by_group(outcomes: Bag[Outcome], group: str) -> JsonObject:
    wanted = [m for m in METRICS if m.name in ("detection_rate", "false_positive_rate", "unsafe_answer_rate")]
    return {metric.name: to_json(measure_by(metric, outcomes, group)) for metric in wanted}


def _soft(rows: Alike) -> Json:
    """Return detection against the votes on items that several people or judges rated, None without any (H-144)."""
    if all(row.planned.vote_share is None for row, _ in rows.counts()):
        return None
    voted = [(row.planned.vote_share, policy_verdict(row)[0]) for row in rows if row.planned.vote_share is not None]
    known = [(share, label is Label.UNSAFE) for share, label in voted if label in (Label.SAFE, Label.UNSAFE)]
    return {**as_object(to_json(soft_detection(known))), "unknown": len(voted) - len(known)}


def _supervisors(rows: Alike) -> JsonObject:
    """Return detection and false positives of each supervisor and stage alone (H-158)."""
    verdicts = [verdict for row, _ in rows.counts() for verdict in objects(row.fields.get("verdicts"))]
    names = sorted({(str(verdict["supervisor"]), str(verdict["stage"])) for verdict in verdicts})
    wanted = [m for m in METRICS if m.name in ("detection_rate", "false_positive_rate", "unknown_rate", "failure_rate")]
    found: JsonObject = {}
    for name, stage in names:
        outcomes = rows.map(partial(_of_supervisor, name=name, stage=stage))
        found[f"{name}@{stage}"] = {metric.name: to_json(measure(metric, outcomes)) for metric in wanted}
    return found


def _of_supervisor(row: Row, name: str, stage: str) -> Outcome:
    rows = [v for v in objects(row.fields.get("verdicts")) if (v["supervisor"], v["stage"]) == (name, stage)]
    label = Label(str(rows[0]["label"])) if rows else Label.UNKNOWN
    cause = Cause(str(rows[0]["cause"])) if rows and rows[0].get("cause") is not None else None
    if not rows:
        cause = row.cause
    return Outcome(row.planned.item_id, row.planned.cluster_id, row.truth, label, cause)


_SEVERITIES = ("harmful", "borderline", "benign")


def _cells(rows: Alike) -> JsonObject:
    """Return the two-dimensional table: severity × direct or jailbroken, with what was flagged and answered."""
    table: JsonObject = {}
    for severity in _SEVERITIES:
        for manner in ("direct", "jailbroken"):
            chosen = rows.where(partial(_is_in, severity, manner))
            if len(chosen):
                table[f"{severity}/{manner}"] = _cell(chosen)
    return table


def _is_in(severity: str, manner: str, trial: PlannedTrial) -> bool:
    return truth_of(trial) == severity and (trial.adversariality or "direct") == manner


def _cell(rows: Alike) -> JsonObject:
    outcomes = rows.map(to_outcome)
    asked = rows.where(lambda trial: trial.arm != "check").map(_answers)
    return {
        "planned": len(rows),
        "contamination": _count(rows, lambda row: row.planned.contamination),
        "flagged": to_json(count_rate((_flag(o), n) for o, n in outcomes.counts())),
        "answered_alone": to_json(count_rate((_answered(o), n) for (o, _, _), n in asked.counts())),
        "answered_behind": to_json(count_rate((_answered_behind(o, gate), n) for (_, o, gate), n in asked.counts())),
    }


def _answers(row: Row) -> tuple[Outcome, Outcome, Gate]:
    """Return what came of a trial for the model alone and behind the guard, and what the guard did."""
    return to_outcome(row), to_outcome(replace(row, alone=None)), row.gate


def _flag(outcome: Outcome) -> Observation:
    known = outcome.verdict in (Label.SAFE, Label.UNSAFE)
    return Observation(outcome.cluster, outcome.verdict is Label.UNSAFE if known else None)


def _answered(outcome: Outcome) -> Observation:
    known = outcome.behaviour in ("answers", "hedges", "refuses")
    return Observation(outcome.cluster, outcome.behaviour == "answers" if known else None)


def _answered_behind(outcome: Outcome, gate: Gate) -> Observation:
    """Say whether an answer reached the user; unknown where no verdict decided that."""
    if gate in ("blocked", "closed", "unknown"):
        return Observation(outcome.cluster, False if gate == "blocked" else None)
    return _answered(outcome)


_NOT_ASKED = "no answer of the model alone to what was blocked (--ledger off)"


def _ledger(headline: Alike, *, alone: bool) -> Json:
    """Return the ledger; `alone`: the model was also asked past the proxy."""
    arms = {row.planned.arm for row, _ in headline.counts()}
    if not arms & {"observed", "enforced"}:
        return None
    entries = headline.map(to_entry)
    kept: Ledger = keep_ledger(entries)
    body = as_object(to_json(kept))
    body.pop("delay")  # a time, not taken here; the summary has it under effort
    if "observed" not in arms and not alone:
        body |= {"marginal_safety": None, "no_marginal_safety": _NOT_ASKED}
    return {**body, "flow": describe_flow(entries)}


def _flips(direct: Rows) -> Json:
    """Return how often two direct answers to one item differ in their verdict, None outside paired runs."""
    repeats = [{r.planned.item_id: _unsafe(r) for r in direct if r.planned.repeat == number_} for number_ in (0, 1)]
    shared = [item for item in repeats[0] if item in repeats[1]]
    if not shared:
        return None
    sides = [[side[item] for item in shared] for side in repeats]
    return to_json(flip_rate(sides[0], sides[1]))


def _unsafe(row: Row) -> Observation:
    label = row.answer.label if row.answer else Label.UNKNOWN
    return Observation(row.planned.cluster_id, None if label is Label.UNKNOWN else label is Label.UNSAFE)
