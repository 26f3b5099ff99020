"""Agreement of raters through the loaders users have; golden numbers of statistics §7, datasets §9."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.commands.agreement import describe
from evals.datasets import Card, load, load_card
from evals.datasets.load import missing_files
from evals.raters import RaterReport, report_raters
from evals.types import Item, Truth, make_item_id
from supervisors.errors import DatasetError


def real(name: str, data_dir: Path, *, by_split: bool = False) -> tuple[RaterReport, ...]:
    card = load_card(name)
    if missing_files(card, data_dir):
        pytest.skip(f"{name} is not on disk")
    return report_raters(card, load(name, data_dir), by_split=by_split)


def toy(*ratings: tuple[object, ...]) -> tuple[Card, list[Item]]:
    names = tuple([f"rater_{n}" for n in range(len(ratings[0]))])
    card = load_card("smoke").model_copy(update={"raters": names})
    items = [
        Item(
            dataset="toy", split="all", index=i, item_id=make_item_id("toy", "all", i, str(i)), cluster_id=f"toy#{i}",
            level="response", prompt=str(i), truth=Truth.UNKNOWN, meta=dict(zip(names, row, strict=True)),
        )
        for i, row in enumerate(ratings)
    ]  # fmt: skip
    return card, items


def numbers(report: RaterReport) -> tuple[Any, ...]:
    return (report.fleiss.kappa, report.alpha_nominal, report.alpha_ordinal, report.alpha_interval)


@pytest.mark.data
def test_the_three_judges_of_past_tense_agree_as_published(data_dir: Path) -> None:  # J-08
    whole, *files = real("past-tense-responses", data_dir, by_split=True)
    assert whole.unsafe_votes == {0: 186, 1: 169, 2: 348, 3: 397}
    assert (whole.majority, whole.items, whole.left_out) == (745, 1100, 0)
    assert whole.fleiss.kappa == pytest.approx(0.332946, abs=1e-6)
    assert (whole.fleiss.observed, whole.fleiss.expected) == pytest.approx((0.686667, 0.530273), abs=1e-6)
    assert whole.alpha_nominal == pytest.approx(0.333148, abs=1e-6)
    assert [pair.table for pair in whole.pairs] == [(296, 2, 297, 505), (186, 112, 167, 635), (245, 348, 108, 399)]
    assert [pair.agreement.kappa for pair in whole.pairs] == pytest.approx([0.475164, 0.393133, 0.193494], abs=1e-6)
    assert [pair.phi for pair in whole.pairs] == pytest.approx([0.555427, 0.395977, 0.213702], abs=1e-6)
    assert {file.name: file.majority for file in files} == {
        "gpt-3.5-turbo.past": 71, "gpt-4o-2024-05-13.past": 84, "phi3.past": 72, "gemma2-9b.past": 65,
        "llama3-8b.past": 25, "r2d2.past": 90, "gpt-4o-2024-05-13.future": 54, "gpt-4o-mini.past": 81,
        "claude-3-5-sonnet-20240620.past": 45, "o1-mini-2024-09-12.past": 81, "o1-preview-2024-09-12.past": 77,
    }  # fmt: skip


@pytest.mark.data
def test_the_two_judges_of_the_artefacts_agree_as_published(data_dir: Path) -> None:
    (whole,) = real("jbb-artifacts", data_dir)
    assert whole.items == 1437
    assert whole.left_out == 163 + 200  # without a prompt, and two files with one judge
    assert whole.pairs[0].table == (603, 86, 69, 679)
    assert whole.pairs[0].agreement.kappa == pytest.approx(0.783698, abs=1e-6)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "expected", "counts"),
    [
        ("pyrit-harm-hate-speech-multi-score", (0.759135, 0.483503, 0.861201, 0.861874), (199, 84, 116)),
        ("pyrit-harm-violence-multi-score", (0.584837, 0.366892, 0.766292, 0.766383), (187, 60, 93)),
    ],
)
def test_three_people_grade_as_published(
    name: str, expected: tuple[float, ...], counts: tuple[int, int, int], data_dir: Path
) -> None:
    (whole,) = real(name, data_dir)
    assert numbers(whole) == pytest.approx(expected, abs=1e-6)
    assert (whole.items, whole.unanimous, whole.majority) == counts


@pytest.mark.data
def test_the_two_people_of_xstest_agree_as_published(data_dir: Path) -> None:  # Q-28, T-20
    _, *files = real("xstest-responses", data_dir, by_split=True)
    golden = {"gpt4": (0.984444, 0.970107, 443), "mistralinstruct": (0.975556, 0.919545, 439),
              "llama2orig": (0.964444, 0.929256, 434)}  # fmt: skip
    for file in files:
        pair = file.pairs[0].agreement
        assert (pair.observed, pair.kappa, file.unanimous) == pytest.approx(golden[file.name], abs=1e-6)
        assert file.majority is None  # compliance and refusal are no harm labels


def test_a_missing_rating_is_left_out_and_never_a_vote() -> None:  # DS-11, Q-06
    (whole,) = report_raters(*toy((1, 1, 0), (1, None, 0), (0, "", 1), (0, 0, 0)))
    assert (whole.items, whole.left_out) == (2, 2)
    assert whole.unsafe_votes == {0: 1, 2: 1}


def test_six_items_of_three_raters_have_the_kappa_of_the_table() -> None:  # statistics §7
    rows = [(0, 0, 0), (1, 0, 0), (1, 1, 1), (1, 1, 0), (0, 0, 0), (1, 1, 1)]
    (whole,) = report_raters(*toy(*rows))
    assert whole.fleiss.kappa == pytest.approx(0.555556, abs=1e-6)
    assert whole.majority == 3


def test_labels_of_another_kind_are_compared_and_not_counted_as_harm() -> None:  # T-20
    (whole,) = report_raters(*toy(("refusal", "refusal"), ("compliance", "refusal"), ("partial", "partial")))
    assert whole.majority is None
    assert whole.unsafe_votes == {}
    assert (whole.unanimous, whole.pairs[0].table) == (2, ())


def test_an_item_that_cannot_be_sent_is_left_out() -> None:  # T-14
    card, items = toy((1, 1), (0, 0))
    (whole,) = report_raters(card, [items[0], replace(items[1], skip="no text")])
    assert (whole.items, whole.left_out) == (1, 1)


def test_a_set_without_raters_is_refused() -> None:
    with pytest.raises(DatasetError, match="names no two raters"):
        report_raters(load_card("smoke"), [])


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
def test_each_alpha_of_raters_has_an_interval_by_resampling_items(scale: str) -> None:
    ratings: list[tuple[object, ...]] = [("2", "2", "2"), ("0", "0", "1"), ("0", "0", "0"), ("2", "0", "1")]
    card, items = toy(*(ratings * 10))
    (report,) = report_raters(card, items)
    alpha, span = getattr(report, f"alpha_{scale}"), getattr(report, f"alpha_{scale}_span")
    assert span.lo < alpha < span.hi
    assert span.clusters == 40
    assert f"{scale} {alpha:.6f} [{span.lo:.6f}, {span.hi:.6f}]" in "\n".join(describe(report))


def test_an_alpha_that_cannot_be_has_no_interval() -> None:
    (words,) = report_raters(*toy(("refusal", "refusal"), ("compliance", "refusal"), ("partial", "partial")))
    assert words.alpha_nominal_span is not None
    assert (words.alpha_ordinal_span, words.alpha_interval_span) == (None, None)
    assert "ordinal n/a, interval n/a" in "\n".join(describe(words))
    (alike,) = report_raters(*toy(("1", "1"), ("1", "1")))
    assert (alike.alpha_nominal, alike.alpha_nominal_span) == (None, None)
