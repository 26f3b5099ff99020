"""A published number: whose, of what, measured how, and how far it can be held against another (datasets §10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evals.statistics.proportions import wilson
from supervisors.errors import DatasetError

_LOWER_IS_BETTER = ("fpr", "bias")
LOWER = "lower is better"
"""How the metric of a leaderboard of one's own ends where it is so (DS-23)."""


@dataclass(frozen=True, slots=True)
class Published:
    """One published number.

    Args:
        dataset: our card, empty where we have none.
        named: the set as the file names it.
        system: whose number it is.
        metric: ``recall``, ``f1``, ``fpr``, ``precision``, ``safety score`` and so on, in the words of the file.
        value: as a fraction; a bias may be negative.
        source: file or publication.
        cohort: how it was measured; only numbers of equal cohorts can be held against each other.
        n: items behind it, None when nobody said.
        lo, hi: 95 % Wilson interval, or bounds where some answers were of neither kind; None without counts.
        note: what a reader must know.
    """

    dataset: str
    named: str
    system: str
    metric: str
    value: float
    source: str
    cohort: str
    n: int | None = None
    lo: float | None = None
    hi: float | None = None
    note: str = ""

    @property
    def lower_is_better(self) -> bool:
        """Say whether less of it is better."""
        return self.metric in _LOWER_IS_BETTER or self.metric.endswith(LOWER)

    @property
    def text(self) -> str:
        """Return the number with its interval and n, as far as they are known."""
        span = "" if self.lo is None or self.hi is None else f" [{self.lo:.3f}, {self.hi:.3f}]"
        return f"{self.value:.3f}{span}" + ("" if self.n is None else f" n {self.n}")


_LIST = TypeAdapter(tuple[Published, ...])


def counted(k: int, n: int) -> tuple[float, int, float | None, float | None]:
    """Return value, n and Wilson interval of k of n.

    Raises:
        DatasetError: there is nothing to divide by.
    """
    if n <= 0 or not 0 <= k <= n:
        msg = f"{k} of {n} is no share"
        raise DatasetError(msg)
    found = wilson(k, n)
    return k / n, n, found.lo, found.hi


def dump(numbers: Iterable[Published]) -> str:
    """Return numbers as JSON, one a line, so that a change of one is a change of one line."""
    lines = [_LIST.dump_json((number,), exclude_defaults=True).decode("utf-8")[1:-1] for number in numbers]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def parse(text: str, where: Path) -> tuple[Published, ...]:
    """Read numbers that `dump` wrote.

    Raises:
        DatasetError: it is no such list.
    """
    try:
        return _LIST.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        msg = ": ".join([part for part in (str(where), ".".join(map(str, first["loc"])), first["msg"]) if part])
        raise DatasetError(msg) from error


def of_dataset(numbers: Iterable[Published], dataset: str) -> list[Published]:
    """Return the numbers of one of our sets: by metric and cohort, the best first where more is better."""
    chosen = [one for one in numbers if one.dataset == dataset]
    return sorted(chosen, key=lambda one: (one.source, one.metric, one.cohort, _order(one), one.system))


def _order(one: Published) -> float:
    return one.value if one.lower_is_better else -one.value
