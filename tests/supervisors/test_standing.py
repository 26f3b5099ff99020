"""Which composites can still call anything safe while models behind them fail (operations O-08)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from supervisors.cascade import Cascade
from supervisors.judge import Judge
from supervisors.standing import can_clear
from supervisors.testing import Always
from supervisors.types import Supervisor
from supervisors.vote import Vote

A, B, C = (Judge(model=name) for name in "abc")


def panel(*members: Supervisor, **options: Any) -> Vote:
    named = dict(zip("xyz", members, strict=False))
    return Vote.model_validate({"members": named, **options})


@pytest.mark.parametrize(
    ("options", "failing", "clears"),
    [
        ({"strategy": "any"}, "", True),
        ({"strategy": "any"}, "a", False),  # safe only if everybody says so
        ({"strategy": "all"}, "ab", True),
        ({"strategy": "all"}, "abc", False),
        ({"strategy": "first_available"}, "ab", True),
        ({"strategy": "first_available"}, "abc", False),
        ({"strategy": "majority"}, "a", True),
        ({"strategy": "majority"}, "ab", False),
        ({"strategy": "majority", "min_answers": 1}, "ab", True),
        (
            {"strategy": "majority", "reserve": ["z"]},
            "a",
            True,
        ),  # one of two answers: the reserve makes it two of three
        ({"strategy": "majority", "reserve": ["z"]}, "ac", False),
        ({"strategy": "quorum", "count": 2}, "a", True),
        ({"strategy": "quorum", "count": 1}, "a", False),  # the vote that is missing could have decided
        ({"strategy": "weighted", "weights": {"x": 3.0}}, "bc", True),
        ({"strategy": "weighted", "weights": {"x": 3.0}}, "a", False),
        ({"strategy": "weighted", "use_scores": True}, "a", True),
    ],
)
def test_a_panel_clears_what_its_own_rule_clears(options: Mapping[str, Any], failing: str, clears: bool) -> None:
    assert can_clear("panel", panel(A, B, C, **options), set(failing)) is clears


SURE = {"supervisor": Always(), "name": "rules", "low": 0.2}


@pytest.mark.parametrize(
    ("steps", "failing", "clears"),
    [
        ([{"supervisor": A}, {"supervisor": B}], "a", True),  # the second one is asked
        ([{"supervisor": A}, {"supervisor": B}], "b", False),  # and has the last word
        ([{"supervisor": A, "on_safe": "safe"}, {"supervisor": B}], "b", True),
        ([{"supervisor": A, "on_unknown": "unknown"}, {"supervisor": B}], "a", False),
        ([{"supervisor": A, "on_unknown": "safe"}, {"supervisor": B}], "ab", True),
        ([{"supervisor": A, "on_safe": "unsafe"}, {"supervisor": B}], "", False),
        ([SURE, {"supervisor": B}], "b", True),
        ([{"supervisor": A, "high": 0.9}, {"supervisor": B}], "b", False),
    ],
)
def test_a_cascade_clears_what_its_steps_clear(steps: list[Any], failing: str, clears: bool) -> None:
    assert can_clear("steps", Cascade.model_validate({"steps": steps}), set(failing)) is clears


@dataclass(frozen=True, slots=True)
class Wrapper(Always):
    """A composite of a plugin."""

    nested: Mapping[str, Supervisor] = None  # type: ignore[assignment]  # always given


def test_members_count_by_their_own_name_and_inside_one_another() -> None:
    inner = panel(A, B, strategy="any")
    assert not can_clear("outer", panel(inner, strategy="majority"), {"b"})
    assert not can_clear("outer", panel(Always(), strategy="majority"), {"outer/x"})
    assert can_clear("outer", panel(Always(), strategy="majority"), {"x"})
    assert can_clear("own", Wrapper(nested={"a": A, "b": B}), {"a"})
    assert not can_clear("own", Wrapper(nested={"a": A, "b": B}), {"a", "b"})
