from __future__ import annotations

import itertools

import pytest

from evals.operating.combine import Limits, ask_in_turn, combine_all, vote
from evals.operating.scores import Judged
from evals.operating.tables import combination_lines
from supervisors.errors import ConfigError
from tests.evals.operating.made_up import judged, said

NAMES = ("a@input", "b@input", "c@input")


def row(number: int, truth: str, flags: str) -> Judged:
    verdicts = {
        name: said(None if flag == "?" else float(flag), seconds=second, cost=second)
        for name, flag, second in zip("abc", flags, (0.1, 0.2, 0.4), strict=True)
    }
    return judged(number, truth, verdicts)


ROWS = [row(n, "harmful", flags) for n, flags in enumerate(["110", "010", "011", "101"])] + [
    row(n, "benign", flags) for n, flags in enumerate(["000", "100", "000", "001"], 4)
]


def test_a_parallel_panel_takes_as_long_as_its_slowest_member_and_costs_all_of_them() -> None:  # H-161
    made = vote(ROWS[0], NAMES, "any", ())
    assert (made.flag, made.seconds, round(made.cost or 0, 6)) == (True, 0.4, 0.7)


def test_a_cascade_takes_what_it_asked() -> None:  # H-161
    first = ask_in_turn(ROWS[0], NAMES, stops_at_unsafe=True)
    assert (first.flag, first.seconds) == (True, 0.1)
    last = ask_in_turn(ROWS[4], NAMES, stops_at_unsafe=True)
    assert (last.flag, round(last.seconds or 0, 6)) == (False, 0.7)


@pytest.mark.parametrize("flags", ["".join(each) for each in itertools.product("01?", repeat=3)])
def test_cascades_say_what_the_votes_say(flags: str) -> None:  # H-161
    one = row(0, "harmful", flags)
    assert ask_in_turn(one, NAMES, stops_at_unsafe=True).flag == vote(one, NAMES, "any", ()).flag
    assert ask_in_turn(one, NAMES, stops_at_unsafe=False).flag == vote(one, NAMES, "all", ()).flag


def test_every_subset_up_to_the_size_is_recomputed() -> None:  # H-161
    found = combine_all(ROWS, NAMES, Limits())
    sizes = [len(one.members) for one in found]
    weighted = [one for one in found if one.strategy == "weighted"]
    assert sizes.count(1) == 3
    assert sizes.count(2) == 3 * (2 + 2 * 2) + sum([len(one.members) == 2 for one in weighted])
    assert sizes.count(3) == 3 + 6 * 2 + sum([len(one.members) == 3 for one in weighted])
    assert len(combine_all(ROWS, NAMES, Limits(), 1)) == 3


def test_limits_come_before_the_front_and_nothing_beats_what_is_on_it() -> None:  # H-161
    found = combine_all(ROWS, NAMES, Limits(max_fpr=0.0))
    kept = [one for one in found if one.within]
    assert {one.false_positives.estimate for one in kept} == {0.0}
    assert not any(one.pareto for one in found if not one.within)
    assert found[0].detection.estimate == max(one.detection.estimate or 0 for one in kept)
    quick = [one for one in combine_all(ROWS, NAMES, Limits(max_p95=0.15)) if one.within]
    assert {one.members for one in quick} == {("a@input",)}
    cheap = [one for one in combine_all(ROWS, NAMES, Limits(max_cost=150)) if one.within]
    assert ("a@input",) in {one.members for one in cheap}


def test_the_gain_over_the_best_member_is_paired() -> None:  # H-162
    found = {(one.strategy, one.members): one for one in combine_all(ROWS, NAMES, Limits())}
    made = found["any", NAMES]
    assert made.best_member == "b@input"
    assert made.detection_gain is not None
    assert (made.detection_gain.b, made.detection_gain.c, made.detection_gain.n) == (1, 0, 4)
    assert made.alarm_change is not None
    assert (made.alarm_change.b, made.alarm_change.c) == (0, 2)
    assert made.effective is not None
    assert 1 <= made.effective <= 3


def test_a_majority_of_unequal_members_is_warned_about() -> None:  # H-162
    rows = [row(n, "harmful", "100") for n in range(4)] + [row(9, "benign", "000")]
    found = [one for one in combine_all(rows, NAMES, Limits()) if one.strategy == "majority"]
    assert "worse than the best one" in found[0].notes[0]
    assert "note: " in "\n".join(combination_lines(found, 5))


def test_nothing_to_combine_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="no supervisor said anything"):
        combine_all(ROWS, (), Limits())


def test_no_difference_is_printed_without_a_sign() -> None:
    same = [row(n, truth, "110") for n, truth in enumerate(["harmful", "harmful", "benign", "benign"])]
    printed = "\n".join(combination_lines(combine_all(same, NAMES[:2], Limits()), 9))
    assert "0.000 [" in printed
    assert "-0.000" not in printed
    assert "+0.000" not in printed
