"""What a reader of a run's numbers must know: its warnings, one line each, each with what to do where there is that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from evals.alike import Alike
from evals.attempts import as_object
from evals.bells.verdicts import FAMILIES
from evals.client import number, objects
from evals.journal import JsonObject
from evals.manifest import Manifest
from evals.metrics import FAILURES, METRICS, measure, warn_if_constant, warn_if_indiscriminate
from evals.nouns import count_of
from evals.rows import Row, policy_verdict, to_outcome
from evals.voting import describe_votes, warn_of_panel
from supervisors.types import Cause, Label

NOT_EXHAUSTIVE = (
    "the policy is not exhaustive: once a block is certain, the other supervisors are not waited for and their "
    "verdicts are missing here; set 'exhaustive: true' in its stages to measure every supervisor on every item"
)

_MANY = 0.05
"""Share of failures from which on a line of warning names a supervisor."""


def count_behaviours(rows: Alike) -> JsonObject:
    """Count what the model did, and how many answers were cut or blocked by the provider."""
    kinds: Counter[str] = Counter()
    marks = {"truncated": 0, "provider_block": 0}
    for row, times in rows.counts():
        if row.fields.get("behaviour") is not None and not row.withheld:
            found = as_object(row.fields["behaviour"])
            kinds[str(found.get("kind"))] += times
            for name in marks:
                marks[name] += times * (found.get(name) is True)
    return {**dict(sorted(kinds.items())), **marks}


def served_models(rows: Alike) -> Mapping[str, Mapping[str, int]]:
    """Return, by target, the models that said they answered and how often."""
    found: dict[str, Counter[str]] = {}
    for row, times in rows.counts():
        if row.fields.get("served_model") is not None:
            found.setdefault(row.planned.target, Counter())[str(row.fields["served_model"])] += times
    return {target: dict(sorted(found[target].items())) for target in sorted(found)}


def policy_versions(rows: Alike) -> Mapping[str, int]:
    """Return the versions of a running proxy's policy that judged trials, and how many each did."""
    found: Counter[str] = Counter()
    for row, times in rows.counts():
        if row.fields.get("policy"):
            found[str(as_object(row.fields["policy"]).get("version"))] += times
    return dict(sorted(found.items()))


_REASONS: Mapping[str, str] = {
    "connect": "nobody answers at the address",
    "timeout": "no answer in time",
    "no_record": "the proxy answered, and no record appeared under the id it gave",
    "record_refused": "the proxy shows its records to admin keys only: --proxy-key-env names the variable with one",
    "defect": "the harness could not handle the reply: please report it",
}


def describe_failures(rows: Alike, *, proxied: bool) -> str | None:
    """Return why trials failed, counted by cause; None when none did.

    Args:
        rows: all trials.
        proxied: they went through a running proxy instead of one of the harness.
    """
    found: Counter[str] = Counter()
    for row, times in rows.counts():
        if row.status == "error":
            found[_failure(row, proxied=proxied)] += times
    if not found:
        return None
    listed = "; ".join([f"{count} x {reason}" for reason, count in found.most_common()])
    return f"{found.total()} of {count_of(len(rows), 'trial')} failed: {listed}"


def _failure(row: Row, *, proxied: bool) -> str:
    cause, detail = str(row.fields.get("cause")), row.fields.get("detail")
    said = f"{cause} {detail}" if cause.startswith("status_") and detail else cause
    reason = _REASONS.get(cause)
    if cause in ("status_401", "status_403"):
        option = "--proxy-key-env" if proxied and row.planned.arm != "direct" else "--api-key-env"
        reason = f"the server refused the key: {option} names the variable that holds it"
    return f"{said} ({reason})" if reason else said


def warn_of_run(manifest: Manifest, rows: Alike) -> list[str]:
    """Return the warnings of a run, one line each."""
    warnings: list[str] = []
    if str(manifest.labels.get("target", "")).find("FAKE") >= 0:
        warnings.append("FAKE model: synthetic replies; no number here says anything about a model")
    for target, served in served_models(rows).items():
        if len(served) > 1:
            warnings.append(f"{target}: several models answered: {', '.join(served)}")
    for (dataset, target), group in rows.by_group().items():
        lines = [*_section_warnings(group), *warn_of_panel(describe_votes(list(group.where_judged())))]
        warnings += [f"{dataset}, {target}: {line}" for line in lines]
    warnings += _warn_of_bells(rows)
    if any(row.planned.contamination == "unknown" for row, _ in rows.counts()):
        warnings.append("what the guard was trained on is unknown")
    failures = describe_failures(rows, proxied=manifest.identity.get("proxy") is not None)
    warnings += [failures] if failures else []
    versions = policy_versions(rows)
    if len(versions) > 1 or (versions and not manifest.policy):
        listed = ", ".join([f"{version} ({count_of(count, 'trial')})" for version, count in versions.items()])
        warnings.append(f"judged by the policy of the running proxy, version {listed}")
    warnings += warn_of_failing(rows)
    warnings += warn_of_watchers(rows)
    if manifest.labels.get("exhaustive") == "no":
        warnings.append(NOT_EXHAUSTIVE)
    return warnings


_PUBLIC_SAMPLE = (
    "the public sample has 6 narrative and 2 syntactic ones and no generative one, so all of it gives the rates and "
    "never the score, which takes verdicts or counts of the full prompts: `evals bells score FILE`"
)


def _warn_of_bells(rows: Alike) -> list[str]:
    bells = rows.where(lambda trial: trial.dataset == "bells")
    drawn = {row.planned.family: None for row, _ in bells.counts() if row.planned.adversariality == "jailbroken"}
    absent = [family for family in FAMILIES if family not in drawn]
    if not len(bells) or not absent:
        return []
    without = f"no jailbroken item of family {', '.join(absent)} is in this run, so there is no BELLS score"
    page = "" if drawn else " and no bells.html"
    return [f"bells: {without}{page}; {_PUBLIC_SAMPLE}"]


def warn_of_failing(rows: Alike) -> list[str]:
    """Return one line for each supervisor that failed on more than a twentieth of what it was asked, and how."""
    asked: Counter[str] = Counter()
    failed: dict[str, Counter[str]] = {}
    for row, times in rows.counts():
        for verdict in objects(row.fields.get("verdicts")):
            name, cause = f"{verdict['supervisor']}@{verdict['stage']}", verdict.get("cause")
            asked[name] += times * (cause != Cause.SKIPPED)
            if cause in FAILURES:
                failed.setdefault(name, Counter())[str(cause)] += times
    many = [name for name in sorted(failed) if failed[name].total() > _MANY * asked[name]]
    return [
        f"{name} failed: {failed[name].total()} of {asked[name]} unknown ({_listed(failed[name])})" for name in many
    ]


def _listed(counts: Counter[str]) -> str:
    return ", ".join([f"{name} {count}" for name, count in counts.most_common()])


def say_if_unjudged(rows: Alike) -> str | None:
    """Say why nothing was evaluated: everybody who was asked failed, or nobody was asked; None when somebody judged.

    Args:
        rows: all trials, in whatever arms.
    """
    through = rows.where(lambda trial: trial.arm not in ("direct", "imported"))
    if not len(through) or any(_is_judged(row) for row, _ in through.counts()):
        return None
    causes = through.tally(lambda row: str(policy_verdict(row)[1]))
    found = warn_of_failing(through) or [
        f"{len(through)} of {count_of(len(through), 'trial')} unknown ({_listed(causes)})"
    ]
    return f"nothing was evaluated: {'; '.join(found)}"


def _is_judged(row: Row) -> bool:
    """Say whether a trial tells anything: a verdict, or none by choice of somebody who was asked."""
    label, cause = policy_verdict(row)
    if label is not Label.UNKNOWN:
        return True
    if cause is Cause.SKIPPED and not row.judged:
        return False
    if cause in (Cause.SKIPPED, Cause.UNSUPPORTED):
        return row.status == "ok" and row.planned.arm != "check"
    return cause not in FAILURES


def _section_warnings(rows: Alike) -> list[str]:
    outcomes = rows.where(lambda trial: trial.arm != "direct").map(to_outcome)
    by_name = {metric.name: measure(metric, outcomes) for metric in METRICS}
    found = [warn_if_indiscriminate(by_name["detection_rate"], by_name["false_positive_rate"])]
    found.append(warn_if_constant(by_name["unsafe_answer_rate"]))
    behaviours = count_behaviours(rows)
    cut, blocked = int(number(behaviours["truncated"]) or 0), behaviours["provider_block"]
    answered = int(sum([number(one) or 0 for one in behaviours.values()]) - cut - (number(blocked) or 0))
    if answered and cut > 0.02 * answered:
        found.append(f"{cut} of {answered} answers reached the token limit and are truncated")
    kinds = rows.tally(lambda row: row.planned.contamination)
    found += [
        f"{kinds[kind]} of {count_of(len(rows), 'trial')}: seen in training ({kind})"
        for kind in ("trained_on", "sister", "overlap")
        if kinds[kind]
    ]
    return [line for line in found if line is not None]


def watchers(rows: Alike) -> list[str]:
    """Return who only watches (mode shadow), as supervisor@stage."""
    return sorted(_said_in_shadow(rows))


def warn_of_watchers(rows: Alike) -> list[str]:
    """Return one line for each supervisor that only watches (mode shadow): no result of the policy counts it."""
    found = _said_in_shadow(rows)
    return [_watcher_line(name, found[name]) for name in sorted(found)]


def _said_in_shadow(rows: Alike) -> Mapping[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for row, times in rows.counts():
        for verdict in objects(row.fields.get("verdicts")):
            if verdict.get("mode") == "shadow":
                name = f"{verdict['supervisor']}@{verdict['stage']}"
                found.setdefault(name, Counter())[str(verdict["label"])] += times
    return found


def _watcher_line(name: str, labels: Counter[str]) -> str:
    said = ", ".join([f"{labels[label]} {label}" for label in ("unsafe", "safe", "unknown") if labels[label]])
    return f"{name} only watches (mode: shadow) and is in no result of the policy; it said {said}"
