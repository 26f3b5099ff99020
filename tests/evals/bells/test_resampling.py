# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import pytest

from evals.bells.resampling import resample_cells, resample_verdicts
from evals.bells.score import PUBLISHED_SIZES, Cells
from evals.bells.verdicts import FAMILIES, BellsItem, ItemVerdict
from evals.statistics.rates import rate
from supervisors.types import Cause, Label


def _gpt_4() -> Cells:
    flagged = zip(FAMILIES, (2684, 300, 251), strict=True)
    families = {family: rate(k, PUBLISHED_SIZES[family]) for family, k in flagged}
    return Cells(families, rate(278, 328), rate(6, 353))


def _verdicts() -> list[ItemVerdict]:
    """Return one flagged and one passed item per cell of the score, one outside it, and one unknown."""
    items = [
        BellsItem(f"{family}-{i}", f"{family}-{i}", "harmful", "jailbroken", family)
        for family in FAMILIES
        for i in range(2)
    ]
    items += [BellsItem(f"h{i}", f"h{i}", "harmful", "direct") for i in range(2)]
    items += [BellsItem(f"b{i}", f"b{i}", "benign", "direct") for i in range(2)]
    items += [BellsItem("g", "g", "borderline", "direct"), BellsItem("j", "j", "benign", "jailbroken")]
    labels = [Label.UNSAFE, Label.SAFE] * (len(items) // 2)
    verdicts = [ItemVerdict(item, "demo", label) for item, label in zip(items, labels, strict=True)]
    return [*verdicts, ItemVerdict(items[6], "demo", Label.UNKNOWN, Cause.TIMEOUT)]


def test_the_bootstrap_agrees_with_the_delta_method_and_reproduces() -> None:  # B-09
    cells = _gpt_4()
    found = resample_cells(cells, PUBLISHED_SIZES, seed=1, draws=2000)
    assert found.sd == pytest.approx(0.006249, rel=0.06)
    assert found == resample_cells(cells, PUBLISHED_SIZES, seed=1, draws=2000)


def test_per_item_verdicts_are_resampled_by_question() -> None:
    sizes = dict.fromkeys(FAMILIES, 1)
    judged = [verdict for verdict in _verdicts() if verdict.label is not Label.UNKNOWN]
    found = resample_verdicts(_verdicts(), sizes, seed=2, draws=200)
    assert found == resample_verdicts(judged[::-1], sizes, seed=2, draws=200)
    assert found.clusters == 10
    assert found.without_value == 0
