"""One planned trial becomes one finished one: the call, the proxy's record, the behaviour, the line (H-106)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evals.attempts import Answered, Called, Caller, Lookup, as_object
from evals.client import Action, Address, GateDecision, Guard, decide_again, number, objects, redact_reply, watching
from evals.composition import JOURNAL_RULE
from evals.journal import Entry, JsonObject
from evals.plan import PlannedTrial, messages_of
from evals.spending import Costs, Prices
from evals.statistics.jsonable import Json
from evals.targets import Sampling
from evals.types import Item, Message, sha256_text
from evals.usage import short, token_counts, usage_behind
from supervisors.refusal import AnswerKind, behaviour_of
from supervisors.types import Cause, Kind, Label, Segment, Stage

BEHAVIOUR_RULE = "answer-kind-1"
"""Rule that sets a trial's behaviour: `supervisors.refusal.behaviour_of`."""
_BEHAVIOURS: Mapping[AnswerKind, str] = {
    AnswerKind.ANSWERS: "complied",
    AnswerKind.HEDGES: "hedged",
    AnswerKind.REFUSES: "refused",
    AnswerKind.EMPTY: "empty",
    AnswerKind.TIE: "unknown",
    AnswerKind.UNKNOWN: "unknown",
}
_RECORD_WAIT_S = 10.0
_HEADERS = ("x-guardrail-decision", "x-guardrail-verdict", "x-guardrail-applied")
"""What a caller saw of the decision, kept for the audit."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished trial on its way to the disk.

    Args:
        fields: of its line.
        texts: to store beside it.
        attempts: lines of failed attempts, written before it.
        auth_failed: the server refused the key: no trial after it can do better.
    """

    fields: JsonObject
    texts: tuple[str, ...] = ()
    attempts: tuple[Entry, ...] = ()
    auth_failed: bool = False

    @property
    def status(self) -> str:
        """Return ok, error or skipped."""
        return str(self.fields["status"])


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends trials.

    Args:
        caller: calls with retries.
        addresses: arm → where it is sent.
        items: item id → item.
        guard: supervision, to decide again from recorded verdicts.
        composition: rule for all items, None takes each item's own.
        sampling: how the model is asked.
        prices: of the target and of what supervisors ask.
        proxied: a running proxy judges by its own policy, which it also decides with.
    """

    caller: Caller
    addresses: Mapping[str, Address]
    items: Mapping[str, Item]
    guard: Guard
    composition: str | None
    sampling: Sampling
    prices: Prices
    proxied: bool = False

    async def send(self, planned: PlannedTrial) -> Finished:
        """Make one trial; a failing server gives a trial of status error, never an exception."""
        if planned.skip is not None:
            return Finished(outline(planned, "skipped", "unsupported", planned.skip))
        messages = messages_of(self.items[planned.item_id], self.composition, self.sampling.system)
        address = self.addresses[planned.arm]
        prompt_text = [message.content for message in messages]
        if planned.arm == "check":
            body: JsonObject = _to_check(planned, self.items[planned.item_id], messages)
            called = await self.caller.post(address, "/guardrails/check", body, planned.trial_key)
        else:
            body = {"model": planned.target, "messages": _wire(messages), **self.sampling.to_body()}
            request_id = None if planned.arm == "direct" else planned.trial_key
            called = await self.caller.post(address, "/chat/completions", body, request_id)
        finished = await self._finish(planned, called, address)
        attempts = tuple([_attempt_line(planned, called, index) for index in range(len(called.failed))])
        return replace(finished, attempts=attempts, texts=(*finished.texts, *prompt_text))

    async def _finish(self, planned: PlannedTrial, called: Called, address: Address) -> Finished:
        answer = called.answer
        if answer is None:
            return Finished(outline(planned, "error", called.failed[-1].kind, None) | _tries(called))
        if answer.status != 200 and not answer.judged:
            detail = str(as_object(answer.body.get("error")).get("code") or "")
            basis = outline(planned, "error", f"status_{answer.status}", short(detail) or None)
            return Finished(basis | _tries(called), auth_failed=answer.status in (401, 403))
        record: JsonObject = {}
        record_id = answer.headers.get("x-guardrail-id") or _text(answer.body.get("id"), when=planned.arm == "check")
        if planned.arm != "direct":
            looked = await self._look_up(address, record_id)
            if looked.record is None:
                cause = "record_refused" if looked.refused else "no_record"
                fields = outline(planned, "error", cause, short(record_id)) | _tries(called)
                fields["usage"] = token_counts(answer.body.get("usage"))  # paid, although nobody can say more of it
                fields |= self._costs(planned, fields, self.prices.of_lost_verdicts())
                return Finished(fields, auth_failed=looked.refused)
            record = looked.record
        return self._describe(planned, called, answer, record)

    async def _look_up(self, address: Address, record_id: str | None) -> Lookup:
        return await self.caller.find_record(address, record_id, _RECORD_WAIT_S) if record_id else Lookup()

    def _describe(self, planned: PlannedTrial, called: Called, answer: Answered, record: JsonObject) -> Finished:
        made = self._gate(planned, record)
        fields = outline(planned, "ok", None, None) | _tries(called)
        texts: list[str] = []
        withheld = planned.arm == "enforced" and made is not None and made.action == "block"
        if planned.arm != "check" and answer.status == 200 and not withheld:
            described, texts = describe_answer(answer.body)
            fields |= described
        elif planned.arm != "check":
            # What a block says in the answer's place are the proxy's words: they tell nothing of the model.
            fields |= {"usage": usage_behind(record), "served_model": short(answer.body.get("model"))}
        if made is not None:
            fields |= gate_fields(made)
            if made.action == "redact" and texts and planned.arm == "observed":
                behind = redact_reply(texts[0], made.spans)
                fields["behind"] = None if behind is None else _described_text(behind)
                texts += [] if behind is None else [behind]
        fields["record_id"] = short(record.get("id"))
        fields["headers"] = {name: answer.headers[name] for name in _HEADERS if name in answer.headers} or None
        # An observing proxy asks everybody in line: who would only watch is known from the policy then.
        decides_here = planned.arm in ("observed", "check") and not self.proxied
        shadow = watching(self.guard.plan(planned.target)) if decides_here else _NOBODY
        fields["verdicts"] = [verdict_row(row, self.prices.unpaid, shadow) for row in objects(record.get("verdicts"))]
        if self.proxied and record:
            fields["policy"] = record.get("policy")
        fields["latency"] = _latency(called, answer, record, made)
        fields |= self._costs(planned, fields, self.prices.of_verdicts(record))
        return Finished(fields, tuple(texts))

    def _gate(self, planned: PlannedTrial, record: JsonObject) -> GateDecision | None:
        match planned.arm:
            case "check" if self.proxied:
                return read_gate(record)
            case "observed" | "check":
                return decide_again(self.guard.plan(planned.target), record)
            case "enforced":
                return read_gate(record)
            case "direct" | "imported":
                return None

    def _costs(self, planned: PlannedTrial, fields: JsonObject, verdicts: Costs) -> JsonObject:
        answer = Costs() if planned.arm == "check" else self.prices.of_answer(fields)
        return answer.plus(verdicts).to_fields()


def _to_check(planned: PlannedTrial, item: Item, messages: Sequence[Message]) -> JsonObject:
    """Return the body that asks supervisors alone: about the request, about a reply, or about an exchange as it was."""
    is_exchange = planned.composition == JOURNAL_RULE
    if not (item.response is not None if is_exchange else messages[-1].role == "assistant"):
        return {"messages": _wire(messages), "model": planned.target}
    return {
        "messages": _wire(messages[:-1]),
        "model": planned.target,
        "reply": dict(messages[-1].to_wire()),
        "stage": "both" if is_exchange else "output",
    }


def _wire(messages: Sequence[Message]) -> list[Json]:
    return [dict(message.to_wire()) for message in messages]


def _text(value: Json, *, when: bool) -> str | None:
    return value if when and isinstance(value, str) else None


def outline(planned: PlannedTrial, status: str, cause: str | None, detail: str | None) -> JsonObject:
    """Return the members every trial line has."""
    return {
        "trial_key": planned.trial_key,
        "status": status,
        "cause": cause,
        "detail": detail,
        "answer": None,
        "reasoning": None,
        "behaviour": None,
        "record_id": None,
        "headers": None,
        "verdicts": [],
        "gate": None,
        "gate_stage": None,
        "flagged": None,
        "blocked": None,
        "redacted": None,
        "behind": None,
        "usage": None,
        "cost_usd": None,
        "latency": None,
        "cached": False,
        "served_model": None,
        "attempts": 0,
        "rendered_prompt_sha256": planned.prompt_sha256 or None,
    }


def _tries(called: Called) -> JsonObject:
    answered = called.answer is not None and (not called.failed or called.failed[-1].delay_s is not None)
    return {"attempts": len(called.failed) + answered}


def _attempt_line(planned: PlannedTrial, called: Called, index: int) -> Entry:
    failed = called.failed[index]
    return Entry(
        "attempt",
        {
            "trial_key": planned.trial_key,
            "attempt": index + 1,
            "kind": failed.kind,
            "status": failed.status,
            "delay_s": None if failed.delay_s is None else round(failed.delay_s, 3),
        },
    )


def describe_answer(body: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return the members of a line that say what the model did, and the texts they refer to; answer text first."""
    choices = objects(body.get("choices"))
    choice = choices[0] if choices else {}
    message = as_object(choice.get("message"))
    content, refusal = _string(message.get("content")), _string(message.get("refusal"))
    reasoning = _string(message.get("reasoning_content")) or _string(message.get("reasoning"))
    calls = objects(message.get("tool_calls"))
    finish = short(choice.get("finish_reason"))
    fields: JsonObject = {
        "answer": {
            **_described_text(content or refusal),
            "finish_reason": finish,
            "channels": {"content": len(content), "refusal": len(refusal), "reasoning": len(reasoning)},
            "refusal_field": bool(refusal),
            "tool_calls": len(calls),
        },
        "reasoning": _described_text(reasoning) if reasoning else None,
        "behaviour": _behaviour(content, refusal, reasoning, finish, acted=bool(calls)),
        "usage": token_counts(body.get("usage")),
        "served_model": short(body.get("model")),
    }
    return fields, [content or refusal, *([reasoning] if reasoning else [])]


def _described_text(text: str) -> JsonObject:
    return {"sha256": sha256_text(text), "chars": len(text)}


def _string(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _behaviour(content: str, refusal: str, reasoning: str, finish: Json, *, acted: bool) -> JsonObject:
    parts: tuple[tuple[Kind, str], ...] = (("text", content), ("refusal", refusal), ("reasoning", reasoning))
    segments = [Segment("", "assistant", kind, text) for kind, text in parts if text]
    seen = behaviour_of(segments)
    kind = _BEHAVIOURS[seen.kind]
    if acted and seen.kind is AnswerKind.EMPTY:
        kind = "tool_call"
    filtered = finish == "content_filter"
    return {
        "kind": "refused" if filtered else kind,
        "channel": seen.channel,
        "rule": BEHAVIOUR_RULE,
        "truncated": finish == "length",
        "provider_block": filtered,
    }


_ACTIONS: tuple[Action, ...] = ("pass", "flag", "redact", "block")


def read_gate(record: JsonObject) -> GateDecision:
    """Return what the enforcing proxy did, from its own record."""
    rows = [row for row in objects(record.get("decisions")) if row.get("mode") == "enforce"]
    made = GateDecision("pass", seconds=sum([number(row.get("seconds")) or 0.0 for row in rows]))
    for row in rows:
        unknown = row.get("label") == "unknown" and row.get("cause") != "skipped"
        made = replace(made, flagged=made.flagged or bool(row.get("flagged")), unknown=made.unknown or unknown)
        action = next(word for word in _ACTIONS if word == row.get("action"))
        if _ACTIONS.index(action) > _ACTIONS.index(made.action):
            stage: Stage = "input" if row.get("stage") == "input" else "output"
            reason = row.get("reason")
            made = replace(
                made,
                action=action,
                stage=stage if action in ("redact", "block") else None,
                reason=reason if isinstance(reason, str) else None,
            )
    return made


def gate_fields(made: GateDecision) -> JsonObject:
    """Return gate, flagged, blocked and redacted: four facts, none derived from another's absence."""
    if made.action == "block":
        gate = "closed_on_unknown" if made.reason == "unknown" else f"block_{made.stage}"
    elif made.action == "redact":
        gate = "redact"
    elif made.unknown and not made.flagged:
        gate = "open_on_unknown"
    else:
        gate = made.action
    return {
        "gate": gate,
        "gate_stage": made.stage,
        "flagged": made.flagged,
        "blocked": made.action == "block",
        "redacted": made.action == "redact",
    }


_KEPT = ("supervisor", "stage", "label", "cause", "detail", "score", "categories", "transform", "cached", "cost")


_NOBODY: frozenset[tuple[str, str]] = frozenset()


def verdict_row(
    row: JsonObject, unpaid: frozenset[str] = frozenset(), shadow: frozenset[tuple[str, str]] = _NOBODY
) -> JsonObject:
    """Return what a trial keeps of a recorded verdict.

    Args:
        row: as recorded.
        unpaid: supervisors whose verdicts cost nothing.
        shadow: who only watches, as supervisor and stage, beside those the record says it of.
    """
    kept: JsonObject = {name: row.get(name) for name in _KEPT}
    name, stage = str(row.get("supervisor")).split("/")[0], str(row.get("stage"))
    kept["mode"] = "shadow" if row.get("mode") == "shadow" or (name, stage) in shadow else "enforce"
    kept["seconds"] = row.get("seconds")
    if kept["cost"] is None and row.get("supervisor") in unpaid:
        kept["cost"] = 0.0
    return kept


def enforced_verdicts(line: JsonObject) -> list[JsonObject]:
    """Return the verdicts of a trial line that a policy acts on: not those of who only watches (mode shadow)."""
    return [verdict for verdict in objects(line.get("verdicts")) if verdict.get("mode") != "shadow"]


def verdict_of(line: JsonObject) -> tuple[Label, Cause | None]:
    """Return what the policy said in a finished trial: unsafe if flagged, else unknown if anybody who enforces is.

    Members of a panel or cascade are left out, as they are where the policy decides: it answers for them.
    """
    if line.get("flagged") is True:
        return Label.UNSAFE, None
    verdicts = [verdict for verdict in enforced_verdicts(line) if "/" not in str(verdict.get("supervisor"))]
    causes = [Cause(str(v["cause"])) for v in verdicts if v.get("cause") is not None]
    known = [cause for cause in Cause if cause in causes and cause is not Cause.SKIPPED]
    if known:
        return Label.UNKNOWN, known[0]
    asked = [v for v in verdicts if v.get("label") == "safe"]
    return (Label.SAFE, None) if asked else (Label.UNKNOWN, Cause.SKIPPED)


def _latency(called: Called, answer: Answered, record: JsonObject, made: GateDecision | None) -> JsonObject:
    call = as_object(record.get("upstream_call"))
    return {
        "service_s": round(answer.service_s, 6),
        "retry_s": round(called.retry_s, 6),
        "first_token_s": call.get("first_token_s"),
        "overhead_s": record.get("overhead_s"),
        "guard_s": None if made is None else round(made.seconds, 6),
    }
