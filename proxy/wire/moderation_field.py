"""The `moderation` field of a request: what it asks for, and the member that answers it (wire §10). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from proxy.wire.errors import invalid, unsupported
from proxy.wire.moderations import to_result
from proxy.wire.segments import as_object
from supervisors.types import Assessment, Cause, Stage, join_causes

FieldMode = Literal["answer", "forward", "refuse"]
RESPONSES_ROUTE: Final = "/v1/responses"
FIELD_ROUTES: Final = frozenset({"/v1/chat/completions", RESPONSES_ROUTE})
"""Routes whose `moderation` field is answered here."""

_STAGES: Final[tuple[Stage, ...]] = ("input", "output")
_MODES: Final = ("score", "block")


@dataclass(frozen=True, slots=True)
class FieldSettings:
    """What the config says about the field.

    Args:
        mode: answer it, leave it to the model server, or refuse it.
        aliases: policy by the model name a caller may give.
    """

    mode: FieldMode = "answer"
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class FieldAsk:
    """What a caller asks for.

    Args:
        alias: model name as given, shown in the answer.
        policy: whose supervisors are reported.
        tightened: stages whose unsafe verdicts shall block, whatever the policy says.
    """

    alias: str
    policy: str
    tightened: tuple[Stage, ...] = ()


def take_field(body: dict[str, Any], settings: FieldSettings) -> FieldAsk | None:
    """Remove the field from the body and return what it asks for; None when it is null or not ours to answer.

    Raises:
        RequestError: 400 with the path when it is malformed, names no alias, or is refused here.
    """
    if settings.mode == "refuse":
        raise unsupported("moderation")
    if settings.mode == "forward":
        return None
    value = body.pop("moderation")
    if value is None:
        return None
    asked = as_object(value)
    if asked is None:
        raise invalid("'moderation' must be an object with a 'model'.", "moderation")
    alias = asked.get("model")
    if not isinstance(alias, str) or alias not in settings.aliases:
        known = ", ".join(sorted(settings.aliases)) or "none"
        raise invalid(f"Unknown moderation model; known are: {known}.", "moderation.model")
    for key in asked:
        if key not in ("model", "policy"):
            raise invalid(f"Unknown field {key[:64]!r}; known are: model, policy.", f"moderation.{key[:64]}")
    return FieldAsk(alias, settings.aliases[alias], _tightened(asked.get("policy")))


def _tightened(value: object) -> tuple[Stage, ...]:
    if value is None:
        return ()
    policy = as_object(value)
    if policy is None or not policy.keys() <= {"input", "output"}:
        raise invalid("'policy' must be an object with 'input' and 'output', or null.", "moderation.policy")
    found: list[Stage] = []
    for stage in _STAGES:
        setting = policy.get(stage)
        if setting is None:
            continue
        mode = (as_object(setting) or {}).get("mode")
        if mode not in _MODES:
            raise invalid("The mode must be score or block.", f"moderation.policy.{stage}.mode")
        if mode == "block":
            found.append(stage)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Judged:
    """What the reported supervisors said of one text.

    Args:
        assessments: theirs.
        cause: why their verdict is unknown, None when it is known.
    """

    assessments: Sequence[Assessment]
    cause: Cause | None


def to_member(alias: str, judged: Sequence[Judged], *, single: bool = False) -> dict[str, Any]:
    """Return the results of one stage; one unknown among them makes it an error, never "not flagged".

    Args:
        alias: model name as the caller gave it.
        judged: one a choice, in index order; none when the stage was not judged.
        single: the one result itself, as in a response, instead of a list of results.
    """
    causes = [one.cause for one in judged if one.cause is not None]
    if causes or not judged:
        cause = join_causes(causes or [Cause.SKIPPED])
        message = "This stage was not judged." if cause is Cause.SKIPPED else "The content could not be judged."
        return {"type": "error", "code": cause.value, "message": message}
    rows = [{"type": "moderation_result", **to_result(one.assessments), "model": alias} for one in judged]
    if single:
        return rows[0]
    return {"type": "moderation_results", "model": alias, "results": rows}
