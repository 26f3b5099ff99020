"""Cards kept in a file: one by name, one based on another, one of one's own."""

from __future__ import annotations

import pytest

from supervisors.encoder import list_encoders, load_encoder
from supervisors.in_process.cards import list_in_process, load_in_process
from supervisors.shelf import Shelf, check_canonical

ENCODERS = Shelf("supervisors", "encoders.toml", "encoder card")


def test_every_card_of_both_files_can_be_built() -> None:
    assert [load_encoder(name).name for name in list_encoders()] == list(ENCODERS.names)
    assert [load_in_process(name).name for name in list_in_process()] == list(list_in_process())


def test_a_card_of_ones_own_takes_the_fields_of_its_base() -> None:
    own = ENCODERS.resolve({"base": "duoguard-0.5b", "threshold": 0.9})
    based = ENCODERS.resolve("duoguard-0.5b")
    assert isinstance(own, dict)
    assert isinstance(based, dict)
    assert own == {**based, "threshold": 0.9}
    assert ENCODERS.resolve({"task": ["harm"]}) == {"name": "inline", "task": ["harm"]}
    assert ENCODERS.resolve(7) == 7


def test_an_unknown_name_is_answered_with_those_that_go_on_from_it() -> None:
    words = (
        r"unknown encoder card 'duoguard'; did you mean 'duoguard-1b' or 'duoguard-0.5b' or 'duoguard-1.5b'\? built in"
    )
    with pytest.raises(ValueError, match=words):
        ENCODERS.resolve("duoguard")


def test_a_category_that_is_none_of_ours_is_named() -> None:
    check_canonical([("violence", "hate"), ()])
    with pytest.raises(ValueError, match="not a canonical category: umbrella; known are violence"):
        check_canonical([("violence", "umbrella")])
