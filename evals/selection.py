"""Which items of each data set take part in a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from evals.datasets.sampling import sample
from evals.types import Item
from supervisors.errors import DatasetError


@dataclass(frozen=True, slots=True)
class Selection:
    """Which items of each data set take part; an empty field does not filter.

    Args:
        limit: the first so many of each set; 0 means none (H-102), None means all.
        sample: so many of each set, balanced by category.
        seed: of the sample and of every other random choice.
        item_ids: patterns of ids.
        categories: patterns of category names.
        filters: ``name=value`` on a field of the item or a column of its row.
        only: exact ids, from an earlier run.
    """

    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    item_ids: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None


def select(items: Sequence[Item], wanted: Selection) -> tuple[Item, ...]:
    """Choose items of one data set: filters, then the balanced sample, then the limit.

    Raises:
        DatasetError: a filter names a field that no item has, or a number is negative.
    """
    chosen = [item for item in items if _is_wanted(item, wanted)]
    for text in wanted.filters:
        chosen = _filter(chosen, text)
    if wanted.sample is not None:
        chosen = list(sample(chosen, wanted.sample, wanted.seed))
    if wanted.limit is not None:
        if wanted.limit < 0:
            msg = f"limit is {wanted.limit}, expected 0 or more"
            raise DatasetError(msg)
        chosen = chosen[: wanted.limit]
    return tuple(chosen)


def _is_wanted(item: Item, wanted: Selection) -> bool:
    if wanted.only is not None and item.item_id not in wanted.only:
        return False
    if wanted.item_ids and not any(fnmatchcase(item.item_id, pattern) for pattern in wanted.item_ids):
        return False
    names = [name.casefold() for name in item.category]
    patterns = [pattern.casefold() for pattern in wanted.categories]
    return not patterns or any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


_FIELDS = ("truth", "truth_detail", "severity", "adversariality", "family", "source", "language", "split", "level")


def _filter(items: Sequence[Item], text: str) -> list[Item]:
    name, equals, value = text.partition("=")
    if not equals:
        msg = f"filter {text!r}: expected NAME=VALUE"
        raise DatasetError(msg)
    known = name in _FIELDS or any(name in item.meta for item in items)
    if items and not known:
        columns = sorted({column for item in items for column in item.meta})
        msg = f"filter {text!r}: no such field; known are {', '.join((*_FIELDS, *columns))}"
        raise DatasetError(msg)
    return [item for item in items if _field(item, name) == value]


def _field(item: Item, name: str) -> str:
    value: object = getattr(item, name) if name in _FIELDS else item.meta.get(name)
    return "" if value is None else str(value)
