from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from evals.manifest import read_manifest
from evals.report.assets import page_script
from evals.report.figures import page_figures
from evals.report.files import write_report
from evals.report.html import About, to_page
from tests.evals.harness import Run, make_options, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("runs")
    return make_run(path / "run", make_options(path))


def _page(run: Run) -> str:
    return to_page(run.summary, About(run.folder.path.name, read_manifest(run.folder)), page_figures(run.summary))


def test_the_page_asks_for_nothing(run: Run) -> None:  # H-179
    page = _page(run)
    assert "default-src 'none'" in page
    assert page.count("<script>") == 1  # its hash stands in the policy
    assert page.count(page_script()) == 1
    assert not re.search(r"<script[^>]|<link|<img|<iframe|@import|url\((?!#)", page)
    assert re.findall(r'(?:src|href)="(?!#)', page) == []


def test_the_page_and_its_files_are_the_same_bytes_each_time(run: Run, tmp_path: Path) -> None:  # H-182
    for name in ("one", "two"):
        write_report(run.folder, run.summary, tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "two").iterdir())
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_the_page_is_titled_by_the_name_of_the_run(run: Run) -> None:
    page = _page(run)
    assert "<title>Run run</title>" in page
    assert "<h1>Run run</h1>" in page
    assert read_manifest(run.folder).run_id in page


def test_the_page_holds_no_text_of_an_item(run: Run) -> None:  # H-111
    page = _page(run)
    assert not [item.item_id for item in run.prepared.items.values() if item.prompt in page]


def test_inserted_text_is_escaped(run: Run) -> None:  # H-179
    hostile = '<script>alert(1)</script>"&'
    manifest = replace(read_manifest(run.folder), labels={"target": hostile, "guard": hostile})
    page = to_page(run.summary, About("mine", manifest), page_figures(run.summary))
    assert page.count("<script>") == 1  # the page's own
    assert "&lt;script&gt;" in page


def test_every_figure_has_a_title_a_description_and_its_numbers(run: Run, tmp_path: Path) -> None:  # H-180
    write_report(run.folder, run.summary, tmp_path)
    drawn = sorted(tmp_path.glob("*.svg"))
    assert len(drawn) >= 3
    for path in drawn:
        assert "<title id=" in path.read_text()
        assert "<desc id=" in path.read_text()
        assert path.with_suffix(".csv").read_text().count("\n") >= 2


def test_no_rate_is_drawn_without_its_n(run: Run) -> None:  # H-180
    rates = page_figures(run.summary)["0"][0]
    assert rates.header[1] == "n"
    assert len(re.findall(r"<text[^>]*>[^<]*\(n=", rates.body)) == len(rates.rows)


def test_the_page_works_with_keys_a_screen_reader_and_a_narrow_window(run: Run) -> None:
    page = _page(run)
    assert '<html lang="en">' in page
    assert 'class="skip" href="#main"' in page
    assert 'content="width=device-width,initial-scale=1"' in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for anchor in re.findall(r'href="#([^"]+)"', page):
        assert anchor in ids


def test_a_run_of_ten_items_has_a_flow_and_bars_beside_its_rates(run: Run) -> None:  # H-180
    names = [figure.name for figure in page_figures(run.summary)["0"]]
    for part in ("rates", "supervisors", "flow", "ledger-harmful", "overhead"):
        assert f"smoke-fake-1-{part}" in names
