"""Runs as sources of stored scores: their items, without those another run has too (DS-15)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evals.datasets.overlap import without_shared
from evals.folder import RunFolder
from evals.manifest import Manifest
from evals.operating.scores import Judged, to_judged
from evals.options import read_options
from evals.prepare import load_items
from evals.summary import load_run
from evals.types import Item


@dataclass(frozen=True, slots=True)
class Source:
    """A run as a source of scores.

    Args:
        name: of its folder.
        manifest: what it is.
        judged: its usable trials.
        items: their items, with texts, for telling overlaps.
    """

    name: str
    manifest: Manifest
    judged: tuple[Judged, ...]
    items: tuple[Item, ...]


def load_source(folder: RunFolder, data_dir: str | None) -> Source:
    """Read a run and its items.

    Args:
        folder: the run.
        data_dir: where its data are now, None where they were.

    Raises:
        StoreError, DatasetError: the run or its data cannot be read.
    """
    run = load_run(folder)
    judged = to_judged(run)
    options = read_options(run.manifest.options)
    if data_dir is not None:
        options = options.with_data_dir(data_dir)
    used = {one.item_id for one in judged}
    items = tuple([item for item in load_items(options) if item.item_id in used])
    return Source(folder.path.name, run.manifest, judged, items)


def remove_shared(test: Source, calibration: Source) -> tuple[tuple[Judged, ...], int]:
    """Return the test trials without items that the calibration side has too, exactly, normalised or nearly."""
    return drop_shared(test.judged, test.items, calibration.items)


def drop_shared(
    judged: Sequence[Judged], own: Sequence[Item], others: Sequence[Item]
) -> tuple[tuple[Judged, ...], int]:
    """Return the trials whose items and root items the others do not have, and how many trials were removed."""
    _, removed = without_shared(own, others)
    gone = set(removed) | {item.item_id for item in others}
    roots = {item.cluster_id for item in others}
    kept = tuple([one for one in judged if one.item_id not in gone and one.cluster not in roots])
    return kept, len(judged) - len(kept)
