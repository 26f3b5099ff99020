"""Values made for every request behave as frozen dataclasses do, but for the check at run time."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

from supervisors.light import frozen_dataclass, light_dataclass


@light_dataclass(frozen=True, slots=True)
class Pair:
    """Two numbers."""

    left: int
    right: int = 2


@dataclass(frozen=True, slots=True)
class FrozenPair:
    """The same, frozen at run time."""

    left: int
    right: int = 2


def test_a_value_compares_and_hashes_like_a_frozen_dataclass() -> None:
    assert Pair(1) == Pair(1, 2)
    assert Pair(1) != Pair(2)
    assert hash(Pair(1)) == hash(FrozenPair(1))
    assert {Pair(1): "found"}[Pair(1)] == "found"


def test_a_value_can_be_replaced_and_has_slots() -> None:
    assert replace(Pair(1), right=3) == Pair(1, 3)
    assert not hasattr(Pair(1), "__dict__")


@frozen_dataclass(frozen=True, slots=True)
class QuickPair:
    """The same with the quicker constructor."""

    left: int
    right: int = 2


def test_the_quicker_constructor_makes_the_same_value() -> None:
    assert (QuickPair(1).left, QuickPair(1).right) == (1, 2)
    assert QuickPair(left=1) == QuickPair(1, right=2)
    assert repr(QuickPair(1)) == "QuickPair(left=1, right=2)"
    assert hash(QuickPair(1)) == hash(FrozenPair(1))
    assert replace(QuickPair(1), right=3) == QuickPair(1, 3)
    with pytest.raises(TypeError):
        QuickPair()  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]


def test_it_stays_frozen() -> None:
    pair = QuickPair(1)
    with pytest.raises(FrozenInstanceError):
        pair.left = 2  # type: ignore[misc] # pyright: ignore[reportAttributeAccessIssue]
    assert pair.left == 1
