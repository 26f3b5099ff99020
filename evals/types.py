"""The values of the harness that every part shares: items and what is true of them.

Everything here is frozen and nothing here does I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from evals.norm import norm_text

Level = Literal["prompt", "response", "pair", "trajectory", "statement", "mcq"]
"""What a row is about: a request, an answer, both, a whole trace, a claim to argue, a multiple-choice question."""
Severity = Literal["benign", "borderline", "harmful"]
Adversariality = Literal["direct", "jailbroken"]
MessageRole = Literal["system", "developer", "user", "assistant", "tool"]
ROLES: Mapping[str, MessageRole] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""Roles of a wire as those of an item."""
LicenceClass = Literal["A", "B", "C", "D"]
"""A permissive, B copyleft or mixed, C non-commercial, D none stated."""


class Truth(StrEnum):
    """What is true of an item. Unknown is never benign (DS-11)."""

    HARMFUL = "harmful"
    BENIGN = "benign"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message, its text exactly as it will be sent."""

    role: MessageRole
    content: str

    def to_wire(self) -> dict[str, str]:
        """Return the message in OpenAI form."""
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True, slots=True)
class Transform:
    """How an item was made from another (DS-22).

    Args:
        name: transform, e.g. ``base64``.
        version: version of its rule; a changed rule is a new version.
        parameters: JSON values.
        parent: `item_id` of the item it was made from.
        generator_sha256: hash of the code or table that made it, None when taken from a data set.
    """

    name: str
    version: str = "1"
    parameters: Mapping[str, object] = field(default_factory=dict[str, object], hash=False)
    parent: str | None = None
    generator_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """One row of a data set, numbered in file order before any filter, sort or de-duplication (DS-08).

    Args:
        dataset: card id.
        split: part of the data set: split of the file, view of the row, or both joined by a dot.
        index: 0-based position of the row in its source file.
        item_id: `make_item_id` of the four facts above and the text (H-113).
        cluster_id: root item; everything derived from one root shares it.
        level: what the row is about.
        prompt: exact text; empty if and only if `skip` is set.
        truth: harmful, benign or unknown.
        messages: the conversation when the row is one; `prompt` is then its last user text.
        context: text the prompt refers to; a composition rule says where it goes.
        root: exact text the prompt was made from, when the row states it.
        response: the answer to be judged, on response-level rows; empty when the row has none, None when the prompt
            is itself the answer, or the set has no answers.
        system: system prompt of the row.
        tools: tool definitions in OpenAI form.
        truth_detail: finer label, e.g. ``borderline`` or a type name.
        category: category names, outer blanks removed.
        severity: benign, borderline or harmful; None when nobody said.
        adversariality: direct or jailbroken; None when nobody said.
        family: attack family, e.g. ``narrative``.
        source: where the row came from, when the set was compiled from others (DS-16).
        published_at: ISO date or its beginning (``2023-07``) of the set's first release.
        language: BCP 47 tag.
        transform: how it was made from its root, if it was.
        source_label: the label as the file has it, as text.
        composition: rule used when the caller names none.
        placeholder: regular expression of slots that must be filled before sending (T-28).
        paired: true when the item only makes sense with the rest of its cluster (DS-19).
        vote_share: share of raters who call it harmful, in 0..1; None where nobody rated it (H-144).
        skip: why the row cannot be sent, e.g. ``no text in 'user_prompt'``; None for a usable row.
        meta: further columns of the row, as read.
    """

    dataset: str
    split: str
    index: int
    item_id: str
    cluster_id: str
    level: Level
    prompt: str
    truth: Truth
    messages: tuple[Message, ...] = ()
    context: str | None = None
    root: str | None = None
    response: str | None = None
    system: str | None = None
    tools: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    truth_detail: str | None = None
    category: tuple[str, ...] = ()
    severity: Severity | None = None
    adversariality: Adversariality | None = None
    family: str | None = None
    source: str | None = None
    published_at: str | None = None
    language: str = "en"
    transform: Transform | None = None
    source_label: str | None = None
    composition: str = "plain-1"
    placeholder: str | None = None
    paired: bool = False
    vote_share: float | None = None
    skip: str | None = None
    meta: Mapping[str, object] = field(default_factory=dict[str, object], hash=False)

    @property
    def norm(self) -> str:
        """Return the prompt in the normal form used for matching; it is never sent."""
        return norm_text(self.prompt)

    @property
    def is_harmful(self) -> bool:
        """Say whether the item is known to be harmful."""
        return self.truth is Truth.HARMFUL

    @property
    def is_benign(self) -> bool:
        """Say whether the item is known to be benign."""
        return self.truth is Truth.BENIGN


def sha256_text(text: str) -> str:
    """Return the 64 hex digits of the exact text; lone surrogates are hashed as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def make_item_id(dataset: str, split: str, index: int, prompt: str) -> str:
    """Name an item by its place and its text (H-113): never by shuffling, filters or limits.

    Identical prompts at two places are two items.
    """
    return f"{dataset}/{split}/{index:06d}-{sha256_text(prompt)[:12]}"
