from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.published.spikee import differences_between_runs, read_guard_run
from supervisors.errors import DatasetError

BENIGN = "results_guard_x-1734615302_guardrail-false-positive-check_1734623{}.jsonl"
ATTACK = "results_guard_x-targeted-2024-12-document_17346243{}.jsonl"


def write(tmp_path: Path, name: str, flags: list[bool]) -> Path:
    path = tmp_path / name
    path.write_text("\n".join([json.dumps({"id": n, "long_id": f"d{n}", "success": flag})
                               for n, flag in enumerate(flags)]))  # fmt: skip
    return path


def test_a_guard_that_says_another_thing_the_second_time_is_found(tmp_path: Path) -> None:
    one = read_guard_run(write(tmp_path, BENIGN.format(100), [True] * 30))
    two = read_guard_run(write(tmp_path, BENIGN.format(200), [True] + [False] * 29))
    assert (one.number().metric, one.number().text) == ("fpr", "1.000 [0.886, 1.000] n 30")
    assert two.number().value == 1 / 30
    (line,) = differences_between_runs([one, two])
    assert line.endswith("29 of 30 labels differ (30 and 1 flagged)")


def test_two_files_of_the_same_bytes_are_found(tmp_path: Path) -> None:
    runs = [read_guard_run(write(tmp_path, ATTACK.format(n), [True, False])) for n in (10, 11)]
    assert runs[0].number().metric == "recall"
    assert "the same bytes" in differences_between_runs(runs)[0]
    other = read_guard_run(write(tmp_path, BENIGN.format(100), [True, False]))
    assert differences_between_runs([runs[0], other]) == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("results.jsonl", "", "expected results_GUARD"),
        (BENIGN.format(100), "{", "line 1: is not JSON"),
        (BENIGN.format(100), '{"id": 1}', "needs an id of its own"),
        (BENIGN.format(100), '{"id": 1, "success": "yes"}', "needs an id of its own"),
        (BENIGN.format(100), '{"id": 1, "success": true}\n{"id": 1, "success": true}', "line 2: needs an id"),
    ],
)
def test_another_file_says_what_is_wrong_with_it(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DatasetError, match=said):
        read_guard_run(tmp_path / name)


@pytest.mark.data
def test_the_real_files_show_one_guard_that_changed_its_mind(data_dir: Path) -> None:
    files = sorted((data_dir / "spikee-guard-results").glob("results_*.jsonl"))
    if not files:
        pytest.skip("not on disk: spikee-guard-results")
    runs = [read_guard_run(file) for file in files]
    flagged = {(run.guard, run.benign): sum(run.flagged.values()) for run in runs}
    assert (flagged["aws_bedrock_guardrail", True], flagged["aws_bedrock_guardrail", False]) == (1, 209)
    assert len(differences_between_runs(runs)) == 2
