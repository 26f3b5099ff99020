"""Run one stage for one choice: ask its supervisors, decide for each policy, and say what the strictest asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter

from proxy.plan import StagePlan
from proxy.policy import Action, Decision, Reason, decide, judge_verdict, label_stage, settles
from supervisors.ask import ask_all
from supervisors.light import light_dataclass
from supervisors.types import Assessment, Cause, Context, Exchange, Label, Span, Supervisor, Verdict

_ORDER: Sequence[Action] = ("pass", "flag", "redact", "block")
_SAFE = Label.SAFE


@light_dataclass(frozen=True, slots=True)
class StageResult:
    """What one stage found for one choice, and what follows from it.

    Args:
        choice: reply choice, None on input.
        assessments: one a supervisor, in plan order.
        decisions: one a policy.
        action: the strictest of the decisions.
        reason: why, None on pass.
        label: verdict of the whole stage.
        cause: cause of an unknown stage verdict.
        seconds: wall-clock duration.
        redactions: spans of the verdicts whose rule says redact; others are marked in what is kept, not in the body.
    """

    choice: int | None
    assessments: tuple[Assessment, ...] = ()
    decisions: tuple[Decision, ...] = ()
    action: Action = "pass"
    reason: Reason | None = None
    label: Label = Label.UNKNOWN
    cause: Cause | None = Cause.SKIPPED
    seconds: float = 0.0
    redactions: tuple[Span, ...] = ()

    @property
    def blocked(self) -> bool:
        """Say whether the content does not pass."""
        return self.action == "block"

    @property
    def spans(self) -> tuple[Span, ...]:
        """Return every span that a verdict names."""
        return tuple([span for found in self.assessments for span in found.verdict.spans])

    @property
    def categories(self) -> tuple[str, ...]:
        """Return the categories of the unsafe verdicts, in order of first appearance."""
        names = [name for found in self.assessments for name in found.verdict.categories]
        return tuple(dict.fromkeys(names))


async def run_stage(
    plan: StagePlan,
    named: Sequence[tuple[str, Supervisor]],
    exchange: Exchange,
    context: Context,
    decided: Callable[[str, Verdict], bool] | None = None,
) -> StageResult:
    """Ask `named` about the exchange and decide; an empty stage passes at once.

    Args:
        plan: the stage, for its rules.
        named: which of its supervisors: the blocking, the parallel or the shadow ones.
        exchange: what to judge.
        context: carries the stage's deadline.
        decided: test that ends the stage early; by default a certain block does, unless the plan is exhaustive.
    """
    if not named:
        return StageResult(exchange.choice)
    started = perf_counter()
    if decided is None:
        decided = never if plan.exhaustive else settled_by(plan)
    found = await ask_all(named, exchange, context, decided)
    return conclude(plan, exchange.choice, found, perf_counter() - started)


def never(name: str, verdict: Verdict) -> bool:
    """Return false: nobody's verdict ends the stage early."""
    return False


def settled_by(plan: StagePlan) -> Callable[[str, Verdict], bool]:
    """Return the test that ends a stage as soon as a verdict makes the block certain (G-22)."""
    rules = plan.rules
    return lambda name, verdict: settles(rules[name], verdict)


def conclude(plan: StagePlan, choice: int | None, found: Sequence[Assessment], seconds: float) -> StageResult:
    """Decide each policy over its own supervisors and take the strictest action; pure."""
    unsafe = [assessment for assessment in found if assessment.verdict.label is not _SAFE]
    if found and not unsafe:
        return _pass_all(plan, choice, found, seconds)
    names = {assessment.supervisor for assessment in found}
    decisions: list[Decision] = []
    for policy, supervisors in plan.policies:
        known = [plan.rules[name] for name in supervisors if name in names]
        for enforce in (True, False):
            rules = [rule for rule in known if rule.enforce is enforce]
            if rules:
                made = decide(policy, plan.stage, choice, rules, found)
                decisions.append(replace(made, seconds=seconds))
    action: Action = "pass"
    reason: Reason | None = None
    for decision in decisions:
        if not decision.enforce:
            continue
        stricter = _ORDER.index(decision.action) > _ORDER.index(action)
        if stricter or (decision.action == action and decision.reason == "unsafe"):
            action, reason = decision.action, decision.reason
    label, cause = label_stage([assessment.verdict for assessment in found])
    redactions = [span for one in found if _redacts(plan, one) for span in one.verdict.spans]
    return StageResult(choice, tuple(found), tuple(decisions), action, reason, label, cause, seconds, tuple(redactions))


def without_spans(plan: StagePlan, result: StageResult) -> StageResult:
    """Return the result when its redaction is impossible: the verdicts lose their spans, so the decision blocks."""
    found = [
        replace(one, verdict=replace(one.verdict, spans=(), detail="redaction_impossible"))
        if one.verdict.spans
        else one
        for one in result.assessments
    ]
    return conclude(plan, result.choice, found, result.seconds)


def _redacts(plan: StagePlan, assessment: Assessment) -> bool:
    rule = plan.rules[assessment.supervisor]
    return rule.enforce and judge_verdict(rule, assessment.verdict)[0] == "redact"


def _pass_all(plan: StagePlan, choice: int | None, found: Sequence[Assessment], seconds: float) -> StageResult:
    """Conclude a stage whose verdicts are all safe, as nearly all are: no rule can make anything else of it."""
    deciding = plan.deciding if len(found) == len(plan.names) else plan.deciding_of([one.supervisor for one in found])
    stage = plan.stage
    decisions = [
        Decision(policy, stage, choice, _SAFE, None, False, False, False, "pass", None, enforce, seconds)
        for policy, enforce in deciding
    ]
    return StageResult(choice, tuple(found), tuple(decisions), "pass", None, _SAFE, None, seconds)


def merge_results(first: StageResult, second: StageResult) -> StageResult:
    """Combine the blocking and the parallel half of an input stage: the stricter action, the worse label."""
    if not second.assessments:
        return first
    if not first.assessments:
        return second
    stricter = second if _ORDER.index(second.action) > _ORDER.index(first.action) else first
    assessments = (*first.assessments, *second.assessments)
    label, cause = label_stage([assessment.verdict for assessment in assessments])
    return StageResult(
        choice=first.choice,
        assessments=assessments,
        decisions=_merge_decisions((*first.decisions, *second.decisions)),
        action=stricter.action,
        reason=stricter.reason,
        label=label,
        cause=cause,
        seconds=first.seconds + second.seconds,
        redactions=(*first.redactions, *second.redactions),
    )


def _merge_decisions(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """Fold decisions of the same policy into one: there is one a policy, stage, choice and mode."""
    merged: dict[tuple[str, bool], Decision] = {}
    for decision in decisions:
        key = (decision.policy, decision.enforce)
        other = merged.get(key)
        merged[key] = decision if other is None else _stricter(other, decision)
    return tuple(merged.values())


def _stricter(one: Decision, other: Decision) -> Decision:
    winner = other if _ORDER.index(other.action) > _ORDER.index(one.action) else one
    order = (Label.SAFE, Label.UNKNOWN, Label.UNSAFE)
    worse = max((one, other), key=lambda decision: order.index(decision.label))
    return replace(
        winner,
        label=worse.label,
        cause=worse.cause,
        flagged=one.flagged or other.flagged,
        enforce=one.enforce or other.enforce,
        seconds=one.seconds + other.seconds,
    )
