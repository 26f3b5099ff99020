"""Scores of guards (GP-09 to GP-14)."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from supervisors.parsers.reading import Pair
from supervisors.scores import Part, combine_parts, score_codes, score_pair
from supervisors.types import Cause, Label, Span, TokenAlternatives, Tokens, Verdict, safe, unknown, unsafe

WORDS = Pair("unsafe", "safe", exact=False)
ANSWER = Pair("yes", "no", exact=True)
TAG = Pair("yes", "no", exact=True, after="<score>")


def at(token: str, *alternatives: tuple[str, float]) -> TokenAlternatives:
    return TokenAlternatives(token, alternatives)


def value(positions: list[TokenAlternatives] | None, pair: Pair = WORDS) -> float | None:
    found = score_pair(positions, pair)
    return None if found is None else round(found.value, 4)


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        (None, None),  # GP-10
        ([], None),
        ([at("\n\n"), at("unsafe", ("unsafe", -0.2), ("safe", -1.8))], 0.832),
        ([at("uns", ("uns", -0.7), ("safe", -1.1))], 0.5987),
        ([at("u", ("u", -0.7), ("s", -0.7))], 0.5),
        ([at(" Safe", (" Safe", -0.1), (" UN", -3.0))], 0.0522),
        ([at("x", ("x", -0.1), ("y", -0.2))], None),
        ([at("safe", ("safe", 0.0))], None),
        ([at("safe", ("safe", math.nan), ("unsafe", -1.0))], 1.0),
        ([at("safe", ("safe", -0.1), ("", -0.2), ("unsafely", -0.3))], 0.0),
        ([at(" ", ("unsafe", 0.0)), at("safe", ("safe", -0.1), ("unsafe", -0.1))], 0.5),
    ],
)
def test_the_pair_score_is_taken_at_the_first_word(positions: list[TokenAlternatives], expected: float | None) -> None:
    assert value(positions) == expected


def test_a_missing_word_is_one_sided_and_never_a_plain_zero() -> None:
    found = score_pair([at("safe", ("safe", -0.1), ("other", -3.0))], WORDS)
    assert found is not None
    assert (found.value, found.one_sided) == (0.0, True)


def test_spellings_of_one_word_are_summed_and_exact_words_have_no_pieces() -> None:
    assert value([at("Yes", ("Yes", -0.5), (" yes", -2.0), ("No", -1.6))], ANSWER) == 0.7861
    assert value([at("Y", ("Y", -0.5), ("N", -1.6))], ANSWER) is None


def test_only_twenty_alternatives_count() -> None:
    many = [(f"w{i}", -5.0) for i in range(19)]
    assert value([at("safe", ("safe", -0.1), *many, ("unsafe", -0.1))]) == 0.0


def test_a_tagged_answer_is_scored_behind_its_last_tag() -> None:
    tag = [at("<think>"), at("yes", ("yes", 0.0), ("no", -9.0)), at("</think>"), at("<sc"), at("ore>"), at(" ")]
    assert value([*tag, at("no", ("no", -0.105), ("yes", -2.303))], TAG) == 0.0999
    assert value([at("no", ("no", -0.1), ("yes", -2.3))], TAG) is None


def test_the_code_score_is_one_minus_the_share_of_the_safe_code() -> None:
    # Published example of YuFeng-XGuard: dw 0.681, sec 0.1722, ter 0.0036.
    position = at("dw", ("dw", math.log(0.681)), ("sec", math.log(0.1722)), ("ter", math.log(0.0036)), ("!", -1.0))
    found = score_codes([position], "sec", ["dw", "ter"])
    assert found is not None
    assert round(found.value, 4) == 0.799
    assert score_codes([at("!", ("!", 0.0))], "sec", ["dw"]) is None
    assert score_codes(None, "sec", ["dw"]) is None


def label(*verdicts: Verdict) -> tuple[Label, Cause | None]:
    found = combine_parts([Part(verdict) for verdict in verdicts], len(verdicts))
    return found.label, found.cause


def test_calls_combine_by_any() -> None:
    # GP-14, golden rows 39, 40 and 91
    no, yes, late = safe(score=0.1), unsafe("hate", score=0.7), unknown(Cause.TIMEOUT)
    assert label(no, no, late, no) == (Label.UNKNOWN, Cause.TIMEOUT)
    assert label(no, yes, late, no) == (Label.UNSAFE, None)
    assert label(no, safe(score=0.2)) == (Label.SAFE, None)
    assert label(late, unknown(Cause.ERROR)) == (Label.UNKNOWN, Cause.ERROR)


def test_the_deciding_part_is_named_and_numbers_are_joined() -> None:
    def counted(verdict: Verdict, tokens: int) -> Verdict:
        return Verdict(
            verdict.label, verdict.cause, verdict.score, verdict.categories, tokens=Tokens(tokens, 1), cost=0.5
        )

    parts = [
        Part(counted(safe(score=0.1), 5), 0, "hate"),
        Part(counted(unsafe("hate", score=0.7), 6), 1, "hate"),
        Part(counted(unsafe("sexual", "hate", score=0.6), 7), 2, "sexual"),
    ]
    found = combine_parts(parts, 3)
    assert (found.label, found.score, found.categories) == (Label.UNSAFE, 0.7, ("hate", "sexual"))
    assert (found.tokens, found.cost) == (Tokens(18, 3), 1.5)
    assert found.extras == {"chunk": 1, "criterion": "hate"}


def test_fewer_results_than_calls_are_unknown() -> None:
    assert combine_parts([Part(safe())], 2).label is Label.UNKNOWN
    assert combine_parts([], 0).label is Label.UNKNOWN


def test_an_unknown_verdict_carries_no_score_of_the_others() -> None:
    assert combine_parts([Part(safe(score=0.2)), Part(unknown(Cause.TIMEOUT))], 2).score is None


def test_places_are_joined_only_if_every_finding_has_some_and_what_is_unknown_beside_them_is_told() -> None:
    one, two = [unsafe("canary", spans=(Span("/x", at, at + 1, "canary"),)) for at in (0, 4)]
    both = combine_parts([Part(one), Part(two)], 2)
    assert (len(both.spans), both.rest) == (2, None)
    assert combine_parts([Part(one), Part(unsafe("elsewhere"))], 2).spans == ()
    beside = combine_parts([Part(one), Part(unknown(Cause.TIMEOUT)), Part(safe())], 3)
    assert (len(beside.spans), beside.rest) == (1, Cause.TIMEOUT)


def test_the_gravest_scope_decides_over_a_higher_score() -> None:  # a finding in tool definitions is only logged
    tool = replace(unsafe("canary", score=0.9), scope="tool_def")
    said = replace(unsafe("elsewhere", score=0.6), scope="conversation")
    both = combine_parts([Part(tool), Part(said)], 2)
    assert (both.scope, both.score, both.categories) == ("conversation", 0.9, ("canary", "elsewhere"))
    beside = combine_parts([Part(tool), Part(unknown(Cause.TIMEOUT))], 2)
    assert (beside.scope, beside.rest) == ("tool_def", Cause.TIMEOUT)
