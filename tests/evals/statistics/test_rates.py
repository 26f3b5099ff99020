# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import json
import math
from random import Random

import pytest

from evals.statistics.clusters import ClusterSum
from evals.statistics.jsonable import to_json
from evals.statistics.rates import (
    Observation,
    Options,
    clustered_rate,
    decide,
    macro_average,
    mean_of,
    rate,
    rate_of,
)


#
@pytest.mark.parametrize(
    ("unsafe", "scored", "planned", "estimate", "lo", "hi"),
    [
        (4, 90, 100, 0.04444, 0.04, 0.14),
        (0, 0, 50, None, 0.0, 1.0),
        (3, 300, 313, 0.01, 0.00958, 0.05112),
    ],
)
def test_unscored_trials_widen_the_bounds_only(
    unsafe: int, scored: int, planned: int, estimate: float | None, lo: float, hi: float
) -> None:
    found = rate(unsafe, scored, planned=planned)
    assert found.estimate == (None if estimate is None else pytest.approx(estimate, abs=1e-5))
    assert (found.bound_lo, found.bound_hi) == pytest.approx((lo, hi), abs=1e-5)
    assert found.unscored == planned - scored


def test_an_empty_denominator_is_null_and_says_so() -> None:
    empty = rate(0, 0)
    assert (empty.estimate, empty.lo, empty.hi, empty.bound_lo) == (None, None, None, None)
    assert str(empty) == "n/a (0 scored)"
    assert json.loads(json.dumps(to_json(empty), allow_nan=False))["estimate"] is None


def test_a_printed_rate_always_shows_its_counts() -> None:
    assert str(rate(278, 328)) == "0.84756 (278/328, 95% 0.80466 – 0.88242)"
    assert "10 of 100 unscored" in str(rate(4, 90, planned=100))


def test_the_json_of_a_rate_has_the_agreed_members() -> None:
    members = to_json(rate(3, 300, planned=313, errors=2))
    assert isinstance(members, dict)
    wanted = (
        "k",
        "n",
        "planned",
        "unscored",
        "errors",
        "estimate",
        "lo",
        "hi",
        "method",
        "bound_lo",
        "bound_hi",
        "clusters",
    )
    assert set(wanted) <= set(members)
    assert members["errors"] == 2


def test_bounds_on_both_sides_of_a_limit_decide_nothing() -> None:
    assert decide(rate(3, 300, planned=313), 0.02, "at_most") == "inconclusive"
    assert decide(rate(3, 300, planned=300), 0.02, "at_most") == "pass"
    assert decide(rate(30, 300, planned=313), 0.02, "at_most") == "fail"
    assert decide(rate(90, 90, planned=100), 0.95, "at_least") == "inconclusive"
    assert decide(rate(95, 100), 0.95, "at_least") == "pass"
    assert decide(rate(80, 100), 0.95, "at_least") == "fail"
    assert decide(rate(0, 0), 0.5, "at_most") == "inconclusive"


def test_one_bad_value_never_poisons_a_mean() -> None:
    mean = mean_of([0.2, 0.4, None, math.nan, math.inf, "0.9", True])
    assert mean.estimate == pytest.approx(0.3, abs=1e-15)
    assert mean.n == 2
    assert mean.missing == {"infinite": 1, "missing": 1, "nan": 1, "not_a_number": 2}
    assert mean_of([None]).estimate is None


def test_macro_and_micro_averages_are_two_numbers() -> None:
    small = [Observation(f"a{i}", i < 1) for i in range(2)]
    large = [Observation(f"b{i}", i < 10) for i in range(100)]
    macro = macro_average([rate_of(small), rate_of(large), rate(0, 0)])
    assert macro.estimate == pytest.approx(0.3)
    assert macro.missing == {"missing": 1}
    assert rate_of([*small, *large]).estimate == pytest.approx(11 / 102)


def test_the_macro_interval_sums_the_variances_of_the_sets() -> None:
    macro = macro_average([rate(50, 100), rate(20, 100)])
    shares = (52 / 104, 22 / 104)
    se = math.sqrt(sum(p * (1 - p) / 104 for p in shares)) / 2
    assert macro.hi is not None
    assert macro.hi - 0.35 == pytest.approx(1.959963984540054 * se, abs=1e-12)


def test_sets_without_a_single_hit_are_not_taken_for_certain() -> None:
    macro = macro_average([rate(0, 50), rate(0, 60)])
    assert (macro.estimate, macro.lo) == (0.0, 0.0)
    assert macro.hi == pytest.approx(0.03299, abs=1e-5)
    assert macro_average([rate(0, 50)]).hi == pytest.approx(0.07135, abs=1e-5)  # of one set: its own, Wilson's
    repeats = macro_average([clustered_rate([ClusterSum(2, 2), ClusterSum(0, 2)] * 10)] * 2)
    assert repeats.hi is not None
    assert repeats.hi == pytest.approx(0.5 + 1.959963984540054 * math.sqrt(0.25 / 23.0 / 2), abs=2e-3)


def test_a_set_without_a_variance_leaves_the_macro_average_without_an_interval() -> None:
    macro = macro_average([rate(50, 100), clustered_rate([ClusterSum(1, 2)])])
    assert (macro.estimate, macro.lo, macro.hi) == (0.5, None, None)


def test_independent_trials_get_the_plain_interval_and_repeats_the_clustered_one() -> None:
    plain = rate_of([Observation(f"i{i}", i % 2 == 0) for i in range(10)])
    repeats = rate_of([Observation(f"i{i // 2}", i < 4) for i in range(10)])
    assert (plain.method, plain.clusters) == ("wilson", None)
    assert repeats.method == "wilson_clusters"
    assert repeats.clusters is not None
    assert repeats.clusters.count == 5


def test_a_cluster_with_one_scored_trial_left_is_no_cluster() -> None:
    left = rate_of([Observation("a", True), Observation("a", None, error=True), Observation("b", False)])
    assert (left.method, left.n, left.planned, left.errors) == ("wilson", 2, 3, 1)


def test_order_and_names_of_clusters_change_no_digit() -> None:
    random = Random(5)  # noqa: S311 - made-up data
    trials = [Observation(f"c{i % 9}", random.random() < 0.3) for i in range(60)]
    renamed = [Observation(trial.cluster.replace("c", "zz") + "x", trial.hit) for trial in trials]
    random.shuffle(renamed)
    assert rate_of(trials) == rate_of(renamed)


def test_splitting_a_journal_and_merging_it_changes_nothing() -> None:
    trials = [Observation(f"c{i % 7}", i % 3 == 0) for i in range(35)]
    assert rate_of([*trials[11:], *trials[:11]]) == rate_of(trials)


def test_a_gate_can_ask_for_the_exact_interval_under_clustering() -> None:
    clusters = [ClusterSum(k, 5) for k in (0, 0, 5, 1, 4, 2)]
    exact = clustered_rate(clusters, options=Options("clopper_pearson"))
    score = clustered_rate(clusters)
    assert exact.method == "clopper_pearson_clusters"
    assert exact.lo is not None
    assert score.lo is not None
    assert exact.lo < score.lo


@pytest.mark.parametrize(
    ("k", "n", "planned", "errors"), [(3, 2, 2, 0), (1, 3, 2, 0), (0, 2, 3, 2), (-1, 2, 2, 0), (0, 0, 0, -1)]
)
def test_contradictory_counts_are_refused(k: int, n: int, planned: int, errors: int) -> None:
    with pytest.raises(ValueError, match="0 <= k <= n <= planned"):
        rate(k, n, planned=planned, errors=errors)


def test_contradictory_observations_are_refused() -> None:
    with pytest.raises(ValueError, match="scored and an error"):
        Observation("a", True, error=True)
    with pytest.raises(ValueError, match="whole number"):
        clustered_rate([ClusterSum(0.5, 2)])
