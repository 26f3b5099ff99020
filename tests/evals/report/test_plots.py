from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from evals.report.plots import Estimate, Point, draw_bars, draw_forest, draw_plane, draw_steps, is_on_front
from evals.report.svg import Figure, clip_name

RATE = Estimate("violet umbrella", 40, 0.5, 0.35, 0.65, 0.4, 0.6)


def parse(figure: Figure) -> ET.Element:
    return ET.fromstring(figure.to_svg())  # noqa: S314 - our own figure


def test_every_figure_is_well_formed_and_described() -> None:  # H-180
    points = [Point("a", 0.1, 0.9, "0.900 (n=10)", "0.100 (n=10)", (0.0, 0.3), (0.6, 1.0))]
    for figure in (
        draw_forest("f", "Rates <&>", [RATE]),
        draw_plane("p", "Plane", "false positive rate", points),
        draw_bars("b", "Bars", [("misses", 3, True), ("blocks", 0, False)]),
        draw_steps("s", "Steps", [(0.001, 0.5), (0.0042, 1.0)], 20),
    ):
        root = parse(figure)
        tags = [child.tag.split("}")[1] for child in root]
        assert tags[:2] == ["title", "desc"]
        assert figure.to_csv().count("\n") == len(figure.rows) + 1


def test_a_rate_is_drawn_with_its_n_interval_and_bounds() -> None:  # H-180, Q-01
    figure = draw_forest("f", "Rates", [RATE, Estimate("none", 0, None, None, None, None, None)])
    assert "0.500 [0.350, 0.650] (n=40)" in figure.body
    assert "n/a (n=0)" in figure.body
    assert figure.rows[0] == ("violet umbrella", "40", "0.500000", "0.350000", "0.650000", "0.400000", "0.600000")
    assert figure.rows[1][2:] == ("",) * 5


def test_the_front_holds_whom_nobody_beats() -> None:  # H-161
    points = [Point(name, x, y, "", "") for name, x, y in (("a", 0.1, 0.9), ("b", 0.2, 0.9), ("c", 0.0, 0.2))]
    assert [point.label for point in points if is_on_front(point, points)] == ["a", "c"]
    rows = draw_plane("p", "Plane", "seconds", points, share=False).rows
    assert [row[3] for row in rows] == ["yes", "no", "yes"]


def test_bad_counts_are_hatched_and_not_only_red() -> None:  # H-177
    figure = draw_bars("b", "Bars", [("misses", 3, True), ("blocks", 5, False)])
    assert figure.body.count("url(#b-hatch)") == 1
    assert "3 (38% of 8)" in figure.body


def test_hostile_names_are_escaped() -> None:  # H-179
    figure = draw_forest("f", "<script>", [Estimate('"><script>', 1, 0.5, 0.1, 0.9, 0.1, 0.9)])
    assert "<script>" not in figure.to_svg()


@pytest.mark.parametrize(
    ("said", "start", "end"),
    [
        ("guard: 0.500 [0.400, 0.600] (n=10)", "guard", ": 0.500 [0.400, 0.600] (n=10)"),
        (f"{'name ' * 9}: 0.753, 0.011 [0.004, 0.029] (n=353)", "name na", "…: 0.753, 0.011 [0.004, 0.029] (n=353)"),
        ("Brier 0.171, ECE 0.162 [0.123, 0.230], largest gap 0.589, n=132", "Brier 0.171, ", " gap…, n=132"),
        ("word " * 20, "word ", "wo…"),
    ],
)
def test_a_legend_cuts_a_name_and_never_its_numbers(said: str, start: str, end: str) -> None:  # H-180
    shown = clip_name(said, 58)
    assert (shown.startswith(start), shown.endswith(end)) == (True, True)
    assert len(shown) == min(len(said), 58)
