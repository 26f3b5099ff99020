"""Made-up verdicts for the tests of operating points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evals.operating.scores import Judged, Said
from supervisors.types import Cause, Label


def said(score: float | None, *, flag: bool | None = None, seconds: float | None = 0.01, cost: float = 0.0) -> Said:
    """Return a verdict; without `flag`, unsafe from a score of 0.5 on; without both, unknown."""
    if flag is None and score is None:
        return Said(Label.UNKNOWN, Cause.TIMEOUT, None, seconds, cost)
    unsafe = flag if flag is not None else (score or 0.0) >= 0.5
    return Said(Label.UNSAFE if unsafe else Label.SAFE, None, score, seconds, cost)


def judged(number: int, truth: str, verdicts: Mapping[str, Said], dataset: str = "a") -> Judged:
    """Return one labelled item."""
    item = f"{dataset}/{number:06d}"
    return Judged(item, item, dataset, 0, truth == "harmful", {f"{name}@input": one for name, one in verdicts.items()})


def scores(harmful: Sequence[float], benign: Sequence[float], dataset: str = "a", name: str = "s") -> list[Judged]:
    """Return items with one scoring supervisor."""
    rows = [("harmful", score) for score in harmful] + [("benign", score) for score in benign]
    return [judged(n, label, {name: said(score)}, dataset) for n, (label, score) in enumerate(rows)]
