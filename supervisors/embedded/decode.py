"""Decoded forms of a text that are judged beside it, because n-grams do not see through encodings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

VariantName = Literal["rot13", "reverse", "leet"]
VARIANTS: frozenset[VariantName] = frozenset({"rot13", "reverse", "leet"})
MIN_CHARS = 24
MIN_FUNCTION_WORDS = 3


@dataclass(frozen=True, slots=True)
class Decoded:
    """One decoded form with the name of its transform."""

    transform: str
    text: str


def decoded_texts(text: str, variants: frozenset[VariantName] = VARIANTS) -> Iterator[Decoded]:
    """Yield the decoded forms of a text."""
    return iter(())
