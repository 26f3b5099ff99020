from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from evals.plan import PlannedTrial
from evals.prepare import prepare
from evals.shards import Shard, interleave, parse_shard, plan_sha256, take
from supervisors.errors import ConfigError
from tests.evals.harness import make_options, make_words_guard


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Sequence[PlannedTrial]:
    options = make_options(tmp_path_factory.mktemp("data"), ledger="paired", repeats=2)
    return prepare(options, {}, make_words_guard()).plan


@pytest.mark.parametrize("count", range(1, 13))
def test_shards_cut_a_plan_by_item_and_give_it_back(plan: Sequence[PlannedTrial], count: int) -> None:
    parts = [tuple(take(plan, Shard(index, count))) for index in range(1, count + 1)]
    assert list(interleave(parts)) == list(plan)
    items = [{trial.item_id for trial in part} for part in parts]
    assert sum([len(one) for one in items]) == len(set[str]().union(*items)) == 10


def test_a_changed_or_missing_part_gives_another_hash(plan: Sequence[PlannedTrial]) -> None:
    parts = [tuple(take(plan, Shard(index, 3))) for index in (1, 2, 3)]
    assert plan_sha256(interleave(parts)) == plan_sha256(plan)
    assert plan_sha256(interleave(parts[:2])) != plan_sha256(plan)
    assert plan_sha256(interleave([parts[1], parts[0], parts[2]])) != plan_sha256(plan)
    changed = (replace(parts[0][0], repeat=9), *parts[0][1:])
    assert plan_sha256(interleave([changed, *parts[1:]])) != plan_sha256(plan)


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "a/b", "1/0", "-1/2", "1/2/3", "1/10001"])
def test_a_shard_is_i_of_n(text: str) -> None:
    with pytest.raises(ConfigError, match="expected i/n"):
        parse_shard(text)


def test_the_identity_of_a_shard_names_the_whole_plan(tmp_path: Path, plan: Sequence[PlannedTrial]) -> None:
    options = make_options(tmp_path, ledger="paired", repeats=2, shard="2/3")
    prepared = prepare(options, {}, make_words_guard())
    assert prepared.identity["shard"] == {
        "index": 2,
        "count": 3,
        "planned": len(plan),
        "plan_sha256": plan_sha256(plan),
    }
    assert list(prepared.plan) == list(take(plan, Shard(2, 3)))
