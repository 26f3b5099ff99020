"""What two sets share, on made-up rows and on the counts of the specification."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from evals.datasets import load, load_card
from evals.datasets.load import missing_files
from evals.datasets.overlap import NEAR, compare_sets, count_origins, overlap, overlap_many, shingles, without_shared
from evals.types import Item, Truth, make_item_id

LONG = "please describe the colour of the violet umbrella that stands beside the green kettle on the shelf"


def items(*texts: str, dataset: str = "toy") -> list[Item]:
    return [
        Item(
            dataset=dataset,
            split="all",
            index=index,
            item_id=make_item_id(dataset, "all", index, text),
            cluster_id=f"{dataset}#{index}",
            level="prompt",
            prompt=text,
            truth=Truth.UNKNOWN,
        )
        for index, text in enumerate(texts)
    ]


@functools.lru_cache(maxsize=4)
def real(name: str, data_dir: Path) -> tuple[Item, ...]:
    if missing_files(load_card(name), data_dir):
        pytest.skip(f"{name} is not on disk")
    return load(name, data_dir)


def test_texts_are_shared_exactly_after_normalising_or_nearly() -> None:  # DS-14
    ours = items("green kettle", "Violet  Umbrella", LONG + " today", "alone")
    theirs = items("green kettle", "green kettle", "violet umbrella", LONG + " now", dataset="other")
    found = compare_sets("toy", ours, "other", theirs)
    assert (found.exact, found.norm, found.near) == (1, 2, 1)
    assert [shared.key for shared in found.shared] == ["exact", "norm", "near"]
    assert found.shared[0].right == (theirs[0].item_id, theirs[1].item_id)
    assert NEAR <= found.shared[2].similarity < 1


def test_a_root_counts_as_well_as_the_text_made_from_it() -> None:
    wrapped = [replace(items("enilno ettik")[0], root="green kettle")]
    assert compare_sets("a", wrapped, "b", items("green kettle")).norm == 1


def test_rows_without_text_share_nothing() -> None:
    empty = [replace(items("")[0], skip="no text")]
    assert compare_sets("a", empty, "b", empty).norm == 0


def test_near_pairs_are_all_found() -> None:
    generator = random.Random(5)  # noqa: S311 - not for secrets
    words = [f"w{n}" for n in range(12)]
    base = [generator.choices(words, k=generator.randint(1, 30)) for _ in range(12)]
    texts = [" ".join(row + ["x"] * (n // 12 % 4)) for n, row in enumerate(base * 6)]
    ours, theirs = items(*texts[:36]), items(*texts[36:], dataset="other")
    expected = {
        (left, right)
        for left, right in product({one.norm for one in ours}, {one.norm for one in theirs})
        if left != right and len(shingles(left) & shingles(right)) / len(shingles(left) | shingles(right)) >= NEAR
    }
    assert len(expected) > 5
    assert compare_sets("a", ours, "b", theirs).near == len(expected)


def test_shared_items_leave_the_test_side_first() -> None:  # DS-15
    test = items("green kettle", "alone", LONG + " today")
    kept, removed = without_shared(test, items("Green Kettle", LONG + " now"))
    assert [one.prompt for one in kept] == ["alone"]
    assert removed == (test[0].item_id, test[2].item_id)
    assert len(without_shared(test, items(LONG + " now"), near=False)[0]) == 3


def test_every_pair_of_sets_is_reported_and_origins_are_counted() -> None:  # DS-16
    sets = {"a": items("x"), "b": items("x"), "c": items("y")}
    assert [(found.left, found.right, found.norm) for found in overlap(sets)] == [
        ("a", "b", 1),
        ("a", "c", 0),
        ("b", "c", 0),
    ]
    assert count_origins([replace(items("x")[0], source="elsewhere"), items("y")[0]]) == {"elsewhere": 1}


@pytest.mark.data
@pytest.mark.parametrize(
    ("left", "right", "count"),
    [
        ("advbench", "strongreject", 25), ("advbench", "jailbreakbench", 11), ("advbench", "sg-bench", 520),
        ("advbench", "salad-mcq", 23), ("advbench", "advbench-pair50", 50), ("strongreject", "forbidden-questions", 34),
        ("strongreject", "malicious-instruct", 12), ("strongreject", "dangerousqa", 11),
        ("strongreject", "jailbreakbench", 3), ("strongreject", "sg-bench", 25), ("strongreject", "salad-mcq", 5),
        ("strongreject-early", "advbench", 40), ("strongreject-early", "forbidden-questions", 50),
        ("jailbreakbench", "harmbench", 9), ("jailbreakbench", "tdc2023", 4), ("tdc2023", "harmbench", 17),
        ("do-not-answer", "salad-mcq", 20), ("do-not-answer", "alert", 3), ("alert", "salad-mcq", 131),
        ("alert", "dangerousqa", 7), ("alert", "xstest", 2), ("sg-bench", "beavertails-eval", 428),
        ("sg-bench", "salad-mcq", 42), ("bells", "do-not-answer", 22), ("bells", "forbidden-questions", 19),
        ("bells", "catqa", 14), ("bells", "jailbreakbench", 11), ("bells", "alert", 7), ("bells", "advbench", 3),
        ("bells", "harmbench", 1), ("ailuminate-en", "advbench", 0), ("simplesafetytests", "alert", 0),
        ("s-eval-base", "advbench", 0),
    ],
)  # fmt: skip
def test_the_counts_of_the_specification_hold(left: str, right: str, count: int, data_dir: Path) -> None:  # DS-14, §6
    assert compare_sets(left, real(left, data_dir), right, real(right, data_dir)).norm == count


def test_many_sets_at_once_give_the_counts_of_each_pair() -> None:  # DS-14
    sets = {"a": items("Green kettle", "x", "y"), "b": items("green  kettle", "x"), "c": items("z")}
    many = {(one.left, one.right): one for one in overlap_many(sets)}
    for one in overlap(sets):
        found = many.pop((one.left, one.right), None)
        assert (one.exact, one.norm) == ((0, 0) if found is None else (found.exact, found.norm))
        if found is not None:
            assert found.near is None
            assert [(text.key, text.left) for text in found.shared] == [
                (text.key, text.left) for text in one.shared if text.key != "near"
            ]
    assert many == {}
