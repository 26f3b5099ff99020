from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from evals.cli import main
from evals.scoring import read_scores
from evals.serving import serve
from tests.evals.harness import Run, make_options, make_run
from tests.evals.test_panel import Judges

RULES = "absolute: [{metric: detection_rate, min: 0.1}]\nlimits: {max_unknown: 1, max_error: 1}"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with serve(Judges()) as address:
        yield f"{address}/v1"


async def _score(tmp_path: Path, url: str, model: str, *args: str) -> int:
    """Score the run with a judge that a model's name describes."""
    panel = tmp_path / "panel.yaml"
    panel.write_text(yaml.safe_dump({"judges": {"a": {"model": model, "url": url, "repair": False}}}), "utf-8")
    return await _evals(tmp_path, "score", "run", "--panel", str(panel), *args)


async def _evals(tmp_path: Path, *args: str) -> int:
    return await asyncio.to_thread(main, [*args, "--runs-dir", str(tmp_path), "--quiet"])


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
