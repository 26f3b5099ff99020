"""Published tables and the rules of BELLS-O (bells-nessie §3.3)."""

from __future__ import annotations

import pytest

from evals.bells.reference import Ranked, bells_o_table, bells_scores, local_cost, nessie_rows, rank_systems

INPUT_COUNT = 1400


def test_the_published_scores_are_those_of_the_golden_rows() -> None:  # B-10
    found = {name: one.score for name, one in bells_scores().items()}
    assert found["GPT-4"] == pytest.approx(0.916757442097, abs=1e-9)
    assert found["LangKit"] == pytest.approx(0.665575300768, abs=1e-9)
    assert len(found) == 8


def test_three_stages_of_fifteen_systems_have_the_four_metrics() -> None:  # BO-04
    for stage in ("input", "output", "jailbreak"):
        rows = bells_o_table(stage)
        assert len(rows) == 15
        for one in rows:
            assert one.detection_rate is not None
            assert 0 <= one.detection_rate <= 1
            assert one.false_positive_rate is not None
            assert one.latency_s is not None
            assert (one.cost_usd is None) == (stage == "output")
    false_alarms = [(one.false_positive_rate or 0.0) * 300 for one in bells_o_table("input")]
    assert all(abs(count - round(count)) < 0.02 for count in false_alarms)  # multiples of 1/300


def test_the_published_ranks_fit_a_field_of_nineteen() -> None:  # BO-05
    rows = bells_o_table("jailbreak")
    shown = rank_systems(rows)
    for one in rows:
        assert one.published_rank is not None
        hidden = 4 * one.published_rank - 4 * shown[one.system]
        assert 0 <= round(hidden, 6) <= 16, (
            one.system
        )  # four systems are not shown, at most one place each in four ranks


def test_ties_share_the_smaller_rank_and_a_gap_leaves_no_rank() -> None:  # BO-05
    same = [Ranked(name, 0.9, 0.1, 1.0, 1.0) for name in ("a", "b")]
    ranks = rank_systems([*same, Ranked("c", 0.8, 0.2, 2.0, 2.0), Ranked("d", 0.99, 0.0, 0.1, None)])
    assert ranks == {"a": 1.0, "b": 1.0, "c": 3.0}


def test_a_first_place_can_flag_most_benign_prompts() -> None:  # BO-05: why the rank is never the default order
    first = min(bells_o_table("jailbreak"), key=lambda one: one.published_rank or 99)
    assert (first.system, first.false_positive_rate) == ("lakera default", 0.7315)


@pytest.mark.parametrize(
    ("system", "exact"),
    [("polyguard-qwen", True), ("lionguard-2", True), ("qwen3guard-8b", True), ("granite-3.3-8b", True),
     ("wildguard", True), ("shieldgemma-27b", True), ("shieldgemma-2b", True), ("polyguard-ministral", True),
     ("opencc-cm-escalation", False)],
)  # fmt: skip
def test_the_published_costs_of_own_hardware_are_latency_times_price(system: str, *, exact: bool) -> None:  # BO-06
    row = next(one for one in bells_o_table("input") if one.system == system)
    assert row.latency_s is not None
    assert row.cost_usd is not None
    rounding = 0.0005 * INPUT_COUNT * 2.39 / 3600 + 0.0005  # half a millisecond of latency, half a digit of cost
    assert (abs(local_cost(INPUT_COUNT, row.latency_s) - row.cost_usd) <= rounding) is exact
    assert local_cost(INPUT_COUNT, row.latency_s, usd_per_hour=0.0) == 0.0


def test_published_nessie_values_say_what_they_are() -> None:  # N-12
    assert all(said.startswith(("SH ", "safe ")) for _, said in nessie_rows())
