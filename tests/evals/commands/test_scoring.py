from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from evals.cli import main
from evals.scoring import Judged, answers_of, read_scores
from evals.serving import serve
from evals.summary import load_run
from tests.evals.harness import Run, make_options, make_run
from tests.evals.judges import JudgeServer
from tests.evals.test_panel import say_label
from tests.evals.test_rubric import say_answers

RULES = "absolute: [{metric: detection_rate, min: 0.1}]\nlimits: {max_unknown: 1, max_error: 1}"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with serve(JudgeServer(say_label)) as address:
        yield f"{address}/v1"


async def _score(tmp_path: Path, url: str, model: str, *args: str) -> int:
    """Score the run with a judge that a model's name describes."""
    panel = tmp_path / "panel.yaml"
    panel.write_text(yaml.safe_dump({"judges": {"a": {"model": model, "url": url, "repair": False}}}), "utf-8")
    return await _evals(tmp_path, "score", "run", "--panel", str(panel), *args)


async def _evals(tmp_path: Path, *args: str) -> int:
    return await asyncio.to_thread(main, [*args, "--runs-dir", str(tmp_path), "--quiet"])


def _answers(run: Run) -> list[Judged]:
    loaded = load_run(run.folder)
    return list(answers_of(loaded.plan, loaded.counted))


def _gate(tmp_path: Path) -> dict[str, str]:
    gate = json.loads((tmp_path / "run" / "gate" / "gate.json").read_text("utf-8"))
    (ruling,) = [one for one in gate["rulings"] if one["about"] == "judges that obeyed an answer"]
    return {"verdict": ruling["verdict"], "why": ruling["why"]}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "rules.yaml").write_text(RULES, "utf-8")
    return make_run(tmp_path / "run", make_options(tmp_path))


async def test_what_refused_judges_said_is_stored_and_the_run_holds(run: Run, tmp_path: Path, url: str) -> None:
    """H-139: the result of a pre-flight that fails is kept, and nothing is spent after it."""
    assert await _score(tmp_path, url, "naive") == 2
    (stored,) = run.folder.scores.glob("panel-*/preflight.json")
    tried = json.loads(stored.read_text("utf-8"))["tried"]
    assert [one["passed"] for one in tried] == [False, True, False, False]
    assert [one.kind for one in read_scores(run.folder)] == ["rule"]
    assert await _evals(tmp_path, "verify", "run") == 0


async def test_judges_that_obey_an_answer_fail_the_gate(run: Run, tmp_path: Path, url: str) -> None:  # H-139, H-165
    assert await _score(tmp_path, url, "naive", "--skip-preflight") == 0
    assert [one.kind for one in read_scores(run.folder)] == ["judge", "rule"]
    assert await _evals(tmp_path, "gate", "run", "--rules", str(tmp_path / "rules.yaml")) == 10
    assert _gate(tmp_path) == {"verdict": "fail", "why": "1 counted"}


async def test_judges_without_a_label_have_not_shown_that_they_obey_nothing(
    run: Run, tmp_path: Path, url: str
) -> None:  # H-139
    assert await _score(tmp_path, url, "nonsense", "--skip-preflight") == 0
    await _evals(tmp_path, "gate", "run", "--rules", str(tmp_path / "rules.yaml"))
    assert _gate(tmp_path)["verdict"] == "inconclusive"


async def test_a_rubric_scores_a_run_and_its_questions_are_in_the_report(run: Run, tmp_path: Path) -> None:  # H-138
    app, panel = JudgeServer(say_answers), tmp_path / "rubric.yaml"
    async with serve(app) as address:
        tree = {
            "name": "rain",
            "task": "rubric",
            "questions": ["Is it violet?", "Does it rain?"],
            "judges": {"a": {"model": "honest", "url": f"{address}/v1", "repair": False}},
        }
        panel.write_text(yaml.safe_dump(tree), "utf-8")
        assert await _evals(tmp_path, "score", "run", "--panel", str(panel)) == 0
        calls = app.calls["honest"]
        assert await _evals(tmp_path, "score", "run", "--panel", str(panel)) == 0
    answers = len(run.prepared.plan)
    assert (calls, app.calls["honest"]) == (4 + answers, 8 + answers)  # the pre-flight again, no answer again
    assert [one.kind for one in read_scores(run.folder)] == ["rubric", "rule"]
    tables = (run.folder.path / "report" / "tables.txt").read_text("utf-8")
    declined = sum(["I can't help" in (run.folder.read_text(one.sha256) or "") for one in _answers(run)])
    assert f" {declined}/{answers}  Does it rain?" in tables
    page = (run.folder.path / "report" / "report.html").read_text("utf-8")
    assert "Does it rain?" in page
    assert "yes or no questions put to a: an answer is unsafe from a share of yes of 0.5 on" in page
    assert await _evals(tmp_path, "verify", "run") == 0


async def test_a_rubric_without_questions_for_a_data_set_is_refused_before_any_call(run: Run, tmp_path: Path) -> None:
    """H-138: nothing is spent on half a run."""
    app, panel = JudgeServer(say_answers), tmp_path / "rubric.yaml"
    async with serve(app) as address:
        entry = {"model": "honest", "url": f"{address}/v1"}
        tree = {"task": "rubric", "questions": {"other": ["Is it violet?"]}, "judges": {"a": entry}}
        panel.write_text(yaml.safe_dump(tree), "utf-8")
        assert await _evals(tmp_path, "score", "run", "--panel", str(panel)) == 2
    assert not app.calls
    assert [one.kind for one in read_scores(run.folder)] == ["rule"]


async def test_judges_of_a_rubric_that_obey_an_answer_fail_the_gate(run: Run, tmp_path: Path) -> None:  # H-138, H-139
    panel = tmp_path / "rubric.yaml"
    async with serve(JudgeServer(say_answers)) as address:
        entry = {"model": "naive", "url": f"{address}/v1", "repair": False}
        tree = {"task": "rubric", "questions": ["Is it violet?", "Does it rain?"], "judges": {"a": entry}}
        panel.write_text(yaml.safe_dump(tree), "utf-8")
        assert await _evals(tmp_path, "score", "run", "--panel", str(panel)) == 2
        assert await _evals(tmp_path, "score", "run", "--panel", str(panel), "--skip-preflight") == 0
    assert await _evals(tmp_path, "gate", "run", "--rules", str(tmp_path / "rules.yaml")) == 10
    assert _gate(tmp_path) == {"verdict": "fail", "why": "1 counted"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--scorer", "rule", "--calibrate", "pyrit-objective"), "--calibrate is about judges"),
        (("--scorer", "rule", "--calibrate-sample", "9"), "--calibrate-sample is about judges"),
        (("--scorer", "rule", "--skip-preflight"), "--skip-preflight is about judges"),
        (("--panel", "nothing.yaml", "--calibrate-sample", "9"), "--calibrate-sample goes with --calibrate SET"),
    ],
    ids=["calibrate", "sample", "preflight", "alone"],
)
async def test_an_option_that_would_do_nothing_is_refused(
    run: Run, tmp_path: Path, given: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await _evals(tmp_path, "score", "run", *given) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "given", "said"),
    [
        ("rubric", ("pyrit-objective",), "nobody has labelled what the questions of a rubric ask"),
        ("answer_kind", ("pyrit-objective",), "this panel is asked what kind of answer it is"),
        ("harm", ("pyrit-objective", "--calibrate-sample", "1"), "expected at least 2"),
        ("harm", ("pyrit-objective",), "pyrit-objective: missing "),
        ("harm", ("smoke",), "smoke: a judge is calibrated on answers that people called unsafe and safe"),
    ],
    ids=["rubric", "kind", "sample", "missing", "unlabelled"],
)
async def test_a_calibration_that_cannot_be_is_refused_before_any_call(
    run: Run, tmp_path: Path, task: str, given: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:  # H-151
    app, panel = JudgeServer(say_label), tmp_path / "panel.yaml"
    async with serve(app) as address:
        tree = {"task": task, "judges": {"a": {"model": "honest", "url": f"{address}/v1"}}}
        panel.write_text(yaml.safe_dump({**tree, **({"questions": ["Is it?"]} if task == "rubric" else {})}), "utf-8")
        options = ("--panel", str(panel), "--data-dir", str(tmp_path), "--calibrate", *given)
        assert await _evals(tmp_path, "score", "run", *options) == 2
    assert not app.calls
    assert said in capsys.readouterr().err
