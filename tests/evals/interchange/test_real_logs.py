from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from evals.cli import main
from evals.folder import RunFolder
from evals.summary import load_run
from evals.verify import verify

_FOLDER = os.environ.get("EVALS_FOREIGN_LOGS")  # noqa: TID251 - opt-in; see docs/interchange.md
_LOGS = sorted(Path(_FOLDER).rglob("*")) if _FOLDER else []
_KINDS = {".eval": "inspect", ".report.jsonl": "garak", "promptfoo.json": "promptfoo", "pf.json": "promptfoo"}


def _kind(path: Path) -> str | None:
    return next((kind for suffix, kind in _KINDS.items() if path.name.endswith(suffix)), None)


@pytest.mark.slow
@pytest.mark.skipif(not _LOGS, reason="EVALS_FOREIGN_LOGS names no folder with logs")
@pytest.mark.parametrize("path", [path for path in _LOGS if _kind(path)], ids=lambda path: path.name)
def test_a_log_of_a_real_run_becomes_a_run_that_verifies(tmp_path: Path, path: Path) -> None:
    kind = str(_kind(path))
    code = main(["import", kind, str(path), "--runs-dir", str(tmp_path), "--run-name", "r", "--quiet"])
    assert code in (0, 12)
    folder = RunFolder(tmp_path / "r")
    broken = [check.broken for check in verify(folder) if check.broken is not None]
    report = json.loads((folder.path / "import.json").read_text())
    assert len(broken) == (report["states"].get("missing", 0) > 0)
    for scores in load_run(folder).scores:
        assert len(scores.by_key) == report["states"]["ok"]
