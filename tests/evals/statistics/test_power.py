# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import pytest

from evals.statistics.power import (
    inflate_for_clusters,
    items_for_paired,
    items_for_unpaired,
    minimum_detectable_difference,
    minimum_detectable_unpaired,
)


#
@pytest.mark.parametrize(
    ("discordant", "difference", "items", "connor"),
    [
        (0.10, 0.05, 307, 312),
        (0.10, 0.02, 1955, 1960),
        (0.20, 0.05, 621, 626),
        (0.05, 0.03, 429, 434),
        (0.30, 0.10, 228, 234),
    ],
)
def test_paired_plans_have_the_printed_digits(discordant: float, difference: float, items: int, connor: int) -> None:
    plan = items_for_paired(discordant, difference)
    assert (plan.items, plan.items_connor) == (items, connor)


#
@pytest.mark.parametrize(
    ("p1", "p2", "items"), [(0.10, 0.05, 432), (0.05, 0.03, 1504), (0.02, 0.01, 2316), (0.50, 0.40, 385)]
)
def test_unpaired_plans_have_the_printed_digits(p1: float, p2: float, items: int) -> None:
    assert items_for_unpaired(p1, p2) == items_for_unpaired(p2, p1) == items


#
@pytest.mark.parametrize(
    ("items", "discordant", "mde"),
    [
        (100, 0.10, 0.08531),
        (313, 0.10, 0.04946),
        (520, 0.10, 0.03856),
        (1200, 0.10, 0.02549),
        (100, 0.05, 0.06032),
        (939, 0.20, 0.04072),
    ],
)
def test_detectable_differences_have_the_printed_digits(items: int, discordant: float, mde: float) -> None:
    assert minimum_detectable_difference(items, discordant) == pytest.approx(mde, abs=1e-5)


def test_a_hundred_items_cannot_tell_five_from_three_percent() -> None:
    assert items_for_unpaired(0.05, 0.03) > 100
    assert minimum_detectable_difference(100, 0.05) > 0.02
    found = minimum_detectable_unpaired(0.03, 100, 100)
    assert found is not None
    assert found > 0.02


@pytest.mark.parametrize(
    ("p1", "p2", "items"), [(0.05, 0.10, 432), (0.03, 0.05, 1504), (0.01, 0.02, 2316), (0.40, 0.50, 385)]
)
def test_the_unpaired_detectable_difference_undoes_the_plan(p1: float, p2: float, items: int) -> None:
    assert items_for_unpaired(p1, p2) == items
    assert minimum_detectable_unpaired(p1, items, items) == pytest.approx(p2 - p1, rel=2e-3)
    assert minimum_detectable_unpaired(1 - p1, items, items) == pytest.approx(p2 - p1, rel=2e-3)


def test_two_runs_of_different_sizes_find_what_lies_between() -> None:
    small, mixed, large = [minimum_detectable_unpaired(0.1, *sizes) for sizes in ((100, 100), (100, 900), (900, 900))]
    assert small is not None
    assert mixed is not None
    assert large is not None
    assert small > mixed > large
    assert minimum_detectable_unpaired(0.5, 1, 1) is None
    assert minimum_detectable_unpaired(0.0, 100, 100) == pytest.approx(7.848880 / 107.848880, abs=1e-6)


def test_clusters_inflate_the_plan() -> None:
    assert inflate_for_clusters(100, 5, 0.8) == 420
    assert inflate_for_clusters(100, 5) == 300


def test_impossible_plans_are_refused() -> None:
    with pytest.raises(ValueError, match="discordant"):
        items_for_paired(0.05, 0.1)
    with pytest.raises(ValueError, match="two different rates"):
        items_for_unpaired(0.1, 0.1)
    with pytest.raises(ValueError, match="cluster size"):
        inflate_for_clusters(10, 0.5)
    with pytest.raises(ValueError, match="items > 0"):
        minimum_detectable_difference(0, 0.1)
    with pytest.raises(ValueError, match="items > 0"):
        minimum_detectable_unpaired(0.1, 0, 5)
