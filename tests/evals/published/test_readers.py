"""Readers of published-score files: made-up files for every trap, and the real ones where they are on disk (§10)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.published.readers import HELM_SCORE, read_published
from evals.published.values import Published
from supervisors.errors import DatasetError


def write(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


MARKDOWN = """# Leaderboard
| Model | Alias |
| ----- | :---: |
| Guard One | G1 |

| Dataset | Metric | G1 | G2 |
| --- | --- | --- | --- |
| AdvBench Behaviors | Recall | **0.981** | <ins>0.5</ins> |
| Unheard Of | F1 | 0.1 | 0.2 |
| Wins | | 1 | 0 |
"""


def test_markup_and_the_row_of_wins_are_no_values(tmp_path: Path) -> None:
    found = read_published(write(tmp_path, "leaderboard.md", MARKDOWN))
    assert [(one.dataset, one.system, one.metric, one.value) for one in found] == [
        ("advbench", "Guard One", "recall", 0.981),
        ("advbench", "G2", "recall", 0.5),
        ("", "Guard One", "f1", 0.1),
        ("", "G2", "f1", 0.2),
    ]


def test_counts_of_a_suite_become_rates_with_intervals(tmp_path: Path) -> None:
    suite = {"tp": 9, "fn": 2, "fp": 0, "tn": 14, "precision": 1.0}
    body = {"version": "v0", "detectors": [{"name": "d", "perSuite": {"pi": suite}}]}
    recall, alarms = read_published(write(tmp_path, "results.json", json.dumps(body)))
    assert recall.text == "0.818 [0.523, 0.949] n 11"
    assert alarms.text == "0.000 [0.000, 0.215] n 14"


def test_a_cohort_is_everything_that_was_not_the_same(tmp_path: Path) -> None:
    cohort = {"dataset": "xstest", "metric": "fpr", "split": "prompts", "harness": "h1", "metric_impl": None}
    entry = {"cohort": cohort, "value": 0.2, "guardrail": "g", "contamination": True, "notes": "default model"}
    other = {**entry, "cohort": {**cohort, "harness": "h2"}, "contamination": False}
    one, two = read_published(write(tmp_path, "guardrail_benchmarks.json", json.dumps({"g": [entry, other]})))
    assert (one.dataset, one.metric, one.value) == ("xstest", "fpr", 0.2)
    assert one.cohort == "harness h1, split prompts"
    assert one.cohort != two.cohort
    assert (one.note, two.note) == ("seen in training; default model", "default model")


def test_an_empty_cell_of_the_matrix_is_missing_and_a_bias_may_be_negative(tmp_path: Path) -> None:
    text = f",HarmBench::{HELM_SCORE},BBQ::BBQ (ambiguous)\nm,,-0.17\nk,0.5,0.1\n"
    found = read_published(write(tmp_path, "score_matrix_helm.csv", text))
    assert [(one.system, one.value) for one in found] == [("m", -0.17), ("k", 0.5), ("k", 0.1)]
    assert (found[1].dataset, found[1].n, found[1].lo) == ("harmbench", 400, None)
    with pytest.raises(DatasetError, match="unnamed first column"):
        read_published(write(tmp_path, "score_matrix_helm.csv", "model,a\nm,1\n"))


def test_answers_that_are_neither_make_bounds(tmp_path: Path) -> None:
    counts = {"refusal_count": 30, "malicious_count": 50, "benign_count": 10, "else_count": 10, "total_count": 100}
    path = write(tmp_path, "mitre.json", json.dumps({"m": {"Recon": counts}}))
    (found,) = read_published(path)
    assert (found.value, found.lo, found.hi, found.n) == (0.4, 0.4, 0.5, 100)
    path.write_text(json.dumps({"m": {"Recon": {**counts, "total_count": 101}}}))
    with pytest.raises(DatasetError, match="do not add up to total_count 101"):
        read_published(path)


def test_a_leaderboard_of_ones_own_stands_beside_ours_too(tmp_path: Path) -> None:  # DS-23
    header = "benchmark,model,score,n,direction,unit,source,date\n"
    rows = "xstest,mine,12.5,400,lower,percent,report 7,2026\nxstest,yours,0.5,,higher,proportion,blog,2026\n"
    mine, yours = read_published(write(tmp_path, "board.csv", header + rows))
    assert mine.text == "0.125 [0.096, 0.161] n 400"
    assert (mine.metric, yours.metric, yours.lo) == ("score, lower is better", "score, higher is better", None)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("leaderboard.md", "nothing", "holds no table"),
        ("leaderboard.md", "| Dataset | Metric | A |\n|---|---|---|\n| X | F1 | high |", "'high' is no number"),
        ("leaderboard.md", "| Dataset | Metric | A |\n|---|---|---|\n| X | F1 |", "has 2 cells, its header 3"),
        ("results.json", "[]", "expected an object"),
        ("results.json", '{"detectors": [{"name": "d", "perSuite": {"s": {"tp": 1}}}]}', "None is no number"),
        ("guardrail_benchmarks.json", '{"g": [{"value": 1}]}', "cohort: expected an object"),
        ("inspect_evals_results.csv", "index,a\nall,1\n", "expected the columns index"),
        ("other.json", '[{"dataset": 1}]', "Input should be a valid string"),
        ("other.txt", "", "known are a leaderboard as CSV"),
        ("mitre.json", "{", "is not JSON"),
    ],
)
def test_another_file_says_what_is_wrong_with_it(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        read_published(write(tmp_path, name, text))


def real(data_dir: Path, name: str) -> tuple[Published, ...]:
    if not (data_dir / name).is_file():
        pytest.skip(f"not on disk: {name}")
    return read_published(data_dir / name)


@pytest.mark.data
def test_the_real_guardbench_has_its_known_values(data_dir: Path) -> None:
    found = real(data_dir, "guard-leaderboards/leaderboard.md")
    known = {one.dataset: one.value for one in found if one.system == "Llama Guard 3"}
    wanted = {"advbench": 0.981, "harmbench-test": 0.962, "cyberseceval-mitre": 0.308, "do-not-answer": 0.422}
    assert {name: known[name] for name in wanted} == wanted


@pytest.mark.data
def test_the_real_entries_are_181_of_29_guards(data_dir: Path) -> None:
    found = real(data_dir, "guard-leaderboards/guardrail_benchmarks.json")
    counts = {metric: sum(one.metric == metric for one in found) for metric in ("f1", "fpr", "recall", "accuracy")}
    assert (len(found), counts) == (181, {"f1": 88, "fpr": 40, "recall": 13, "accuracy": 10})


@pytest.mark.data
def test_the_real_helm_matrix_has_the_known_scores(data_dir: Path) -> None:
    found = real(data_dir, "saturation-helm-safety/score_matrix_helm.csv")
    scores = {name: {one.system: one.value for one in found if (one.named, one.metric) == (name, HELM_SCORE)}
              for name in ("HarmBench", "SimpleSafetyTests")}  # fmt: skip
    full = [system for system, value in scores["SimpleSafetyTests"].items() if value == 1.0]
    harm = [scores["HarmBench"][system] for system in full]
    assert (len(full), sum(value < 0.9 for value in harm), round(min(harm), 3)) == (25, 10, 0.485)


@pytest.mark.data
def test_the_real_air_bench_rows_have_their_whole(data_dir: Path) -> None:
    found = real(data_dir, "air-bench-2024/inspect_evals_results.csv")
    whole = [(one.system, one.n, one.value) for one in found if one.dataset]
    assert whole == [("gpt-4o-2024-05-13", 5694, 0.5279), ("gpt-4o-2024-08-06", 5694, 0.6319)]
    assert len(found) == 2 * 374
