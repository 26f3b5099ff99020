"""Cards: the facts about a data set, in TOML, without any prompt text (datasets §1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from evals.types import Adversariality, Level, LicenceClass, Severity, Truth
from supervisors.errors import DatasetError

Container = Literal[
    "csv", "tsv", "jsonl", "json", "json-object", "json-map", "json-keyed", "text", "yaml", "yaml-keyed", "yaml-texts"
]
"""`json` is a list, `json-object` a list inside an object (`root`), `json-map` nested maps that end in lists.

`json-keyed` and `yaml-keyed` map a key to an object; `yaml-texts` are the texts anywhere in a tree, with their path.
"""
Packing = Literal["none", "gz", "zip", "b64"]
ColumnRole = Literal[
    "prompt",
    "messages",
    "context",
    "response",
    "system",
    "category",
    "language",
    "source",
    "family",
    "truth_detail",
    "severity",
    "adversariality",
]
_CONFIG = ConfigDict(extra="forbid", frozen=True)
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_CardId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]


class Source(BaseModel):
    """Where the bytes come from.

    `repo` and `revision` name a place that serves exactly the pinned bytes; `upstream` names the authors'
    own place when that is another one.
    """

    model_config = _CONFIG

    kind: Literal["github", "hub", "package", "url", "local", "builtin"]
    repo: str = ""
    path: str = ""
    revision: str = ""
    upstream: str = ""

    @field_validator("revision")
    @classmethod
    def _never_a_branch(cls, value: str) -> str:
        if value and not re.fullmatch(r"[0-9a-f]{8,64}|\d+(\.\d+)+", value):
            msg = f"revision {value!r} is neither a commit, a content hash nor a version; a branch is not a pin"
            raise ValueError(msg)
        return value


class FilePin(BaseModel):
    """One file of a data set, pinned.

    Args:
        name: path below the data folder, with forward slashes.
        sha256: accepted hashes; several for byte-different copies of one table, none when unpublished.
        size_bytes: size of the pinned file; None when unpublished.
        rows: records as parsed, not lines; None when unpublished.
        columns: every column of the table.
        path: path inside `source.repo`; empty means `source.path`.
        header: column names of a file that has none.
        join_cells: a one-column file whose unquoted commas split a record; the cells are joined again.
        comment: records before the header that start with this are skipped.
        root: dotted path to the list inside a `json-object`.
        lift: dotted paths of the object copied into each row as ``file.<path>``.
        member: member of a zip; empty means the only one.
        split: name of the split this file is.
        lookup: its rows become no items: the card's joiner makes them with the rows of the other files.
        truth, adversariality, family, source: facts that hold for the whole file.
        notes: why several hashes, what the copy is.
    """

    model_config = _CONFIG

    name: str
    sha256: tuple[_Sha256, ...] = ()
    size_bytes: int | None = None
    rows: int | None = None
    container: Container
    packing: Packing = "none"
    columns: tuple[str, ...] = ()
    path: str = ""
    header: tuple[str, ...] = ()
    join_cells: bool = False
    comment: str = ""
    root: str = ""
    lift: tuple[str, ...] = ()
    member: str = ""
    lookup: bool = False
    split: str = ""
    truth: Truth | None = None
    adversariality: Adversariality | None = None
    family: str | None = None
    source: str | None = None
    language: str | None = None
    notes: str = ""

    @field_validator("name")
    @classmethod
    def _stay_below_the_data_folder(cls, value: str) -> str:
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or "\\" in value:
            msg = f"file name {value!r} must be a relative path with forward slashes and without '..'"
            raise ValueError(msg)
        return value


class Counts(BaseModel):
    """How many items carry each truth, after `keep` and `views`."""

    model_config = _CONFIG

    harmful: int = 0
    benign: int = 0
    unknown: int = 0

    def of(self, truth: Truth) -> int:
        """Return the count of one truth."""
        return {Truth.HARMFUL: self.harmful, Truth.BENIGN: self.benign, Truth.UNKNOWN: self.unknown}[truth]


class LabelRule(BaseModel):
    """How truth follows from a row.

    Args:
        rule: `constant` (`value`), `column` (`column` and `map`), `any_of` (0/1 `columns`: harmful if any is 1,
            benign if all are there and 0), `split` (truth of the file), `paired` (truth of the view), `none`.
        meaning: one sentence for reports.
        map: label text, trimmed and folded, to truth; ``!x`` means everything but x; anything else is unknown.
        counts: expected counts, None when unpublished.
    """

    model_config = _CONFIG

    rule: Literal["constant", "column", "any_of", "split", "paired", "none"]
    meaning: str
    value: Truth | None = None
    column: str = ""
    columns: tuple[str, ...] = ()
    map: Mapping[str, Truth] = Field(default_factory=dict[str, Truth])
    counts: Counts | None = None

    @model_validator(mode="after")
    def _says_enough(self) -> Self:
        needed = {"constant": self.value, "column": self.column and self.map, "any_of": self.columns}
        if self.rule in needed and not needed[self.rule]:
            msg = f"label rule {self.rule!r} needs " + {"constant": "value", "column": "column and map"}.get(
                self.rule, "columns"
            )
            raise ValueError(msg)
        return self


class ClusterRule(BaseModel):
    """What makes two items one root item.

    Args:
        by: `text` (same normalised text), `row` (same row), `column` (same cell), `column_text` (cell, normalised).
        column: for the last two.
        text: column with the root's text; `column` when `by` is `column_text`.
        root: data set whose rows are the roots, so that sets derived from it share clusters; empty means this one,
            and for the two text rules any: the same text is the same root in every set.
    """

    model_config = _CONFIG

    by: Literal["text", "row", "column", "column_text"] = "text"
    column: str = ""
    text: str = ""
    root: str = ""

    @property
    def text_column(self) -> str:
        """Return the column that holds the root's text, empty when there is none."""
        return self.text or (self.column if self.by == "column_text" else "")


class View(BaseModel):
    """One item made from each row; a matched pair has two."""

    model_config = _CONFIG

    name: str
    prompt: tuple[str, ...]
    truth: Truth | None = None
    adversariality: Adversariality | None = None
    family: str | None = None
    language: str | None = None
    transform: str | None = None


class Keep(BaseModel):
    """Rows that belong to the set, chosen after numbering."""

    model_config = _CONFIG

    column: str
    values: tuple[str, ...]


class Unwrap(BaseModel):
    """A frame around every prompt that is not part of it (T-09)."""

    model_config = _CONFIG

    prefix: str = ""
    suffix: str = ""


class Check(BaseModel):
    """What the bytes must look like even when somebody vouches for another hash (T-10)."""

    model_config = _CONFIG

    column: str
    starts_with: str
    share: float = Field(ge=0.0, le=1.0)


class Card(BaseModel):
    """Everything known about a data set but its texts. See docs/datasets.md for each field."""

    model_config = _CONFIG

    id: _CardId
    title: str
    aliases: tuple[str, ...] = ()
    source: Source
    files: tuple[FilePin, ...] = ()
    licence: str
    licence_class: LicenceClass
    redistributable: bool = False
    gated: str = ""
    available: bool = True
    level: Level = "prompt"
    columns: Mapping[ColumnRole, tuple[str, ...]] = Field(default_factory=dict[ColumnRole, tuple[str, ...]])
    label: LabelRule
    views: tuple[View, ...] = ()
    keep: Keep | None = None
    adapter: str = ""
    unwrap: Unwrap | None = None
    check: Check | None = None
    strip_category: bool = True
    category_split: str = ""
    category_map: Mapping[str, str] = Field(default_factory=dict[str, str])
    cluster: ClusterRule = ClusterRule()
    sample_unit: Literal["item", "cluster"] = "item"
    composition: str = "plain-1"
    adversariality: Adversariality | None = None
    severity: Severity | None = None
    family: str | None = None
    language: str = "en"
    placeholder: str = ""
    higher_is: Literal["safer", "worse", "neutral"] = "neutral"
    criterion: str = ""
    canary: bool = False
    sensitive: bool = False
    constant_columns: tuple[str, ...] = ()
    raters: tuple[str, ...] = ()
    partner: str = ""
    published_at: str = ""
    citation: str = ""
    notes: str = ""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.licence_class in ("C", "D") and self.redistributable:
            msg = f"licence class {self.licence_class} cannot be redistributable"
            raise ValueError(msg)
        if self.label.rule == "paired" and len(self.views) < 2:
            msg = "label rule 'paired' needs at least two views"
            raise ValueError(msg)
        if self.files and not self.views and not ({"prompt", "messages"} & set(self.columns)):
            msg = "columns names neither prompt nor messages, and there are no views"
            raise ValueError(msg)
        try:
            re.compile(self.placeholder)
        except re.error as error:
            msg = f"placeholder {self.placeholder!r} is no regular expression: {error}"
            raise ValueError(msg) from error
        return self


def requires_labels(card: Card, metric: str = "a detection rate") -> None:
    """Refuse a metric that needs harmful items on a set that has none (DS-03).

    Raises:
        DatasetError: the card says there is no item known to be harmful; names the partner set.
    """
    if card.label.rule == "none" or _lacks(card, Truth.HARMFUL):
        raise DatasetError(_refusal(card, metric, "no item known to be harmful"))


def requires_negatives(card: Card, metric: str = "a false positive rate") -> None:
    """Refuse a metric that needs benign items (FPR, precision, F1) on a set that has none (DS-03).

    Raises:
        DatasetError: the card says there is no item known to be benign; names the partner set.
    """
    if card.label.rule == "none" or _lacks(card, Truth.BENIGN):
        raise DatasetError(_refusal(card, metric, "no item known to be benign"))


def _lacks(card: Card, truth: Truth) -> bool:
    if card.label.counts is not None:
        return card.label.counts.of(truth) == 0
    return card.label.rule == "constant" and card.label.value is not truth


def _refusal(card: Card, metric: str, reason: str) -> str:
    advice = f"use it together with {card.partner!r}" if card.partner else "add a set that has some"
    return f"{card.id} has {reason}, so {metric} is undefined on it; {advice}"
