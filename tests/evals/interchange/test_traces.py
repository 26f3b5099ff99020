from __future__ import annotations

from pathlib import Path

import pytest

from evals.bells.traces import read_traces
from evals.folder import to_lines
from evals.interchange.traces import to_traces
from evals.summary import load_run
from supervisors.errors import ConfigError
from tests.evals.harness import make_options, make_run


def test_answers_are_written_as_traces_and_read_again(tmp_path: Path) -> None:  # BT-01
    run = make_run(tmp_path / "run", make_options(tmp_path))
    lines = to_traces(load_run(run.folder), run.folder, run.prepared.items)
    file = tmp_path / "traces.jsonl"
    file.write_text(to_lines(lines), "utf-8")
    traces = read_traces(file)
    assert len(traces) == 10
    prompts = [item.prompt for item in run.prepared.items.values()]
    assert [trace.calls[0].messages[-2] for trace in traces] == [("user", prompt) for prompt in prompts]
    assert {trace.calls[0].messages[-1][0] for trace in traces} == {"assistant"}
    unsafe = [trace for trace in traces if trace.failure_types]
    assert len(unsafe) == 2  # as the ledger: two harmful requests were answered
    assert all(trace.extra["answer"] == "unsafe" for trace in unsafe)


def test_a_run_that_kept_no_text_cannot_be_exported_as_traces(tmp_path: Path) -> None:  # H-111
    run = make_run(tmp_path / "run", make_options(tmp_path, hash_only=True))
    with pytest.raises(ConfigError, match="no answer of this run was kept as text"):
        to_traces(load_run(run.folder), run.folder, run.prepared.items)
