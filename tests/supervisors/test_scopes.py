from __future__ import annotations

from typing import get_args

from supervisors.scopes import SCOPES, gravest, rank
from supervisors.types import Scope


def test_every_scope_has_a_place_and_the_conversation_is_the_gravest() -> None:
    assert set(SCOPES) == set(get_args(Scope))
    assert gravest(["tool_def", "system"]) == "system"
    assert gravest(["tool_def", "conversation"]) == "conversation"
    assert gravest(["tool_def"]) == "tool_def"
    assert gravest([]) is None
    assert rank(None) == rank("conversation") < rank("system") < rank("tool_def")
