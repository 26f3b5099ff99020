# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import pytest

from evals.statistics.bootstrap import (
    Floats,
    Row,
    Sample,
    Statistic,
    auroc_statistic,
    average_precision_statistic,
    bootstrap,
    ece_statistic,
    score_rows,
    threshold_statistic,
    to_sample,
)
from evals.statistics.calibration import calibrate
from evals.statistics.curves import Scored, auroc, average_precision, operating_point, to_curve

_LABELS = "1110100100"
_SCORES = (0.95, 0.90, 0.80, 0.80, 0.70, 0.55, 0.40, 0.40, 0.20, 0.05)
_ITEMS = [Scored(label == "1", score) for label, score in zip(_LABELS, _SCORES, strict=True)]


def _rate(sample: Sample) -> Statistic:
    """Return the pooled rate of the first column; a printed rate has a formula and is never resampled."""
    hits = sample.values[:, 0]
    return lambda weights: float(hits @ weights / weights.sum())


def _clustered_rows() -> list[Row]:
    return [Row(f"c{g}", "", (float(i < k),)) for g, k in enumerate((0, 0, 5, 1, 4, 2)) for i in range(5)]


#
def test_the_bootstrap_spread_matches_the_exact_one() -> None:
    sample = to_sample(_clustered_rows())
    found = bootstrap(sample, _rate(sample), seed=1)
    assert found.sd == pytest.approx(0.156347, rel=0.03)
    assert (found.lo, found.hi) == pytest.approx((0.1, 0.7), abs=0.034)
    assert (found.clusters, found.draws, found.without_value) == (6, 10_000, 0)


def test_the_same_data_and_seed_give_the_same_bytes_in_any_order_under_any_names() -> None:
    rows = _clustered_rows()
    renamed = [Row(f"other {row.cluster}", row.stratum, row.values) for row in reversed(rows)]
    one, two = to_sample(rows), to_sample(renamed)
    assert bootstrap(one, _rate(one), seed=3, draws=200) == bootstrap(two, _rate(two), seed=3, draws=200)
    assert bootstrap(one, _rate(one), seed=3, draws=200) != bootstrap(one, _rate(one), seed=4, draws=200)


def test_the_weighted_statistics_agree_with_the_plain_ones() -> None:
    sample = to_sample(score_rows([(f"i{i}", item) for i, item in enumerate(_ITEMS)]))
    once = sample.values[:, 0] * 0 + 1
    curve = to_curve(_ITEMS)
    assert auroc_statistic(sample)(once) == pytest.approx(auroc(curve), abs=1e-12)
    assert average_precision_statistic(sample)(once) == pytest.approx(average_precision(curve), abs=1e-12)
    assert ece_statistic(sample)(once) == pytest.approx(calibrate(_ITEMS).ece, abs=1e-12)
    for budget in (0.0, 0.1, 0.2, 0.4, 0.6, 1.0):
        assert threshold_statistic(sample, budget)(once) == operating_point(curve, budget).threshold


def test_weights_mean_repeating_the_item() -> None:
    sample = to_sample(score_rows([(f"i{i}", item) for i, item in enumerate(_ITEMS)]))
    weights = sample.values[:, 0] * 0 + 1
    weights[3] = 3
    repeated = [Scored(bool(row[1]), float(row[0])) for row in sample.values]
    curve = to_curve([*repeated, repeated[3], repeated[3]])
    assert auroc_statistic(sample)(weights) == pytest.approx(auroc(curve), abs=1e-12)
    assert average_precision_statistic(sample)(weights) == pytest.approx(average_precision(curve), abs=1e-12)


def test_labels_are_resampled_apart_so_that_every_draw_has_both() -> None:
    rows = score_rows([(f"i{i}", item) for i, item in enumerate(_ITEMS)] + [("gone", Scored(True, None))])
    sample = to_sample(rows)
    assert len(sample.strata) == 2
    found = bootstrap(sample, auroc_statistic(sample), seed=9, draws=300)
    assert found.without_value == 0
    assert found.lo is not None
    assert found.hi is not None
    assert found.lo < 0.84 < found.hi <= 1.0


def test_draws_without_a_value_are_counted_and_none_at_all_is_null() -> None:
    sample = to_sample([Row("a", "", (1.0,))])

    def never(_: Floats) -> float:
        return float("nan")

    found = bootstrap(sample, never, seed=1, draws=5)
    assert (found.lo, found.hi, found.sd, found.without_value) == (None, None, None, 5)
    with pytest.raises(ValueError, match="nothing to resample"):
        to_sample([])


def test_one_class_has_no_weighted_area() -> None:
    sample = to_sample(score_rows([("a", Scored(True, 0.5))]))
    once = sample.values[:, 0] * 0 + 1
    assert auroc_statistic(sample)(once) != auroc_statistic(sample)(once)
    assert average_precision_statistic(sample)(once) != average_precision_statistic(sample)(once)
    assert threshold_statistic(sample, 0.1)(once) != threshold_statistic(sample, 0.1)(once)
