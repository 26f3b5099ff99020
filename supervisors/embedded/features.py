"""Turn a text into the hashed n-gram counts of the embedded guard. Pure, standard library only.

Source: the feature definition is fixed by the header fields ``normaliser`` and ``hash`` of a weights file;
a change here needs a new value there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from typing import Final
from zlib import crc32

NORMALISER: Final = "nfkc-casefold-ws/1"
HASH: Final = "crc32/1"
WINDOW_CHARS = 2_000
WINDOW_STEP = 1_500
MAX_WINDOWS: Final = 1_024
"""1.5 million characters; a window costs one or two milliseconds of CPU."""

_WORD = re.compile(r"\w\w+")
_SIZES = (3, 4, 5)
_CACHED_CHUNKS = 4_096
_CACHED_CHUNK_CHARS = 24
"""Longer chunks (base64 runs, links) are rare and would make the cache's memory depend on the caller."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Occurrences a bucket of one window: words with their pairs, and character n-grams."""

    words: dict[int, int]
    chars: dict[int, int]


def norm_text(text: str) -> str:
    """Return the form in which texts are compared and judged: NFKC, casefold, single spaces, no edges."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def count_windows(length: int) -> int:
    """Return how many windows a normalised text of `length` characters needs."""
    return 1 if length <= WINDOW_CHARS else 1 + -(-(length - WINDOW_CHARS) // WINDOW_STEP)


def cut_windows(normalised: str) -> Iterator[str]:
    """Yield overlapping windows that together cover the whole text."""
    for index in range(count_windows(len(normalised))):
        start = index * WINDOW_STEP
        yield normalised[start : start + WINDOW_CHARS]


def count_features(window: str, bits: int) -> Counts:
    """Count the features of one normalised window.

    Args:
        window: normalised text.
        bits: low bits of the CRC-32 that name a bucket, 1 to 20.
    """
    mask = (1 << bits) - 1
    words = _WORD.findall(window)
    return Counts(
        _count(chain(map(_hash_word, words), map(_hash_pair, pairwise(words))), mask),
        _count(chain.from_iterable(map(_hash_chunk, window.split(" "))) if window else (), mask),
    )


def _count(hashes: Iterator[int] | tuple[int, ...], mask: int) -> dict[int, int]:
    counts: dict[int, int] = {}
    get = counts.get
    for value in hashes:
        bucket = value & mask
        counts[bucket] = get(bucket, 0) + 1
    return counts


def _hash_word(word: str) -> int:
    return crc32(word.encode("utf-8", "surrogatepass"))


def _hash_pair(pair: tuple[str, str]) -> int:
    return crc32(f"{pair[0]} {pair[1]}".encode("utf-8", "surrogatepass"))


def _hash_chunk(chunk: str) -> tuple[int, ...]:
    return _hash_short_chunk(chunk) if len(chunk) <= _CACHED_CHUNK_CHARS else _hash_grams(chunk)


@lru_cache(maxsize=_CACHED_CHUNKS)
def _hash_short_chunk(chunk: str) -> tuple[int, ...]:
    return _hash_grams(chunk)


def _hash_grams(chunk: str) -> tuple[int, ...]:
    padded = f" {chunk} "
    length = len(padded)
    hashes: list[int] = []
    for size in _SIZES:
        if length <= size:
            hashes.append(crc32(padded.encode("utf-8", "surrogatepass")))
            break
        hashes.extend(
            [crc32(padded[start : start + size].encode("utf-8", "surrogatepass")) for start in range(length - size + 1)]
        )
    return tuple(hashes)
