"""Rows to items: the one place where a card's words become fields (DS-08 … DS-12)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.datasets.card import Card, ColumnRole, FilePin, View
from evals.datasets.labels import judge_row, vote_share
from evals.datasets.narrow import is_list, is_object
from evals.datasets.readers import Row
from evals.norm import norm_text
from evals.types import (
    Adversariality,
    Item,
    Message,
    MessageRole,
    Severity,
    Transform,
    Truth,
    make_item_id,
    sha256_text,
)
from supervisors.errors import DatasetError

_SEVERITIES: Mapping[str | None, Severity] = {"benign": "benign", "borderline": "borderline", "harmful": "harmful"}
_ADVERSARIALITIES: Mapping[str | None, Adversariality] = {"direct": "direct", "jailbroken": "jailbroken"}
_ROLES: Mapping[str, MessageRole] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


@dataclass(frozen=True, slots=True)
class Record:
    """A row with its 0-based position in its file; adapters keep the position whatever else they change.

    `part` tells records apart that an adapter made from one row; it becomes the end of the split's name.
    """

    index: int
    row: Row
    part: str = ""


def build_items(card: Card, pin: FilePin, records: Sequence[Record], columns: Sequence[str]) -> list[Item]:
    """Make the items of one file, in file order, one a view.

    Args:
        card: what the columns mean.
        pin: the file the records come from.
        records: rows after the card's adapter.
        columns: every column that occurs.

    Raises:
        DatasetError: a column the card needs does not occur; lists the columns found.
    """
    views = card.views or (None,)
    makers = [_Maker(card, pin, view, tuple(columns)) for view in views]
    return [maker.make(record) for record in records if _kept(card, record.row) for maker in makers]


def _kept(card: Card, row: Row) -> bool:
    return card.keep is None or str(row.get(card.keep.column)) in card.keep.values


class _Maker:
    """Makes the items of one view of one file; holds the column names looked up once."""

    def __init__(self, card: Card, pin: FilePin, view: View | None, columns: tuple[str, ...]) -> None:
        self._card = card
        self._pin = pin
        self._view = view
        self._names: dict[ColumnRole, str] = {}
        for role, synonyms in card.columns.items():
            found = [name for name in synonyms if name in columns]
            if found:
                self._names[role] = found[0]
        if view is not None:
            found = [name for name in view.prompt if name in columns]
            if found:
                self._names["prompt"] = found[0]
        if not {"prompt", "messages"} & set(self._names):
            wanted = view.prompt if view else (*card.columns.get("prompt", ()), *card.columns.get("messages", ()))
            msg = f"{pin.name}: expected a column {' or '.join(map(repr, wanted))}, found {list(columns)}"
            raise DatasetError(msg)

    def make(self, record: Record) -> Item:
        """Make the item of one record."""
        card, pin, view, row = self._card, self._pin, self._view, record.row
        messages = self._messages(record)
        prompt, skip = self._prompt(record, messages)
        truth, source_label = judge_row(card.label, row, pin, view)
        split = _split_name(pin.split, view.name if view else "", record.part)
        item_id = make_item_id(card.id, split, record.index, prompt)
        context = self._text("context", row)
        used = {
            self._names[role] for role in ("prompt", "context", "response", "system", "messages") if role in self._names
        }
        return Item(
            dataset=card.id,
            split=split,
            index=record.index,
            item_id=item_id,
            cluster_id=self._cluster(record, f"{context or ''}\n{prompt}" if context else prompt, item_id),
            level=card.level,
            prompt=prompt,
            truth=truth,
            messages=messages,
            context=context,
            root=self._root(row),
            response=self._response(row),
            system=self._text("system", row),
            truth_detail=self._text("truth_detail", row),
            category=self._category(row),
            severity=self._severity(row, truth),
            adversariality=self._adversariality(row),
            family=self._text("family", row) or (view.family if view else None) or pin.family or card.family,
            source=self._text("source", row) or pin.source,
            published_at=card.published_at or None,
            language=self._text("language", row) or (view.language if view else None) or pin.language or card.language,
            transform=Transform(name=view.transform, parent=self._parent(record)) if view and view.transform else None,
            source_label=source_label,
            composition=card.composition,
            placeholder=card.placeholder or None,
            paired=card.sample_unit == "cluster",
            vote_share=vote_share(card.raters, row) if card.level == "response" else None,
            skip=skip,
            meta={name: cell for name, cell in row.items() if name not in used},
        )

    def _text(self, role: ColumnRole, row: Row) -> str | None:
        """Return the cell of a role as text; an absent, null or empty one is None."""
        name = self._names.get(role)
        value = None if name is None else row.get(name)
        if value is None or value == "":
            return None
        return value if isinstance(value, str) else str(value)

    def _response(self, row: Row) -> str | None:
        """Return the answer; an empty one stays empty where answers are what is judged: it is not an answer alone."""
        text = self._text("response", row)
        return "" if text is None and self._card.level == "response" and "response" in self._names else text

    def _prompt(self, record: Record, messages: tuple[Message, ...]) -> tuple[str, str | None]:
        """Return the exact text and no reason, or no text and the reason (T-12, T-14)."""
        if messages and "prompt" not in self._names:
            users = [message.content for message in messages if message.role == "user"]
            return (users[-1], None) if users else ("", "no user message")
        name = self._names["prompt"]
        value = record.row.get(name)
        if value is None or value == "":
            return "", f"no text in {name!r}"
        if not isinstance(value, str):
            where = f"{self._pin.name} row {record.index}"
            msg = f"{where}: column {name!r} holds {type(value).__name__}, expected text"
            raise DatasetError(msg)
        frame = self._card.unwrap
        if frame and value.startswith(frame.prefix) and value.endswith(frame.suffix):
            value = value.removeprefix(frame.prefix).removesuffix(frame.suffix)
        return value, None

    def _messages(self, record: Record) -> tuple[Message, ...]:
        name = self._names.get("messages")
        value = None if name is None else record.row.get(name)
        if value is None:
            return ()
        where = f"{self._pin.name} row {record.index} column {name!r}"
        if not is_list(value):
            msg = f"{where}: expected a list of messages, found {type(value).__name__}"
            raise DatasetError(msg)
        return tuple(to_message(entry, where) for entry in value)

    def _category(self, row: Row) -> tuple[str, ...]:
        names = self._card.columns.get("category", ())
        cells = [row[name] for name in names if row.get(name) not in (None, "")]
        parts: list[str] = []
        for cell in cells:
            texts = [str(entry) for entry in cell] if is_list(cell) else [str(cell)]
            for text in texts:
                parts += text.split(self._card.category_split) if self._card.category_split else [text]
        if self._card.strip_category:
            parts = [re.sub(r"\s+", " ", part).strip().rstrip(":").rstrip() for part in parts]
        return tuple(dict.fromkeys(self._card.category_map.get(part, part) for part in parts if part))

    def _severity(self, row: Row, truth: Truth) -> Severity | None:
        written = self._text("severity", row)
        return _SEVERITIES.get(written) or _SEVERITIES.get(truth.value) or self._card.severity

    def _adversariality(self, row: Row) -> Adversariality | None:
        written = self._text("adversariality", row)
        view = self._view.adversariality if self._view else None
        return _ADVERSARIALITIES.get(written) or view or self._pin.adversariality or self._card.adversariality

    def _cluster(self, record: Record, text: str, item_id: str) -> str:
        rule = self._card.cluster
        root = rule.root or self._card.id
        match rule.by:
            case "row":
                part = f"{self._pin.split}/" if self._pin.split and not rule.root else ""
                return f"{root}#{part}{record.index}"
            case "column":
                return f"{root}#{record.row.get(rule.column)}"
            case "column_text":
                return f"{rule.root or 'text'}#{_text_key(str(record.row.get(rule.column)))}"
            case "text":
                return f"{rule.root or 'text'}#{_text_key(text)}" if text else item_id

    def _root(self, row: Row) -> str | None:
        column = self._card.cluster.text_column  # a file may have a column without a name
        value = row.get(column) if column else None
        return value if isinstance(value, str) and value else None

    def _parent(self, record: Record) -> str | None:
        """Return the id of the first view of the same row: the root the others were made from."""
        first = self._card.views[0]
        names = [name for name in first.prompt if name in record.row]
        text = record.row.get(names[0]) if names else None
        if not isinstance(text, str):
            return None
        return make_item_id(self._card.id, _split_name(self._pin.split, first.name, record.part), record.index, text)


def _split_name(*parts: str) -> str:
    return ".".join(part for part in parts if part) or "all"


def _text_key(text: str) -> str:
    return sha256_text(norm_text(text))[:16]


def to_message(entry: object, where: str) -> Message:
    """Read one chat message.

    Raises:
        DatasetError: it is no object, its role is unknown or its content is not text.
    """
    if not is_object(entry):
        msg = f"{where}: expected a message object, found {type(entry).__name__}"
        raise DatasetError(msg)
    role, content = str(entry.get("role")), entry.get("content")
    if role not in _ROLES or not isinstance(content, str):
        msg = f"{where}: expected a role of {sorted(_ROLES)} and text content, found role {role!r}"
        raise DatasetError(msg)
    return Message(role=_ROLES[role], content=content)
