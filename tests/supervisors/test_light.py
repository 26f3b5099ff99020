"""Values made for every request behave as frozen dataclasses do, but for the check at run time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from supervisors.light import light_dataclass


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
