from __future__ import annotations

from evals.operating.tables import matrix_csv, matrix_lines
from evals.operating.thresholds import realise
from evals.operating.transfer import Matrix, Part, make_matrix, prepare_pairs
from evals.types import Item, Truth
from tests.evals.operating.made_up import scores


def part(name: str, harmful: list[float], benign: list[float], texts: dict[int, str] | None = None) -> Part:
    rows = scores(harmful, benign, dataset=name)
    named = texts or {}
    items = [
        Item(name, "all", n, row.item_id, row.cluster, "prompt", named.get(n, f"{name} {n} umbrella"), Truth.HARMFUL)
        for n, row in enumerate(rows)
    ]
    return Part(name, tuple(rows), tuple(items))


LOW = [i / 100 for i in range(20)]
A, B = part("a", [0.9, 0.8, 0.7, 0.6], LOW), part("b", [0.15, 0.95], [0.5, 0.6, *LOW])


def matrix(*parts: Part) -> Matrix:
    return make_matrix(prepare_pairs(parts, 0), "s@input", 0.05)


def test_a_threshold_of_one_set_meets_another() -> None:  # H-160
    cells = {(cell.calibrated_on, cell.tested_on): cell for cell in matrix(A, B).cells}
    cell = cells["a", "b"]
    assert (cell.threshold, cell.negatives) == (0.19, 20)
    assert cell.detection is not None
    assert cell.false_positives is not None
    assert (cell.detection.k, cell.false_positives.k, cell.false_positives.n) == (1, 3, 22)


def test_a_set_is_tested_on_itself_in_halves() -> None:
    cell = {(cell.calibrated_on, cell.tested_on): cell for cell in matrix(A, B).cells}["a", "a"]
    assert cell.negatives == 10
    assert cell.reasons == {"threshold": "too_few_negatives"}


def test_shared_items_are_removed_from_the_test_side_and_counted() -> None:  # DS-15, H-160
    copied = part("c", [0.15, 0.95], [0.5], {0: "a 0 umbrella", 2: "A 5  umbrella"})
    cell = {(cell.calibrated_on, cell.tested_on): cell for cell in matrix(A, copied).cells}["a", "c"]
    assert cell.removed == 2
    assert cell.reasons == {"false_positives": "no_negatives"}
    assert "4 shared trials" in "\n".join(matrix_lines(matrix(A, copied)))


def test_a_set_without_benign_items_sets_no_threshold_and_has_no_false_positives() -> None:  # H-160
    made = matrix(A, part("d", [0.9, 0.1], []))
    cells = {(cell.calibrated_on, cell.tested_on): cell for cell in made.cells}
    assert cells["d", "a"].reasons == {"threshold": "no_negatives"}
    assert cells["a", "d"].false_positives is None
    assert "no threshold from" in "\n".join(matrix_lines(made))


def test_the_summary_names_the_worst_cell() -> None:  # H-160
    made = matrix(A, B)
    assert made.worst_false_positives is not None
    assert made.worst_false_positives.tested_on == "b"
    assert (made.measured, made.excluding_budget) == (2, 0)
    rates = realise(B.judged, "s@input", 0.19)
    assert made.worst_false_positives.false_positives == rates.false_positives
    assert matrix_csv([made]).count("\n") == 5
