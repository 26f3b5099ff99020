"""The weights file of the embedded guard (``.gpeg``): read, check, score, write. Standard library only.

Layout: 8 bytes magic, uint32 little-endian header length, UTF-8 JSON header, then per head (in the header's
order) two arrays of 2^bits little-endian float16: words, characters.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import exp, fsum, isfinite, sqrt
from operator import mul
from pathlib import Path
from time import sleep
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from supervisors.embedded.features import (
    Counts,
    count_features,
    cut_windows,
    norm_text,
)
from supervisors.errors import ConfigError

MAGIC = b"GPEGM001"
MAX_HEADER_BYTES = 1_000_000
HeadName = Literal["harm", "injection"]
Profile = Literal["clean", "full"]


class SourceFile(BaseModel):
    """One file a source was read from."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    path: str
    sha256: str


class TrainedOn(BaseModel):
    """One source of training texts, as listed in the header."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    dataset: str
    files: tuple[SourceFile, ...]
    items: int
    role: str
    licence: str


class HeadInfo(BaseModel):
    """Numbers of one head: logit bias, Platt slope and offset, thresholds on the logit by FPR budget."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    bias: float = Field(allow_inf_nan=False)
    a: float = Field(allow_inf_nan=False)
    b: float = Field(allow_inf_nan=False)
    thresholds: dict[str, float]
    positives: int = Field(gt=0)
    negatives: int = Field(gt=0)


class Header(BaseModel):
    """What a weights file says about itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: str
    profile: Profile
    bits: int = Field(ge=8, le=20)
    heads: dict[HeadName, HeadInfo] = Field(min_length=1)
    normaliser: Literal["nfkc-casefold-ws/1"]
    hash: Literal["crc32/1"]
    trained_at: str
    manifest_sha256: str
    weights_sha256: str
    licence: str
    trained_on: tuple[TrainedOn, ...]
    calibrated_on: str
    metrics: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Tables:
    """Weights of one head: 2^bits for words and as many for characters."""

    words: tuple[float, ...]
    chars: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Weights:
    """A loaded weights file."""

    header: Header
    tables: Mapping[HeadName, Tables]


def load_weights(path: Path) -> Weights:
    """Read and check a weights file.

    Raises:
        ConfigError: the file is absent, truncated, altered, or of another format.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        msg = f"weights file {path.name} cannot be read: {error.strerror}"
        raise ConfigError(msg) from error
    return decode_weights(data, path.name)


def decode_weights(data: bytes, name: str = "weights") -> Weights:
    """Check and decode the bytes of a weights file.

    Raises:
        ConfigError: magic, header, length or digest is wrong.
    """
    if data[:8] != MAGIC:
        msg = f"{name} does not start with {MAGIC.decode()}: it is not a weights file of this version"
        raise ConfigError(msg)
    length = int.from_bytes(data[8:12], "little")
    if len(data) < 12 or length > min(MAX_HEADER_BYTES, len(data) - 12):
        msg = f"{name} is cut off: its header should have {length} bytes"
        raise ConfigError(msg)
    try:
        header = Header.model_validate_json(data[12 : 12 + length])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        msg = f"{name} has a bad header at {'.'.join(map(str, first['loc'])) or 'top'}: {first['msg']}"
        raise ConfigError(msg) from error
    return Weights(header, _decode_tables(data[12 + length :], header, name))


def _decode_tables(body: bytes, header: Header, name: str) -> dict[HeadName, Tables]:
    size = 1 << header.bits
    expected = len(header.heads) * 2 * size * 2
    if len(body) != expected:
        msg = f"{name} holds {len(body)} bytes of weights, its header announces {expected}"
        raise ConfigError(msg)
    found = hashlib.sha256(body).hexdigest()
    if found != header.weights_sha256:
        msg = f"{name}: sha256 of the weights is {found}, the header says {header.weights_sha256}"
        raise ConfigError(msg)
    numbers = struct.unpack(f"<{expected // 2}e", body)
    if not isfinite(fsum(numbers)):  # float16 sums cannot overflow: not finite means that one of them is not
        msg = f"{name} contains a weight that is not a finite number"
        raise ConfigError(msg)
    tables: dict[HeadName, Tables] = {}
    for index, head in enumerate(header.heads):
        start = index * 2 * size
        tables[head] = Tables(numbers[start : start + size], numbers[start + size : start + 2 * size])
    return tables


def encode_weights(header: Header, tables: Mapping[HeadName, Tables]) -> bytes:
    """Return the file's bytes; `weights_sha256` of the header is computed here."""
    body = b"".join(
        struct.pack(f"<{len(array)}e", *array)
        for head in header.heads
        for array in (tables[head].words, tables[head].chars)
    )
    complete = header.model_copy(update={"weights_sha256": hashlib.sha256(body).hexdigest()})
    text = json.dumps(complete.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":")).encode()
    return MAGIC + struct.pack("<I", len(text)) + text + body


def score_window(weights: Weights, head: HeadName, counts: Counts) -> float:
    """Return the logit of one window."""
    tables = weights.tables[head]
    return weights.header.heads[head].bias + _dot(tables.words, counts.words) + _dot(tables.chars, counts.chars)


def _dot(weights: tuple[float, ...], counts: dict[int, int]) -> float:
    if not counts:
        return 0.0
    values = counts.values()
    norm = sqrt(sum(map(mul, values, values)))
    total: float = sum(map(mul, map(weights.__getitem__, counts), values))
    return total / norm


def score_text(weights: Weights, text: str) -> dict[HeadName, float] | None:
    """Return the logit a head of a text, the maximum over its windows; None for an empty text."""
    normalised = norm_text(text)
    return score_normalised(weights, normalised) if normalised else None


def score_normalised(
    weights: Weights, normalised: str, between: Callable[[], object] | None = None
) -> dict[HeadName, float]:
    """Return the logit a head of a normalised text that is not empty, however many windows it has.

    Args:
        weights: of the guard.
        normalised: the text.
        between: called between two windows.
    """
    best: dict[HeadName, float] = {}
    for number, window in enumerate(cut_windows(normalised)):
        if number:
            sleep(0)  # a thread that only computes holds the interpreter for five milliseconds at a time
            if between is not None:
                between()
        counts = count_features(window, weights.header.bits)
        for head in weights.tables:
            logit = score_window(weights, head, counts)
            best[head] = max(best.get(head, logit), logit)
    return best


def calibrate_score(head: HeadInfo, logit: float, shift: float = 0.0) -> float:
    """Return the calibrated probability of a logit.

    Args:
        head: numbers of the head.
        logit: as returned by `score_text`.
        shift: added to the Platt offset, see `prior_shift`.
    """
    value = head.a * logit + head.b + shift
    if value < 0:  # the form that cannot overflow
        grown = exp(value)
        return grown / (1.0 + grown)
    return 1.0 / (1.0 + exp(-value))
