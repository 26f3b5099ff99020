"""One plan cut into shards by item, so that machines apart make it together and a merge can prove it whole."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from evals.folder import to_lines
from evals.plan import PlannedTrial, to_rows
from supervisors.errors import ConfigError

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Shard:
    """One part of a plan.

    Args:
        index: from 1.
        count: how many parts there are.
    """

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def parse_shard(text: str) -> Shard:
    """Read ``i/n``.

    Raises:
        ConfigError: it is anything else, or i is not from 1 to n.
    """
    found = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
    shard = Shard(int(found[1]), int(found[2])) if found else Shard(0, 0)
    if not 1 <= shard.index <= shard.count <= _MOST:
        msg = f"--shard {text}: expected i/n with i from 1 to n, such as 2/8, and n at most {_MOST}"
        raise ConfigError(msg)
    return shard


def take(plan: Iterable[PlannedTrial], shard: Shard) -> Iterator[PlannedTrial]:
    """Yield the trials of every n-th item; all trials of an item, with all their arms and repeats, stay together."""
    for place, (_, trials) in enumerate(groupby(plan, key=lambda trial: trial.item_id)):
        if place % shard.count == shard.index - 1:
            yield from trials


def interleave(parts: Sequence[Sequence[PlannedTrial]]) -> Iterator[PlannedTrial]:
    """Yield the whole plan of its parts, in order: the reverse of `take`."""
    groups = [groupby(part, key=lambda trial: trial.item_id) for part in parts]
    while True:
        taken = False
        for group in groups:
            found = next(group, None)
            if found is not None:
                taken = True
                yield from found[1]
        if not taken:
            return


def plan_sha256(plan: Iterable[PlannedTrial]) -> str:
    """Return the hash of a plan as its file has it."""
    digest = hashlib.sha256()
    for trial in plan:
        digest.update(to_lines(to_rows([trial])).encode("ascii"))
    return digest.hexdigest()
