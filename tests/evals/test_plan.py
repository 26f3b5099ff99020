from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evals.datasets import load
from evals.folder import to_lines
from evals.plan import Design, Selection, build_plan, read_plan, select, to_rows, unsupported
from evals.types import Item
from supervisors.errors import DatasetError, StoreError


@pytest.fixture
def items(tmp_path: Path) -> tuple[Item, ...]:
    return load("smoke", tmp_path)


def _design(**changes: object) -> Design:
    design = Design(models={"m": "t" * 64}, guard_sha256="g" * 64, file_sha256={"smoke": "f" * 64})
    return replace(design, **changes)  # type: ignore[arg-type] # fields by name


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


@pytest.mark.parametrize(
    "changes",
    [
        {"models": {"m": "u" * 64}},
        {"guard_sha256": "h" * 64},
        {"file_sha256": {"smoke": "e" * 64}},
        {"composition": "hb-context-before-1"},
        {"ledger": "off"},
    ],
)
def test_whatever_changes_a_trial_changes_its_key(items: tuple[Item, ...], changes: dict[str, object]) -> None:  # H-114
    before = {trial.trial_key for trial in build_plan(items, _design())}
    after = {trial.trial_key for trial in build_plan(items, _design(**changes))}
    assert not before & after


def test_keys_do_not_depend_on_the_other_items(items: tuple[Item, ...]) -> None:  # H-113
    assert build_plan(items[3:4], _design())[0] == build_plan(items, _design())[3]


def test_what_needs_more_than_one_chat_call_is_skipped(items: tuple[Item, ...]) -> None:  # H-09, H-131
    tools = replace(items[0], tools=({"type": "function"},))
    assert unsupported(tools, with_model=True) == "needs a tool channel"
    assert unsupported(replace(items[0], level="trajectory"), with_model=True) == "is a whole trace, not one request"
    assert build_plan([tools], _design())[0].skip == "needs a tool channel"


def test_a_plan_comes_back_from_its_file(items: tuple[Item, ...], tmp_path: Path) -> None:  # H-104
    plan = build_plan(items, _design(repeats=2))
    path = tmp_path / "plan.jsonl"
    path.write_text(to_lines(to_rows(plan)))
    assert read_plan(path) == plan


def test_a_broken_plan_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    path.write_text("{}\n")
    with pytest.raises(StoreError, match="line 1: is not a planned trial"):
        read_plan(path)
