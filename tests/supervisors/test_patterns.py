from __future__ import annotations

import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors.offsets import Place
from supervisors.patterns import Haystack, compile_regex, escape, measure_width
from tests.timing import assert_linear


@pytest.mark.parametrize(
    ("source", "width"),
    [
        ("abc", 3),
        ("a|bcd|ef", 3),
        ("(ab){2,5}", 10),
        ("(?:ab|c){3}x?", 7),
        ("[^]a-z]{4}", 4),
        ("[[:alpha:]]{2}\\d\\.", 4),
        ("^\\bab\\b$", 2),
        ("(?i)ab(?-i:c)", 3),
        ("(?P<word>ab)c{2}", 4),
        ("a{2,3}?b??", 4),
        ("\\pL{3}", 4),  # a bound, not the exact width
        ("\\x{1F600}\\Qa.b\\E", 4),
        ("x{,3}", 5),  # RE2 reads this brace as a character
        ("a*", None),
        ("(ab+|c)", None),
        ("a{3,}", None),
    ],
)
def test_the_longest_match_is_bounded(source: str, width: int | None) -> None:
    assert measure_width(source) == width


@given(
    st.recursive(
        st.sampled_from(["a", "b", "[ab]", ".", "\\d"]),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(?:" + "|".join(parts) + ")"),
            st.tuples(inner, st.integers(0, 2), st.integers(2, 4)).map(lambda t: f"(?:{t[0]}){{{t[1]},{t[2]}}}"),
        ),
        max_leaves=6,
    ),
    st.text("ab1", max_size=60),
)
def test_no_match_is_longer_than_the_bound(source: str, text: str) -> None:
    width = measure_width(source)
    assert width is not None
    assert all(len(match.group()) <= width for match in re.finditer(source, text))


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("(", "not RE2 syntax"),
        ("(?=a)b", "look-around"),
        (r"(a)\1", "back-references"),
        ("a*", "matches the empty text"),
        ("(?:[^a]{500}){2}", "instructions"),
        ("\ud800", "not RE2 syntax"),
    ],
)
def test_a_bad_expression_is_refused_with_the_reason(source: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        compile_regex(source)


@given(st.text("aé𝄞b ", max_size=30))
def test_matches_have_character_offsets(text: str) -> None:
    found = compile_regex("a.|b").find(Haystack(text))
    assert [(place.start, place.end) for place in found] == [match.span() for match in re.finditer("a.|b", text)]


def test_lone_surrogates_do_not_shift_offsets() -> None:
    assert compile_regex("a").find(Haystack("\ud800é a")) == (Place(3, 4),)


def test_what_surrounds_a_group_is_shared_by_neighbours() -> None:
    found = compile_regex("(?:^|,)([0-9])(?:,|$)").find(Haystack("1,2,3"), group=1)
    assert [place.start for place in found] == [0, 2, 4]


def test_case_is_ignored_on_request() -> None:
    assert not compile_regex("abc").search(Haystack("ABC"))
    assert compile_regex("abc", ignore_case=True).search(Haystack("ABC"))


def test_a_literal_is_escaped() -> None:
    assert compile_regex(escape("a.b (é)")).find(Haystack("a.b (é) axb")) == (Place(0, 7),)


@pytest.mark.parametrize(
    "source", ["(a+)+b", "(a|aa)+$b", "(?:a?){100}a{100}b", "(.*,){11}P", "^(([a-z])+.)+[A-Z]([a-z])+$"]
)
def test_a_pathological_expression_is_linear(source: str) -> None:
    regex = compile_regex(source)
    assert_linear(lambda size: regex.search(Haystack("a" * size + "!")), 500_000)


def test_the_engine_lets_other_threads_run() -> None:
    haystack = Haystack("abcdefghij" * 200_000)
    regex = compile_regex("(?:[a-e][a-j]{0,60}){4}zz")

    def turns_meanwhile() -> int:
        done = threading.Event()

        def search() -> None:
            regex.search(haystack)
            done.set()

        worker = threading.Thread(target=search)
        worker.start()
        turns = 0
        while not done.is_set():
            turns += 1
        worker.join()
        return turns

    assert any(turns_meanwhile() > 100 for _ in range(20))  # a busy machine may give this thread no turn at all
