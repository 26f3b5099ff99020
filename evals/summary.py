"""The summary: the only source of every number in a report, made again byte for byte from the run folder (H-174)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from evals.attempts import as_object
from evals.bells.coherence import summarise_coherence
from evals.calibrating import read_calibration
from evals.cases import summarise_nessie
from evals.client import number, objects
from evals.datasets.load import hash_file
from evals.design import summarise_bells
from evals.discrimination import describe_curves, describe_efforts, describe_flow, describe_grid, ecdf
from evals.folder import RunFolder, write_json
from evals.journal import JsonObject, read_journal
from evals.ledger import Ledger, keep_ledger
from evals.manifest import Manifest, read_manifest
from evals.metrics import METRICS, Outcome, count_labels, measure, measure_by, warn_if_constant, warn_if_indiscriminate
from evals.plan import PlannedTrial, read_plan
from evals.rows import SEEN, Row, join, to_entry, to_outcome
from evals.scoring import Scores, read_scores
from evals.state import counting_lines, progress_of
from evals.statistics.jsonable import Json, to_json
from evals.statistics.judge_error import JudgeCalibration, correct_rate
from evals.statistics.paired import flip_rate
from evals.statistics.rates import Observation, Rate, rate_of
from evals.tracing import summarise_traces
from evals.voting import describe_votes, warn_of_panel
from supervisors.types import Cause, Label

SUMMARY_FORMAT = 2
_GROUPS = ("category", "family", "adversariality")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A run as read from its folder."""

    manifest: Manifest
    plan: tuple[PlannedTrial, ...]
    lines: tuple[JsonObject, ...]
    counted: Mapping[str, JsonObject]
    scores: tuple[Scores, ...]


def load_run(folder: RunFolder) -> Loaded:
    """Read manifest, plan, journal and scores.

    Raises:
        StoreError: a file is missing or corrupt.
    """
    lines = read_journal(folder.journal).lines
    return Loaded(read_manifest(folder), read_plan(folder.plan), lines, counting_lines(lines), read_scores(folder))


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
    checked = {one.scorer_id: read_calibration(folder, one.scorer_id, one.config) for one in run.scores}
    return {
        "format_version": SUMMARY_FORMAT,
        "run_id": run.manifest.run_id,
        "results": {
            "progress": to_json(progress_of(run.plan, run.counted)),
            "complete": progress_of(run.plan, run.counted).complete,
            "scorer": first,
            "scorers": {scores.scorer_id: scores.config for scores in run.scores},
            "calibrations": {name: to_json(found) for name, found in checked.items() if found is not None},
            "sections": _sections(run, rows, checked.get(first or "")),
            "other_scorers": {
                name: _sections(run, other, checked[name]) for name, other in by_scorer.items() if name != first
            },
            "coherence": _coherence(run, rows),
            "nessie": summarise_nessie(rows) if run.manifest.origin == "nessie" else None,
            "traces": summarise_traces(rows) if run.manifest.origin == "traces" else None,
            "bells": summarise_bells(rows),
            "served_models": to_json(_served(rows)),
            "warnings": to_json(_warnings(run, rows)),
        },
        "effort": _effort(run, rows),
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


def group_rows(rows: Sequence[Row]) -> Mapping[tuple[str, str], list[Row]]:
    """Split rows by data set and target, in plan order."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.planned.dataset, row.planned.target), []).append(row)
    return groups


def _sections(run: Loaded, rows: Sequence[Row], calibration: JudgeCalibration | None) -> Json:
    allowed = bool(run.manifest.options.get("allow_contaminated"))
    seed = int(number(as_object(run.manifest.options.get("selection")).get("seed")) or 0)
    return [
        {
            "dataset": dataset,
            "target": target,
            **section(group, allowed=allowed, seed=seed),
            "panel": describe_votes(group),
            "corrected": _corrected(group, calibration),
        }
        for (dataset, target), group in group_rows(rows).items()
    ]


def _corrected(rows: Sequence[Row], calibration: JudgeCalibration | None) -> Json:
    """Return the rate of unsafe answers corrected for the judge's errors, None without a calibration (H-151).

    Only what a judge has measured can be corrected: blocks are facts, and no rate that contains them is.
    """
    if calibration is None:
        return None
    metric = next(metric for metric in METRICS if metric.name == "unsafe_answer_rate")
    observed: Rate = measure(metric, [to_outcome(row) for row in rows])
    return {metric.name: to_json(correct_rate(observed, calibration))}


def section(rows: Sequence[Row], *, allowed: bool, seed: int = 0) -> JsonObject:
    """Return every number about one data set and one target.

    Args:
        rows: trials.
        allowed: items seen in the guard's training count in the headline too.
        seed: of resampled intervals.
    """
    through = [row for row in rows if row.planned.arm != "direct"]
    headline = [row for row in through if allowed or row.planned.contamination not in SEEN]
    outcomes = [to_outcome(row) for row in headline]
    rates = {metric.name: to_json(measure(metric, outcomes)) for metric in METRICS}
    return {
        "planned": len(rows),
        "states": dict(sorted(Counter([row.status for row in rows]).items())),
        "contamination": dict(sorted(Counter([row.planned.contamination for row in through]).items())),
        "left_out": len(through) - len(headline),
        "rates": rates,
        "labels": to_json(count_labels(outcomes)),
        "behaviours": _behaviours(rows),
        "gates": dict(sorted(Counter([str(row.fields.get("gate")) for row in through if row.status == "ok"]).items())),
        "groups": {group: _by_group(outcomes, group) for group in _GROUPS},
        "supervisors": _supervisors(headline),
        "curves": describe_curves(headline, seed),
        "grid": describe_grid(outcomes),
        "cells": _cells(through),
        "ledger": _ledger(rows, headline),
        "flips": _flips(rows),
    }


def _behaviours(rows: Sequence[Row]) -> JsonObject:
    found = [as_object(row.fields.get("behaviour")) for row in rows if row.fields.get("behaviour") is not None]
    kinds = dict(sorted(Counter([str(one.get("kind")) for one in found]).items()))
    return {
        **kinds,
        "truncated": sum([one.get("truncated") is True for one in found]),
        "provider_block": sum([one.get("provider_block") is True for one in found]),
    }


def _by_group(outcomes: Sequence[Outcome], group: str) -> JsonObject:
    wanted = [m for m in METRICS if m.name in ("detection_rate", "false_positive_rate", "unsafe_answer_rate")]
    return {metric.name: to_json(measure_by(metric, outcomes, group)) for metric in wanted}


def _supervisors(rows: Sequence[Row]) -> JsonObject:
    """Return detection and false positives of each supervisor and stage alone (H-158)."""
    names = sorted(
        {(str(v["supervisor"]), str(v["stage"])) for row in rows for v in objects(row.fields.get("verdicts"))}
    )
    wanted = [m for m in METRICS if m.name in ("detection_rate", "false_positive_rate", "unknown_rate", "failure_rate")]
    found: JsonObject = {}
    for name, stage in names:
        outcomes = [_of_supervisor(row, name, stage) for row in rows]
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


def _cells(rows: Sequence[Row]) -> JsonObject:
    """Return the two-dimensional table: severity × direct or jailbroken, with what was flagged and answered."""
    table: JsonObject = {}
    for severity in _SEVERITIES:
        for manner in ("direct", "jailbroken"):
            chosen = [r for r in rows if r.truth == severity and (r.planned.adversariality or "direct") == manner]
            if chosen:
                table[f"{severity}/{manner}"] = _cell(chosen)
    return table


def _cell(rows: Sequence[Row]) -> JsonObject:
    outcomes = [to_outcome(row) for row in rows]
    asked = [(o, r) for o, r in zip(outcomes, rows, strict=True) if r.planned.arm != "check"]
    passed = {"passed": True, "open_on_unknown": True, "redacted": True, "blocked": False}
    return {
        "planned": len(rows),
        "contamination": dict(sorted(Counter([row.planned.contamination for row in rows]).items())),
        "flagged": to_json(rate_of([_flag(o) for o in outcomes])),
        "answered_alone": to_json(rate_of([_answered(o, None) for o, _ in asked])),
        "answered_behind": to_json(rate_of([_answered(o, passed.get(r.gate)) for o, r in asked])),
    }


def _flag(outcome: Outcome) -> Observation:
    known = outcome.verdict in (Label.SAFE, Label.UNSAFE)
    return Observation(outcome.cluster, outcome.verdict is Label.UNSAFE if known else None)


def _answered(outcome: Outcome, gate: bool | None) -> Observation:
    """Say whether the request was answered: alone without `gate`, else only if the gate let it through."""
    if gate is False:
        return Observation(outcome.cluster, False)
    known = outcome.behaviour in ("answers", "hedges", "refuses")
    return Observation(outcome.cluster, outcome.behaviour == "answers" if known else None)


def _ledger(rows: Sequence[Row], headline: Sequence[Row]) -> Json:
    arms = {row.planned.arm for row in headline}
    if not arms & {"observed", "enforced"}:
        return None
    direct = {row.planned.item_id: row for row in rows if row.planned.arm == "direct" and row.planned.repeat == 0}
    entries = [to_entry(row, direct.get(row.planned.item_id)) for row in headline]
    kept: Ledger = keep_ledger(entries)
    body = as_object(to_json(kept))
    body.pop("delay")  # a time; the summary has it under effort
    return {**body, "flow": describe_flow(entries)}


def _flips(rows: Sequence[Row]) -> Json:
    """Return how often two direct answers to one item differ in their verdict, None outside paired runs."""
    direct = [row for row in rows if row.planned.arm == "direct"]
    repeats = [{r.planned.item_id: r for r in direct if r.planned.repeat == number_} for number_ in (0, 1)]
    shared = [item for item in repeats[0] if item in repeats[1]]
    if not shared:
        return None
    sides = [[_unsafe(side[item]) for item in shared] for side in repeats]
    return to_json(flip_rate(sides[0], sides[1]))


def _unsafe(row: Row) -> Observation:
    label = row.answer.label if row.answer else Label.UNKNOWN
    return Observation(row.planned.cluster_id, None if label is Label.UNKNOWN else label is Label.UNSAFE)


def _served(rows: Sequence[Row]) -> Mapping[str, Mapping[str, int]]:
    found: dict[str, Counter[str]] = {}
    for row in rows:
        if row.fields.get("served_model") is not None:
            found.setdefault(row.planned.target, Counter())[str(row.fields["served_model"])] += 1
    return {target: dict(sorted(found[target].items())) for target in sorted(found)}


def _warnings(run: Loaded, rows: Sequence[Row]) -> list[str]:
    warnings: list[str] = []
    if str(run.manifest.labels.get("target", "")).find("FAKE") >= 0:
        warnings.append("FAKE model: synthetic replies; no number here says anything about a model")
    for target, served in _served(rows).items():
        if len(served) > 1:
            warnings.append(f"{target}: several models answered: {', '.join(served)}")
    for (dataset, target), group in group_rows(rows).items():
        lines = [*_section_warnings(group), *warn_of_panel(describe_votes(group))]
        warnings += [f"{dataset}, {target}: {line}" for line in lines]
    if any(trial.contamination == "unknown" for trial in run.plan):
        warnings.append("what the guard was trained on is unknown")
    if run.manifest.labels.get("exhaustive") == "no":
        warnings.append("the policy is not exhaustive: verdicts after a certain block are missing (H-134)")
    return warnings


def _section_warnings(rows: Sequence[Row]) -> list[str]:
    outcomes = [to_outcome(row) for row in rows if row.planned.arm != "direct"]
    by_name = {metric.name: measure(metric, outcomes) for metric in METRICS}
    found = [warn_if_indiscriminate(by_name["detection_rate"], by_name["false_positive_rate"])]
    found.append(warn_if_constant(by_name["unsafe_answer_rate"]))
    answered = [as_object(row.fields.get("behaviour")) for row in rows if row.fields.get("behaviour") is not None]
    cut = sum([one.get("truncated") is True for one in answered])
    if answered and cut > 0.02 * len(answered):
        found.append(f"{cut} of {len(answered)} answers reached the token limit and are truncated")
    kinds = Counter([row.planned.contamination for row in rows])
    found += [
        f"{kinds[kind]} of {len(rows)} trials: seen in training ({kind})"
        for kind in ("trained_on", "sister", "overlap")
        if kinds[kind]
    ]
    return [line for line in found if line is not None]


def _effort(run: Loaded, rows: Sequence[Row]) -> JsonObject:
    """Return times and costs, added up over all parts of the run (H-119)."""
    stamps = [str(line["ts"]) for line in run.lines]
    attempts = [line for line in run.lines if line.get("type") == "attempt"]
    costs = [number(line.get("cost_usd")) for line in run.lines if line.get("type") == "trial"]
    asked = [line for line in run.lines if line.get("type") == "trial" and line.get("status") == "ok"]
    unpriced = sum([line.get("cost_usd") is None for line in asked])
    return {
        "started": stamps[0] if stamps else None,
        "ended": stamps[-1] if stamps else None,
        "wall_s": _between(stamps[0], stamps[-1]) if stamps else 0.0,
        "active_s": _active(run.lines),
        "failed_attempts": len(attempts),
        "cost_usd": None if unpriced else round(sum([cost or 0.0 for cost in costs]), 6),
        "unpriced_trials": unpriced,
        "latency": [
            {"dataset": dataset, "target": target, **_latency(group)}
            for (dataset, target), group in group_rows(rows).items()
        ],
    }


def _between(first: str, last: str) -> float:
    moments = [datetime.fromisoformat(text) for text in (first, last)]
    return round((moments[1] - moments[0]).total_seconds(), 3)


def _active(lines: Sequence[JsonObject]) -> float:
    """Add up the parts of a run, each from its start to its last line."""
    total = 0.0
    start: str | None = None
    last = ""
    for line in lines:
        if line.get("type") in ("run_start", "resume"):
            total += _between(start, last) if start else 0.0
            start = str(line["ts"])
        last = str(line["ts"])
    return round(total + (_between(start, last) if start else 0.0), 3)


def _latency(rows: Sequence[Row]) -> JsonObject:
    def values(pick: Callable[[JsonObject], Json]) -> list[float]:
        found = [number(pick(as_object(row.fields.get("latency")))) for row in rows if row.status == "ok"]
        return sorted([value for value in found if value is not None])

    return {
        "service_s": _quantiles(values(lambda latency: latency.get("service_s"))),
        "with_retries_s": _quantiles(
            values(lambda latency: (number(latency.get("service_s")) or 0.0) + (number(latency.get("retry_s")) or 0.0))
        ),
        "overhead_s": _quantiles(values(lambda latency: latency.get("overhead_s"))),
        "guard_s": _quantiles(values(lambda latency: latency.get("guard_s"))),
        "overhead_ecdf": ecdf(values(lambda latency: latency.get("overhead_s"))),
        "supervisors": describe_efforts(rows),
    }


def _quantiles(ascending: Sequence[float]) -> Json:
    if not ascending:
        return None
    rank = max(0, -(-len(ascending) * 95 // 100) - 1)
    return {"n": len(ascending), "median": round(median(ascending), 6), "p95": round(ascending[rank], 6)}
