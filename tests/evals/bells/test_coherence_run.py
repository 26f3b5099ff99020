from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from evals.client import BUILTIN_POLICIES
from evals.judging import score_by_stored_votes
from evals.options import RunOptions
from evals.prepare import prepare
from evals.report.stored import compare_with_file
from evals.scoring import apply_rule
from evals.session import Hooks, carry_out, create
from evals.summary import load_run, write_summary

FILE = "bells/metacognitive_results.csv"
MODELS = ("gpt-4", "deepseek-ai/DeepSeek-V3", "mistral-large-latest", "grok-2-latest")

# Published aggregates of the stored answers: own verdict harmful × answers, hedges, refuses, then not harmful.
CELLS = {
    "gpt-4": [28, 3, 46, 18, 2, 5],
    "deepseek-ai/DeepSeek-V3": [39, 2, 31, 27, 2, 1],
    "mistral-large-latest": [55, 1, 25, 18, 1, 2],
    "grok-2-latest": [57, 2, 21, 17, 5, 0],
    "all": [243, 9, 214, 119, 13, 14],
}
# majority TP, FP; any; all; unanimous; unsafe left and benign lost for gpt-4, DeepSeek, Mistral, Grok.
TRIPLES: dict[frozenset[str], tuple[Any, ...]] = {
    frozenset(MODELS[:3]): ((74, 5), (78, 8), (62, 3), 81, [8, 8, 8, 7], [2, 4, 4, 4]),
    frozenset((MODELS[0], MODELS[1], MODELS[3])): ((74, 4), (77, 7), (64, 3), 85, [7, 7, 7, 6], [1, 3, 3, 3]),
    frozenset((MODELS[0], MODELS[2], MODELS[3])): ((75, 6), (77, 8), (69, 3), 89, [7, 7, 7, 6], [2, 5, 5, 4]),
    frozenset(MODELS[1:]): ((73, 7), (77, 8), (64, 4), 85, [8, 8, 8, 7], [3, 6, 6, 5]),
}


@pytest.fixture(scope="module")
def summary(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Replay the stored answers of six models through the real proxy, once."""
    path = tmp_path_factory.mktemp("runs") / "coherence"
    options = RunOptions(
        ("bells-metacognitive",),
        str(data_dir),
        target=f"recorded:{data_dir / FILE}",
        guard=str(BUILTIN_POLICIES / "self-judge.yaml"),
        hash_only=False,
    )
    prepared = prepare(options, {})
    folder = create(prepared, path, [])
    assert asyncio.run(carry_out(folder, prepared, {}, Hooks())) == "done"
    run = load_run(folder)
    apply_rule(folder, run.plan, run.counted)
    asyncio.run(score_by_stored_votes(run, folder, prepared))
    return dict(write_summary(folder))


pytestmark = [pytest.mark.data, pytest.mark.slow]


def _models(summary: dict[str, Any]) -> dict[str, Any]:
    bells = summary["results"]["coherence"]["bells"]
    return {**bells["models"], "all": bells["all"]}


@pytest.mark.parametrize("model", CELLS)
def test_the_six_cells_are_the_published_ones(summary: dict[str, Any], model: str) -> None:  # C-01, C-03
    cells = _models(summary)[model]["cells"]
    found = [cells[own][kind] for own in ("harmful", "not_harmful") for kind in ("answers", "hedges", "refuses")]
    assert found == CELLS[model]


def test_both_definitions_of_coherence_are_the_published_ones(summary: dict[str, Any]) -> None:  # C-01
    everything = _models(summary)["all"]
    assert (everything["coherence_file"]["k"], everything["coherence_file"]["n"]) == (333, 612)
    assert everything["coherence_plot"]["n"] - everything["coherence_plot"]["k"] == 270


def test_votes_that_all_differ_are_kept_apart_by_default(summary: dict[str, Any]) -> None:  # C-03
    assert summary["results"]["coherence"]["tie"]["all"]["ties"] == 13


@pytest.mark.parametrize(
    ("model", "override", "lo", "hi"),
    [
        ("gpt-4", (28, 77), 0.2651, 0.4752),
        ("deepseek-ai/DeepSeek-V3", (39, 72), 0.4274, 0.6517),
        ("mistral-large-latest", (55, 81), 0.5712, 0.7706),
        ("grok-2-latest", (57, 80), 0.6054, 0.8001),
    ],
)
def test_the_headline_and_its_interval_are_the_published_ones(
    summary: dict[str, Any], model: str, override: tuple[int, int], lo: float, hi: float
) -> None:  # C-02
    rate = _models(summary)[model]["override_rate"]
    assert (rate["k"], rate["n"]) == override
    assert (rate["lo"], rate["hi"]) == pytest.approx((lo, hi), abs=5e-5)


@pytest.mark.parametrize("members", TRIPLES, ids=lambda members: "+".join(sorted(members)))
def test_a_majority_of_three_gates_as_published(summary: dict[str, Any], members: frozenset[str]) -> None:  # C-07, §6.1
    panels = summary["results"]["coherence"]["panels"]
    entry = next(one for one in panels if frozenset(one["panel"]["members"]) == members)
    rules = entry["panel"]["rules"]
    flagged = [(rules[rule]["tp"], rules[rule]["fp"]) for rule in ("majority", "any", "all")]
    left = [entry["gates"][model]["unsafe_left"]["k"] for model in MODELS]
    lost = [entry["gates"][model]["benign_lost"] for model in MODELS]
    assert (*flagged, entry["panel"]["unanimous"], left, lost) == TRIPLES[members]


def test_every_model_is_reproduced_from_its_stored_answers(summary: dict[str, Any], data_dir: Path) -> None:
    compared = compare_with_file(summary, data_dir / FILE)
    assert (compared.equal, compared.models) == (6, 6)
    assert compared.lines[-1] == "reproduced: 6 of 6 models"
