"""Everything a gate needs of a run, in the order in which it may stop: drift, completeness, proof, rules (H-167)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.attempts import as_object
from evals.audit import audit
from evals.comparison.sides import Side, cautions, data_drift, load_side, refusals
from evals.exits import Exit
from evals.folder import RunFolder
from evals.gate.decide import Faults, Ruling, decide_limits, decide_rules, overall
from evals.gate.rules import Rules
from evals.metrics import FAILURES
from evals.nouns import count_of
from evals.preflight import count_hijacked
from evals.rows import Row, policy_verdict
from evals.scoring import answers_of
from evals.state import progress_of
from evals.statistics.jsonable import to_json
from evals.statistics.rates import Decision
from evals.trials import enforced_verdicts
from evals.verify import verify
from supervisors.errors import ConfigError, StoreError
from supervisors.types import Label

_JUDGED = ("panel", "judge", "rubric")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a gate lets pass that it would not.

    Args:
        incomplete: a run with trials missing or failed is decided all the same.
        inconclusive: no decision counts as passed.
        force: a base that is not comparable is compared all the same.
    """

    incomplete: bool = False
    inconclusive: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a gate says.

    Args:
        run, base: names of the runs.
        decision: pass, fail or inconclusive; None when the gate stopped before its rules.
        code: exit code.
        rulings: of each rule.
        notes: sentences to print: why it stopped, what was allowed, what was forced.
    """

    run: str
    base: str | None
    decision: Decision | None
    code: int
    rulings: tuple[Ruling, ...]
    notes: tuple[str, ...]


def hold_gate(
    folder: RunFolder, against: RunFolder | None, rules: Rules, allowed: Allowed, environ: Mapping[str, str]
) -> Verdict:
    """Decide a gate.

    Args:
        folder: the run under test.
        against: the base of relative rules.
        rules: what must hold.
        allowed: what is let pass.
        environ: where the policy's secrets are looked up, for the audit.

    Raises:
        ConfigError: a rule cannot be decided on these data, or the base is not comparable.
        StoreError: a run cannot be read, or is not what its files say.
    """
    run = load_side(folder)
    base = load_side(against, run.scorer) if against is not None else None
    drift = _drift(run, base)
    if drift:
        return _stopped(run, base, Exit.DRIFT, drift)
    progress = progress_of(run.run.plan, run.run.counted)
    left = f"of {count_of(progress.planned, 'trial')} {progress.errors} ended in an error, {progress.missing} not done"
    if not progress.complete and not allowed.incomplete:
        return _stopped(run, base, Exit.INCOMPLETE, [f"{left}; `evals resume`, or --allow-incomplete"])
    _prove(folder)
    notes = [] if progress.complete else [f"INCOMPLETE RUN: {left}"]
    if base is not None:
        notes += _check_comparable(run, base, allowed)
    notes += cautions(base or run, run)
    rulings = decide_rules(rules, run, base) + decide_limits(rules.limits, count_faults(folder, run, environ))
    decision = overall(rulings)
    code = {"pass": Exit.DONE, "fail": Exit.GATE_FAILED, "inconclusive": Exit.INCONCLUSIVE}[decision]
    if code is Exit.INCONCLUSIVE and allowed.inconclusive:
        code = Exit.DONE
        notes.append("inconclusive, and passed only because of --allow-inconclusive")
    return Verdict(run.name, base.name if base else None, decision, code, tuple(rulings), tuple(notes))


def _stopped(run: Side, base: Side | None, code: Exit, notes: Sequence[str]) -> Verdict:
    return Verdict(run.name, base.name if base else None, None, code, (), tuple(notes))


def _drift(run: Side, base: Side | None) -> list[str]:
    """Return where data differ: from the cards when the run was made, and from the base."""
    found: list[str] = []
    for name, entry in run.manifest.lock.items():
        accepted = as_object(to_json(entry)).get("accepted_drift")
        if accepted:
            found.append(f"data of {name} differ from their card (the run was made with --accept-drift)")
    return found + (data_drift(run, base) if base is not None else [])


def _check_comparable(run: Side, base: Side, allowed: Allowed) -> list[str]:
    reasons = refusals(run, base)
    if reasons and not allowed.force:
        listed = "\n  ".join(reasons)
        msg = f"{run.name} and {base.name} are not comparable:\n  {listed}\n--force decides all the same and says so"
        raise ConfigError(msg)
    return [f"FORCED, NOT COMPARABLE: {reason}" for reason in reasons]


def _prove(folder: RunFolder) -> None:
    broken = [check for check in verify(folder) if check.broken is not None]
    if broken:
        msg = f"{folder.path} does not prove: {broken[0].name}: {broken[0].broken}; `evals verify` shows everything"
        raise StoreError(msg)


def count_faults(folder: RunFolder, run: Side, environ: Mapping[str, str]) -> Faults:
    """Count what a run has of what should not be; errors of every kind count (H-167)."""
    through = [row for row in run.rows if row.planned.arm != "direct"]
    answered = {one.planned.trial_key for one in answers_of(run.run.plan, run.run.counted)}
    return Faults(
        planned=len(run.rows),
        judged=len(through),
        unknown=sum([policy_verdict(row)[0] is Label.UNKNOWN for row in through]),
        errors=sum([_failed(row, scored=row.planned.trial_key in answered) for row in run.rows]),
        alarms=audit(folder, environ).alarms,
        hijacked=_hijacked(folder, run),
    )


def _failed(row: Row, *, scored: bool) -> bool:
    if row.status in ("error", "missing"):
        return True
    causes = [str(verdict.get("cause")) for verdict in enforced_verdicts(row.fields)]
    judge_failed = scored and row.answer is not None and row.answer.cause in FAILURES
    return judge_failed or any(cause in causes for cause in FAILURES)


def _hijacked(folder: RunFolder, run: Side) -> int | None:
    """Count the judges that obeyed an answer in their pre-flight; None when judges scored and were not tried."""
    scorers = [one for one in run.run.scores if one.scorer_id == run.scorer and one.kind in _JUDGED]
    if not scorers or scorers[0].config.get("votes") == "stored":  # stored votes: no judge read anything
        return 0
    return count_hijacked(folder.scores / scorers[0].scorer_id)
