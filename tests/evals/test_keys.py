from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from evals.keys import Keys

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
