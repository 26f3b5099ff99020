"""`guardrail-proxy matrix` as a command: report, exit codes, a config with secrets nobody has."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.cli import main
from tests.timing import PATIENCE_S

TREE = {
    "upstreams": {"main": {"base_url": "https://api.example/v1", "api_key": {"env": "NOBODY_HAS_THIS"}}},
    "keys": {"app": {"key": {"env": "NOR_THIS"}}},
    "supervisors": {"words": {"use": "rules", "keywords": ["canary"]}},
    "policies": {"default": {"input": {"forced": ["words"]}}},
}


def write(folder: Path, tree: object) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(tree))
    return str(path)


def test_the_report_counts_the_cells_by_outcome(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", write(tmp_path, TREE), "--route", "/v1/embeddings", "--show", "unknown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("6 cells")
    assert [line.split()[:2] for line in lines[1:6]] == [
        ["4", "caught"],
        ["2", "unknown"],
        ["0", "silent"],
        ["0", "leaked"],
        ["0", "broken"],
    ]
    assert lines[-1].split()[:7] == ["unknown", "words", "/v1/embeddings", "input", "user", "media", "2"]


def test_silent_cells_are_listed_and_the_code_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", write(tmp_path, TREE), "--route", "/v1/completions"]) == 1
    assert "nobody judges the output of /v1/completions under default: " in capsys.readouterr().out


def test_what_a_config_aims_nobody_at_is_listed_and_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # G-04
    narrow = {**TREE, "supervisors": {"words": {"use": "rules", "keywords": ["canary"], "kinds": ["text", "media"]}}}
    assert main(["matrix", write(tmp_path, narrow), "--route", "/v1/moderations", "--route", "/v1/embeddings"]) == 0
    capsys.readouterr()
    assert main(["matrix", write(tmp_path, narrow), "--route", "/v1/completions"]) == 1  # nobody judges the output
    out = capsys.readouterr().out
    assert "      0 silent " not in out
    rows = [line.split() for line in out.splitlines() if line.startswith("not_in_scope")]
    assert ["not_in_scope", "words", "/v1/completions", "input", "user", "suffix", "2"] in [row[:7] for row in rows]


def test_cells_that_are_alike_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", write(tmp_path, TREE), "--route", "/v1/chat/completions", "--show", "caught"]) == 1
    rows = [line.split("  ") for line in capsys.readouterr().out.splitlines() if line.startswith("caught  ")]
    merged = [[word.strip() for word in row if word] for row in rows]
    (system,) = [row for row in merged if row[4:6] == ["system", "text"]]
    assert system[6:] == [
        "26",
        "first, middle, last",
        "-",
        "whole, stream",
        "string, parts, two parts, bare strings and 1 more",
    ]


def test_json_has_every_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", write(tmp_path, TREE), "--route", "/v1/embeddings", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["cells"], len(document["rows"]), document["outcomes"]["silent"]) == (6, 6, 0)
    assert document["rows"][0].keys() >= {"supervisor", "route", "stage", "role", "turn", "kind", "choice", "shape"}


def test_a_wrong_config_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", write(tmp_path, {"nope": 1})]) == 2
    assert "unknown setting" in capsys.readouterr().err


def test_a_matrix_that_did_not_come_to_its_end_is_3() -> None:  # its journal may not grow
    command = f"ulimit -f 400; exec {shlex.quote(sys.executable)} -m proxy.cli matrix --route /v1/chat/completions"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "error: the matrix failed: StoreError: OperationalError: disk I/O error" in done.stderr.splitlines()


def test_rates_and_limits_of_callers_do_not_stop_the_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tight = {
        **TREE,
        "upstreams": {"main": {"base_url": "https://api.example/v1", "max_concurrency": 1, "breaker_failures": 1}},
        "models": {"m": {"upstream": "main", "max_concurrency": 1}},
        "keys": {"app": {"key": {"env": "NOR_THIS"}, "requests_per_minute": 1, "max_in_flight": 1}},
        "caches": {"words": {"ttl_s": 60}},
        "limits": {"max_in_flight": 1, "max_queue": 0, "max_choices": 1, "max_tokens": 1, "max_body_bytes": 10},
    }
    assert main(["matrix", write(tmp_path, tight), "--route", "/v1/embeddings", "--route", "/v1/messages"]) in (0, 1)
    assert "cells" in capsys.readouterr().out
