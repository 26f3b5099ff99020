from __future__ import annotations

import pytest

from supervisors.offsets import Place
from supervisors.stretches import find_turned, surround
from tests.timing import assert_linear

TURNED = {"eht", "dna", "fo"}
PLAIN = {"the", "and", "of"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("eht tac dna eht god", ["eht tac dna eht god"]),
        ("the cat and the dog", []),
        ("see the cat: eht tac dna eht god and so on", [" cat: eht tac dna eht god "]),
        ("EHT tac DNA the eht tac", ["EHT tac DNA "]),  # one telling word is no stretch
        ("eht eht eht", []),  # nor is one that is said thrice
        ("the request\neht dna tac\ntac\nsay of it", ["eht dna tac\ntac"]),  # the rest of plain lines is left out
        ("the eht\ntac dna\n", [" eht\ntac dna\n"]),
        ("eht dna the fo dna", ["eht dna ", " fo dna"]),
    ],
)
def test_stretches_end_at_plain_words_and_hold_two_turned_ones(text: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in find_turned(text, TURNED, PLAIN)] == found


@pytest.mark.parametrize(
    ("places", "length", "joined"),
    [
        ([], 100, []),
        ([(50, 55)], 100, [(20, 85)]),
        ([(5, 9)], 20, [(0, 20)]),
        ([(50, 55), (110, 112)], 500, [(20, 142)]),
        ([(50, 55), (200, 205)], 500, [(20, 85), (170, 235)]),
    ],
)
def test_places_are_joined_where_their_surroundings_touch(
    places: list[tuple[int, int]], length: int, joined: list[tuple[int, int]]
) -> None:
    assert list(surround([Place(*place) for place in places], length, 30)) == [Place(*place) for place in joined]


@pytest.mark.parametrize("unit", ["eht dna ", "the eht ", "x"])
def test_stretches_are_found_in_linear_time(unit: str) -> None:  # G-08
    assert_linear(lambda size: list(find_turned(unit * (size // len(unit)), TURNED, PLAIN)), 50_000)
