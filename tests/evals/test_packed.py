from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evals.packed import Bag, Codes, Packed, Places, count_equal


@given(st.lists(st.integers(0, 5)))
def test_packed_values_are_a_sequence_of_what_was_put_in(values: list[int]) -> None:
    packed = Packed(values)
    assert list(packed) == values
    assert len(packed) == len(values)
    assert [packed[place] for place in range(len(values))] == values
    assert packed[1:3] == values[1:3]


@given(st.lists(st.tuples(st.text(max_size=1), st.integers(1, 3))))
def test_a_bag_is_its_values_as_often_as_they_are_there(counts: list[tuple[str, int]]) -> None:
    bag = Bag(counts)
    assert list(bag.counts()) == list(count_equal(bag)) == counts
    assert list(bag) == [value for value, times in counts for _ in range(times)]
    assert len(bag) == len(list(bag))
    assert list(bag.map(str.upper).counts()) == [(value.upper(), times) for value, times in counts]


def test_other_values_are_counted_as_they_come() -> None:
    assert list(count_equal("aab")) == [("a", 1), ("a", 1), ("b", 1)]


@given(st.sets(st.integers(0, 60)))
def test_places_are_a_sequence_of_what_was_put_in(found: set[int]) -> None:
    listed = sorted(found)
    places = Places(listed)
    assert list(places) == [places[at] for at in range(len(places))] == listed
    assert [places[at] for at in range(-1, -len(listed) - 1, -1)] == listed[::-1]
    assert places[1:3] == listed[1:3]


@given(st.dictionaries(st.integers(0, 40), st.integers(0, 300)))
def test_codes_are_those_put_in_and_else_none(found: dict[int, int]) -> None:
    codes = Codes()
    for place, code in found.items():
        codes[place] = code
    assert [codes[place] for place in range(50)] == [found.get(place, 0) for place in range(50)]
    assert list(codes) == [found.get(place, 0) for place in range(len(codes))]
