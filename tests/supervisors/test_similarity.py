from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from supervisors.offload import Abandoned, Stop
from supervisors.similarity import BATCH, Comparer, Search

EXAMPLES = ("rain", "bread")
HARMLESS = [f"day {number}" for number in range(500)]


class Counts:
    """One axis a word of the examples, one for the rest; a blind one does not know bread."""

    def __init__(self, *, blind: bool = False) -> None:
        self.seen: list[str] = []
        self.blind = blind

    def embed(self, texts: Iterable[str], /) -> Any:
        rows = [self._row(text) for text in texts]
        return np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)

    def _row(self, text: str) -> list[float]:
        self.seen.append(text)
        return [float(text.count("rain")), float(text.count("bread") and not self.blind), 0.1]


def has_bread(row: Any) -> bool:
    return bool(row[1] > 0.9)


def test_every_text_has_its_similarity_to_every_example_and_the_same_one_is_compared_once() -> None:
    model = Counts()
    rows = Comparer(EXAMPLES, model).compare(["rain", "bread", "rain"], Stop())
    assert {text: [round(number, 1) for number in row] for text, row in rows.items()} == {
        "rain": [1.0, 0.0],
        "bread": [0.0, 1.0],
    }
    assert model.seen == [*EXAMPLES, "rain", "bread"]


@pytest.mark.parametrize("place", [0, 250, 500])
def test_a_slow_model_is_shown_the_likeliest_texts_first_and_ends_with_a_hit(place: int) -> None:
    exact = Counts()
    texts = [*HARMLESS[:place], "bread", *HARMLESS[place:]]
    rows = Comparer(EXAMPLES, Counts(), exact).compare(texts, Stop(), Search(has_bread, nearest_first=True))
    assert "bread" in rows
    assert len(exact.seen) == len(EXAMPLES) + BATCH


def test_with_the_far_ones_first_what_is_near_no_example_is_found_at_once() -> None:
    exact = Counts()
    search = Search(lambda row: max(row) < 0.5, nearest_first=False)
    rows = Comparer(EXAMPLES, Counts(), exact).compare(
        [*[f"rain on {text}" for text in HARMLESS], "a ferry"], Stop(), search
    )
    assert next(iter(rows)) == "a ferry"
    assert len(rows) == BATCH


def test_a_quick_model_that_errs_costs_time_and_hides_nothing() -> None:
    exact = Counts()
    texts = ["bread", *[f"rain on {text}" for text in HARMLESS]]
    comparer = Comparer(EXAMPLES, Counts(blind=True), exact)
    rows = comparer.compare(texts, Stop(), Search(has_bread, nearest_first=True))
    assert list(rows)[-1] == "bread"
    assert len(rows) == len(texts)


def test_without_a_search_or_a_slow_model_all_are_compared_in_their_order() -> None:
    texts = ["bread", *HARMLESS]
    search = Search(has_bread, nearest_first=True)
    assert list(Comparer(EXAMPLES, Counts(), Counts()).compare(texts, Stop())) == texts
    assert list(Comparer(EXAMPLES, Counts()).compare(texts, Stop(), search)) == texts


def test_nobody_waiting_ends_the_comparing_before_the_next_text() -> None:
    stop, model = Stop(), Counts()
    comparer = Comparer(EXAMPLES, model)
    stop.leave()
    with pytest.raises(Abandoned):
        comparer.compare(HARMLESS, stop)
    assert model.seen == list(EXAMPLES)
