from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evals.datasets import load, load_card
from evals.datasets.labels import vote_share
from evals.datasets.load import missing_files

ROW: dict[str, Any] = {"a": True, "b": "FALSE", "c": 1, "grade": "0.25", "word": "refusal", "gap": "", "far": 3}


@pytest.mark.parametrize(
    ("raters", "share"),
    [
        (("a", "b", "c"), 2 / 3),
        (("a", "b"), 0.5),
        (("a", "gap", "absent"), 1.0),
        (("grade", "c"), 0.625),
        (("gap",), None),
        (("a", "word"), None),
        (("a", "far"), None),
        ((), None),
    ],
)
def test_votes_become_a_share_and_other_labels_do_not(raters: tuple[str, ...], share: float | None) -> None:  # H-144
    assert vote_share(raters, ROW) == (None if share is None else pytest.approx(share))


@pytest.mark.data
def test_three_judges_of_past_tense_give_every_answer_a_share(data_dir: Path) -> None:  # H-144, Q-35
    if missing_files(load_card("past-tense-responses"), data_dir):
        pytest.skip("not on disk")
    shares = [item.vote_share for item in load("past-tense-responses", data_dir)]
    counts = [sum(share is not None and round(3 * share) == n for share in shares) for n in range(4)]
    assert counts == [186, 169, 348, 397]
