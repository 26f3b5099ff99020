"""What a parser takes and gives, and the few notions all parsers share (guards §5)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from supervisors.errors import ReplyError
from supervisors.taxonomy import Taxonomy

Side = Literal["prompt", "response"]
Word = Literal["safe", "unsafe", "controversial"]
Polarity = Literal["yes_is_unsafe", "yes_is_safe"]

_EDGE = " \t*`.,;:!|/\"'"
_SPLIT = re.compile(r"[\s*`.,;:!|/\"']+")

NOT_ASSESSED = ("n/a", "none", "")
"""Values that mean "I did not judge this", not "I found nothing" (GP-05)."""


class Unreadable(ReplyError):
    """A reply that holds no usable verdict.

    Args:
        detail: code word of guards §1, empty when there is nothing more to say.
    """

    def __init__(self, detail: str = "") -> None:
        super().__init__("the guard's reply breaks the format of its card", detail=detail)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the guard was asked, as far as its reply cannot be read without it."""

    side: Side
    taxonomy: Taxonomy
    polarity: Polarity = "yes_is_unsafe"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says, before any option of the card is applied.

    Args:
        word: the verdict on the judged side.
        clean: false when unexpected text stood around it; a safe verdict must be clean (GP-02).
        categories: codes or names verbatim.
        score: risk in 0..1 if the reply states one.
        refusal: whether the judged response declines, None when not assessed.
        confidence: the guard's own word, casefolded.
        severity: the verdict verbatim where it has more than two grades.
        prompt: verdict on the prompt if the reply has one.
        response: verdict on the response if the reply has one.
        critique: explanation that followed the verdict.
    """

    word: Word
    clean: bool = True
    categories: tuple[str, ...] = ()
    score: float | None = None
    refusal: bool | None = None
    confidence: str | None = None
    severity: str | None = None
    prompt: Word | None = None
    response: Word | None = None
    critique: str | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """The two answer words whose probabilities make a score (GP-09).

    Args:
        first: word that means unsafe, or yes.
        second: word that means safe, or no.
        exact: true when tokens must equal the word; false lets a leading piece of it count.
        after: text in the reply after which the word is generated; empty for the start.
    """

    first: str
    second: str
    exact: bool
    after: str = ""


class Parser(Protocol):
    """Reads one format. Its fields are the card's `parser_args`."""

    pair: ClassVar[Pair | None]
    short: ClassVar[bool]
    """True when a reply of one to four tokens is complete although the server says ``length`` (GP-04)."""
    keeps_marks: ClassVar[bool]
    """True when special-token marks are part of the answer."""

    def read(self, text: str, asked: Asked) -> Reading:
        """Read a normalised reply.

        Raises:
            Unreadable: it holds no usable verdict.
        """
        ...


def judge_sides(stated: Mapping[Side, str | None], words: Mapping[str, Word], side: Side) -> Mapping[Side, Word | None]:
    """Turn what a reply states about both sides into verdicts (GP-05).

    Args:
        stated: value a side, None where the reply has none.
        words: casefolded values and what they mean.
        side: the judged side. The other one is a fact beside the verdict and never stands in for it (GU-03).

    Raises:
        Unreadable: the judged side was not assessed, or in no known word.
    """
    values: dict[Side, str] = {key: (value or "").strip().casefold() for key, value in stated.items()}
    if values[side] in NOT_ASSESSED:
        raise Unreadable("missing_field")
    if values[side] not in words:
        raise Unreadable("unknown_label")
    found: dict[Side, Word | None] = {key: words.get(value) for key, value in values.items()}
    return found


def spell(unsafe: Collection[str], safe: Collection[str], controversial: Collection[str] = ()) -> Mapping[str, Word]:
    """Return the table of casefolded words for `judge_sides`."""
    table: list[tuple[Word, Collection[str]]] = [
        ("safe", safe),
        ("controversial", controversial),
        ("unsafe", unsafe),
    ]
    return {word.casefold(): meaning for meaning, words in table for word in words}


def split_list(value: str) -> tuple[str, ...]:
    """Split a comma-separated list of codes or names; ``None`` stands for an empty one."""
    parts = [part.strip(_EDGE) for part in value.split(",")]
    return tuple([part for part in parts if part.casefold() not in NOT_ASSESSED])


def count_verdict_words(line: str, words: Collection[str]) -> int:
    """Count the verdict words of a line that holds nothing else; 0 for any other line.

    GP-03: such a line is a statement of the verdict wherever it stands.

    Args:
        line: one line of a reply.
        words: casefolded verdict words.
    """
    if len(line) > 200:
        return 0
    found = [part for part in _SPLIT.split(line.casefold()) if part]
    return len(found) if all(part in words for part in found) else 0
