"""Which segments are judged: scopes never mix, and a reply is never narrowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisors.narrowing import Narrowing, Turns, select
from supervisors.testing import exchange
from supervisors.types import Exchange, Kind, Role, Scope, Segment

TALK = exchange("first question", "first answer", "second question", system="be kind")
TOOL = Segment("/tools/0/function/description", "user", "tool_def", "opens umbrellas", -1)


def texts(sample: Exchange, scope: Scope = "conversation", narrowing: Narrowing | None = None) -> list[str]:
    return [segment.text for segment in select(sample, scope, narrowing or Narrowing())]


def test_scopes_are_never_mixed() -> None:  # G-04, M-22
    sample = replace(TALK, request=(*TALK.request, TOOL))
    assert texts(sample) == ["first question", "first answer", "second question"]
    assert texts(sample, "system") == ["be kind"]
    assert texts(sample, "tool_def") == ["opens umbrellas"]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ("all", ["first question", "first answer", "second question"]),
        ("last_user", ["second question"]),
        ("new", ["second question"]),
    ],
)
def test_turns_narrow_a_request(turns: Turns, expected: list[str]) -> None:  # G-04
    assert texts(TALK, narrowing=Narrowing(turns=turns)) == expected


def test_roles_and_kinds_narrow_a_request_but_a_reply_is_judged_whole() -> None:
    roles: frozenset[Role] = frozenset({"user"})
    assert texts(TALK, narrowing=Narrowing(roles=roles)) == ["first question", "second question"]
    answered = exchange("question", reply="answer", stage="output")
    assert texts(answered, narrowing=Narrowing(roles=roles, turns="last_user")) == ["answer"]
    kinds: frozenset[Kind] = frozenset({"tool_args"})
    assert texts(TALK, narrowing=Narrowing(kinds=kinds)) == []


def test_opaque_segments_are_not_judged() -> None:  # G-05
    hidden = Segment("/x", "assistant", "opaque", "?", 1)
    assert texts(replace(TALK, request=(*TALK.request, hidden))) == texts(TALK)
