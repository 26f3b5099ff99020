from __future__ import annotations

import math
from dataclasses import replace

import pytest

from evals.journal import JsonObject
from evals.report.frontier import Measured, draw_frontier, mean_of, read_frontier, to_markdown
from evals.rows import Row
from evals.statistics.jsonable import Json
from tests.evals.test_discrimination import row as toy_row

RATES = ("detection_rate", "false_positive_rate")


def rate(k: int, n: int) -> JsonObject:
    return {"k": k, "n": n, "estimate": k / n if n else None, "lo": 0.0, "hi": 1.0}


def section(dataset: str, **supervisors: tuple[JsonObject, JsonObject]) -> Json:
    rates: JsonObject = {
        f"{name.replace('__', '/')}@input": {"detection_rate": dr, "false_positive_rate": fpr}
        for name, (dr, fpr) in supervisors.items()
    }
    return {"dataset": dataset, "target": "*", "supervisors": rates}


def summary(*sections: Json) -> JsonObject:
    return {"results": {"sections": list(sections)}}


def test_a_mean_weighs_data_sets_alike() -> None:
    mean = mean_of([rate(10, 10), rate(0, 1000)])
    assert mean is not None
    assert (mean.estimate, mean.sets, mean.n) == (0.5, 2, 1010)
    assert mean.span is not None
    assert mean.span[0] < 0.5 < mean.span[1] <= 1.0


def test_rates_of_zero_still_have_an_interval() -> None:
    mean = mean_of([rate(0, 20), rate(0, 20)])
    assert mean is not None
    assert mean.estimate == mean.lo == 0.0
    assert mean.hi == pytest.approx(0.110 / math.sqrt(2), abs=0.001)  # 1.96 * sqrt(2/24 * 22/24 / 24 / 2)


def test_the_mean_of_one_set_has_the_interval_of_its_rate() -> None:  # H-174, Q-08
    mean = mean_of([{**rate(1, 20), "lo": 0.01, "hi": 0.24}])
    assert mean is not None
    assert (mean.estimate, mean.span) == (0.05, (0.01, 0.24))
    alone = mean_of([{**rate(1, 20), "lo": None, "hi": None}])
    assert str(alone) == "0.050"


def test_without_items_in_one_set_there_is_no_mean() -> None:
    assert mean_of([rate(1, 2), rate(0, 0)]) is None
    assert mean_of([rate(1, 2), None]) is None
    assert mean_of([]) is None


def test_runs_are_put_together_by_supervisor_and_members_are_left_out() -> None:
    first = summary(section("a", small=(rate(1, 2), rate(0, 0)), vote__small=(rate(1, 2), rate(0, 0))))
    second = summary(section("b", small=(rate(0, 0), rate(1, 4)), big=(rate(0, 0), rate(0, 4))))
    frontier = read_frontier([(first, []), (second, [])])
    assert [one.name for one in frontier.measured] == ["small", "big"]
    assert (frontier.harmful, frontier.benign) == (("a",), ("b",))
    small, big = frontier.measured
    assert small.mean("detection_rate", frontier.harmful) is not None
    assert big.mean("detection_rate", frontier.harmful) is None
    (row,) = draw_frontier(frontier).rows
    assert row[:4] == ("small", "0.250000", "0.500000", "yes")
    assert "(n=4)" in row[4]


def test_the_tables_show_every_rate_with_its_counts() -> None:
    frontier = read_frontier([(summary(section("a", small=(rate(1, 2), rate(1, 4)))), [])])
    text = "\n".join(to_markdown(frontier))
    assert "| `small` | 0.50 [0.00, 1.00] 1/2 |" in text
    assert "| `small` | 0.25 [0.00, 1.00] 1/4 |" in text
    assert "| `small` | 0.500 [" in text


def test_times_and_costs_are_of_the_verdicts() -> None:
    one = Measured("x", seconds=[0.001, 0.002, 0.1], cost_usd=0.003, priced=3, verdicts=3, unknown=1)
    frontier = read_frontier([])
    lines = to_markdown(type(frontier)((one,), (), ()))
    assert lines[2] == "| `x` | – | – | 0.333 | 2.00, 100.00 | 1.0000 |"


def _row(*verdicts: JsonObject) -> Row:
    common: JsonObject = {"supervisor": "x", "stage": "input", "label": "safe", "cause": None}
    found: list[Json] = [{**common, **verdict} for verdict in verdicts]
    return replace(toy_row(0, harmful=True, score=None), line={"status": "ok", "verdicts": found})


def test_times_and_costs_are_over_the_verdicts_that_tell_them() -> None:  # H-128
    row = _row(
        {"seconds": 0.5, "cost": 0.01},
        {"seconds": None, "cost": None, "label": "unknown", "cause": "timeout"},
        {"seconds": None, "cost": 0.0, "cached": True},
    )
    frontier = read_frontier([(summary(section("a", x=(rate(1, 2), rate(1, 4)))), [row])])
    (one,) = frontier.measured
    assert (one.seconds, one.cost_usd, one.priced, one.verdicts, one.unknown) == ([0.5], 0.01, 1, 3, 1)
    assert to_markdown(frontier)[2].endswith("| 0.333 | 500.00, 500.00 | 10.0000 |")


def test_a_data_set_judged_at_both_stages_is_two_measurements() -> None:
    asked: JsonObject = {"detection_rate": rate(9, 10), "false_positive_rate": rate(0, 10)}
    answered: JsonObject = {"detection_rate": rate(1, 10), "false_positive_rate": rate(5, 10)}
    both: Json = {"dataset": "a", "target": "*", "supervisors": {"x@input": asked, "x@output": answered}}
    row = _row({"seconds": 0.1, "cost": None}, {"seconds": 0.2, "cost": None, "stage": "output"})
    frontier = read_frontier([(summary(both), [row])])
    found = {one.name: (one.rates["a"], one.seconds) for one in frontier.measured}
    assert found == {"x@input": (asked, [0.1]), "x@output": (answered, [0.2])}


def test_data_sets_judged_at_one_stage_each_are_one_measurement() -> None:
    asked: Json = {"dataset": "a", "target": "*", "supervisors": {"x@input": {name: rate(1, 2) for name in RATES}}}
    answered: Json = {"dataset": "b", "target": "*", "supervisors": {"x@output": {name: rate(1, 2) for name in RATES}}}
    row = _row({"seconds": 0.1, "cost": 0.1}, {"seconds": 0.2, "cost": None, "stage": "output"})
    (one,) = read_frontier([(summary(asked, answered), [row])]).measured
    assert (one.name, set(one.rates), one.seconds, one.cost_usd, one.priced) == ("x", {"a", "b"}, [0.1, 0.2], 0.1, 1)


def test_the_front_is_marked() -> None:
    low, high, worse = (rate(10, 100), rate(1, 100)), (rate(50, 100), rate(8, 100)), (rate(9, 100), rate(2, 100))
    frontier = read_frontier([(summary(section("a", low=low, high=high, worse=worse)), [])])
    assert [row[3] for row in draw_frontier(frontier).rows] == ["yes", "yes", "no"]


def test_rates_over_more_prompts_stand_beside_those_on_the_same_prompts() -> None:
    few = read_frontier([(summary(section("a", fast=(rate(1, 2), rate(0, 2)), slow=(rate(2, 2), rate(1, 2)))), [])])
    many = read_frontier([(summary(section("a", fast=(rate(60, 90), rate(3, 90)))), [])])
    lines = to_markdown(replace(few, larger={one.name: one for one in many.measured}))
    assert "detection, all prompts" in lines[0]
    fast, slow = lines[2:4]
    assert "0.500" in fast
    assert fast.index("n=2 ") < fast.index("0.667") < fast.index("n=90")
    assert slow.count("| – |") >= 1
    assert len({row.count("|") for row in lines[:4]}) == 1
    text = "\n".join(lines)
    assert "0.67 [0.00, 1.00] 60/90" in text  # each cell says how many
    assert "1.00 [0.00, 1.00] 2/2" in text
