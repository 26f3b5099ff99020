from __future__ import annotations

import pytest

from evals.statistics.jsonable import Json
from evals.usage import short, token_counts, total_of, usage_behind

NAN, INFINITE = float("nan"), float("inf")


def test_only_documented_counts_of_a_usage_are_kept() -> None:  # H-126
    kept = token_counts(
        {
            "prompt_tokens": 3,
            "completion_tokens": 2.0,
            "time": NAN,
            "note": "x" * 1000,
            "prompt_tokens_details": {"cached_tokens": 1, "more": 4},
            "completion_tokens_details": {"more": 4},
        }
    )
    assert kept == {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}


@pytest.mark.parametrize("value", [NAN, INFINITE, -1, 10**400, True, "3", None, [1]])
def test_what_is_no_count_is_not_kept(value: Json) -> None:  # H-126: a negative count would give a budget back
    assert token_counts({"prompt_tokens": value}) == {}


@pytest.mark.parametrize("value", [None, 3, "usage", [1]])
def test_without_an_object_there_is_no_usage(value: Json) -> None:
    assert token_counts(value) is None


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 2}, 5),
        ({"prompt_tokens": 3, "total_tokens": 9}, 9),
        ({"prompt_tokens": 3}, None),
        ({}, None),
    ],
)
def test_tokens_are_untold_unless_both_sides_are(usage: dict[str, Json], total: int | None) -> None:  # H-133
    assert total_of(usage) == total


def test_an_answer_nobody_saw_has_the_counts_of_its_record() -> None:  # H-133
    assert usage_behind({"usage": {"prompt_tokens": 3}, "upstream_call": {"called": True}}) == {"prompt_tokens": 3}
    assert usage_behind({"usage": None, "upstream_call": {"called": True}}) == {}
    assert usage_behind({"usage": None, "upstream_call": {"called": False}}) is None


def test_words_of_a_reply_are_cut_and_anything_else_is_none() -> None:  # H-126
    assert short("x" * 10_000) == "x" * 200
    assert short({"x": 1}) is None
