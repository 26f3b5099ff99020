from __future__ import annotations

import re

from evals.journal import JsonObject
from evals.report.assets import content_policy, page_script, page_style
from evals.report.parts import data_table, explorer, fact_list, fact_table, figure_block, tile, warnings_box
from evals.report.plots import Estimate, draw_forest


def test_tables_have_captions_headers_and_scroll_by_key() -> None:
    table = data_table(("supervisor", "DR"), [("a", "0.5")], "Rates")
    assert "<caption>Rates</caption>" in table
    assert '<th scope="col">DR</th>' in table
    assert '<th scope="row">a</th>' in table
    assert 'tabindex="0" aria-label="Rates"' in table
    assert "&lt;b&gt;" in fact_table([("name", "<b>")], "Facts")


def test_a_figure_stands_beside_its_numbers_as_a_table() -> None:  # H-180
    block = figure_block(draw_forest("f", "Rates", [Estimate("a", 3, 0.5, 0.1, 0.9, 0.1, 0.9)]))
    assert "<figcaption>Rates</figcaption>" in block
    assert "The number as a table" in block
    assert re.search(r"<th scope=\"row\">a</th><td>3</td>", block)


def test_a_tile_never_shows_a_rate_without_n_and_interval() -> None:
    shown = tile("Detected", {"estimate": 0.5, "lo": 0.25, "hi": 0.75, "k": 5, "n": 10}, "harmful requests")
    assert "50.0%" in shown
    assert "25.0% – 75.0%, 5 of 10 harmful requests" in shown
    assert "n/a" in tile("Detected", {"estimate": None, "k": 0, "n": 0}, "harmful requests")


def test_thresholds_can_be_tried_only_where_both_classes_are() -> None:
    both: JsonObject = {"words@input": {"positives": 2, "negatives": 3, "steps": [[0.5, 1, 0], [0.1, 2, 3]]}}
    assert "[2,3,[[0.5,1,0],[0.1,2,3]]]" in explorer(both, "roc")
    one: JsonObject = {"words@input": {"positives": 2, "negatives": 0, "steps": []}}
    assert explorer(one, "roc") == ""


def test_style_and_script_ask_for_nothing_from_elsewhere() -> None:  # H-179
    for text in (page_style(), page_script()):
        assert not re.search(
            r"https?://(?!www\.w3\.org/2000/svg)|@import|fetch\(|XMLHttp|import\(|eval\(|innerHTML", text
        )
    assert "prefers-color-scheme:dark" in page_style()
    assert "@media print" in page_style()


def test_the_policy_names_the_script_by_its_hash() -> None:  # H-179
    assert content_policy("a") != content_policy("b")
    assert "script-src 'sha256-" in content_policy(page_script())
    assert "unsafe-eval" not in content_policy(page_script())


def test_short_facts_stand_side_by_side_and_are_escaped() -> None:
    block = fact_list([("DR", "<0.5>"), ("scored", 3)], "All measures")
    assert block.count("<dt>") == 2
    assert "<dd>&lt;0.5&gt;</dd>" in block
    assert "All measures" in block


def test_several_warnings_are_one_list_and_one_is_a_line() -> None:
    assert warnings_box([]) == ""
    assert warnings_box(["a & b"]) == '<p class="warn">a &amp; b</p>'
    assert warnings_box(["a", "b"]) == '<ul class="warn"><li>a</li><li>b</li></ul>'
