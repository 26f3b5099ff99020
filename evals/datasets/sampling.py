"""Balanced samples that are the same on every platform (datasets §7)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import Literal

from evals.types import Item
from supervisors.errors import DatasetError

Unit = Literal["item", "cluster"]


def sample(
    items: Sequence[Item], n: int, seed: int, *, unit: Unit | None = None, balance: Sequence[str] = ()
) -> tuple[Item, ...]:
    """Draw a balanced sample of one data set; a larger `n` contains the smaller one (DS-17, DS-18).

    Exact repeats are dropped first (the first stays), as are rows without text. Units are shuffled inside each
    category and dealt one a category in turn, so counts differ by at most one unless a category is used up.

    Args:
        items: items of one data set, in file order.
        n: number of units; 0 gives none, too many gives all.
        seed: any integer.
        unit: `item`, or `cluster` to draw whole clusters; None takes clusters for paired sets (DS-19).
        balance: columns of `meta` (or ``category``) to balance over, the first one outermost; empty means category.

    Raises:
        DatasetError: `n` is negative, the items belong to several data sets, or a balance column is absent.
    """
    if n < 0:
        msg = f"sample size is {n}, expected 0 or more"
        raise DatasetError(msg)
    names = {item.dataset for item in items}
    if len(names) > 1:
        msg = f"a sample is drawn from one data set, got {sorted(names)}"
        raise DatasetError(msg)
    groups = _units(items, unit or _unit_of(items))
    keys = {unit_id: _balance_key(group[0], balance) for unit_id, group in groups.items()}
    chosen = _deal(keys, n, f"{seed}|{next(iter(names), '')}")
    positions = {item.item_id: position for position, item in enumerate(items)}
    drawn = [item for unit_id in chosen for item in groups[unit_id]]
    return tuple(sorted(drawn, key=lambda item: positions[item.item_id]))


def ids_sha256(items: Sequence[Item]) -> str:
    """Return the sha256 of the item ids, one a line: the fact a plan stores so that nothing is re-drawn silently."""
    return hashlib.sha256("\n".join(item.item_id for item in items).encode()).hexdigest()


def drop_repeats(items: Sequence[Item]) -> tuple[Item, ...]:
    """Keep the first of items that would send exactly the same text, and only those that have text."""
    firsts: dict[object, Item] = {}
    for item in items:
        if item.skip is None:
            firsts.setdefault((item.system, item.context, item.prompt, item.response, item.messages), item)
    return tuple(firsts.values())


def _unit_of(items: Sequence[Item]) -> Unit:
    return "cluster" if any(item.paired for item in items) else "item"


def _units(items: Sequence[Item], unit: Unit) -> Mapping[str, list[Item]]:
    """Group the items to be drawn together, in file order."""
    groups: dict[str, list[Item]] = {}
    for item in drop_repeats(items):
        groups.setdefault(item.cluster_id if unit == "cluster" else item.item_id, []).append(item)
    return groups


def _balance_key(item: Item, balance: Sequence[str]) -> tuple[str, ...]:
    return tuple(_cell(item, column) for column in balance or ("category",))


def _cell(item: Item, column: str) -> str:
    if column == "category":
        return "|".join(item.category)
    if column not in item.meta:
        msg = f"{item.item_id} has no column {column!r} to balance over; columns: {sorted(item.meta)}"
        raise DatasetError(msg)
    return str(item.meta[column])


def _deal(keys: Mapping[str, tuple[str, ...]], n: int, seed_text: str) -> list[str]:
    """Deal units to the sample, one a category in turn, until `n`."""
    seed = int.from_bytes(hashlib.sha256(seed_text.encode()).digest(), "big")
    generator = random.Random(seed)  # noqa: S311 - a sample is no secret
    return _order(list(keys), keys, 0, generator)[:n]


def _order(units: list[str], keys: Mapping[str, tuple[str, ...]], depth: int, generator: random.Random) -> list[str]:
    """Put units into the order they are dealt in: piles by the key at `depth`, each ordered inside first."""
    piles: dict[str, list[str]] = {}
    for unit_id in units:
        if depth == len(keys[unit_id]):
            generator.shuffle(units)
            return units
        piles.setdefault(keys[unit_id][depth], []).append(unit_id)
    ordered = [_order(piles[name], keys, depth + 1, generator) for name in sorted(piles)]
    rounds = max((len(pile) for pile in ordered), default=0)
    return [pile[turn] for turn in range(rounds) for pile in ordered if turn < len(pile)]
