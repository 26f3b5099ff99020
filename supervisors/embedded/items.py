"""The contamination list: 8-byte prefixes of the SHA-256 of every training text, sorted, searched by bisection."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from supervisors.embedded.features import norm_text
from supervisors.errors import ConfigError

PREFIX_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Prefixes:
    """The file's content as a sequence for `bisect`."""

    data: bytes

    def __len__(self) -> int:
        return len(self.data) // PREFIX_BYTES

    def __getitem__(self, index: int) -> bytes:
        return self.data[index * PREFIX_BYTES : (index + 1) * PREFIX_BYTES]


def hash_prefix(text: str) -> bytes:
    """Return the prefix of one text."""
    return hashlib.sha256(norm_text(text).encode("utf-8", "surrogatepass")).digest()[:PREFIX_BYTES]


def encode_items(texts: Iterable[str]) -> bytes:
    """Return the file's bytes for these training texts."""
    return b"".join(sorted({hash_prefix(text) for text in texts}))


def read_items(path: Path) -> bytes:
    """Read and check a list.

    Raises:
        ConfigError: it is missing, cut off or unsorted.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        msg = f"contamination list {path.name} cannot be read: {error.strerror}"
        raise ConfigError(msg) from error
    return decode_items(data, path.name)


def decode_items(data: bytes, name: str) -> bytes:
    """Check the bytes of a list and return them.

    Raises:
        ConfigError: they are cut off or unsorted.
    """
    prefixes = _Prefixes(data)
    rising = all(prefixes[index] < prefixes[index + 1] for index in range(len(prefixes) - 1))
    if len(data) % PREFIX_BYTES or not rising:
        msg = f"contamination list {name} is damaged: {len(data)} bytes, sorted: {rising}"
        raise ConfigError(msg)
    return data


def contains_text(items: bytes, text: str) -> bool:
    """Say whether the text, normalised, is in the list (64-bit prefixes: a chance hit is 1 in 10^15)."""
    prefix, prefixes = hash_prefix(text), _Prefixes(items)
    index = bisect_left(prefixes, prefix)
    return index < len(prefixes) and prefixes[index] == prefix
