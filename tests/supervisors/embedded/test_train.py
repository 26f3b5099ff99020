"""Re-train the shipped model: the gates hold, the bytes or at least the verdicts come out the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisors.embedded.check import compare_build
from supervisors.embedded.evaluate import Gate, Share, check_gates, count_at_benign, wilson_interval
from supervisors.embedded.heldout import read_calibration
from supervisors.embedded.report import describe_guard, write_card, write_notice
from supervisors.embedded.shipped import shipped_weights
from supervisors.embedded.train import Build, score_all, train_guard
from supervisors.errors import DatasetError

FOLDER = Path(__file__).parents[3] / "supervisors/embedded"


@pytest.fixture(scope="module")
def build(data_dir: Path) -> Build:
    pytest.importorskip("sklearn", reason="pip install 'guardrail-proxy[train]'")
    return train_guard(data_dir, "clean", 15, shipped_weights().header.trained_at)


@pytest.mark.slow
@pytest.mark.data
def test_every_quality_gate_is_kept(build: Build) -> None:  # LG-19, LG-09
    assert [gate.name for gate in build.gates if not gate.passed] == []
    assert len(build.gates) == 11


@pytest.mark.slow
@pytest.mark.data
def test_the_shipped_files_come_out_again(build: Build, data_dir: Path) -> None:  # LG-15
    shipped, items = (FOLDER / "embedded.gpeg").read_bytes(), (FOLDER / "embedded.items").read_bytes()
    assert compare_build(build, shipped, items, read_calibration(data_dir)) == []
    assert write_card(build) == (FOLDER / "MODEL_CARD.md").read_text("utf-8")
    assert write_notice(build.header) == (FOLDER / "NOTICE").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.data
def test_another_model_is_told_apart_from_the_shipped_one(build: Build, data_dir: Path) -> None:  # LG-15
    other = build.weights.replace(build.header.manifest_sha256.encode(), b"0" * 64)
    found = compare_build(build, other, b"", read_calibration(data_dir)[:5])
    assert any("manifest" in sentence for sentence in found)
    assert any("contamination list" in sentence for sentence in found)


@pytest.mark.slow
@pytest.mark.data
def test_budgets_are_kept_on_the_calibration_set(build: Build, data_dir: Path) -> None:  # LG-18
    logits = score_all(shipped_weights(), read_calibration(data_dir))
    for head, info in shipped_weights().header.heads.items():
        flagged = [sum(z > limit for z in logits[head]) for limit in info.thresholds.values()]
        assert flagged == [67, 26, 13, 2]


def test_the_description_says_what_kind_of_detector_it_is() -> None:  # LG-04
    text = "\n".join(describe_guard(shipped_weights().header))
    assert "topical detector" in text
    assert "English" in text
    assert "xstest/safe" in text


def test_an_empty_text_cannot_be_scored_in_training() -> None:
    with pytest.raises(DatasetError, match="text 1 is empty"):
        score_all(shipped_weights(), ["bread", " "])


@pytest.mark.parametrize(
    ("flagged", "total", "low", "high"), [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634)]
)
def test_wilson_intervals_have_known_values(flagged: int, total: int, low: float, high: float) -> None:
    assert list(wilson_interval(flagged, total)) == pytest.approx([low, high], abs=1e-4)
    assert Share(flagged, total).interval == wilson_interval(flagged, total)


def test_the_curve_counts_at_the_threshold_that_leaves_two_benign() -> None:
    assert count_at_benign([5.0, 3.5, 3.0, 1.0], [4.0, 3.2, 3.0, 2.0], 2) == 2


@pytest.mark.parametrize(("found", "at_least", "passed"), [(1.0, True, True), (0.9, True, False), (0.9, False, True)])
def test_a_gate_compares_in_its_direction(found: float, at_least: bool, passed: bool) -> None:
    assert Gate("made up", found, 1.0, at_least=at_least).passed is passed


def test_gates_need_every_figure(build: Build) -> None:
    assert {gate.name for gate in check_gates(build.evaluation)} == {gate.name for gate in build.gates}
