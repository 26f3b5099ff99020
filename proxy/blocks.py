"""What a block looks like to the caller: from a stage's result to the error of wire §4. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from proxy.call import Call
from proxy.headers import Expose
from proxy.policy import Decision, Reason
from proxy.wire.errors import RequestError
from supervisors.types import Cause, Stage

_BROKEN = frozenset({Cause.ERROR, Cause.TIMEOUT, Cause.OVERLOADED, Cause.UNPARSABLE})
_JUDGED: Mapping[Stage, str] = {"input": "request", "output": "reply"}
_WHY: Mapping[Cause, str] = {
    Cause.OVER_LIMIT: "it is longer than a supervisor reads",
    Cause.UNSUPPORTED: "it is of a kind, such as an image or a file, that a supervisor cannot read",
}


def is_failure(reason: Reason | None, cause: Cause | None) -> bool:
    """Say whether the block comes from a broken supervisor and not from the content."""
    return reason == "unknown" and cause in _BROKEN


class InputBlocked(Exception):
    """The parallel input stage blocked: whatever the model is doing is cancelled."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why something does not pass.

    Args:
        stage: input or output.
        reason: unsafe or unknown.
        cause: of an unknown verdict.
        categories: of the unsafe verdicts.
        policies: those whose decision blocked.
    """

    stage: Stage
    reason: Reason | None
    cause: Cause | None
    categories: tuple[str, ...]
    policies: tuple[str, ...]


def blocking_policies(call: Call, decisions: Iterable[Decision]) -> tuple[str, ...]:
    """Return the policies whose decision blocked; never one that judges in the shadow alone.

    A redaction that came too late blocks too: then they are those that asked for it.
    """
    acting = [made for made in decisions if made.enforce and made.policy not in call.plan.hidden]
    names = [made.policy for made in acting if made.blocked] or [made.policy for made in acting if made.redacted]
    return tuple(dict.fromkeys(names)) or call.plan.shown


def block_error(call: Call, block: Blocked, expose: Expose) -> RequestError:
    """Return the error of a blocked exchange: a content block is never 5xx, a broken supervisor never 4xx."""
    stage, reason, cause = block.stage, block.reason, block.cause
    shown: dict[str, Any] = {"id": call.id}
    if expose != "none":
        shown["policy"] = ",".join(block.policies)
    shown |= {
        "stage": stage,
        "reason": reason or "unsafe",
        "cause": cause.value if reason == "unknown" and cause is not None else None,
    }
    if expose == "full":
        shown["categories"] = list(block.categories)
    param = call.adapter.param if stage == "input" else None
    if reason == "unknown" and cause is Cause.OVERLOADED:
        message = (
            "Too many requests are waiting for a supervisor that must judge this exchange; nothing was let through."
        )
        return RequestError(503, "overloaded", message, headers={"retry-after": "30"}, guardrail=shown)
    if is_failure(reason, cause):
        return RequestError(
            503,
            "guardrail_unavailable",
            "A supervisor that must judge this exchange is not available; nothing was let through.",
            headers={"retry-after": "1"},
            guardrail=shown,
        )
    why = _WHY.get(cause) if reason == "unknown" and cause is not None else None
    if why is not None:
        message = f"Part of the {_JUDGED[stage]} could not be judged, because {why}; nothing was let through."
        return RequestError(400, "content_not_judged", message, param=param, guardrail=shown)
    return RequestError(400, "content_filter", notice_text(call, block.policies), param=param, guardrail=shown)


def notice_text(call: Call, policies: Iterable[str]) -> str:
    """Return the refusal sentence with its two placeholders filled in."""
    message = call.plan.on_block.message
    return message.replace("{policy}", ",".join(policies)).replace("{request_id}", call.request_id)
