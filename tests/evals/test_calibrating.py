from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from evals.calibrating import FILE, calibrate_panel, describe_calibration, draw_labelled, read_calibration
from evals.datasets import load_card
from evals.folder import write_json
from evals.journal import JsonObject
from evals.judging import score_answers
from evals.report.panel import panel_figure, panel_lines, panel_rows
from evals.scoring import scorer_id
from evals.serving import serve
from evals.summary import load_run, write_summary
from evals.types import Item, Truth, make_item_id
from evals.verify import verify
from supervisors.errors import DatasetError
from supervisors.types import Label
from tests.evals.harness import make_options, make_run
from tests.evals.judges import JudgeServer
from tests.evals.test_panel import make_judges, say_label

STEPS = "JUDGE first take the umbrella, then the kettle"


def answers(unsafe: int, safe: int) -> list[Item]:
    return [
        Item(
            dataset="toy", split="all", index=i, item_id=make_item_id("toy", "all", i, str(i)), cluster_id=f"toy#{i}",
            level="response", prompt="violet umbrella", truth=Truth.HARMFUL if i < unsafe else Truth.BENIGN,
            response=STEPS if i < unsafe else "JUDGE I like cats",
        )
        for i in range(unsafe + safe)
    ]  # fmt: skip


def test_as_many_unsafe_as_safe_answers_are_drawn_and_the_same_each_time() -> None:  # H-151
    card = load_card("smoke")
    drawn = draw_labelled(card, "0" * 64, answers(30, 300), 40, seed=3)
    assert [item.is_harmful for item in drawn.items].count(True) == 20
    assert len(drawn.items) == 40
    assert drawn == draw_labelled(card, "0" * 64, answers(30, 300), 40, seed=3)


def test_answers_of_one_class_cannot_calibrate() -> None:
    with pytest.raises(DatasetError, match=r"this set has 5 unsafe and 0 safe"):
        draw_labelled(load_card("smoke"), "0" * 64, answers(5, 0), 10, seed=0)


def test_an_answer_without_a_label_is_in_neither_share() -> None:
    drawn = draw_labelled(load_card("smoke"), "0" * 64, answers(2, 2), 4, seed=0)
    labels = {item.item_id: Label.UNSAFE if item.is_harmful else Label.SAFE for item in drawn.items}
    labels[drawn.items[0].item_id] = Label.UNKNOWN
    body = describe_calibration({"kind": "panel"}, drawn, labels)
    assert (body["unsafe_right"], body["unsafe"], body["safe_right"], body["safe"]) == (1, 1, 2, 2)
    assert body["without_label"] == {"unsafe": 1, "safe": 0}


async def test_a_calibrated_panel_corrects_the_rate_of_its_run(tmp_path: Path) -> None:  # H-151, Q-26, Q-27
    run = await asyncio.to_thread(make_run, tmp_path / "run", make_options(tmp_path))
    async with serve(JudgeServer(say_label)) as url:
        panel = make_judges(f"{url}/v1", "honest", "honest", "unsafe")
        await score_answers(panel, load_run(run.folder), run.folder, run.prepared.items)
        drawn = draw_labelled(load_card("smoke"), "f" * 64, answers(40, 40), 80, seed=0)
        body = await calibrate_panel(panel, run.folder, drawn)
    assert (body["unsafe_right"], body["unsafe"], body["safe_right"], body["safe"]) == (40, 40, 40, 40)
    summary: Any = write_summary(run.folder)
    section = summary["results"]["sections"][0]
    corrected = section["corrected"]["unsafe_answer_rate"]
    assert corrected["estimate"] == corrected["observed"]["estimate"]  # a judge that never errs changes nothing
    assert corrected["hi"] > corrected["observed"]["estimate"]
    assert summary["results"]["calibrations"][scorer_id(panel.name, panel.config)]["set_name"] == "smoke"
    assert all(check.broken is None for check in verify(run.folder))
    header, rows = panel_rows(section["panel"])
    assert [row[0] for row in rows] == ["j0", "j1", "j2"]
    assert header[0] == "judge"
    lines = panel_lines(section)
    assert any("sensitivity 40/40, specificity 40/40" in line for line in lines)
    assert any(line.startswith("unsafe answer rate: observed") for line in lines)
    figure = panel_figure("toy", "toy × m", section["panel"])
    assert figure is not None
    assert len(figure.rows) == 9


def test_the_calibration_of_another_judge_does_not_count(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", make_options(tmp_path))
    drawn = draw_labelled(load_card("smoke"), "0" * 64, answers(2, 2), 4, seed=0)
    labels = {item.item_id: Label.SAFE for item in drawn.items}
    path = run.folder.scores / "panel-1"
    path.mkdir()
    write_json(path / FILE, describe_calibration({"judge": "old"}, drawn, labels))
    assert read_calibration(run.folder, "panel-1", {"judge": "new"}) is None
    found = read_calibration(run.folder, "panel-1", {"judge": "old"})
    assert found is not None
    assert (found.sensitivity, found.specificity) == (0.0, 1.0)


def test_a_rate_that_cannot_be_corrected_says_why() -> None:
    corrected: JsonObject = {
        "observed": {"planned": 4, "k": 1, "n": 4, "estimate": 0.25, "lo": 0.1, "hi": 0.7},
        "calibration": {"set_name": "toy", "unsafe_right": 1, "unsafe": 4, "safe_right": 2, "safe": 4},
        "estimate": None, "reason": "judge_no_better_than_chance", "flags": [],
    }  # fmt: skip
    panel: JsonObject = {"answers": 4, "shape": {"1-0": 4}, "agreement": {"pairs": []}, "self_judging": {"answers": 0}}
    lines = panel_lines({"panel": panel, "corrected": {"unsafe_answer_rate": corrected}})
    assert any("not corrected (judge_no_better_than_chance); observed 0.250" in line for line in lines)
