"""How LionGuard's answers are read (guards §7, row 89)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from supervisors.errors import MissingError, ReplyError
from supervisors.in_process.cards import load_in_process
from supervisors.in_process.lionguard import EXTRA, load_lionguard, predict, read_lionguard
from supervisors.types import Label

CARD = load_in_process("lionguard-2")
NAMES = (
    *("binary", "hateful_l1", "hateful_l2", "insults", "sexual_l1", "sexual_l2", "physical_violence"),
    *("self_harm_l1", "self_harm_l2", "all_other_misconduct_l1", "all_other_misconduct_l2"),
)


def test_the_names_are_those_of_the_model() -> None:
    assert {"binary", *CARD.categories} == set(NAMES)


@pytest.mark.parametrize(("answer", "label"), [({"binary": 0.85}, Label.UNSAFE), ({"binary": 0.849}, Label.SAFE)])
def test_the_house_threshold(answer: object, label: Label) -> None:  # 89
    assert read_lionguard(answer, 0, CARD).label is label
    with pytest.raises(ReplyError) as found:
        read_lionguard({}, 0, CARD)
    assert found.value.detail == "missing_verdict"


def test_each_text_has_its_place_and_its_categories() -> None:
    answer: dict[str, list[float]] = {name: [0.1, 0.2, 0.3] for name in NAMES}
    answer |= {"binary": [0.2, 0.9, 0.1], "insults": [0.9, 0.6, 0.1], "sexual_l1": [0.0, 0.5, 0.9]}
    assert read_lionguard(answer, 0, CARD).label is Label.SAFE
    verdict = read_lionguard(answer, 1, CARD)
    assert (verdict.label, verdict.score, verdict.categories) == (Label.UNSAFE, 0.9, ("harassment", "sexual"))
    assert verdict.extras["raw_categories"] == ["insults", "sexual_l1"]
    assert read_lionguard(answer, 2, CARD, 0.1).label is Label.UNSAFE


class Array:
    """What a library gives instead of a list."""

    def __init__(self, values: Sequence[float]) -> None:
        self._values = list(values)

    def tolist(self) -> list[float]:
        return self._values


def test_an_array_is_as_good_as_a_list() -> None:
    assert read_lionguard({"binary": Array([0.1, 0.86])}, 1, CARD).score == 0.86


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [0.1],
        {"Binary": 0.1},
        {"binary": None},
        {"binary": "0.1"},
        {"binary": True},
        {"binary": math.nan},
        {"binary": 1.01},
        {"binary": -0.1},
        {"binary": []},
        {"binary": [[0.1]]},
        {"binary": 0.1, "insults": "much"},
        {"binary": Array([])},
    ],
)
def test_whatever_else_is_no_verdict(answer: object) -> None:
    with pytest.raises(ReplyError):
        read_lionguard(answer, 0, CARD)


def test_vectors_go_to_the_head_as_one_array() -> None:
    pytest.importorskip("numpy")
    seen: list[Any] = []

    class Head:
        def predict(self, vectors: object, /) -> dict[str, object]:
            seen.append(vectors)
            return {"binary": [0.0, 1.0]}

    assert predict(Head(), [(1.0, 0.0), (0.0, 1.0)]) == {"binary": [0.0, 1.0]}
    assert (seen[0].shape, str(seen[0].dtype)) == ((2, 2), "float32")


@pytest.mark.skipif(all(find_spec(name) for name in EXTRA), reason="the extra is installed")
def test_without_the_library_the_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"pip install 'guardrail-proxy\[transformers\]'"):
        load_lionguard(tmp_path, "lionguard-2")
