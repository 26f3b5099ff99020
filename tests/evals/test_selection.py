from __future__ import annotations

from pathlib import Path

import pytest

from evals.datasets import load
from evals.selection import Selection, select
from evals.types import Item
from supervisors.errors import DatasetError


@pytest.fixture
def items(tmp_path: Path) -> tuple[Item, ...]:
    return load("smoke", tmp_path)


def test_a_limit_of_zero_gives_nothing(items: tuple[Item, ...]) -> None:  # H-102, H-41
    assert select(items, Selection(limit=0)) == ()


def test_a_limit_takes_the_first_in_file_order(items: tuple[Item, ...]) -> None:
    assert select(items, Selection(limit=3)) == items[:3]


def test_a_negative_limit_is_refused(items: tuple[Item, ...]) -> None:
    with pytest.raises(DatasetError, match="limit is -1, expected 0 or more"):
        select(items, Selection(limit=-1))


def test_a_filter_looks_at_fields_and_columns(items: tuple[Item, ...]) -> None:
    chosen = select(items, Selection(filters=("truth=harmful",)))
    assert len(chosen) == 5
    assert select(chosen, Selection(filters=("label=harmful",))) == chosen


def test_a_filter_on_a_missing_field_names_those_there_are(items: tuple[Item, ...]) -> None:
    with pytest.raises(DatasetError, match="no such field; known are truth"):
        select(items, Selection(filters=("colour=red",)))


def test_a_filter_without_a_value_is_refused(items: tuple[Item, ...]) -> None:
    with pytest.raises(DatasetError, match="expected NAME=VALUE"):
        select(items, Selection(filters=("truth",)))


def test_ids_and_categories_are_patterns(items: tuple[Item, ...]) -> None:
    assert select(items, Selection(item_ids=("*/000002-*",))) == (items[2],)
    category = items[0].category[0]
    assert items[0] in select(items, Selection(categories=(category.upper(),)))


def test_a_sample_is_the_same_each_time_and_depends_on_the_seed(items: tuple[Item, ...]) -> None:
    one = select(items, Selection(sample=4, seed=1))
    assert one == select(items, Selection(sample=4, seed=1))
    assert len(one) == 4
