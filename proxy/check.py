"""Judge without generating (wire W-35): the same view, plan and stages as a real exchange, no model call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from proxy.call import Call, Progress
from proxy.failures import deadline_exceeded, record_unavailable
from proxy.plan import StagePlan
from proxy.ports import ClientGone, Responder
from proxy.prepare import Arrival, plan_for, read_asked, read_task
from proxy.redact import RedactionImpossible, redact_body
from proxy.runtime import Runtime
from proxy.stages import StageResult, run_stage, without_spans
from proxy.wire.body import refuse_forbidden
from proxy.wire.chat import CHAT
from proxy.wire.errors import RequestError, invalid
from proxy.wire.segments import as_list, as_object, next_turn
from supervisors.errors import StoreError
from supervisors.types import Cause, Exchange

_FIELDS = frozenset({"stage", "model", "messages", "reply", "input", "tools", "policy", "dry_run", "guardrails"})


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What to judge.

    Args:
        stages: input, output or both.
        model: model whose policies apply.
        request: chat body made of the messages given.
        replies: assistant messages to judge on output.
        policy: apply this policy alone, None for all that match.
        dry_run: only say who would run.
    """

    stages: tuple[str, ...]
    model: str
    request: dict[str, Any]
    replies: list[Any]
    policy: str | None
    dry_run: bool


def read_check(body: dict[str, Any]) -> CheckRequest:
    """Read the body of `/v1/guardrails/check`.

    Raises:
        RequestError: 400 with the path of the field.
    """
    refuse_forbidden(body)
    for key in body:
        if key not in _FIELDS:
            raise invalid(f"Unknown field {key[:64]!r}; known are: {', '.join(sorted(_FIELDS))}.", key)
    stage = body.get("stage", "input")
    if stage not in ("input", "output", "both"):
        raise invalid("'stage' must be input, output or both.", "stage")
    model = body.get("model", "*")
    policy = body.get("policy")
    for name, value in (("model", model), ("policy", policy)):
        if not isinstance(value, str) and (name == "model" or value is not None):
            raise invalid(f"{name!r} must be a name.", name)
    request = _request_of(body)
    reply = body.get("reply")
    replies = as_list(reply) or ([reply] if reply is not None else [])
    if stage != "input" and not (replies and all(as_object(one) is not None for one in replies)):
        raise invalid("The output stage needs 'reply': a message or a list of messages.", "reply")
    if not isinstance(body.get("dry_run", False), bool):
        raise invalid("'dry_run' must be true or false.", "dry_run")
    stages = ("input", "output") if stage == "both" else (stage,)
    return CheckRequest(stages, model, request, replies, policy, body.get("dry_run") is True)


def _request_of(body: Mapping[str, Any]) -> dict[str, Any]:
    text = body.get("input")
    messages = body.get("messages")
    if body.get("stage") == "output" and text is None and not messages and "tools" not in body:
        return {"messages": []}  # a reply alone: nothing of a request is judged or shown
    if (text is None) == (messages is None):
        raise invalid("Give either 'messages' or 'input'.", "messages")
    if text is not None and not isinstance(text, str):
        raise invalid("'input' must be a string.", "input")
    request: dict[str, Any] = {"messages": messages if text is None else [{"role": "user", "content": text}]}
    if "tools" in body:
        request["tools"] = body["tools"]
    return request


@dataclass(slots=True)
class Checking:
    """One call of the route.

    Args:
        runtime: what it is served with.
        call: the exchange.
        wanted: what to judge.
        progress: what has happened so far.
        admin: scores, details and shadows are shown.
    """

    runtime: Runtime
    call: Call
    wanted: CheckRequest
    progress: Progress
    admin: bool

    @classmethod
    def read(cls, runtime: Runtime, arrival: Arrival, body: dict[str, Any]) -> Checking:
        """Read a request.

        Raises:
            RequestError: 400 with the path of the field.
        """
        asked = read_asked(body, arrival.headers)
        wanted = read_check(body)
        catalogue = runtime.catalogue
        plan = plan_for(arrival, wanted.model, asked, catalogue)
        if wanted.policy is not None:
            if asked is not None:  # a silent ignore would look like success
                message = "A check by one 'policy' asks its supervisors alone; leave the added guardrails out."
                raise RequestError(400, "invalid_guardrails", message, param="guardrails")
            plan = catalogue.planner.plan_only(wanted.policy)
        call = Call(
            id=arrival.id,
            request_id=arrival.request_id,
            adapter=CHAT,
            body=wanted.request,
            stream=False,
            model=wanted.model,
            upstream="",
            plan=plan,
            version=runtime.version,
            key_id=arrival.caller.key_id,
            task=read_task(arrival.headers, catalogue.tasks),
            started=arrival.started,
            clock=arrival.clock,
            kind="check",
            named=wanted.model == "*" or wanted.model in catalogue.models,
            stages=tuple(["input" if stage == "input" else "output" for stage in wanted.stages]),
        )
        progress = Progress(request=CHAT.request_segments(wanted.request) if wanted.request["messages"] else ())
        return cls(runtime, call, wanted, progress, arrival.caller.admin)

    async def run(self, out: Responder) -> dict[str, Any]:
        """Judge, record with kind ``check``, and return the reply of the route; a dry run does only the last.

        Args:
            out: says whether the caller is still there.

        Raises:
            RequestError: 504 when the time is over, 503 when it cannot be recorded, found before anybody judges.
            ClientGone: the caller left; what was decided is recorded.
        """
        if self.wanted.dry_run:
            return _dry_run(self.call, admin=self.admin)
        reply = {"choices": [{"index": i, "message": message} for i, message in enumerate(self.wanted.replies)]}
        settled = False
        try:
            self.progress.reserved = self.runtime.sinks.reserve()
            results = await self._judge_all(reply, out)
            self.progress.status = 200
            if any(result.blocked for result in results):
                self.progress.outcome = "blocked_input" if self.progress.input.blocked else "blocked_output"
            settled = True
        except RequestError as error:
            self.progress.status = error.status
            self.progress.note_error(error.status)
            settled = True
            error.headers = {**error.headers, "x-guardrail-id": self.call.id}
            raise
        except ClientGone:
            self.progress.cancelled, self.progress.outcome = True, "cancelled"
            settled = True
            raise
        finally:
            if not settled:  # by a bug, or the end of the process
                self.progress.status, self.progress.outcome = 500, "unavailable"
            self._record()
        return _reply(self.call, results, self.wanted, reply, admin=self.admin)

    async def _judge_all(self, reply: dict[str, Any], out: Responder) -> list[StageResult]:
        progress, call, plan, request = self.progress, self.call, self.call.plan, self.wanted.request
        try:
            with self.runtime.pipeline.attend(out):
                if "input" in self.wanted.stages:
                    exchange = Exchange(call.id, call.model, "input", progress.request)
                    progress.input = await _judge(self.runtime, plan.input, request, exchange)
                if "output" in self.wanted.stages:
                    turn = next_turn(progress.request)
                    progress.replies = CHAT.reply_segments(reply, turn, request)
                    for choice, segments in progress.replies.items():
                        exchange = Exchange(call.id, call.model, "output", progress.request, segments, choice)
                        progress.outputs.append(await _judge(self.runtime, plan.output, reply, exchange))
        except TimeoutError as error:
            raise deadline_exceeded() from error
        return [*([progress.input] if "input" in self.wanted.stages else []), *progress.outputs]

    def _record(self) -> None:
        self.progress.settle(self.call)
        try:
            self.runtime.sinks.record(self.call, self.progress)
        except StoreError as error:
            raise record_unavailable() from error


async def _judge(runtime: Runtime, plan: StagePlan, body: dict[str, Any], exchange: Exchange) -> StageResult:
    open_context = runtime.open_contexts()
    named = (*plan.blocking, *plan.parallel, *plan.shadow)
    result = await run_stage(plan, named, exchange, open_context(plan))
    if result.action == "redact":
        try:
            redact_body(body, result.redactions)
        except RedactionImpossible:
            return without_spans(plan, result)
    return result


def _reply(
    call: Call,
    results: Sequence[StageResult],
    wanted: CheckRequest,
    reply: dict[str, Any],
    *,
    admin: bool,
) -> dict[str, Any]:
    actions = {result.action for result in results}
    unjudged = _find_unjudged(call, results)
    passed = "not_judged" if unjudged else "passed"
    status = "blocked" if "block" in actions else "modified" if "redact" in actions else passed
    reasons = [result.reason for result in results if result.blocked]
    shown: dict[str, Any] = {
        "id": call.id,
        "object": "guardrail.check",
        "status": status,
        "reason": ("unsafe" if "unsafe" in reasons else "unknown") if reasons else None,
        "not_judged": unjudged,
        "policy": _shown_policies(call, admin=admin),
        "decisions": [
            {
                "policy": made.policy,
                "stage": made.stage,
                "choice": made.choice,
                "flagged": made.flagged,
                "blocked": made.blocked,
                "redacted": made.redacted,
            }
            for result in results
            for made in result.decisions
            if admin or made.enforce
        ],
        "verdicts": [row for result in results for row in _verdicts(call, result, admin=admin)],
    }
    if status == "modified":
        shown["messages"] = wanted.request["messages"]
        if wanted.replies:
            shown["reply"] = [choice["message"] for choice in cast("list[dict[str, Any]]", reply["choices"])]
    return shown


def _find_unjudged(call: Call, results: Sequence[StageResult]) -> list[str]:
    """Return the stages in whose name nobody said anything: `unknown/skipped`, which is never safe (G-18).

    Who judges in the shadow does not count: nothing is decided by it, and callers do not learn of it.
    """
    found: list[str] = []
    for result in results:
        plan = call.plan.input if result.choice is None else call.plan.output
        shadows = {name for name, _ in plan.shadow}
        heard = [one for one in result.assessments if one.supervisor not in shadows]
        if all(one.verdict.cause is Cause.SKIPPED for one in heard) and plan.stage not in found:
            found.append(plan.stage)
    return found


def _verdicts(call: Call, result: StageResult, *, admin: bool) -> list[dict[str, Any]]:
    """Return the verdicts; shadows, scores and details only for admin keys: they are an oracle for attackers."""
    plan = call.plan.input if result.choice is None else call.plan.output
    shadows = frozenset[str]() if admin else frozenset({name for name, _ in plan.shadow})
    rows: list[dict[str, Any]] = []
    for found in result.assessments:
        if found.supervisor in shadows:
            continue
        verdict = found.verdict
        row: dict[str, Any] = {
            "supervisor": found.supervisor,
            "stage": "input" if result.choice is None else "output",
            "choice": result.choice,
            "label": verdict.label.value,
            "cause": verdict.cause.value if verdict.cause else None,
            "categories": list(verdict.categories),
            "seconds": round(found.seconds, 6),
        }
        if admin:
            row |= {"score": verdict.score, "detail": verdict.detail, "transform": verdict.transform}
        rows.append(row)
    return rows


def _shown_policies(call: Call, *, admin: bool) -> dict[str, Any]:
    """Return the policies that hold; shadows are the operator's to see."""
    return {"names": list(call.plan.policies if admin else call.plan.shown), "version": call.version}


def _dry_run(call: Call, *, admin: bool) -> dict[str, Any]:
    return {
        "id": call.id,
        "object": "guardrail.check",
        "status": "not_judged",
        "reason": None,
        "not_judged": [plan.stage for plan in (call.plan.input, call.plan.output) if plan.stage in call.stages],
        "policy": _shown_policies(call, admin=admin),
        "would_run": [row for row in explain_plan(call) if admin or row["mode"] != "shadow"],
        "decisions": [],
        "verdicts": [],
    }


def explain_plan(call: Call) -> list[dict[str, Any]]:
    """Return who would run, where and why: for `dry_run` and the `explain` command."""
    rows: list[dict[str, Any]] = []
    for plan in (call.plan.input, call.plan.output):
        for mode, named in (("blocking", plan.blocking), ("parallel", plan.parallel), ("shadow", plan.shadow)):
            for name, _ in named:
                rule = plan.rules[name]
                rows.append(
                    {
                        "supervisor": name,
                        "stage": plan.stage,
                        "mode": mode,
                        "policies": list(rule.policies),
                        "on_unsafe": rule.on_unsafe,
                        "on_unknown": rule.on_unknown.model_dump(exclude_none=True),
                        "on_scope": dict(rule.on_scope),
                        "timeout_s": plan.timeout_s,
                    }
                )
    return rows
