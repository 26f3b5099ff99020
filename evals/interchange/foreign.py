"""What a log of another harness says, in one neutral form; nothing is guessed (harness §12).

What a log does not say is unknown: a missing answer is an error, a missing or unmapped verdict is unknown with the raw
value kept, and no label is invented.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from evals.journal import JsonObject, canonical
from evals.statistics.jsonable import Json
from evals.types import Message, sha256_text
from supervisors.types import Cause, Label

Status = Literal["ok", "error", "missing"]
_RAW_CHARS = 60


@dataclass(frozen=True, slots=True)
class ForeignVerdict:
    """What a foreign scorer said of one answer.

    Args:
        label: safe, unsafe or unknown.
        cause: why it is unknown.
        detail: the raw value, or a short code.
        score: risk in 0..1 when the scorer gives one.
    """

    label: Label
    cause: Cause | None = None
    detail: str | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class ForeignAnswer:
    """What a model answered.

    Args:
        text: the answer, empty when it was.
        finish: finish reason in OpenAI's words, None when not stated.
        reasoning: text of the reasoning channel.
        usage: token counts in OpenAI's words.
        model: model that says it answered.
    """

    text: str
    finish: str | None = None
    reasoning: str = ""
    usage: JsonObject | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignTrial:
    """One attempt of a foreign log.

    Args:
        dataset: name of ours for the task, probe or evaluation.
        index: place of the item in its log.
        foreign_id: id in the log.
        messages: what was sent.
        repeat: number of the repetition, from 0.
        target: model as the log names it.
        status: ok, error, or missing: planned there and never done.
        cause: why it is an error.
        detail: short code.
        answer: None when there was none.
        verdicts: scorer → verdict; a scorer that is not here was not asked.
        truth: harmful, benign or unknown.
        split: part of the data set.
        cluster: what the repetitions of one item share; empty takes the item.
        category: names to report by.
        transform: how the item was made from another, by the log's name.
        supervisors: verdict rows of guardrails the log mentions.
        seconds: of the call, None when cached or not stated.
        cached: the answer came from a cache.
        cost_usd: None when unknown.
    """

    dataset: str
    index: int
    foreign_id: str
    messages: tuple[Message, ...]
    repeat: int
    target: str
    status: Status
    cause: str | None = None
    detail: str | None = None
    answer: ForeignAnswer | None = None
    verdicts: Mapping[str, ForeignVerdict] = field(default_factory=dict[str, ForeignVerdict])
    truth: str = "unknown"
    split: str = "all"
    cluster: str = ""
    category: tuple[str, ...] = ()
    transform: str = "none"
    supervisors: tuple[JsonObject, ...] = ()
    seconds: float | None = None
    cached: bool = False
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class ForeignLog:
    """A whole log.

    Args:
        source: inspect, garak or promptfoo.
        sha256: of the file.
        facts: versions and settings worth keeping.
        trials: in the order of the log.
        scorers: scorer → how it labels.
        complete: the log says that it ended as it should.
        mismatches: totals the log states that its rows do not give.
        ignored: what was read and not used, with counts.
    """

    source: str
    sha256: str
    facts: JsonObject
    trials: tuple[ForeignTrial, ...]
    scorers: Mapping[str, JsonObject]
    complete: bool
    mismatches: tuple[str, ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What a user says about a log that the log itself does not say.

    Args:
        mapping: (scorer, value) → label; the direction of a value differs from scorer to scorer.
        truth: what is true of every item.
        truth_field: metadata field or variable that holds harmful or benign; anything else is unknown.
    """

    mapping: Mapping[tuple[str, str], Label] = field(default_factory=dict[tuple[str, str], Label])
    truth: str = "unknown"
    truth_field: str | None = None

    def truth_of(self, fields: Mapping[str, Json]) -> str:
        """Return what is true of an item with these fields."""
        if self.truth_field is None:
            return self.truth
        found = fields.get(self.truth_field)
        return str(found) if found in ("harmful", "benign") else "unknown"


def map_value(scorer: str, value: Json, mapping: Mapping[tuple[str, str], Label]) -> ForeignVerdict:
    """Return the label the user gave this value; without one it is unknown, and NaN is an abstention."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ForeignVerdict(Label.UNKNOWN, Cause.ABSTAINED, "unscored")
    for (name, text), label in mapping.items():
        if name == scorer and _equals(value, text):
            return ForeignVerdict(label, None, raw_text(value))
    return ForeignVerdict(Label.UNKNOWN, Cause.UNSUPPORTED, raw_text(value))


def _equals(value: Json, text: str) -> bool:
    if isinstance(value, bool):
        return text.casefold() == str(value).casefold()
    if isinstance(value, int | float):
        try:
            return float(text) == float(value)
        except ValueError:
            return False
    return value == text


def raw_text(value: Json) -> str:
    """Return a raw value as it is kept: short scalars as they are, anything longer by its hash, never as text."""
    text = value if isinstance(value, str) else canonical(_finite(value))
    return f"raw:{text}" if len(text) <= _RAW_CHARS else f"raw-sha256:{sha256_text(text)[:12]}"


def _finite(value: Json) -> Json:
    """Replace numbers that JSON cannot hold by their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return [_finite(one) for one in value]
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return value
