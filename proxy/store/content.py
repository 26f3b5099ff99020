"""What of an exchange's text goes into its record: nothing, keyed digests, or the text after redaction (O-25).

Pure. Callers hand in segments *after* redaction; nothing here could redact.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from proxy.wire.names import OF_REPLIES, OF_REQUESTS
from proxy.wire.segments import unescape
from supervisors.types import Segment, Stage

ContentMode = Literal["off", "hashed", "full"]


_STEP: Final = re.compile(r"([/#])")
_NUMBER: Final = re.compile(r"[0-9]{1,9}~?")
_OURS: Final = frozenset({"", "key", "keys", "top", "events", "partial_images"})
"""Steps of paths that the proxy itself makes."""
_HIDDEN: Final = "hidden"
_SHOWN_DIGITS: Final = 16
_BLOCK: Final = 64
"""Bytes of a block of SHA-256."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The text of one direction of an exchange, and how much of it may be kept.

    Args:
        stage: ``input`` for the request, ``output`` for the reply.
        mode: content mode of this direction, the strictest over the matching policies.
        segments: after redaction.
    """

    stage: Stage
    mode: ContentMode
    segments: Sequence[Segment]


def text_hmac(secret: bytes, text: str) -> str:
    """Return the HMAC-SHA-256 of a text, in hex: equal texts can be found, but not guessed without the secret.

    Raises:
        ValueError: the secret is empty.
    """
    if not secret:
        msg = "the content secret is empty; set one of at least 32 characters, or content mode off"
        raise ValueError(msg)
    inner, outer = _keyed(secret)
    inner, outer = inner.copy(), outer.copy()
    inner.update(text.encode("utf-8", "surrogatepass"))
    outer.update(inner.digest())
    digest: str = outer.hexdigest()
    return digest


@lru_cache(maxsize=4)
def _keyed(secret: bytes) -> tuple[Any, Any]:
    """Return both hashes of RFC 2104 after the key: `hmac.HMAC` costs half as much again for each text."""
    block = (secret if len(secret) <= _BLOCK else hashlib.sha256(secret).digest()).ljust(_BLOCK, b"\0")
    inner, outer = bytes([byte ^ 0x36 for byte in block]), bytes([byte ^ 0x5C for byte in block])
    return hashlib.sha256(inner), hashlib.sha256(outer)


def hide_keys(path: str, mode: ContentMode, secret: bytes) -> str:
    """Return a path as a record may show it: a key that no document defines was somebody's text.

    Args:
        path: pointer of a segment or span.
        mode: of its direction: ``off`` keeps that there is such a key, the others a digest of it. A path is never
            redacted; under ``full`` the name stands, after redaction, as the text of a segment of its own.
        secret: key of the digests.
    """
    steps = [step if step in "/#" or _is_documented(step) else None for step in _STEP.split(path)]
    if None not in steps:
        return path
    return "".join(
        [
            (_digest(own, mode, secret) if step is None else step)
            for own, step in zip(_STEP.split(path), steps, strict=True)
        ]
    )


def _is_documented(step: str) -> bool:
    key = unescape(step)
    return key in OF_REQUESTS or key in OF_REPLIES or step in _OURS or _NUMBER.fullmatch(step) is not None


def _digest(step: str, mode: ContentMode, secret: bytes) -> str:
    return _HIDDEN if mode == "off" else f"key-{text_hmac(secret, unescape(step))[:_SHOWN_DIGITS]}"


def segments_hmac(secret: bytes, segments: Sequence[Segment]) -> str | None:
    """Return one keyed digest over all texts of a direction, for `View.input_hmac`; None without any text.

    The lengths go in too, so that moving a boundary between two segments changes the digest.
    """
    texts = [segment.text for segment in segments]
    joined = "".join([f"{len(text)}:{text}" for text in texts])
    return text_hmac(secret, joined) if len(joined) > 2 * len(texts) or any(texts) else None


def build_content(texts: Sequence[Texts], secret: bytes) -> Mapping[str, Any] | None:
    """Return the `content` field of a record; None when every direction is off.

    Its `mode` is ``full`` as soon as one direction keeps text, because retention goes by it. Reply choices are
    told apart by path. Lengths are always known from `View.chars`.

    Args:
        texts: the directions of the exchange.
        secret: key of the digests, from the config.

    Raises:
        ValueError: a direction is hashed and the secret is empty.
    """
    kept = [direction for direction in texts if direction.mode != "off"]
    if not kept:
        return None
    content: dict[str, Any] = {"mode": "full" if any(direction.mode == "full" for direction in kept) else "hashed"}
    for direction in kept:
        content[direction.stage] = [_kept(segment, direction.mode, secret) for segment in direction.segments]
    return content


def _kept(segment: Segment, mode: ContentMode, secret: bytes) -> Mapping[str, Any]:
    row: dict[str, Any] = {"path": hide_keys(segment.path, mode, secret), "role": segment.role, "kind": segment.kind}
    if segment.choice is not None:
        row["choice"] = segment.choice
    row["chars"] = len(segment.text)
    if segment.media is not None:
        row["media"] = {"mime": segment.media.mime, "size_bytes": segment.media.size_bytes}
    elif mode == "full":
        row["text"] = segment.text
    else:
        row["hmac"] = text_hmac(secret, segment.text)
    return row
