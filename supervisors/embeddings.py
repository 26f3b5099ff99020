"""Turn texts into vectors at an OpenAI-compatible ``/v1/embeddings``, and compare them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from supervisors.errors import ChatRefused, ReplyError
from supervisors.secret import Secret
from supervisors.types import Context

PER_CALL = 32
"""Texts in one call."""

Vector = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Embedder:
    """Where vectors come from.

    Args:
        url: base URL up to and including ``/v1``.
        model: model id of the server.
        api_key: sent as a bearer token.
    """

    url: str
    model: str
    api_key: Secret | None = None


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of unit length, one a text, and the tokens the server reports."""

    vectors: tuple[Vector, ...]
    tokens: int


async def embed(embedder: Embedder, texts: Sequence[str], context: Context) -> Embedded:
    """Ask for the vectors of texts, at most 32 a call.

    Args:
        embedder: whom to ask.
        texts: none of them empty.
        context: carries the calls.

    Raises:
        ChatError: the server failed or refused.
        ReplyError: the reply does not hold one finite vector a text, all of one length.
    """
    headers = {"authorization": f"Bearer {embedder.api_key.value}"} if embedder.api_key else {}
    vectors: list[Vector] = []
    tokens = 0
    for start in range(0, len(texts), PER_CALL):
        batch = list(texts[start : start + PER_CALL])
        body = {"model": embedder.model, "input": batch, "encoding_format": "float"}
        status, answer = await context.post(f"{embedder.url.rstrip('/')}/embeddings", body, headers)
        if not 200 <= status < 300:
            msg = f"the embeddings server answered {status}"
            raise ChatRefused(msg, status=status, code=f"status_{status}")
        vectors += read_vectors(answer, len(batch))
        tokens += _read_tokens(answer)
    if len({len(vector) for vector in vectors}) > 1:
        msg = "the embeddings server returned vectors of different lengths"
        raise ReplyError(msg, detail="missing_field")
    return Embedded(tuple(vectors), tokens)


def read_vectors(answer: object, expected: int) -> list[Vector]:
    """Read the vectors of a reply in the order of the texts, scaled to length one.

    Raises:
        ReplyError: one is missing, doubled, empty, zero or not finite.
    """
    data = _member(answer, "data")
    rows = cast("list[object]", data) if isinstance(data, list) else []
    found: dict[int, Vector] = {}
    for position, row in enumerate(rows):
        index = _member(row, "index")
        place = index if isinstance(index, int) and not isinstance(index, bool) else position
        vector = _to_unit(_member(row, "embedding"))
        if vector is not None and place not in found:
            found[place] = vector
    if len(rows) != expected or sorted(found) != list(range(expected)):
        msg = f"the reply holds {len(found)} usable vectors for {expected} texts"
        raise ReplyError(msg, detail="missing_field")
    return [found[place] for place in range(expected)]


def _to_unit(value: object) -> Vector | None:
    if not isinstance(value, list):
        return None
    numbers = cast("list[object]", value)
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers):
        return None
    vector = [float(cast("float", number)) for number in numbers]
    norm = math.sqrt(math.fsum([number * number for number in vector]))
    if not math.isfinite(norm) or norm == 0.0:
        return None
    return tuple([number / norm for number in vector])


def cosine(left: Vector, right: Vector) -> float:
    """Return the cosine of two vectors of unit length, in -1..1."""
    return math.fsum([a * b for a, b in zip(left, right, strict=True)])


def _read_tokens(answer: object) -> int:
    used = _member(_member(answer, "usage"), "prompt_tokens")
    return used if isinstance(used, int) and not isinstance(used, bool) else 0


def _member(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None
