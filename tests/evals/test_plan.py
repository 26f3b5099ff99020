from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evals.datasets import load
from evals.folder import to_lines
from evals.plan import Design, Plan, build_plan, past_proxy, read_plan, to_rows, unsupported
from evals.types import Item
from supervisors.errors import StoreError


@pytest.fixture
def items(tmp_path: Path) -> tuple[Item, ...]:
    return load("smoke", tmp_path)


def _design(**changes: object) -> Design:
    design = Design(models={"m": "t" * 64}, guard_sha256="g" * 64, file_sha256={"smoke": "f" * 64})
    return replace(design, **changes)  # type: ignore[arg-type] # fields by name


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
    assert list(read_plan(path)) == list(plan)


@pytest.mark.parametrize(
    ("ledger", "repeats", "places"),
    [
        ("paired", 1, [None, None, 0]),
        ("paired", 2, [None, None, None, None, 0, 1]),
        ("both", 1, [None, 0]),
        ("both", 3, [None, None, None, 0, 1, 2]),
        ("shadow", 2, [None, None]),
        ("off", 2, [None, None]),
    ],
)
def test_an_enforced_trial_knows_the_same_repeat_past_the_proxy(
    items: tuple[Item, ...], ledger: str, repeats: int, places: list[int | None]
) -> None:  # H-156
    plan = build_plan(items[:3], _design(ledger=ledger, repeats=repeats, models={"m": "t" * 64, "n": "u" * 64}))
    expected = [
        None if place is None else start + place
        for start in range(0, 6 * len(places), len(places))  # three items, two models
        for place in places
    ]
    assert isinstance(plan, Plan)
    assert [plan.past_proxy(place) for place in range(len(plan))] == expected
    assert [past_proxy(list(plan), place) for place in range(len(plan))] == expected


def test_a_broken_plan_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    path.write_text("{}\n")
    with pytest.raises(StoreError, match="line 1: is not a planned trial"):
        read_plan(path)


def test_a_plan_gives_back_the_trials_it_was_made_of(items: tuple[Item, ...]) -> None:
    trials = list(build_plan(items, _design(repeats=3, ledger="both")))
    plan = Plan(trials)
    assert list(plan) == trials
    assert [plan[-1], *plan[2:5]] == [trials[-1], *trials[2:5]]
    assert list(plan.part([4, 0])) == [trials[4], trials[0]]
    assert [plan.keys.key(place) for place in range(len(plan))] == [one.trial_key for one in trials]


def test_a_key_that_is_planned_twice_stays_twice_in_the_plan(items: tuple[Item, ...]) -> None:  # H-173
    first, second = list(build_plan(items[:2], _design()))
    plan = Plan([first, replace(second, trial_key=first.trial_key), first])
    assert (len(plan), list(plan.keys.doubled())) == (3, [(first.trial_key, 3)])
    assert plan[1].item_id == second.item_id


def test_repeats_in_any_order_come_back(items: tuple[Item, ...]) -> None:
    one, two = build_plan(items[:1], _design(repeats=6)), build_plan(items[1:2], _design(repeats=6))
    trials = [*one[3:5], *one[:3], two[0], *one[:2], *two[4:6], two[0]]
    assert list(Plan(trials)) == trials
    assert [Plan(trials)[place] for place in range(-1, -len(trials) - 1, -1)] == trials[::-1]
    with pytest.raises(IndexError):
        _ = Plan(trials)[len(trials)]
