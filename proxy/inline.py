"""The `moderation` field on the line: a plan that blocks where the caller asked for it, and the answer (W-15). Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from proxy.call import Call, Progress
from proxy.plan import Plan, StagePlan
from proxy.policy import label_stage
from proxy.stages import StageResult
from proxy.store.rules import tighten
from proxy.wire.adapter import Closing, Frames, Moderated
from proxy.wire.moderation_field import RESPONSES_ROUTE, FieldAsk, Judged, to_member


def tighten_plan(plan: Plan, ask: FieldAsk) -> Plan:
    """Return the plan with the stages that the caller wants blocked; nothing in it gets looser."""
    return replace(
        plan,
        input=_tighten(plan.input) if "input" in ask.tightened else plan.input,
        output=_tighten(plan.output) if "output" in ask.tightened else plan.output,
    )


def _tighten(plan: StagePlan) -> StagePlan:
    """Let every supervisor enforce, in time: who only watched is asked before anything is released."""
    stream = plan.stream
    return replace(
        plan,
        blocking=(*plan.blocking, *plan.shadow),
        shadow=(),
        rules={name: tighten(rule) for name, rule in plan.rules.items()},
        stream=stream.model_copy(update={"mode": "window"}) if stream.mode == "observe" else stream,
    )


def moderation_of(call: Call, asked: StageResult, answered: Sequence[StageResult]) -> dict[str, Any]:
    """Return the `moderation` member of a reply.

    Args:
        call: the exchange; its caller has asked for the member.
        asked: result of the input stage.
        answered: results of the output stage, none when it was not reached.
    """
    results = sorted(answered, key=lambda result: result.choice or 0)
    return {
        "input": _stage(call, call.plan.input, [asked]),
        "output": _stage(call, call.output, results),
    }


def add_answer(call: Call, reply: dict[str, Any], asked: StageResult, answered: Sequence[StageResult]) -> bool:
    """Put the member into a whole reply if the caller asked for it, and say whether it did."""
    if call.moderation is None:
        return False
    reply["moderation"] = moderation_of(call, asked, answered)
    return True


def frame_answer(call: Call, progress: Progress, frames: Frames, answered: Sequence[StageResult]) -> bytes:
    """Return the frame that carries the member, nothing where a family has none."""
    if not isinstance(frames, Moderated):
        return b""
    return frames.moderation(moderation_of(call, progress.input, answered))


def answer_at_end(
    call: Call, progress: Progress, frames: Frames, answered: Callable[[], Sequence[StageResult]]
) -> Frames:
    """Make frames whose last event holds the whole reply put the member there, if the caller asked for it.

    Args:
        call: the exchange.
        progress: what has happened so far.
        frames: of the reply.
        answered: gives the results of the output stage once it has ended.
    """
    if call.moderation is not None and isinstance(frames, Closing):
        frames.close_with(lambda: {"moderation": moderation_of(call, progress.input, answered())})
    return frames


def _stage(call: Call, plan: StagePlan, results: Sequence[StageResult]) -> dict[str, Any]:
    ask = call.moderation
    names = frozenset(dict(plan.policies).get(ask.policy, ())) if ask is not None else frozenset[str]()
    judged: list[Judged] = []
    for result in results:
        own = [found for found in result.assessments if found.supervisor in names]
        judged.append(Judged(own, label_stage([found.verdict for found in own])[1]))
    alias = ask.alias if ask is not None else ""
    return to_member(alias, judged, single=call.adapter.route == RESPONSES_ROUTE)
