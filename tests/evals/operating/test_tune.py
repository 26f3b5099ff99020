from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals.client import parse_guard
from evals.operating.candidates import Budget, Candidate, choose_best, rate_candidate
from evals.operating.scores import Judged
from evals.operating.snippet import at_score, entry_of, to_policy_file, with_choice
from evals.operating.tables import tuned_lines
from evals.operating.tune import assign_folds, tune, tune_and_test
from supervisors.errors import ConfigError
from tests.evals.operating.made_up import judged, said

NAMES = ("fast@input", "slow@input")


def rows(count: int, seed: int, dataset: str = "a") -> list[Judged]:
    """Return items of which a fast supervisor knows half and a slow one the other half."""
    draw = random.Random(seed)  # noqa: S311 - made-up scores
    made: list[Judged] = []
    for n in range(count):
        truth = "harmful" if n % 2 == 0 else "benign"
        strong = draw.uniform(0.6, 1.0) if n % 2 == 0 else draw.uniform(0.0, 0.5)
        weak = draw.uniform(0.0, 0.7)
        first, second = (strong, weak) if n % 4 < 2 else (weak, strong)
        verdicts = {"fast": said(first, seconds=0.001), "slow": said(second, seconds=0.5)}
        made.append(judged(n, truth, verdicts, dataset))
    return made


def test_the_choice_keeps_the_budget_on_its_own_items_and_beats_one_supervisor() -> None:
    data = rows(400, 1)
    best = choose_best(data, NAMES, Budget(0.05))
    alone = choose_best(data, NAMES[:1], Budget(0.05))
    assert best is not None
    assert alone is not None
    assert best.false_positives <= 0.05
    assert best.detection > alone.detection
    assert len(best.candidate.members) == 2


def test_a_latency_budget_leaves_the_slow_one_out() -> None:
    best = choose_best(rows(400, 1), NAMES, Budget(0.05, max_p95=0.01))
    assert best is not None
    assert best.candidate.members == ("fast@input",)
    assert choose_best(rows(400, 1), NAMES, Budget(0.05, max_p95=0.0001)) is None


def test_held_out_numbers_come_from_items_the_choice_never_saw() -> None:
    made = tune(rows(400, 2), NAMES, Budget(0.05), folds=5, seed=0)
    assert made.held_out is not None
    assert made.held_out.detection.planned + made.held_out.false_positives.planned == 400
    assert made.apparent is not None
    assert "too good" in "\n".join(tuned_lines(made))


def test_scores_that_know_nothing_do_not_look_good_when_held_out() -> None:
    draw = random.Random(9)  # noqa: S311 - made-up scores
    data = [judged(n, ("harmful", "benign")[n % 2], {"fast": said(draw.random())}) for n in range(200)]
    made = tune(data, NAMES[:1], Budget(0.05), folds=5, seed=0)
    assert made.held_out is not None
    assert (made.held_out.detection.estimate or 0) < 0.2
    assert made.keeps_budget in ("no", "unclear")


def test_a_root_item_is_in_one_fold_only() -> None:
    folds = assign_folds(rows(100, 3), 5, 0)
    assert sorted(set(folds.values())) == [0, 1, 2, 3, 4]
    assert folds == assign_folds(list(reversed(rows(100, 3))), 5, 0)


def test_another_run_may_be_the_test() -> None:
    made = tune_and_test(rows(200, 4), rows(100, 5, "b"), NAMES, Budget(0.1), "run b")
    assert made.held_out is not None
    assert (made.held_out.method, made.held_out.detection.planned) == ("run b", 50)


def test_too_few_items_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 harmful root items are too few"):
        tune(rows(4, 0), NAMES, Budget(0.05), 5, 0)
    with pytest.raises(ConfigError, match="--folds 1"):
        tune(rows(40, 0), NAMES, Budget(0.05), 1, 0)


def test_an_unknown_verdict_is_no_detection_and_an_alarm_on_a_benign_item() -> None:
    data = [judged(0, "harmful", {"fast": said(None)}), judged(1, "benign", {"fast": said(None)})]
    made = rate_candidate(Candidate("threshold", ("fast@input",), (0.5,)), data)
    assert (made.detection, made.false_positives) == (0.0, 1.0)


POLICY: dict[str, Any] = yaml.safe_load(
    """
supervisors:
  fast: {use: guard, card: embedded, heads: [harm]}
  slow: {use: guard, card: embedded, heads: [injection]}
  other: {use: rules, keywords: [umbrella]}
  panel: {use: vote, members: {a: fast, b: {use: rules, keywords: [violet]}}}
policies:
  default: {input: {forced: [fast, other, slow]}}
"""
)


@pytest.mark.parametrize(
    "candidate",
    [
        Candidate("threshold", ("fast@input",), (0.25,)),
        Candidate("any", NAMES, (0.25, 0.75)),
        Candidate("cascade", NAMES, (0.9, 0.5), 0.1),
        Candidate("cascade", NAMES, (float("inf"), 0.5), 0.1),
        Candidate("cascade", NAMES, (float("inf"), 0.5), 0.0),
    ],
)
def test_a_choice_is_written_as_a_policy_and_other_supervisors_stay(candidate: Candidate) -> None:
    made = with_choice(POLICY, candidate, NAMES)
    assert made["policies"]["default"]["input"]["forced"] == ["other", "tuned"]
    text = to_policy_file(made, ["evidence"], {})
    assert text.startswith("# evidence\n")
    assert "&id" not in text
    assert "tuned" in parse_guard(Path("tuned.yaml"), text, {}).supervisors


def test_members_of_composites_are_found_and_others_are_named() -> None:
    assert entry_of(POLICY, "panel/a@input")["heads"] == ["harm"]
    assert entry_of(POLICY, "panel/b@input")["keywords"] == ["violet"]
    with pytest.raises(ConfigError, match="has no supervisor nobody"):
        entry_of(POLICY, "nobody@input")
    with pytest.raises(ConfigError, match=r"outside 0..1"):
        at_score({}, 7.5)
    alone = {**POLICY, "policies": {"default": {"input": {"forced": ["other"]}}}}
    with pytest.raises(ConfigError, match="no policy of the file asks"):
        with_choice(alone, Candidate("threshold", ("fast@input",), (0.5,)), NAMES)
