from __future__ import annotations

from collections import Counter
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from evals.client import load_guard
from evals.contamination import classify
from evals.datasets import load, load_card
from evals.datasets.lock import lock
from evals.options import RunOptions
from evals.prepare import prepare
from supervisors.embedded.items import contains_text, read_items
from supervisors.errors import ConfigError
from tests.evals.harness import make_words_guard

pytestmark = pytest.mark.data


def _kinds(name: str, data_dir: Path, **changes: bool) -> Counter[tuple[str | None, str]]:
    options = RunOptions((name,), str(data_dir), allow_contaminated=changes.get("allowed", False))
    plan = prepare(options, {}, load_guard(None, {})).plan
    return Counter([(trial.adversariality, trial.contamination) for trial in plan])


def test_plain_bells_prompts_are_clean_and_wrapped_ones_are_a_sister(data_dir: Path) -> None:  # LG-23, LG-24
    assert _kinds("bells", data_dir) == {("direct", "clean"): 170, ("jailbroken", "sister"): 8}


@pytest.mark.parametrize("name", ["harmfulqa", "benign-alpacaeval"])
def test_a_set_seen_in_training_is_refused_before_any_call(data_dir: Path, name: str) -> None:  # LG-23, LG-24
    with pytest.raises(ConfigError, match=r"seen in the guard's training .*--allow-contaminated"):
        _kinds(name, data_dir)


def test_a_seen_set_runs_when_that_is_asked_for(data_dir: Path) -> None:  # LG-23
    kinds = _kinds("harmfulqa", data_dir, allowed=True)
    assert {kind for _, kind in kinds} == {"trained_on"}


def test_a_guard_that_lists_no_training_is_unknown(data_dir: Path) -> None:  # LG-23
    plan = prepare(RunOptions(("bells",), str(data_dir)), {}, make_words_guard()).plan
    assert {trial.contamination for trial in plan} == {"unknown"}


def test_items_that_are_in_the_contamination_list_overlap(data_dir: Path, tmp_path: Path) -> None:  # LG-24
    seen = [item.prompt for item in load("harmfulqa", data_dir)]
    first = load("smoke", tmp_path)[0]
    texts = [*_listed(seen)[:3], *[f"made-up text number {n}" for n in range(97)]]
    items = [replace(first, item_id=f"smoke/all/{n}", prompt=text) for n, text in enumerate(texts)]
    found = classify(load_guard(None, {}).supervisors, items, lock([load_card("smoke")], tmp_path))
    assert Counter(found.values()) == {"overlap": 3, "clean": 97}


def _listed(texts: list[str]) -> list[str]:
    listed = read_items(Path(str(resources.files("supervisors.embedded"))) / "embedded.items")
    return [text for text in texts if contains_text(listed, text)]
