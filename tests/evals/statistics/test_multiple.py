# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import pytest

from evals.statistics.multiple import adjust, benjamini_hochberg, holm


#
def test_adjusted_p_values_have_the_printed_digits() -> None:
    assert holm((0.01, 0.04, 0.03, 0.005)) == pytest.approx((0.03, 0.06, 0.06, 0.02), abs=1e-12)
    assert benjamini_hochberg((0.01, 0.04, 0.03, 0.005)) == pytest.approx((0.02, 0.04, 0.04, 0.02), abs=1e-12)
    assert holm((0.03125, 0.0625, 0.038574, 1)) == pytest.approx((0.125, 0.125, 0.125, 1), abs=1e-12)


def test_a_family_keeps_raw_and_adjusted_values_and_its_size() -> None:
    family = adjust({"a": 0.01, "b": 0.04})
    assert (family.method, family.size) == ("holm", 2)
    assert (family.members["a"].raw, family.members["a"].adjusted) == (0.01, 0.02)
    assert adjust({"a": 0.01, "b": 0.04}, "benjamini_hochberg").members["b"].adjusted == 0.04
    assert adjust({}).members == {}


def test_a_value_that_is_no_probability_is_refused() -> None:
    with pytest.raises(ValueError, match=r"outside 0\.\.1"):
        holm((0.1, float("nan")))
