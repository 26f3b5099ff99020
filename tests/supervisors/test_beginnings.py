"""Every beginning of a match is found at the end of a text, and what cannot become a match is not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisors.beginnings import compile_beginnings, find_beginning
from supervisors.injection import injection_patterns
from supervisors.patterns import Haystack, Pattern, compile_regex
from supervisors.pii import pii_patterns
from supervisors.secrets import secret_patterns

EXPRESSIONS = [
    "abc",
    "a{3}b",
    "a{2,4}b+c*d?e",
    "a{0}b{,2}c{2,}?",
    "(?:ab|cd){2,3}x",
    "(ab|(?:c|de)+f)?g",
    "[^a-c]{2}(?i:KeY)[[:digit:]]+",
    r"<<X[\s\S]{0,9}?Y>>",
    r"\bkey-[0-9]{3}\b",
    r"(?:^|[^0-9])(?P<n>[0-9]{2}:){2}$",
    r"\x41\x{42}\pL{2}\d\.[]x\]]{}",
    "x{0,2}(?:y{2}){2}z",
    "ü(?:ß|…){2}",
    "(?i)ab|cd(?s:.)e",
]
BUILT_IN = [*secret_patterns(), *pii_patterns(), *injection_patterns()]


def matches(source: str) -> st.SearchStrategy[str]:
    """Draw matches, by the same expression in Python's syntax where it differs."""
    python = source.replace("[[:digit:]]", "[0-9]").replace(r"\x{42}", "B").replace(r"\pL", "[a-z]")
    python = python.replace("b{,2}", r"b\{,2\}").replace("{}", r"\{\}")
    return st.from_regex(re.compile(python, re.ASCII), fullmatch=True)


@pytest.mark.parametrize("source", EXPRESSIONS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_every_beginning_of_every_match_is_found(source: str, data: st.DataObject) -> None:  # guarding §7
    program = compile_beginnings([source, "never"])
    assert program is not None
    text = f"so: {data.draw(matches(source))}"
    places = compile_regex(source).find(Haystack(text))
    assert places
    for start, end in places:
        for cut in range(start + 1, end + 1):
            assert find_beginning(program, text[:cut]) <= start


@pytest.mark.parametrize("pattern", BUILT_IN, ids=lambda pattern: pattern.name)
def test_the_beginnings_of_every_pattern_of_ours_are_known(pattern: Pattern) -> None:
    assert compile_beginnings([pattern.alternative]) is not None


@pytest.mark.parametrize(
    ("source", "text", "start"),
    [
        ("-----BEGIN [A-Z ]+-----", "a dash - and", 12),
        ("-----BEGIN [A-Z ]+-----", "a dash -", 7),
        ("-----BEGIN [A-Z ]+-----", "see -----BEGIN RSA", 4),
        ("-----BEGIN [A-Z ]+-----", "see -----BEGIN rsa", 18),
        ("-----BEGIN [A-Z ]+-----", "é…-----BEG", 2),
        (r"\bkey", "monkey: ke", 8),
        (r"\bkey", "monke", 5),
        ("a|bc", "", 0),
    ],
)
def test_only_what_can_go_on_is_a_beginning(source: str, text: str, start: int) -> None:
    program = compile_beginnings([source])
    assert program is not None
    assert find_beginning(program, text) == start


@pytest.mark.parametrize("source", [r"\Qa.b\E", "a(?i)bc", r"\101", r"\C", "[a-z]{1000}" * 12])
def test_what_is_not_taken_apart_or_too_large_is_said_to_be(source: str) -> None:
    assert compile_beginnings(["abc", source]) is None
