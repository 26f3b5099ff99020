"""Formats that are one JSON object (GP-07)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field

from supervisors.parsers.reading import Asked, Pair, Reading, Side, Unreadable, judge_sides, spell, split_list


def parse_object(text: str) -> Mapping[str, object]:
    """Parse a reply that is one JSON object, keys casefolded and stripped.

    Raises:
        Unreadable: anything else: prose, an array, two fences, NaN (``bad_json``), a key twice (``contradiction``).
    """
    try:
        value = cast(
            "object",
            json.loads(
                _strip_fence(text),
                object_pairs_hook=_to_mapping,
                parse_constant=_refuse_constant,
                parse_float=_to_finite,
            ),
        )
    except (ValueError, RecursionError) as error:
        raise Unreadable("bad_json") from error
    if not isinstance(value, dict):
        raise Unreadable("bad_json")
    return cast("Mapping[str, object]", value)


def _strip_fence(text: str) -> str:
    """Remove at most one surrounding code fence with its language tag."""
    if not text.startswith("```"):
        return text
    first, _, body = text.partition("\n")
    tag = first[3:].strip()
    if not body.endswith("```") or (tag and not tag.isalnum()):
        raise Unreadable("bad_json")
    return body[:-3]


def _to_mapping(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = {key.strip().casefold(): value for key, value in pairs}
    if len(members) != len(pairs):
        raise Unreadable("contradiction")
    return members


def _refuse_constant(word: str) -> object:
    raise Unreadable("bad_json")


def _to_finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Unreadable("bad_json")
    return value


class JsonFields(BaseModel):
    """An object with a verdict a side.

    Args:
        prompt: member with the verdict on the prompt.
        response: member with the verdict on the response.
        categories: member with names, a comma-separated string or an array.
        safe: values that mean safe.
        unsafe: values that mean unsafe.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: str
    response: str
    categories: str = ""
    safe: tuple[str, ...] = Field(default=("safe",), min_length=1)
    unsafe: tuple[str, ...] = Field(default=("unsafe",), min_length=1)

    pair: ClassVar[Pair | None] = None
    short: ClassVar[bool] = False
    keeps_marks: ClassVar[bool] = False

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the member of the judged side; the other side is kept beside it and never stands in for it."""
        members = parse_object(text)
        stated: dict[Side, str | None] = {
            "prompt": _to_text(members.get(self.prompt.casefold())),
            "response": _to_text(members.get(self.response.casefold())),
        }
        found = judge_sides(stated, spell(self.unsafe, self.safe), asked.side)
        expected = {key.casefold() for key in (self.prompt, self.response, self.categories)}
        raw = to_names(members.get(self.categories.casefold())) if self.categories else ()
        return Reading(
            found[asked.side] or "unsafe",
            set(members) <= expected,
            raw,
            prompt=found["prompt"],
            response=found["response"],
        )


def _to_text(value: object) -> str | None:
    """Return a string as it is and other values as JSON writes them."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def to_names(value: object) -> tuple[str, ...]:
    """Return category names given as one comma-separated string or as an array of strings."""
    if isinstance(value, str):
        return split_list(value)
    if not isinstance(value, list):
        return ()
    return tuple([name for item in cast("list[object]", value) for name in split_list(str(item))])


class JsonPolicy(BaseModel):
    """An object whose verdict member and words your own policy defines.

    Args:
        member: key of the verdict.
        unsafe: values that mean unsafe; numbers and booleans are compared as JSON writes them.
        safe: values that mean safe.
        categories: key of the names, empty when there is none.
        ignored: further keys a safe answer may have, such as a rationale.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    member: str
    unsafe: tuple[str, ...] = Field(min_length=1)
    safe: tuple[str, ...] = Field(min_length=1)
    categories: str = ""
    ignored: tuple[str, ...] = ()

    pair: ClassVar[Pair | None] = None
    short: ClassVar[bool] = False
    keeps_marks: ClassVar[bool] = False

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the member; a value in neither list is no verdict."""
        members = parse_object(text)
        value = members.get(self.member.strip().casefold())
        if value is None:
            raise Unreadable("missing_field")
        folded = (_to_text(value) or "").strip().casefold()
        bad = folded in [word.casefold() for word in self.unsafe]
        if not bad and folded not in [word.casefold() for word in self.safe]:
            raise Unreadable("unknown_label")
        expected = {key.strip().casefold() for key in (self.member, self.categories, *self.ignored)}
        raw = to_names(members.get(self.categories.strip().casefold())) if self.categories else ()
        return Reading("unsafe" if bad else "safe", set(members) <= expected, raw)
