from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evals.comparison.changes import count_changes
from evals.comparison.pairing import Plan, compare_sides
from evals.comparison.sides import Side, load_side
from evals.comparison.tables import comparison_lines, to_csv
from evals.selection import Selection
from supervisors.errors import ConfigError
from supervisors.testing import Always, Finds
from supervisors.types import Cause, safe, unknown
from tests.evals.harness import CANARY, make_options, make_run, make_words_guard

PLAN = Plan(("detection_rate", "false_positive_rate"))
POLICY = {"input": {"forced": ["words"]}}


def make_side(tmp_path: Path, name: str, supervisor: object | None = None, **changes: object) -> Side:
    guard = make_words_guard(POLICY, words=supervisor or Finds(CANARY))
    run = make_run(tmp_path / name, make_options(tmp_path, **changes), guard)
    return load_side(run.folder)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Side:
    return make_side(tmp_path_factory.mktemp("runs"), "good")


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> Side:
    return make_side(tmp_path_factory.mktemp("runs"), "blind", Always(safe()))


def test_a_guard_that_misses_everything_is_compared_trial_by_trial(good: Side, blind: Side) -> None:  # H-163
    compared = compare_sides([good, blind], PLAN).compared[0]
    found = compared.differences[0]
    assert compared.matched == 10
    assert found.paired is not None
    assert (found.a.k, found.b.k, found.paired.b, found.paired.c) == (5, 0, 0, 5)
    assert found.change is not None
    assert found.change[0] == -1.0
    assert (found.p, found.p_adjusted) == (0.0625, 0.125)
    assert "cannot reach p < .05 whatever the split" in found.paired.notes


def test_the_changed_items_are_listed_with_the_newly_missed_first(good: Side, blind: Side) -> None:  # H-164
    report = compare_sides([good, blind], PLAN)
    changes = report.compared[0].changes
    assert count_changes(changes) == {"newly_missed": 5}
    assert {(one.was, one.now, one.truth) for one in changes} == {("unsafe", "safe", "harmful")}
    assert to_csv(report).count("newly_missed") == 5
    assert CANARY not in to_csv(report) + "\n".join(comparison_lines(report, 100))


def test_a_verdict_missing_on_a_side_leaves_the_test_and_stays_in_the_bounds(
    tmp_path: Path, good: Side
) -> None:
    sides = [good, make_side(tmp_path, "mute", Always(unknown(Cause.ABSTAINED)))]
    found = compare_sides(sides, PLAN).compared[0].differences[0]
    assert found.paired is not None
    assert (found.paired.n, found.paired.dropped) == (0, 5)
    assert (found.paired.bound_lo, found.paired.bound_hi) == (-1.0, 0.0)
    assert (found.change, found.p, found.word) == (None, None, "no difference shown")


def test_trials_that_only_one_run_has_are_listed_and_in_no_number(tmp_path: Path, good: Side) -> None:  # H-163
    sides = [good, make_side(tmp_path, "some", selection=Selection(limit=4))]
    compared = compare_sides(sides, PLAN).compared[0]
    assert (compared.matched, len(compared.only_a), compared.only_b) == (4, 6, ())
    assert compared.differences[0].a.planned + compared.differences[1].a.planned == 4


def test_flips_come_from_repeats_and_are_not_measured_without(tmp_path: Path, good: Side) -> None:
    found = compare_sides([make_side(tmp_path, "twice", repeats=2), good], PLAN).compared[0].differences[0]
    assert found.flips_a is not None
    assert (found.flips_a.k, found.flips_a.n) == (0, 5)
    assert found.flips_b is None


def test_other_prompts_are_refused_and_forced_ones_are_marked(good: Side, blind: Side) -> None:  # H-121, H-163
    changed = {
        key: replace(case, row=replace(case.row, planned=replace(case.row.planned, composition="other-1")))
        for key, case in blind.cases.items()
    }
    other = replace(blind, cases=changed)
    with pytest.raises(ConfigError, match="composition rules differ: 10 of 10"):
        compare_sides([good, other], PLAN)
    report = compare_sides([good, other], replace(PLAN, forced=True))
    assert comparison_lines(report, 0)[0].startswith("FORCED, NOT COMPARABLE")


def test_other_data_and_other_scorers_are_refused(good: Side, blind: Side) -> None:  # H-163
    b = blind
    lock = {"smoke": {**dict(b.manifest.lock["smoke"]), "items": 11}}  # type: ignore[call-overload] # JSON
    drifted = replace(b, run=replace(b.run, manifest=replace(b.manifest, lock=lock)))
    with pytest.raises(ConfigError, match="data of smoke differ"):
        compare_sides([good, drifted], PLAN)
    with pytest.raises(ConfigError, match=r"scored by rule-.* and by panel-1"):
        compare_sides([good, replace(b, scorer="panel-1")], PLAN)


def test_an_enforcing_run_is_not_compared_with_an_observing_one(tmp_path: Path, good: Side) -> None:
    sides = [good, make_side(tmp_path, "b", ledger="off")]
    with pytest.raises(ConfigError, match="one run enforced"):
        compare_sides(sides, PLAN)


def test_runs_on_different_items_are_called_unpaired(good: Side, blind: Side) -> None:
    report = compare_sides([good, blind], replace(PLAN, design="unpaired"))
    found = report.compared[0].differences[0]
    assert found.unpaired is not None
    assert found.unpaired.design == "unpaired"
    assert found.change is not None
    assert found.change[0] == -1.0
    assert "unpaired" in "\n".join(comparison_lines(report, 0))


def test_all_p_values_of_all_runs_are_one_family(good: Side, blind: Side) -> None:
    report = compare_sides([good, blind, replace(good, name="again")], PLAN)
    assert report.family == 4
    first = report.compared[0].differences[0]
    assert first.p is not None
    assert first.p_adjusted == min(1.0, 4 * first.p)


def test_runs_that_share_nothing_need_the_word_unpaired(good: Side) -> None:
    with pytest.raises(ConfigError, match="share no trial; --unpaired"):
        compare_sides([good, replace(good, name="b", cases={})], PLAN)
