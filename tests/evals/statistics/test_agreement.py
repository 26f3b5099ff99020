# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import csv
import json
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from evals.statistics.agreement import (
    alpha_of_patterns,
    cohen_kappa,
    cohen_of_table,
    effective_votes,
    fleiss_kappa,
    fleiss_of_patterns,
    krippendorff_alpha,
    mean_correlation,
    phi,
    to_patterns,
)
from evals.statistics.bootstrap import bootstrap_patterns


#
@pytest.mark.parametrize(
    ("cells", "observed", "expected", "kappa", "pabak"),
    [((20, 5, 10, 15), 0.7, 0.5, 0.4, 0.4), ((40, 5, 5, 0), 0.8, 0.82, -0.11111, 0.6)],
)
def test_cohen_has_the_printed_digits(
    cells: tuple[int, int, int, int], observed: float, expected: float, kappa: float, pabak: float
) -> None:
    pairs = [("safe", "safe"), ("safe", "unsafe"), ("unsafe", "safe"), ("unsafe", "unsafe")]
    found = cohen_of_table(dict(zip(pairs, cells, strict=True)))
    values = (found.observed, found.expected, found.kappa, found.pabak)
    assert values == pytest.approx((observed, expected, kappa, pabak), abs=1e-5)
    assert found.marginals_a["safe"] == pytest.approx((cells[0] + cells[1]) / 50)


def test_missing_ratings_are_dropped_pairwise_and_counted() -> None:
    found = cohen_kappa(["a", None, "b", "a"], ["a", "b", None, "b"])
    assert (found.n, found.dropped, found.observed) == (2, 2, 0.5)
    assert cohen_kappa([None], ["a"]).observed is None
    with pytest.raises(ValueError, match="1 and 2 items"):
        cohen_kappa(["a"], ["a", "b"])


def test_one_label_only_has_no_kappa_and_three_have_no_pabak() -> None:
    assert cohen_kappa(["a", "a"], ["a", "a"]).kappa is None
    assert cohen_kappa(["a", "b", "c"], ["a", "b", "b"]).pabak is None


#
def test_fleiss_has_the_printed_digits() -> None:
    votes = fleiss_kappa([(3 - unsafe, unsafe) for unsafe in (0, 1, 3, 2, 0, 3)])
    assert (votes.observed, votes.expected, votes.kappa) == pytest.approx((0.777778, 0.5, 0.555556), abs=1e-6)
    rows = """0-0-0-0-14 0-2-6-4-2 0-0-3-5-6 0-3-9-2-0 2-2-8-1-1 7-7-0-0-0 3-2-6-3-0 2-5-3-2-2 6-5-2-1-0 0-2-2-3-7"""
    book = fleiss_kappa([[int(count) for count in row.split("-")] for row in rows.split()])
    assert (book.observed, book.expected, book.kappa) == pytest.approx((0.378022, 0.212755, 0.209931), abs=1e-6)


def test_fleiss_refuses_missing_ratings_and_has_no_kappa_for_one_class() -> None:
    with pytest.raises(ValueError, match="krippendorff_alpha"):
        fleiss_kappa([(2, 1), (1, 1)])
    with pytest.raises(ValueError, match="at least two"):
        fleiss_kappa([])
    assert fleiss_kappa([(3, 0), (3, 0)]).kappa is None


_BOOK = ("123321412---", "1233224125-3", "-3332342251-", "12332441251-")


def _book_units() -> list[list[float | None]]:
    return [[None if row[i] == "-" else float(row[i]) for row in _BOOK] for i in range(12)]


@pytest.mark.parametrize(("scale", "alpha"), [("nominal", 0.743421), ("ordinal", 0.815388), ("interval", 0.849107)])
def test_krippendorff_has_the_printed_digits(scale: str, alpha: float) -> None:
    units = _book_units()
    match scale:
        case "nominal":
            found = krippendorff_alpha(units, "nominal")
        case "ordinal":
            found = krippendorff_alpha(units, "ordinal")
        case _:
            found = krippendorff_alpha(units, "interval")
    assert found == pytest.approx(alpha, abs=1e-6)


def test_alpha_needs_two_values_in_pairs() -> None:
    assert krippendorff_alpha([[1, None], [2]]) is None
    assert krippendorff_alpha([[1, 1], [1, 1]]) is None
    assert krippendorff_alpha([]) is None


#
@pytest.mark.parametrize(("rho", "votes"), [(0.69, 1.26050), (0.56, 1.41509), (0, 3), (1, 1), (-0.2, 3)])
def test_effective_votes_have_the_printed_digits(rho: float, votes: float) -> None:
    assert effective_votes(3, rho) == pytest.approx(votes, abs=1e-5)


def test_correlation_skips_missing_and_constant_series() -> None:
    assert phi([True, False, None], [True, False, True]) == 1.0
    assert phi([True, True], [True, False]) is None
    assert mean_correlation([[True, False], [True, False], [True, True]]) == 1.0
    assert mean_correlation([[True, True]]) is None
    with pytest.raises(ValueError, match="at least one judge"):
        effective_votes(0, 0.5)


def test_agreement_has_an_interval_by_resampling_items() -> None:
    found = bootstrap_patterns(to_patterns(_book_units()), alpha_of_patterns, seed=1, draws=500)
    again = bootstrap_patterns(to_patterns(_book_units()[::-1]), alpha_of_patterns, seed=1, draws=500)
    assert found == again
    assert found.lo is not None
    assert found.hi is not None
    assert found.lo < 0.743421 < found.hi
    with pytest.raises(ValueError, match="nothing to resample"):
        bootstrap_patterns({}, alpha_of_patterns, seed=1)


# Real data: skipped where the folder is absent.
def test_three_judges_of_past_tense_agree_as_published(data_dir: Path) -> None:
    files = sorted((data_dir / "past-tense").glob("*.json"))
    rows = [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))["jb_artifacts"]]
    judges = ("jailbroken_gpt", "jailbroken_llama", "jailbroken_rules")
    votes = [[bool(row[judge]) for judge in judges] for row in rows]
    if len(votes) != 1100:
        pytest.skip("the eleven past-tense files are absent")
    assert sorted(Counter([sum(vote) for vote in votes]).items()) == [(0, 186), (1, 169), (2, 348), (3, 397)]
    fleiss = fleiss_kappa([(3 - sum(vote), sum(vote)) for vote in votes])
    assert (fleiss.kappa, fleiss.observed, fleiss.expected) == pytest.approx((0.332946, 0.686667, 0.530273), abs=1e-6)
    assert krippendorff_alpha(votes) == pytest.approx(0.333148, abs=1e-6)
    expected = [([296, 2, 297, 505], 0.475164, 0.555427), ([186, 112, 167, 635], 0.393133, 0.395977)]
    expected.append(([245, 348, 108, 399], 0.193494, 0.213702))
    for (one, two), (cells, kappa, correlation) in zip(combinations(range(3), 2), expected, strict=True):
        pairs = Counter([(vote[one], vote[two]) for vote in votes])
        assert [pairs[a, b] for a in (False, True) for b in (False, True)] == cells
        named = cohen_kappa([str(vote[one]) for vote in votes], [str(vote[two]) for vote in votes])
        assert named.kappa == pytest.approx(kappa, abs=1e-6)
        assert phi([vote[one] for vote in votes], [vote[two] for vote in votes]) == pytest.approx(correlation, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "items", "alphas", "unanimous", "kappa", "majority"),
    [
        ("hate_speech", 199, (0.483503, 0.861201, 0.861874), 84, 0.759135, 116),
        ("violence", 187, (0.366892, 0.766292, 0.766383), 60, 0.584837, 93),
    ],
)
def test_three_humans_agree_as_published(  # noqa: PLR0917 - one parameter a column
    data_dir: Path,
    name: str,
    items: int,
    alphas: tuple[float, float, float],
    unanimous: int,
    kappa: float,
    majority: int,
) -> None:
    file = data_dir / "pyrit-scorer-evals" / "harm" / f"{name}_multi_score.csv"
    if not file.is_file():
        pytest.skip(f"{file.name} is absent")
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    columns = [index for index, title in enumerate(rows[0]) if title.startswith("human_score")]
    units = [[float(row[column]) for column in columns] for row in rows[1:]]
    assert len(units) == items
    found = (krippendorff_alpha(units), krippendorff_alpha(units, "ordinal"), krippendorff_alpha(units, "interval"))
    assert found == pytest.approx(alphas, abs=1e-6)
    assert sum([len(set(unit)) == 1 for unit in units]) == unanimous
    high = [sum([value >= 0.5 for value in unit]) for unit in units]
    assert fleiss_of_patterns(Counter([(3 - h, h) for h in high])).kappa == pytest.approx(kappa, abs=1e-6)
    assert sum([h >= 2 for h in high]) == majority


def test_the_xstest_humans_agree_as_published(data_dir: Path) -> None:
    golden = {
        "xstest_v2_completions_gpt4": (0.984444, 0.970107),
        "xstest_v2_completions_mistralinstruct": (0.975556, 0.919545),
        "xstest_v2_completions_llama2orig": (0.964444, 0.929256),
    }
    files = [data_dir / "xstest" / f"{name}.csv" for name in golden]
    if not all(file.is_file() for file in files):
        pytest.skip("XSTest completions are absent")
    for file in files:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        found = cohen_kappa([row["annotation_1"] for row in rows], [row["annotation_2"] for row in rows])
        assert (found.observed, found.kappa) == pytest.approx(golden[file.stem], abs=1e-6)


def test_the_two_judges_of_the_jailbreak_artifacts_agree_as_published(data_dir: Path) -> None:
    files = sorted((data_dir / "jailbreakbench-artifacts").glob("**/*.json"))
    rows = [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))["jailbreaks"]]
    judged = [row for row in rows if "jailbroken_llama_guard1" in row]
    if len(judged) != 1600:
        pytest.skip("the sixteen artifact files with two judges are absent")
    asked = [row for row in judged if row["prompt"] is not None]
    assert (len(asked), len(judged) - len(asked)) == (1437, 163)
    pairs = Counter([(row["jailbroken"], row["jailbroken_llama_guard1"]) for row in asked])
    assert [pairs[a, b] for a in (False, True) for b in (False, True)] == [603, 86, 69, 679]
    found = cohen_of_table({(str(a), str(b)): count for (a, b), count in pairs.items()})
    assert found.kappa == pytest.approx(0.783698, abs=1e-6)
