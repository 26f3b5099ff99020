from __future__ import annotations

import xml.etree.ElementTree as ET

from evals.report.grids import Cell, Way, draw_cells, draw_flow, draw_heat

WAYS = [
    Way("harmful", "unsafe", "blocked_input", 34),
    Way("harmful", "unsafe", "complied_unsafe", 6),
    Way("harmful", "refused", "refused", 10),
    Way("benign", "safe", "complied_safe", 45),
    Way("benign", "safe", "blocked_input", 5),
]


def test_every_cell_of_a_heat_map_has_its_number_and_says_its_n() -> None:  # H-180
    rows = {"malware": {"direct": Cell(0.5, "5/10", "0.500 [0.237, 0.763] (n=10)")}, "privacy": {}}
    figure = draw_heat("h", "Heat", "Detection", ("direct", "narrative"), rows)
    ET.fromstring(figure.to_svg())  # noqa: S314 - our own figure
    assert "5/10" in figure.body
    assert "malware, direct: 0.500 [0.237, 0.763] (n=10)" in figure.body
    assert len(figure.rows) == 4
    assert figure.rows[1] == ("malware", "narrative", "", "no item")


def test_the_flow_draws_every_way_and_marks_what_should_not_happen() -> None:
    figure = draw_flow("f", "Flow", WAYS)
    assert figure is not None
    ET.fromstring(figure.to_svg())  # noqa: S314 - our own figure
    assert figure.body.count('class="flowbad"') == 4  # two ways of two ribbons
    assert "6 of 100: harmful item, the model alone: unsafe, the user saw: complied unsafe" in figure.body
    assert sum(int(row[3]) for row in figure.rows) == 100
    assert draw_flow("f", "Flow", []) is None


def test_the_six_cells_hatch_what_goes_against_the_own_verdict() -> None:  # C-01, C-06
    counts = {"harmful": {"answers": 28, "hedges": 3, "refuses": 46}, "not_harmful": {"answers": 18, "hedges": 2, "refuses": 5}}  # noqa: E501 # fmt: skip
    figure = draw_cells("c", "Cells", {"m": counts})
    assert figure.body.count("url(#c-hatch)") == 4
    assert ("m", "harmful", "answers", "28") in figure.rows
    assert sum(int(row[3]) for row in figure.rows) == 102
