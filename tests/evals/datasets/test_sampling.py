"""Balanced samples: the published vector, and what must hold for every argument."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.datasets.sampling import drop_repeats, ids_sha256, sample
from evals.types import Item, Truth, make_item_id
from supervisors.errors import DatasetError


def item(index: int, category: str = "", prompt: str | None = None, cluster: str = "", **meta: object) -> Item:
    text = f"text {index}" if prompt is None else prompt
    return Item(
        dataset="toy",
        split="all",
        index=index,
        item_id=make_item_id("toy", "all", index, text),
        cluster_id=cluster or f"toy#{index}",
        level="prompt",
        prompt=text,
        truth=Truth.UNKNOWN,
        category=(category,) if category else (),
        skip=None if text else "no text",
        meta=meta,
    )


TOY = [item(index, category) for index, category in enumerate("aaaaabbb" + "c" * 12)]


@pytest.mark.parametrize(
    ("seed", "n", "positions"),
    [
        (7, 0, []),
        (7, 1, [2]),
        (7, 2, [2, 5]),
        (7, 9, [2, 3, 4, 5, 6, 7, 13, 14, 17]),
        (7, 12, [0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 17]),
        (8, 9, [0, 1, 4, 5, 6, 7, 10, 12, 16]),
        (7, 99, list(range(20))),
    ],
)
def test_the_vector_of_the_specification_holds(seed: int, n: int, positions: list[int]) -> None:  # DS-17, H-102
    assert [one.index for one in sample(TOY, n, seed)] == positions


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from("abcd"), max_size=25), st.integers(0, 30), st.integers(0, 3), st.integers(0, 9))
def test_larger_samples_contain_smaller_ones_and_are_balanced(names: list[str], n: int, more: int, seed: int) -> None:
    items = [item(index, name) for index, name in enumerate(names)]  # DS-18
    small, large = sample(items, n, seed), sample(items, n + more, seed)
    assert {one.item_id for one in small} <= {one.item_id for one in large}
    assert [one.index for one in small] == sorted(one.index for one in small)
    sizes, drawn = Counter(names), Counter(one.category[0] for one in small)
    open_counts = [drawn[name] for name in sizes if drawn[name] < sizes[name]]
    assert all(count >= max(drawn.values(), default=0) - 1 for count in open_counts)


def test_exact_repeats_and_rows_without_text_are_not_drawn() -> None:  # T-17, T-12
    items = [item(0, prompt="kite"), item(1, prompt="kite"), item(2, prompt=""), item(3, prompt="kite ")]
    assert [one.index for one in sample(items, 9, 1)] == [0, 3]
    assert [one.index for one in drop_repeats([replace(items[0], context="a"), items[1]])] == [0, 1]  # T-13


def test_pairs_are_drawn_whole_and_by_default() -> None:  # DS-19
    items = [replace(item(index, cluster=f"toy#{index // 2}"), paired=True) for index in range(10)]
    drawn = sample(items, 2, 3)
    assert len(drawn) == 4
    assert all(count == 2 for count in Counter(one.cluster_id for one in drawn).values())
    assert len(sample(items, 2, 3, unit="item")) == 2


def test_balance_keys_are_dealt_from_the_outside_in() -> None:  # DS-20
    items = [item(n, method="m1", hazard=f"h{n}") for n in range(9)] + [item(9, method="m2", hazard="h0")]
    drawn = sample(items, 2, 5, balance=("method", "hazard"))
    assert {one.meta["method"] for one in drawn} == {"m1", "m2"}
    with pytest.raises(DatasetError, match="no column 'persona' to balance over"):
        sample(items, 2, 5, balance=("persona",))


def test_samples_of_nothing_mixtures_and_negative_sizes() -> None:
    assert sample([], 5, 1) == ()
    with pytest.raises(DatasetError, match="expected 0 or more"):
        sample(TOY, -1, 1)
    with pytest.raises(DatasetError, match="from one data set"):
        sample([TOY[0], replace(TOY[1], dataset="other")], 1, 1)


def test_the_hash_of_a_sample_depends_on_its_ids() -> None:  # DS-18
    assert ids_sha256(sample(TOY, 9, 7)) == ids_sha256(sample(TOY, 9, 7))
    assert ids_sha256(sample(TOY, 9, 7)) != ids_sha256(sample(TOY, 9, 8))
