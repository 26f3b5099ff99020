from __future__ import annotations

import hashlib
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.keys import Keys
from tests.memory import memory_of

_HEX = hashlib.sha256(b"umbrella").hexdigest()


def test_keys_keep_the_order_in_which_they_came() -> None:
    keys = Keys()
    assert [keys.add(name) for name in (_HEX, "short", _HEX, "", _HEX.upper())] == [0, 1, 0, 2, 3]
    assert list(keys) == [_HEX, "short", "", _HEX.upper()]
    assert [keys.find(name) for name in (_HEX, "", "other")] == [0, 2, None]
    assert ["short" in keys, "shorter" in keys, 1 in keys] == [True, False, False]


def test_thousands_of_keys_are_found_again() -> None:
    names = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(5000)]
    keys = Keys()
    assert [keys.add(name) for name in names] == list(range(5000))
    assert all(keys.find(name) == place for place, name in enumerate(names))
    assert keys.find(_HEX) is None
    assert len(keys) == 5000


def test_keys_that_begin_alike_are_told_apart() -> None:
    names = ["0" * 60 + f"{number:04x}" for number in range(1, 900)]
    keys = Keys()
    assert [keys.add(name) for name in names] == list(range(899))
    assert [keys.find(name) for name in names] == list(range(899))


@given(st.lists(st.text(max_size=4) | st.sampled_from([_HEX, _HEX[:-2] + "  ", "\ud800", "\0"])))
def test_places_are_those_of_a_dict(names: list[str]) -> None:
    keys, plain = Keys(), dict[str, int]()
    for name in names:
        assert keys.add(name) == plain.setdefault(name, len(plain))
    assert list(keys) == list(plain)


def _names(count: int) -> list[str]:
    return [hashlib.sha256(str(number).encode()).hexdigest() for number in range(count)]


def _appended(names: list[str]) -> Keys:
    keys = Keys()
    assert [keys.append(name) for name in names] == list(range(len(names)))
    return keys


@pytest.mark.parametrize("step", [1, 7, 601, -1])
def test_appended_keys_are_found_in_order_and_in_any_other(step: int) -> None:
    names = _names(6000)
    keys = _appended(names)
    order = [(number * step) % 6000 for number in range(6000)]
    assert [keys.find(names[place]) for place in order] == order
    assert keys.find(_HEX) is None


def test_keys_that_come_late_are_found_and_the_others_still_in_order() -> None:
    names = _names(3000)
    keys = _appended(names)
    order = [place if place % 100 else (place * 31) % 3000 for place in range(3000)]
    assert [keys.find(names[place]) for place in order] == order


def test_keys_added_after_a_search_are_found_too() -> None:
    names = _names(1300)
    keys = _appended(names[:1000])
    assert keys.find(names[999]) == 999
    assert [keys.add(name) for name in names[900:]] == list(range(900, 1300))
    assert [keys.find(name) for name in names] == list(range(1300))


def test_a_key_that_was_appended_several_times_is_named_with_how_often() -> None:
    names = _names(5000)
    keys = _appended([*names, names[4711], names[3], "", "", names[3]])
    assert dict(keys.doubled()) == {names[4711]: 2, names[3]: 3, "": 2}
    assert keys.key(5002) == keys.key(5003) == ""


def test_keys_that_begin_alike_are_told_apart_in_the_index() -> None:
    names = ["0" * 60 + f"{number:04x}" for number in range(1, 900)]
    keys = _appended(names)
    assert [keys.find(name) for name in reversed(names)] == list(range(898, -1, -1))
    assert keys.find("0" * 64) is None


def test_memory_holds_a_part_of_the_keys_only() -> None:
    few, many = [memory_of(partial(_find_all, count)) for count in (4_000, 16_000)]
    assert (many - few) / 12_000 < 4


def _find_all(count: int) -> None:
    keys = Keys()
    for number in range(count):
        keys.append(hashlib.sha256(str(number).encode()).hexdigest())
    assert all(keys.find(hashlib.sha256(str(number).encode()).hexdigest()) == number for number in range(count))
    assert keys.find(_HEX) is None
