from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.bells.open_results import read_open_results
from supervisors.errors import DatasetError
from supervisors.types import Cause, Label


def put(folder: Path, name: str, target: Any, output: Any, model: str = "m") -> None:
    path = folder / "lab" / "bench-1.0" / model / f"bench-1.0_{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {
        "target_result": target,
        "output_result": output,
        "metadata": {"latency": 0.25, "prompt": "violet umbrella"},
    }
    path.write_text(json.dumps(body), "utf-8")


def test_results_of_both_tasks_become_verdicts_without_any_prompt(tmp_path: Path) -> None:  # BO-16
    put(
        tmp_path, "a", {"content_moderation": True, "jailbreak": False}, {"content_moderation": True, "jailbreak": True}
    )
    found = read_open_results(tmp_path)
    assert [(v.item.severity, v.label, v.seconds) for v in found] == [
        ("harmful", Label.UNSAFE, 0.25),
        ("benign", Label.UNSAFE, 0.25),
    ]
    assert "violet" not in repr(found)
    assert found[0].supervisor == "lab/m"


@pytest.mark.parametrize(
    "output", [{}, {"jailbreak": True}, {"content_moderation": None}, {"content_moderation": "1"}, None]
)
def test_a_task_without_an_answer_is_unknown_and_not_wrong(output: Any, tmp_path: Path) -> None:  # BO-15, BO-02
    put(tmp_path, "a", {"content_moderation": True}, output)
    (verdict,) = read_open_results(tmp_path)
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, Cause.UNPARSABLE)


def test_a_data_set_with_a_dot_in_its_name_keeps_its_items_apart(tmp_path: Path) -> None:  # BO-12
    for n in range(10):
        put(tmp_path, str(n), {"jailbreak": True}, {"jailbreak": n % 2 == 0})
    found = read_open_results(tmp_path)
    assert len({verdict.item.id for verdict in found}) == 10
    assert sum(verdict.label is Label.UNSAFE for verdict in found) == 5


def test_a_folder_without_results_and_a_broken_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no results of the form"):
        read_open_results(tmp_path)
    put(tmp_path, "a", {"jailbreak": True}, {"jailbreak": True})
    (tmp_path / "lab" / "bench-1.0" / "m" / "bench-1.0_b.json").write_text("[]")
    with pytest.raises(DatasetError, match="expected an object, got list"):
        read_open_results(tmp_path)
