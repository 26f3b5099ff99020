from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proxy.matrix.aims import is_aimed_at, scope_of
from proxy.matrix.cells import TEXT, Place
from proxy.matrix.chat import asked, place_turn
from supervisors.plugins import build_supervisor

WORDS: dict[str, Any] = {"use": "rules", "keywords": ["canary"]}


SAID: dict[str, Any] = {"content": TEXT}


def place(role: Any = "user", turn: Any = "last", said: dict[str, Any] = SAID, **changes: Any) -> Place:
    found = Place(
        "/v1/chat/completions", "input", role, turn, "text", "string", asked(*place_turn(turn, {"role": role, **said}))
    )
    return replace(found, **changes)


def test_a_place_has_one_scope() -> None:  # G-04
    found = [scope_of(place(role)) for role in ("system", "developer", "user", "tool", "assistant")]
    assert found == ["system", "system", "conversation", "conversation", "conversation"]
    assert scope_of(place("system", kind="tool_def")) == "tool_def"


@pytest.mark.parametrize(
    ("options", "where", "aimed"),
    [
        ({}, place("system"), True),
        ({"scopes": ["conversation"]}, place("system"), False),
        ({"scopes": ["conversation"]}, place("tool"), True),
        ({"roles": ["user"]}, place("tool"), False),
        ({"kinds": ["text"]}, place(said={"content": "x", "name": TEXT}), False),
        ({"turns": "last_user"}, place(turn="first"), False),
        ({"turns": "last_user"}, place(turn="last"), True),
        ({"turns": "new"}, place("assistant"), False),
        ({"kinds": ["text"]}, place(kind="refusal", stage="output"), False),
        ({"turns": "new"}, place(turn="first", stage="output"), True),
    ],
)
def test_options_say_where_a_supervisor_looks(options: dict[str, Any], where: Place, aimed: bool) -> None:
    supervisor = build_supervisor({**WORDS, **options})
    assert is_aimed_at(supervisor, where) is aimed


def test_a_composite_looks_where_a_member_looks() -> None:
    embedded = {"use": "guard", "card": "embedded"}
    narrow = build_supervisor({"use": "vote", "strategy": "any", "members": {"a": embedded}})
    wide = build_supervisor({"use": "vote", "strategy": "any", "members": {"a": embedded, "b": WORDS}})
    assert not is_aimed_at(narrow, place("system"))
    assert is_aimed_at(wide, place("system"))
