"""Canonical JSON and links: the same record always gives the same hash, and anything else another."""

from __future__ import annotations

import json
import math

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.store.chain import Link, Origin, canonical, link_hash, seal
from proxy.store.testing import record

ORIGIN = Origin("boot", "local")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150)
@given(JSON)
def test_canonical_json_is_a_fixed_point(value: object) -> None:
    text = canonical(value)
    assert canonical(orjson.loads(text)) == text


@settings(max_examples=50)
@given(st.dictionaries(st.text(), st.integers(), max_size=6))
def test_the_order_of_members_does_not_matter(value: dict[str, int]) -> None:
    assert canonical(value) == canonical(dict(reversed(value.items())))


def test_what_json_cannot_say_is_said_otherwise() -> None:
    odd = {1: {2}, "big": 2**70, "nan": math.nan, "half": "\ud83d", "bytes": b"x", "tuple": (1, 2)}
    assert json.loads(canonical(odd)) == {
        "1": [2],
        "big": str(2**70),
        "nan": None,
        "half": "?",
        "bytes": "(bytes)",
        "tuple": [1, 2],
    }


def test_a_hash_covers_the_previous_one_the_place_and_every_value() -> None:  # O-15
    sealed = seal(record(1), ORIGIN, Link(4, "a" * 64), "c" * 64, "salt")
    assert (sealed.link.seq, sealed.body["seq"], sealed.body["prev"]) == (5, 5, "a" * 64)
    assert sealed.link.hash == link_hash("a" * 64, sealed.text)
    others = (
        seal(record(2), ORIGIN, Link(4, "a" * 64), "c" * 64, "salt"),
        seal(record(1), Origin("other", "local"), Link(4, "a" * 64), "c" * 64, "salt"),
        seal(record(1), ORIGIN, Link(5, "a" * 64), "c" * 64, "salt"),
        seal(record(1), ORIGIN, Link(4, "b" * 64), "c" * 64, "salt"),
        seal(record(1), ORIGIN, Link(4, "a" * 64), None, "salt"),
    )
    assert len({sealed.link.hash, *[other.link.hash for other in others]}) == 6


class Score(float):
    """What a plugin may give for a number."""


def test_numbers_of_a_class_of_their_own_are_numbers() -> None:
    assert canonical({"score": Score(0.25), "all": [Score(1.5)]}) == b'{"all":[1.5],"score":0.25}'
