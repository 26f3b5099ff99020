from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.harness import PARTS, calls, main, plan_many, rate_of_lines, stored


def test_lines_are_written_as_a_run_writes_them(tmp_path: Path) -> None:
    found: Any = rate_of_lines(tmp_path, 200)
    assert min(found.values()) > 0
    assert (tmp_path / "lines.jsonl").read_bytes() == (tmp_path / "plain.jsonl").read_bytes()
    assert len((tmp_path / "lines.jsonl").read_text().splitlines()) == 200


@pytest.mark.slow
def test_items_are_sent_bare_alone_and_through_the_proxy(tmp_path: Path) -> None:
    bare: Any = calls(None, tmp_path, 20)
    assert bare["seconds"] >= 0.05  # the server takes that long
    for arm in ("direct", "observed"):
        calls(arm, tmp_path, 20)
        lines = [json.loads(line) for line in (tmp_path / f"run-{arm}" / "journal.jsonl").read_text().splitlines()]
        assert [line["status"] for line in lines if line["type"] == "trial"] == ["ok"] * 20


def test_stored_trials_are_planned_scored_reported_and_verified(tmp_path: Path) -> None:
    planned: Any = plan_many(tmp_path, 500)
    assert planned["peak_mb"] > 0
    assert len((tmp_path / "planned" / "plan.jsonl").read_text().splitlines()) == 500
    found: Any = stored(tmp_path, 600)  # a run is interrupted half way, with a hundred trials in flight
    assert found["report_and_verify_cpu_s"] > 0
    assert (tmp_path / "stored" / "run" / "report" / "report.html").exists()


def test_a_folder_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "--folder DIR is needed" in capsys.readouterr().err
    assert all(limit for limit, _ in PARTS.values())
