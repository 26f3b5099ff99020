from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.bells.coherence_report import CoherenceRow, report_by, report_coherence
from evals.design import summarise_bells
from evals.journal import JsonObject
from evals.manifest import Manifest, read_manifest
from evals.report.html import About
from evals.report.suites import suite_pages
from evals.statistics.jsonable import to_json
from tests.evals.harness import Run, make_options, make_run
from tests.evals.test_discrimination import row, to_rows


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("runs")
    return make_run(path / "run", make_options(path))


def pages(run: Run, **results: Any) -> dict[str, str]:
    found: Any = run.summary["results"]
    summary: JsonObject = {**run.summary, "results": {**found, **results}}
    return dict(suite_pages(summary, About("mine", _manifest(run))))


def _manifest(run: Run) -> Manifest:
    return read_manifest(run.folder)


def test_a_run_without_a_suite_has_no_page_of_one(run: Run) -> None:
    assert pages(run) == {}


def test_the_bells_page_has_ours_beside_the_published_and_the_reference_line(run: Run) -> None:  # B-08
    families = ("narrative", "syntactic", "generative")
    rows = [row(0, harmful=True, score=0.9), row(9, harmful=False, score=0.1),
            *[row(n + 1, harmful=True, score=0.9, family=f) for n, f in enumerate(families)]]  # fmt: skip
    page = pages(run, bells=summarise_bells(to_rows(rows)))["bells"]
    assert "words@input, here" in page
    assert "1.000000" in page
    assert "GPT-4, published" in page
    assert "0.916757" in page
    assert "never flags / always flags" in page
    assert "not comparable as they are" in page


def test_the_coherence_page_has_both_definitions_beside_the_published(run: Run) -> None:  # C-01, C-06
    cells = {("harmful", "answers"): 28, ("harmful", "hedges"): 3, ("harmful", "refuses"): 46,
             ("not_harmful", "answers"): 18, ("not_harmful", "hedges"): 2, ("not_harmful", "refuses"): 5}  # fmt: skip
    rows = [
        CoherenceRow(f"{own}/{kind}/{n}", f"{own}/{kind}/{n}", "gpt-4", own, kind)  # type: ignore[arg-type] # literals above
        for (own, kind), count in cells.items()
        for n in range(count)
    ]
    report = {"models": to_json(report_by(rows, "model")), "all": to_json(report_coherence(rows)), "gates": {}}
    page = pages(run, coherence={"bells": report, "tie": report, "panels": []})["coherence"]
    assert "0.627 [0.531, 0.715] 64/102" in page
    assert "28/77 = .3636 (.2651 – .4752)" in page
    assert "hedging on a harmful request counted as coherent" in page


def test_the_open_page_has_detection_false_alarms_latency_cost_and_rank(run: Run) -> None:  # BO-04, BO-05
    section: Any = {**run.section, "dataset": "bells-o-input"}
    page = pages(run, sections=[section])["bells-o"]
    assert "words@input, here" in page
    assert "polyguard-qwen" in page
    assert "mean ms, 95 %" in page
    assert "Do not rank local and remote times together" in page
    assert "flags 73 % of benign prompts" in page


def test_the_nessie_page_says_that_nothing_is_comparable(run: Run) -> None:  # N-10, N-12
    rate: JsonObject = {"planned": 2, "k": 1, "n": 2, "estimate": 0.5, "lo": 0.1, "hi": 0.9}
    score: JsonObject = {"helpful_rate": rate, "harmful_rate": rate, "sh": rate}
    arm: JsonObject = {"all": score, "suites": {"rules": score}}
    effect: JsonObject = {"overall": {"b": 1, "c": 0, "n": 2, "test": {"p": 1.0}}, "false_blocks": ["row-1"]}
    both: JsonObject = {"with proxy": arm, "without proxy": arm, "effect": effect}
    manifest = replace(_manifest(run), options={"suite": {"condition": "no-reasoning"}})
    found: Any = run.summary["results"]
    summary: JsonObject = {**run.summary, "results": {**found, "nessie": {"m": {"strict": both, "lenient": both}}}}
    page = suite_pages(summary, About("mine", manifest))["nessie"]
    assert "nothing here is comparable with published values" in page
    assert "Condition: no-reasoning" in page
    assert "row-1" in page
    assert "fails only without 1, only with 0, n 2, exact p 1.0000" in page
    assert "Gemini 2.5 Pro" in page


def test_pages_of_suites_ask_for_nothing_and_hold_no_text(run: Run, tmp_path: Path) -> None:  # H-179
    page = pages(run, bells=summarise_bells(to_rows([row(1, harmful=True, score=0.9, family="narrative")])))["bells"]
    assert "default-src 'none'" in page
    assert page.count("<script>") == 1


def test_the_bells_page_leaves_out_what_was_seen_in_training_and_shows_it_beside(run: Run) -> None:  # LG-23, B-08
    rows = [row(n, harmful=True, score=0.9, family=family) for n, family in enumerate(("narrative", "syntactic"))]
    seen = replace(rows[0], planned=replace(rows[0].planned, contamination="sister"))
    page = pages(run, bells=summarise_bells(to_rows([seen, rows[1]])))["bells"]
    told, beside = page.split("1 trial of items seen in the guard&#x27;s training left out", 1)
    assert ">narrative<" not in told
    assert ">narrative<" in beside
    assert "policy, with them" in beside
