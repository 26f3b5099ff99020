"""Further texts to judge beside a text, because n-grams do not see through encodings.

Decoded runs are judged when they are long enough to be a request; the three whole-text transforms only when the
result reads like English, so that plain text is not judged three times more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from supervisors.variants import DECODINGS, Layer, Usage, Variant, find_variants

VariantName = Literal["tags", "base64", "hex", "url", "html", "escape", "rot13", "reverse", "leet"]
VARIANTS: frozenset[VariantName] = frozenset(
    {"tags", "base64", "hex", "url", "html", "escape", "rot13", "reverse", "leet"}
)
MIN_CHARS = 24
MIN_FUNCTION_WORDS = 3
FUNCTION_WORDS = frozenset(
    {
        *("the", "of", "and", "to", "in", "is", "that", "it", "for", "as"),
        *("with", "was", "on", "be", "by", "this", "have", "from", "or", "an"),
        *("are", "not", "but", "you", "all", "can", "how", "what", "who", "do"),
        *("your", "my", "me", "his", "they", "at", "if", "which", "when", "will"),
    }
)
"""Forty common English function words."""

_WORD = re.compile(r"[a-z]+")
_LEET = re.compile(r"[^\W\d_][013457@$!]|[013457@$!][^\W\d_]")


@dataclass(frozen=True, slots=True)
class Reading:
    """One further text with the chain of transforms that led to it."""

    transform: str
    text: str


@dataclass(frozen=True, slots=True)
class Readings:
    """All further texts of one text.

    Args:
        found: the texts.
        over_limit: a bound of the decoder cut them short.
        usage: what the request has used of the bounds so far.
    """

    found: tuple[Reading, ...]
    over_limit: bool
    usage: Usage


def read_hidden(text: str, which: frozenset[VariantName], usage: Usage) -> Readings:
    """Return what else a text says when it is decoded.

    Args:
        text: as sent.
        which: transforms to try.
        usage: what other texts of the request have used of the decoder's bounds.
    """
    decodings: list[Variant] = [kind for kind in DECODINGS if kind in which]
    variants = find_variants(text, decodings, usage)
    found = [
        Reading(">".join(layer.chain), layer.text) for layer in variants.layers[1:] if len(layer.text) >= MIN_CHARS
    ]
    if len(text) >= MIN_CHARS:
        found += _read_transformed(variants.raw, which)
    return Readings(tuple(found), bool(variants.over_limit), variants.usage)


def _read_transformed(layer: Layer, which: frozenset[VariantName]) -> list[Reading]:
    readings: list[Reading] = []
    if "rot13" in which:
        readings.append(Reading("rot13", layer.rot13))
    if "reverse" in which:
        readings.append(Reading("reverse", layer.reverse))
    if "leet" in which and _LEET.search(layer.norm):
        readings.append(Reading("leet", layer.unleeted))
    return [reading for reading in readings if reads_like_english(reading.text)]


def reads_like_english(text: str) -> bool:
    """Say whether a lower-case text has at least three of the function words."""
    return len(FUNCTION_WORDS.intersection(_WORD.findall(text))) >= MIN_FUNCTION_WORDS
