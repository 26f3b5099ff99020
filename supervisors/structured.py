"""Structured output: the schema of a verdict, and which form of it a server understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from supervisors.chunks import FILTERED_CODE, OVERLONG_CODES
from supervisors.errors import ChatRefused, ChatUnavailable
from supervisors.types import ChatReply, ChatRequest, Context, Endpoint

Structured = Literal["json_schema", "json_object", "none"]

_WEAKER: Mapping[Structured, Structured] = {"json_schema": "json_object", "json_object": "none"}
_NOT_UNDERSTOOD = (400, 422, 500, 501)
"""Servers differ in how they say that they do not know a response format; some answer 500."""


@dataclass(slots=True)
class Structure:
    """Remember which form a server took.

    Args:
        mode: form asked for next.
        proven: true once a call in this form was answered: from then on a failure is a failure.
        configured: where to start again when no form was answered.
    """

    mode: Structured = "json_schema"
    proven: bool = False
    configured: Structured | None = None

    def __post_init__(self) -> None:
        self.configured = self.configured or self.mode

    def weaken(self, tried: Structured) -> bool:
        """Step down from the form that failed; false if there is nothing left to try.

        Calls run concurrently: two that failed in the same form step down once.
        """
        if self.proven and tried == self.mode:
            return False
        weaker = _WEAKER.get(tried)
        if weaker is None:
            self.mode = self.configured or "json_schema"  # nothing worked: it was not the form
            return False
        if self.mode == tried:
            self.mode = weaker
        return True


def reply_schema(words: Sequence[str], categories: Sequence[str], *, needs_score: bool) -> dict[str, Any]:
    """Return the JSON schema of a reply.

    Every member is required and the optional ones may be null, because strict modes know no optional members. The
    nonce is a plain string: a constant would make every call a new grammar, and prove nothing.
    """
    category: dict[str, Any] = {"type": "string"}
    if categories:
        category["enum"] = list(categories)
    properties: dict[str, Any] = {
        "nonce": {"type": "string"},
        "reason": {"type": "string"},
        "categories": {"type": "array", "items": category},
        "score": {"type": "number"} if needs_score else {"type": ["number", "null"]},
        "label": {"type": "string", "enum": list(words)},
    }
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


async def call_structured(
    context: Context, endpoint: Endpoint, request: ChatRequest, schema: Mapping[str, Any], structure: Structure
) -> ChatReply:
    """Call the model in the strongest form its server understands.

    Raises:
        ChatError: as `Context.chat`.
        ReplyError: as `Context.chat`.
    """
    while True:
        mode = structure.mode
        try:
            reply = await context.chat(endpoint, replace(request, response_format=_response_format(mode, schema)))
        except (ChatRefused, ChatUnavailable) as error:
            about_text = error.code == FILTERED_CODE or error.code in OVERLONG_CODES
            if error.status not in _NOT_UNDERSTOOD or about_text or not structure.weaken(mode):
                raise
        else:
            structure.proven = structure.proven or structure.mode == mode
            return reply


def _response_format(mode: Structured, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    match mode:
        case "json_schema":
            return {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}}
        case "json_object":
            return {"type": "json_object"}
        case "none":
            return None
