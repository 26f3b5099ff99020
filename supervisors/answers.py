"""From a guard's reply to a verdict: the card's options, truncation, score and categories (guards §5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from supervisors.card import Card, Caution, Criterion, Grade
from supervisors.parsers.normalise import is_refusal, normalise
from supervisors.parsers.reading import Asked, Parser, Reading, Side, Unreadable
from supervisors.scores import PairScore, score_codes, score_pair
from supervisors.types import Cause, ChatReply, Label, Verdict, unknown

_REPLY_CHARS = 4000
_MAX_CATEGORIES = 64
_BROKEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a defect of a parser raises: the reply is then unreadable, never safe (GP-08)."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The options of a supervisor that change how a reply is read.

    Args:
        controversial: what the middle grade means.
        caution: what "needs caution" alone means.
        threshold: risk from which a score means unsafe.
        decide_by_score: the score decides instead of the words.
    """

    controversial: Grade
    caution: Caution
    threshold: float
    decide_by_score: bool


def read_reply(
    card: Card, reply: ChatReply, side: Side, choices: Choices, criterion: Criterion | None = None
) -> Verdict:
    """Map one reply to a verdict; whatever breaks the card's contract is ``unknown``.

    Args:
        card: whose format it is.
        reply: as received.
        side: the judged side.
        choices: options of the supervisor.
        criterion: the question asked, for guards that are asked one.
    """
    verdict = _read(card, reply, side, choices, criterion)
    if verdict.label is Label.SAFE and (reply.finish_reason or "").casefold() not in _ENDS:
        verdict = unknown(Cause.UNPARSABLE, detail="finish_reason")
    extras: dict[str, Any] = {"judged": side, **verdict.extras}
    if reply.text is not None:
        extras["reply"] = reply.text[:_REPLY_CHARS]
    return replace(verdict, extras=extras, tokens=reply.tokens, cost=reply.cost)


_ENDS: Final = frozenset({"", "stop", "length", "eos", "eos_token", "end_turn", "stop_sequence"})
"""Reasons to stop that a safe reply may have; a call of a tool, or an error, says that this was not all of it."""


def _read(card: Card, reply: ChatReply, side: Side, choices: Choices, criterion: Criterion | None) -> Verdict:
    if reply.finish_reason == "content_filter" or reply.refusal:
        return unknown(Cause.REFUSED)
    text = reply.text
    if not isinstance(text, str) or not text.strip():
        return unknown(Cause.UNPARSABLE)
    parser = card.build_parser()
    polarity = criterion.polarity if criterion else "yes_is_unsafe"
    asked = Asked(side, card.find_taxonomy(), polarity)
    try:
        reading = parser.read(normalise(text, keep_marks=parser.keeps_marks), asked)
        reading = replace(reading, categories=tuple(dict.fromkeys(reading.categories))[:_MAX_CATEGORIES])
        if reading.word == "safe" and parser.short and is_refusal(text):
            return unknown(Cause.REFUSED)  # "No. I can't judge that."
    except Unreadable as error:
        if is_refusal(text):
            return unknown(Cause.REFUSED)
        cut = reply.finish_reason == "length"
        return unknown(Cause.UNPARSABLE, detail="truncated" if cut else error.detail or None)
    except _BROKEN:
        return unknown(Cause.UNPARSABLE, detail="parser_error")
    cut = reply.finish_reason == "length" and not (parser.short and card.max_tokens <= 4)
    return _judge(card, reading, _find_score(card, parser, reply, asked), choices, cut=cut, asked=asked)


def _find_score(card: Card, parser: Parser, reply: ChatReply, asked: Asked) -> PairScore | None:
    """Compute the risk from log-probabilities, if the card asks for it and the server gave them."""
    if card.score == "pair" and parser.pair is not None:
        found = score_pair(reply.logprobs, parser.pair)
        flip = asked.polarity == "yes_is_safe" and parser.pair.first == "yes"
        return replace(found, value=1.0 - found.value) if found and flip else found
    if card.score == "codes":
        return score_codes(reply.logprobs, str(card.parser_args["safe"]), asked.taxonomy.rows)
    return None


def _judge(
    card: Card, reading: Reading, score: PairScore | None, choices: Choices, *, cut: bool, asked: Asked
) -> Verdict:
    found = asked.taxonomy.to_canonical(reading.categories)
    word = reading.word
    if word == "unsafe" and found == ("caution",) and reading.clean and not cut:
        word = choices.caution
    grade: Grade = choices.controversial if word == "controversial" else word
    risk, kind = _rate(card, word, reading, score)
    if choices.decide_by_score and kind != "label" and grade != "unknown":
        reached = risk >= choices.threshold if card.threshold_op == "ge" else risk > choices.threshold
        grade = "unsafe" if reached else "safe"
    one_sided = score.one_sided if score else choices.decide_by_score and kind == "label"
    detail = "truncated" if cut else "one_sided" if one_sided else None
    if not cut and not reading.clean:
        detail = "trailing_text"
    extras = _facts(reading, kind)
    if grade == "unknown":
        return Verdict(Label.UNKNOWN, Cause.ABSTAINED, risk, found, detail=detail, extras=extras)
    if grade == "unsafe":
        return Verdict(Label.UNSAFE, None, risk, found, detail=detail, extras=extras)
    if cut or not reading.clean:
        return Verdict(Label.UNKNOWN, Cause.UNPARSABLE, detail=detail, extras=extras)
    return Verdict(Label.SAFE, None, risk, detail=detail, extras=extras)


def _rate(card: Card, word: str, reading: Reading, score: PairScore | None) -> tuple[float, str]:
    """Return the risk and where it comes from: log-probabilities, a stated number, or the words."""
    if score is not None:
        return score.value, "probability"
    if reading.score is not None:
        return reading.score, "severity" if card.parser == "result_block" else "probability"
    return {"safe": 0.0, "controversial": 0.5}.get(word, 1.0), "label"


def _facts(reading: Reading, kind: str) -> Mapping[str, Any]:
    facts: dict[str, Any] = {
        "score_kind": kind,
        "raw_categories": list(reading.categories) or None,
        "severity": reading.severity,
        "confidence": reading.confidence,
        "refusal": reading.refusal,
        "prompt_label": reading.prompt,
        "response_label": reading.response,
        "critique": reading.critique,
    }
    return {key: value for key, value in facts.items() if value is not None}
