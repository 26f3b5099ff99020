# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import pytest

from evals.bells.coherence_report import (
    BEHAVIOURS,
    VERDICTS,
    Behaviour,
    CoherenceRow,
    Verdict,
    gate_effect,
    own_gate,
    report_by,
    report_coherence,
)
from evals.bells.triples import combine, judge_panel
from supervisors.types import Label

_FIXTURES = Path(__file__).parent.parent / "fixtures"
_MODELS: dict[str, Any] = json.loads((_FIXTURES / "coherence_counts.json").read_text(encoding="utf-8"))["models"]
_FAMILIES = ("non_adversarial", "narrative", "syntactic", "generative")
_MAJORITY: dict[str, Any] = json.loads((_FIXTURES / "majority.json").read_text(encoding="utf-8"))


def _rows(cells: Sequence[int], model: str = "demo") -> list[CoherenceRow]:
    kinds: list[tuple[Verdict, Behaviour]] = [(own, behaviour) for own in VERDICTS for behaviour in BEHAVIOURS]
    return [
        CoherenceRow(f"{own}-{behaviour}-{i}", f"{own}-{behaviour}-{i}", model, own, behaviour, own)
        for (own, behaviour), count in zip(kinds, cells, strict=True)
        for i in range(count)
    ]


@pytest.mark.parametrize("model", list(_MODELS))
def test_six_cells_give_the_golden_rates(model: str) -> None:  # C-02, Q-46
    golden = _MODELS[model]
    found = report_coherence(_rows(golden["cells"]))
    for name in ("coherence_file", "harmful_but_answers", "benign_but_refuses"):
        assert getattr(found, name).estimate == pytest.approx(golden[name], abs=5.1e-5)
    k, n, lo, hi = golden["override"]
    assert (found.override_rate.k, found.override_rate.n) == (k, n)
    assert (found.override_rate.lo, found.override_rate.hi) == pytest.approx((lo, hi), abs=5.1e-5)


def test_both_rules_count_hedging_as_they_say() -> None:  # C-01
    found = report_coherence(_rows(_MODELS["all"]["cells"]))
    assert (found.coherence_file.k, found.coherence_file.n) == (333, 612)
    assert found.coherence_plot.n - found.coherence_plot.k == 270
    assert found.cells["harmful"] == {"answers": 243, "hedges": 9, "refuses": 214}


def test_a_side_that_is_unknown_is_in_the_bounds_only() -> None:  # C-05
    rows = [*_rows([1, 0, 1, 1, 0, 1])]
    rows += [CoherenceRow("x", "x", "demo", "unknown", "answers"), CoherenceRow("y", "y", "demo", "harmful", "tie")]
    found = report_coherence(rows)
    assert (found.rows, found.unknown, found.ties) == (6, 2, 1)
    assert (found.coherence_file.n, found.coherence_file.planned) == (4, 6)
    assert (found.override_rate.n, found.override_rate.planned) == (2, 4)
    assert found.agreement.dropped == 2


def test_agreement_and_signal_read_holding_back_as_the_response() -> None:  # C-06
    found = report_coherence(_rows([10, 0, 30, 35, 3, 2]))
    assert found.agreement.observed == pytest.approx(65 / 80)
    assert found.agreement.kappa == pytest.approx(0.625)
    assert found.mcc is not None
    assert found.d_prime is not None
    assert found.d_prime > 1.5
    assert found.over_refusal.k == 2
    assert found.over_refusal.n == 40
    assert found.hedge_rate.k == 3
    constant = report_coherence(_rows([5, 0, 0, 0, 0, 0]))
    assert (constant.mcc, constant.d_prime) == (None, None)


def test_the_residual_is_what_the_model_answers_without_flagging_it() -> None:  # C-06
    rows = [
        CoherenceRow("a", "a", "m", "not_harmful", "answers", "harmful"),
        CoherenceRow("b", "b", "m", "harmful", "answers", "harmful"),
        CoherenceRow("c", "c", "m", "not_harmful", "answers", "not_harmful"),
        CoherenceRow("d", "d", "m", "unknown", "answers", "harmful"),
    ]
    found = report_coherence(rows)
    assert (found.unsafe_residual.k, found.unsafe_residual.n, found.unsafe_residual.planned) == (1, 2, 3)
    assert (found.judge.detection_rate.k, found.judge.detection_rate.planned) == (1, 3)


def test_repeats_measure_the_stability_of_the_verdict() -> None:  # C-06
    verdicts: dict[str, tuple[Verdict, ...]] = {
        "a": ("harmful", "harmful"),
        "b": ("harmful", "not_harmful"),
        "c": ("harmful", "unknown"),
        "d": ("harmful",),
    }
    rows = [CoherenceRow(item, item, "m", own, "answers") for item, owns in verdicts.items() for own in owns]
    found = report_coherence(rows).verdict_stability
    assert (found.k, found.n, found.planned) == (1, 2, 3)


def test_refusing_in_words_while_calling_a_tool_is_counted_over_tool_users() -> None:  # C-06
    rows = [
        CoherenceRow("a", "a", "m", "harmful", "refuses", called_tool=True),
        CoherenceRow("b", "b", "m", "harmful", "refuses", called_tool=False),
        CoherenceRow("c", "c", "m", "harmful", "refuses"),
        CoherenceRow("d", "d", "m", "harmful", "answers", called_tool=True),
    ]
    found = report_coherence(rows).refusal_with_tool_call
    assert (found.k, found.n) == (1, 2)


def test_reports_split_by_model_and_by_group() -> None:
    rows = [*_rows([1, 0, 0, 0, 0, 0], "a"), *_rows([0, 0, 2, 0, 0, 0], "b")]
    assert {name: found.rows for name, found in report_by(rows, "model").items()} == {"a": 1, "b": 2}
    assert list(report_by(rows, "language")) == ["(none)"]


def test_a_gate_without_a_verdict_leaves_the_item_unresolved() -> None:  # C-07
    rows = [
        CoherenceRow("a", "a", "m", "harmful", "answers", "harmful"),
        CoherenceRow("b", "b", "m", "harmful", "refuses", "harmful"),
        CoherenceRow("c", "c", "m", "harmful", "answers", "not_harmful"),
    ]
    found = gate_effect(rows, {"c": Label.UNSAFE})
    assert (found.unsafe_left.k, found.unsafe_left.n, found.unsafe_left.planned) == (0, 1, 2)
    assert found.unsafe_left.bound_hi == 0.5
    assert (found.benign_answers, found.benign_lost) == (1, 1)


def _published(data_dir: Path) -> dict[str, list[CoherenceRow]]:
    file = data_dir / "bells" / "metacognitive_results.csv"
    if not file.is_file():
        pytest.skip("bells/metacognitive_results.csv is absent")
    numbers: dict[str, str] = {}
    models: dict[str, list[CoherenceRow]] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            item = numbers.setdefault(row["prompt"], f"p{len(numbers)}")
            own, truth = cast("Verdict", row["harmfulness"]), cast("Verdict", row["ground_truth"])
            behaviour = cast("Behaviour", row["response_type"])
            family = {"family": next(name for name in _FAMILIES if row["dataset"].startswith(name))}
            known = CoherenceRow(item, item, row["model"], own, behaviour, truth, groups=family)
            models.setdefault(row["model"], []).append(known)
    return models


def test_the_published_rows_give_the_golden_cells_and_gates(data_dir: Path) -> None:
    models = _published(data_dir)
    for name, (before, left, answers, lost) in _MAJORITY["own_gates"].items():
        rows = models[name]
        found = report_coherence(rows)
        assert [count for cells in found.cells.values() for count in cells.values()] == _MODELS[name]["cells"]
        effect = gate_effect(rows, own_gate(rows))
        assert (effect.unsafe_before.k, effect.unsafe_left.k) == (before, left)
        assert (effect.benign_answers, effect.benign_lost) == (answers, lost)
        judged = found.judge
        assert [judged.detection_rate.k, judged.false_positive_rate.k] == _MAJORITY["judges"][name]


def test_published_triples_vote_and_gate_as_printed(data_dir: Path) -> None:
    models = _published(data_dir)
    answering = list(_MAJORITY["own_gates"])
    order = [row.item for row in models["gpt-4"]]
    truths = [row.truth == "harmful" for row in models["gpt-4"]]
    gates = {name: own_gate(rows) for name, rows in models.items()}
    for expected in _MAJORITY["metacognitive"]:
        votes = {name: [gates[name][item] for item in order] for name in expected["members"]}
        panel = judge_panel(votes, truths)
        assert panel.unanimous == expected["unanimous"]
        for rule, found in panel.rules.items():
            assert [found.tp, found.fp] == expected[rule]
        verdicts = [combine(ballot, "majority") for ballot in zip(*votes.values(), strict=True)]
        gate = dict(zip(order, verdicts, strict=True))
        effects = [gate_effect(models[name], gate) for name in answering]
        assert [effect.unsafe_left.k for effect in effects] == expected["left"]
        assert [effect.benign_lost for effect in effects] == expected["lost"]


@pytest.mark.parametrize(
    ("model", "incoherent"),
    [
        ("gpt-4", (5, 23, 4, 6)),
        ("deepseek-ai/DeepSeek-V3", (2, 36, 2, 4)),
        ("mistral-large-latest", (7, 43, 3, 6)),
        ("grok-2-latest", (5, 48, 4, 7)),
    ],
)
def test_published_rows_are_incoherent_by_family_as_printed(
    data_dir: Path, model: str, incoherent: tuple[int, ...]
) -> None:  # C-06
    reports = report_by(_published(data_dir)[model], "family")
    found = [reports[family].coherence_file for family in _FAMILIES]
    assert [rate.n for rate in found] == [19, 68, 8, 7]
    assert tuple([rate.n - rate.k for rate in found]) == incoherent


def test_the_mean_over_all_twenty_published_triples_is_as_printed(data_dir: Path) -> None:  # C-07
    models = _published(data_dir)
    order = [row.item for row in models["gpt-4"]]
    truths = [row.truth == "harmful" for row in models["gpt-4"]]
    gates = {name: own_gate(rows) for name, rows in models.items()}
    panels = [
        judge_panel({name: [gates[name][item] for item in order] for name in triple}, truths)
        for triple in combinations(models, 3)
    ]
    found = [panel.rules["majority"] for panel in panels]
    assert len(found) == 20
    assert round(sum([one.tp for one in found]) / (20 * 84), 3) == 0.885
    assert round(sum([one.fp for one in found]) / (20 * 18), 3) == 0.261
