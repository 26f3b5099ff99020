from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.bodies import stream_body, whole_body
from bench.goals import GOALS
from bench.latency import percentile
from bench.report import BEGIN, END, Report, chart, insert, markdown
from bench.throughput import Round, Throughput


def throughput(name: str, cpu_us: float) -> Throughput:
    rounds = tuple([Round(1e6 / cpu_us, cpu_us + extra, cpu_us, 1.0, 3.0, 0.5, 0.0) for extra in (-1.0, 0.0, 5.0)])
    return Throughput(name, rounds)


def report() -> Report:
    found = {name: throughput(name, us) for name, us in (("direct", 6.0), ("guardrail-proxy", 100.0), ("<peer>", 5e3))}
    return Report({"cores": "2"}, throughput=found, values={"litellm": 50.0, "growth": 7.0}, missing=["nemo: absent"])


def test_the_median_of_the_rounds_counts() -> None:  # PF-40
    one = throughput("x", 100.0)
    assert one.median("cpu_us") == 100.0
    assert one.per_core_s == pytest.approx(10_000)
    assert not one.generator_limited


@pytest.mark.parametrize(
    ("name", "value", "grade"),
    [
        ("litellm", 90.0, "goal"),
        ("litellm", 35.0, "floor"),
        ("litellm", 34.9, "missed"),
        ("growth", 2.0, "goal"),
        ("growth", 5.1, "missed"),
        ("rows_lost", 0.0, "goal"),
        ("rows_lost", 1.0, "missed"),
    ],
)
def test_a_value_is_graded_by_floor_and_goal(name: str, value: float, grade: str) -> None:
    assert GOALS[name].grade(value) == grade


def test_a_goal_is_never_weaker_than_its_floor() -> None:
    assert [goal.id for goal in GOALS.values() if not goal.holds(goal.goal, goal.floor)] == []


def test_the_section_says_what_was_found_and_what_was_not() -> None:  # PF-41
    section = markdown(report())
    assert "| guardrail-proxy | 10,000 |" in section
    assert "| ≥ 35 | ≥ 90 | 50 | floor |" in section
    assert "| not measured |" in section
    assert "- nemo: absent" in section


def test_the_chart_is_well_formed_and_has_a_bar_a_target() -> None:
    root = ET.fromstring(chart(report()))  # noqa: S314 - our own text
    bars = [node for node in root.iter() if node.tag.endswith("rect")]
    assert len(bars) == 3
    assert float(bars[0].get("width", "0")) > float(bars[-1].get("width", "0")) > 0


def test_a_second_run_replaces_the_section_of_the_first(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n")
    insert(page, f"{BEGIN}\nold\n{END}")
    page.write_text(f"{page.read_text()}\nafter\n")
    insert(page, f"{BEGIN}\nnew\n{END}")
    text = page.read_text()
    assert "old" not in text
    assert [text.index(part) for part in ("# Title", "new", "after")] == sorted(
        text.index(part) for part in ("# Title", "new", "after")
    )


def test_percentiles_are_nearest_rank() -> None:
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 3.0
    assert percentile([1.0], 0.99) == 1.0


@pytest.mark.parametrize("size", [811, 65_536])
def test_a_body_has_the_size_asked_for(size: int) -> None:
    assert abs(len(whole_body("fast", size)) - size) <= 1
    assert b'"stream":true' in stream_body("fast", size)
