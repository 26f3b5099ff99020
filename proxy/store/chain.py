"""The hash chain: canonical JSON, how a record is sealed into it, and the genesis value of a boot (O-15)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

from proxy.record import Record
from proxy.rows import to_row
from supervisors.light import light_dataclass

_DEPTH = 64


@light_dataclass(frozen=True, slots=True)
class Link:
    """A place in the chain of one boot: the last record written, or the genesis value with seq 0."""

    seq: int
    hash: str


@light_dataclass(frozen=True, slots=True)
class Sealed:
    """A record as it goes to disk.

    Args:
        link: its place in the chain.
        body: its values, with `boot`, `replica`, `seq` and `prev`.
        text: canonical JSON of `body`: what the hash covers.
        content: canonical JSON of the content and its salt, kept apart so that it can be erased; None without.
    """

    link: Link
    body: Mapping[str, Any]
    text: bytes
    content: bytes | None


def canonical(value: object) -> bytes:
    """Return JSON with sorted keys, no spaces and UTF-8 text; what JSON cannot say is replaced, never refused.

    A record must not be lost because an upstream reported a lone surrogate or a 300-digit number.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return orjson.dumps(_sayable(value, 0), option=orjson.OPT_SORT_KEYS)


def storable(text: str) -> str:
    """Return the text with lone surrogates replaced, which neither JSON nor a database takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _sayable(value: object, depth: int) -> object:
    match value:
        case None | bool():
            return value
        case float():  # of a plugin's own class, perhaps, which JSON does not know
            return float(value)
        case int():
            return value if -(2**63) <= value < 2**63 else str(value)
        case str():
            return storable(value)
        case _ if depth >= _DEPTH:
            return "(nested too deeply)"
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return {str(_sayable(str(key), depth)): _sayable(inner, depth + 1) for key, inner in items}
        case list() | tuple() | set() | frozenset():
            return [_sayable(inner, depth + 1) for inner in cast("Iterable[object]", value)]
        case _:
            return f"({type(value).__name__})"


def link_hash(prev: str, text: bytes) -> str:
    """Return the SHA-256, in hex, over the previous hash and a record's canonical JSON."""
    return hashlib.sha256(prev.encode() + text).hexdigest()


def digest(stored: bytes) -> str:
    """Return the SHA-256, in hex, of what is stored beside the chain: a content with its salt, a config, a genesis."""
    return hashlib.sha256(stored).hexdigest()


@dataclass(frozen=True, slots=True)
class Origin:
    """Who writes a chain: id of the process start, and the configured name of this instance."""

    boot: str
    replica: str


def seal(record: Record, origin: Origin, last: Link, config: str | None, salt: str) -> Sealed:
    """Put a record behind the last one of its boot.

    The body holds only the digest of the content: an expired content can then be erased without breaking the chain.

    Args:
        record: what to write.
        origin: who writes it.
        last: what was written before.
        config: SHA-256 of the archived config text, so that the archive is under the chain; None if there is none.
        salt: random hex, so that the digest of a short prompt cannot be guessed; of no use without content.
    """
    body = to_row(record)
    body["boot"], body["replica"], body["config"] = origin.boot, origin.replica, config
    body["seq"], body["prev"] = last.seq + 1, last.hash
    content: bytes | None = None
    if record.content is not None:
        content = canonical({"salt": salt, "content": record.content})
        body["content"] = {"mode": record.content.get("mode"), "digest": digest(content)}
    text = canonical(body)
    return Sealed(Link(last.seq + 1, link_hash(last.hash, text)), body, text, content)


def genesis(origin: Origin, started: str, nonce: str, previous: Mapping[str, Any] | None) -> bytes:
    """Return the canonical JSON of the line a chain starts from; its SHA-256 is the genesis value.

    Args:
        origin: whose chain it is.
        started: RFC 3339 time.
        nonce: random hex.
        previous: head of the boot before (`boot`, `seq`, `hash`), which nails down where that one ended.
    """
    line = {"schema": 1, "boot": origin.boot, "replica": origin.replica, "time": started, "nonce": nonce}
    return canonical({**line, "previous": previous})
