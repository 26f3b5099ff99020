"""Risk scores of guards: from log-probabilities, and over several calls (guards §5.3)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import cast

from supervisors.parsers.reading import Pair
from supervisors.scopes import rank
from supervisors.types import Cause, Label, TokenAlternatives, Tokens, Verdict, join_causes, unknown

_MAX_ALTERNATIVES = 20
_SPACE_MARKS = " \t\n\r▁Ġ"


@dataclass(frozen=True, slots=True)
class PairScore:
    """Probability of the first word of a pair against the second.

    Args:
        value: in 0..1.
        one_sided: only one of the two words was among the alternatives.
    """

    value: float
    one_sided: bool = False


def score_pair(logprobs: Sequence[TokenAlternatives] | None, pair: Pair) -> PairScore | None:
    """Return p(first) / (p(first) + p(second)) where the answer word is generated (GP-09, GP-10).

    Args:
        logprobs: generated positions in order, None or empty when the server gave none.
        pair: the two words.

    Returns:
        None when there is nothing to compute from; never 0 for want of data.
    """
    position = _find_position(logprobs or (), pair.after)
    if position is None:
        return None
    listed = position.alternatives[:_MAX_ALTERNATIVES]
    first = _probability(listed, pair.first, None if pair.exact else pair.second)
    second = _probability(listed, pair.second, None if pair.exact else pair.first)
    if first + second > 0.0 and first > 0.0 and second > 0.0:
        return PairScore(first / (first + second))
    if first + second > 0.0 and len(listed) >= 2:
        return PairScore(1.0 if first > 0.0 else 0.0, one_sided=True)
    return None


def score_codes(
    logprobs: Sequence[TokenAlternatives] | None, safe_code: str, codes: Collection[str]
) -> PairScore | None:
    """Return 1 − p(safe code) over the alternatives that are codes, renormalised.

    Args:
        logprobs: generated positions in order.
        safe_code: the code that means safe.
        codes: all other codes.
    """
    position = _find_position(logprobs or (), "")
    if position is None:
        return None
    known = {code.casefold() for code in codes} | {safe_code.casefold()}
    listed = [(_plain(token), value) for token, value in position.alternatives[:_MAX_ALTERNATIVES]]
    total = sum([_exp(value) for token, value in listed if token in known])
    if total <= 0.0:
        return None
    good = sum([_exp(value) for token, value in listed if token == safe_code.casefold()])
    return PairScore(1.0 - good / total)


def _plain(token: str) -> str:
    return token.strip(_SPACE_MARKS).casefold()


def _exp(logprob: float) -> float:
    """Return the probability; a log-probability that is not a number ≤ 0 counts as absent."""
    return math.exp(logprob) if -math.inf < logprob <= 1e-6 else 0.0


def _find_position(logprobs: Sequence[TokenAlternatives], after: str) -> TokenAlternatives | None:
    """Return the first position that is not white space, after the last `after` in the generated text."""
    start = 0
    if after:
        text = "".join([position.token for position in logprobs])
        at = text.lower().rfind(after)
        if at < 0:
            return None
        start = at + len(after)
    offset = 0
    for position in logprobs:
        if offset >= start and _plain(position.token):
            return position
        offset += len(position.token)
    return None


def _probability(listed: Sequence[tuple[str, float]], word: str, other: str | None) -> float:
    """Sum the alternatives that spell `word`; with `other`, leading pieces count that `other` does not share."""
    total = 0.0
    for token, logprob in listed:
        piece = _plain(token)
        total += _exp(logprob) if _spells(piece, word, other) else 0.0
    return total


def _spells(piece: str, word: str, other: str | None) -> bool:
    if other is None:
        return piece == word
    return bool(piece) and word.startswith(piece) and not other.startswith(piece)


@dataclass(frozen=True, slots=True)
class Part:
    """One call of a guard: which chunk, which criterion, and what came of it."""

    verdict: Verdict
    chunk: int | None = None
    criterion: str | None = None


def combine_parts(parts: Sequence[Part], expected: int) -> Verdict:
    """Combine fan-out and chunks by `any` (GP-14): unsafe wins, then unknown, then safe.

    Args:
        parts: results in call order.
        expected: number of calls made; fewer results are an unknown verdict.

    Returns:
        The deciding part's verdict with maximum score, all categories, and the sum of tokens and cost.
    """
    if len(parts) != expected or not parts:
        return unknown(Cause.ERROR, detail="missing_verdict")
    verdicts = [part.verdict for part in parts]
    if len(parts) == 1:
        return _stamp(parts[0])
    bad = [part for part in parts if part.verdict.label is Label.UNSAFE]
    vague = [part for part in parts if part.verdict.label is Label.UNKNOWN]
    group = bad or vague or parts
    deciding = min(group, key=_order)
    if not bad and vague:
        wanted = join_causes([cast("Cause", part.verdict.cause) for part in vague])  # unknown always has a cause
        deciding = next(part for part in vague if part.verdict.cause is wanted)
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    found = dict.fromkeys(name for part in bad for name in part.verdict.categories)
    placed = all(part.verdict.spans for part in bad)  # masking some would leave the others
    return replace(
        _stamp(deciding),
        spans=tuple(dict.fromkeys(span for part in bad for span in part.verdict.spans)) if placed else (),
        rest=join_causes([cast("Cause", part.verdict.cause) for part in vague]) if bad and vague else None,
        score=max(scores) if scores and (bad or not vague) else None,
        categories=tuple(found) if bad else deciding.verdict.categories,
        tokens=_sum_tokens(verdicts),
        cost=_sum_cost(verdicts),
    )


def _order(part: Part) -> tuple[int, float]:
    """Return what the deciding part has least of: it is in the gravest scope, and there has the highest score."""
    score = part.verdict.score
    return rank(part.verdict.scope), 1.0 if score is None else -score


def _stamp(part: Part) -> Verdict:
    named = {"chunk": part.chunk, "criterion": part.criterion}
    extras = {**part.verdict.extras, **{key: value for key, value in named.items() if value is not None}}
    return replace(part.verdict, extras=extras)


def _sum_tokens(verdicts: Sequence[Verdict]) -> Tokens | None:
    known = [verdict.tokens for verdict in verdicts if verdict.tokens is not None]
    return Tokens(sum([t.input for t in known]), sum([t.output for t in known])) if known else None


def _sum_cost(verdicts: Sequence[Verdict]) -> float | None:
    if any(verdict.tokens is not None and verdict.cost is None for verdict in verdicts):
        return None
    known = [verdict.cost for verdict in verdicts if verdict.cost is not None]
    return sum(known) if known else None
