"""Collect the training rows of a profile and keep everything out that the build report is measured on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from supervisors.embedded.exclusion import NEAR, find_near, refuse_sisters
from supervisors.embedded.features import norm_text
from supervisors.embedded.heldout import WILD_HELD_OUT, HeldOut
from supervisors.embedded.model import Profile
from supervisors.embedded.reading import Row
from supervisors.embedded.sources import SOURCES, WILD_CHARS, Source, check_source
from supervisors.errors import DatasetError

_LICENCES = frozenset({"Apache-2.0", "MIT", "CC-BY-4.0"})


@dataclass(frozen=True, slots=True)
class SourceCount:
    """What became of the rows of one source: read = kept + repeats + shared + near + empty."""

    read: int
    kept: int
    repeats: int
    shared: int
    near: int
    empty: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """Training rows with their source, and the book-keeping.

    Args:
        rows: (dataset, row) in training order.
        counts: dataset → counts.
        shared_with: dataset → headline set → number of shared texts (single ones, removed).
    """

    rows: tuple[tuple[str, Row], ...]
    counts: dict[str, SourceCount]
    shared_with: dict[str, dict[str, int]]


def select_sources(profile: Profile) -> list[Source]:
    """Return the sources of a profile, in training order."""
    return [source for source in SOURCES if profile in source.profiles]


def prepare_rows(data: Path, profile: Profile, held_out: Sequence[HeldOut], calibration: Sequence[str]) -> Prepared:
    """Read the sources of a profile and drop repeats, empty texts, shared texts and near-duplicates of test texts.

    Raises:
        DatasetError: a file differs from its card, a licence is not permissive, or (profile clean) a source is a
            sister of a headline set.
    """
    tests = [text for held in held_out for text in held.texts] + list(calibration)
    # A jailbreak is trained on its first characters only: compare those of the held-out ones too.
    tests += [text[:WILD_CHARS] for held in held_out if held.dataset == WILD_HELD_OUT for text in held.texts]
    shared = {norm_text(text) for text in tests}
    seen: set[str] = set()
    rows: list[tuple[str, Row]] = []
    counts: dict[str, SourceCount] = {}
    shared_with: dict[str, dict[str, int]] = {}
    for source in select_sources(profile):
        read = _read_checked(source, data)
        if profile == "clean":
            shared_with[source.dataset] = _refuse_sisters(source, read, held_out)
        kept, tally = _filter_rows(read, shared, tests, seen)
        rows += [(source.dataset, row) for row in kept]
        counts[source.dataset] = SourceCount(len(read), len(kept), *(tally[k] for k in _REASONS))
    return Prepared(tuple(rows), counts, {name: found for name, found in shared_with.items() if found})


_REASONS = ("repeats", "shared", "near", "empty")


def _read_checked(source: Source, data: Path) -> list[Row]:
    if source.licence not in _LICENCES:
        msg = f"{source.dataset} has licence {source.licence}; only {', '.join(sorted(_LICENCES))} may be trained on"
        raise DatasetError(msg)
    check_source(source, data)
    return source.read(data)


def _refuse_sisters(source: Source, rows: Sequence[Row], held_out: Sequence[HeldOut]) -> dict[str, int]:
    # The held-out half of the wild jailbreaks is a test of this build, not a headline set of anybody else.
    headline: defaultdict[str, list[str]] = defaultdict(list)
    for held in held_out:
        if held.dataset != WILD_HELD_OUT and "/wrapped-" not in held.name:
            headline[held.dataset].extend(held.texts)
    return refuse_sisters(source.dataset, [row.text for row in rows], headline)


def _filter_rows(
    rows: Sequence[Row], shared: set[str], tests: Sequence[str], seen: set[str]
) -> tuple[list[Row], Counter[str]]:
    tally: Counter[str] = Counter()
    candidates: list[Row] = []
    for row in rows:
        norm = norm_text(row.text)
        reason = "empty" if not norm else "repeats" if norm in seen else "shared" if norm in shared else None
        seen.add(norm)
        if reason:
            tally[reason] += 1
        else:
            candidates.append(row)
    near = find_near([row.text for row in candidates], tests, NEAR)
    tally["near"] = sum(value > 0 for value in near)
    return [row for row, value in zip(candidates, near, strict=True) if not value], tally
