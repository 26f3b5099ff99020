"""Note in which language a text is that a guard judges, where the guard was made for some only (embedded LX-04)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, Literal

from supervisors.spoken import guess_language, known_languages
from supervisors.types import Cause, Exchange, Verdict, unknown

OnLanguage = Literal["judge", "abstain"]

_CHARS: Final = 2_000
"""What is looked at of a long text: enough to tell, and the same work for all."""
_LETTERS: Final = 20
_CLEAR: Final = 0.5


def find_language(exchange: Exchange) -> str | None:
    """Return the language that what is judged is clearly in; None for short, mixed or odd text."""
    texts: list[str] = []
    left = _CHARS
    for segment in exchange.judged:
        if left > 0 and segment.kind in ("text", "tool_result") and segment.scope == "conversation":
            texts.append(segment.text[:left])
            left -= len(segment.text)
    guess = guess_language("\n".join(texts))
    return guess.language if guess.score >= _CLEAR and guess.letters >= _LETTERS else None


async def mind_language(
    mode: OnLanguage, languages: Sequence[str], exchange: Exchange, judge: Callable[[], Awaitable[Verdict]]
) -> Verdict:
    """Judge, and say when the text is clearly in a language that the guard was not made for.

    Args:
        mode: ``abstain`` does not judge such a text.
        languages: two-letter codes of those it was made for; anything else says nothing about any text.
        exchange: what is judged.
        judge: judges it.

    Returns:
        The verdict with the language in its `extras`, and with detail ``language`` if it is a foreign one.
    """
    if not languages or not set(languages) <= set(known_languages()):
        return await judge()
    language = find_language(exchange)
    if language is None:
        return await judge()
    foreign = language not in languages
    if foreign and mode == "abstain":
        return replace(unknown(Cause.ABSTAINED, detail="language"), extras={"language": language})
    verdict = await judge()
    detail = verdict.detail or ("language" if foreign else None)
    return replace(verdict, detail=detail, extras={**verdict.extras, "language": language})
