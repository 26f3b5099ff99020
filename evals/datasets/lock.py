"""The lock: what the data were when a run was made, and whether they still are (datasets §3)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evals.datasets.card import Card
from evals.datasets.load import Drift, FileFacts, Loaded, count_labels, read_dataset
from evals.datasets.narrow import is_object
from evals.datasets.registry import load_card
from evals.reasons import reason_of
from supervisors.errors import DatasetError, StoreError

LOCK_NAME = "data.lock.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class LockEntry:
    """One data set as it was, with the words a report needs (DS-05).

    Args:
        id: card id.
        aliases: old names that resolve to it.
        revision: where the bytes came from.
        licence: as on the card.
        licence_class: A, B, C or D.
        label_rule: rule and its meaning, as text.
        higher_is: direction of the native score.
        items: number of items.
        harmful, benign, unknown: label counts.
        files: in the card's order.
        accepted_drift: differences from the card that somebody accepted, as text.
    """

    id: str
    aliases: tuple[str, ...]
    revision: str
    licence: str
    licence_class: str
    label_rule: str
    higher_is: str
    items: int
    harmful: int
    benign: int
    unknown: int
    files: tuple[FileFacts, ...]
    accepted_drift: tuple[str, ...] = ()


_ENTRIES = TypeAdapter(dict[str, LockEntry])


def lock(cards: Sequence[Card], data_dir: Path, *, accept_drift: bool = False) -> dict[str, LockEntry]:
    """Read the sets and state what they are, by id.

    Raises:
        DatasetError: a set is missing, malformed, or (without `accept_drift`) differs from its card.
    """
    return {card.id: lock_entry(read_dataset(card, data_dir, accept_drift=accept_drift)) for card in cards}


def lock_entry(loaded: Loaded) -> LockEntry:
    """State what a loaded data set is."""
    card, counts = loaded.card, count_labels(loaded.items)
    source = " ".join(part for part in (card.source.kind, card.source.repo, card.source.revision) if part)
    return LockEntry(
        id=card.id,
        aliases=card.aliases,
        revision=source,
        licence=card.licence,
        licence_class=card.licence_class,
        label_rule=f"{card.label.rule}: {card.label.meaning}",
        higher_is=card.higher_is,
        items=len(loaded.items),
        harmful=counts.harmful,
        benign=counts.benign,
        unknown=counts.unknown,
        files=loaded.files,
        accepted_drift=tuple(map(str, loaded.drifts)),
    )


def write_lock(entries: Mapping[str, LockEntry], path: Path) -> None:
    """Write a lock file at once: a reader sees the old one or the new one, never half of it.

    Raises:
        StoreError: the disk does not take it.
    """
    body = {"format_version": _FORMAT, "datasets": {name: asdict(entries[name]) for name in sorted(entries)}}
    text = json.dumps(body, ensure_ascii=False, indent=2) + "\n"
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as stream:
            stream.write(text)
        Path(stream.name).replace(path)
    except OSError as error:
        msg = f"{path}: cannot be written: {error.strerror}"
        raise StoreError(msg) from error


def read_lock(path: Path) -> dict[str, LockEntry]:
    """Read a lock file.

    Raises:
        DatasetError: it is missing, or not a lock of this format.
    """
    try:
        body: object = json.loads(path.read_text(encoding="utf-8-sig"))
        if not is_object(body) or body.get("format_version") != _FORMAT:
            msg = f"{path.name}: expected a lock of format_version {_FORMAT}"
            raise DatasetError(msg)
        return _ENTRIES.validate_python(body.get("datasets"))
    except OSError as error:
        msg = f"{path.name}: cannot be read: {error.strerror}; `evals data lock SET…` writes it"
        raise DatasetError(msg) from error
    except (ValueError, RecursionError) as error:
        said = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else reason_of(error)
        msg = f"{path.name}: is not a data lock: {said}"
        raise DatasetError(msg) from error


def verify_lock(entries: Mapping[str, LockEntry], data_dir: Path) -> tuple[Drift, ...]:
    """Compare the files on disk with a lock and return every field that changed.

    Raises:
        DatasetError: a locked set has no card any more, or its files are missing or malformed.
    """
    changed: list[Drift] = []
    for name, locked in entries.items():
        now = lock_entry(read_dataset(load_card(name), data_dir, accept_drift=True))
        changed += compare_lock(locked, now)
    return tuple(changed)


def compare_lock(locked: LockEntry, now: LockEntry) -> tuple[Drift, ...]:
    """Return every field that changed since the lock was written."""
    fields = ("revision", "licence", "label_rule", "items", "harmful", "benign", "unknown")
    changed = [
        Drift(locked.id, "", name, str(getattr(locked, name)), str(getattr(now, name)))
        for name in fields
        if getattr(locked, name) != getattr(now, name)
    ]
    before = {one.name: one for one in locked.files}
    after = {one.name: one for one in now.files}
    for name in sorted(before.keys() | after.keys()):
        changed += _compare_files(locked.id, name, before.get(name), after.get(name))
    return tuple(changed)


def _compare_files(dataset: str, name: str, before: FileFacts | None, after: FileFacts | None) -> list[Drift]:
    if before is None or after is None:
        return [Drift(dataset, name, "file", "present" if before else "absent", "present" if after else "absent")]
    fields = ("sha256", "size_bytes", "rows", "columns")
    return [
        Drift(dataset, name, field, str(getattr(before, field)), str(getattr(after, field)))
        for field in fields
        if getattr(before, field) != getattr(after, field)
    ]
