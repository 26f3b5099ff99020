"""Conversations out of the journal of a proxy that served ordinary clients (BT-03)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from evals.bells.traces import read_traces
from evals.cli import main
from tests.e2e.fake_upstream import FakeUpstream
from tests.e2e.serving import guarded, serving

Messages = list[dict[str, Any]]


async def _talk(folder: Path, **journal: str) -> list[str]:
    """Serve two conversations turn by turn, in each other's way, and return the record ids of the first."""
    ids: list[str] = []
    async with FakeUpstream() as up:
        config = guarded(up, folder, journal={"path": folder / "journal.sqlite3", **journal})
        async with serving(config) as proxy:
            talks: list[Messages] = [[], []]
            for turn in range(3):
                for number, talk in enumerate(talks):
                    talk.append({"role": "user", "content": f"turn {turn} of talk {number}"})
                    reply = await proxy.client.post("/v1/chat/completions", json={"model": "gpt", "messages": talk})
                    talk.append(dict(reply.json()["choices"][0]["message"]))
                    if number == 0:
                        ids.append(reply.headers["x-guardrail-id"])
            await proxy.wait_records(6)
    return ids


@pytest.fixture(scope="module")
def ids(folder: Path) -> list[str]:
    return asyncio.run(_talk(folder, input="full", output="full"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journal")


def export(folder: Path, *args: str) -> int:
    source = f"journal:{folder / 'journal.sqlite3'}"
    return main(["export", source, "--format", "bells-trace", "--out", str(folder / "traces.jsonl"), *args])


@pytest.mark.parametrize("turn", [0, 2])
def test_a_conversation_is_found_by_any_of_its_records(folder: Path, ids: list[str], turn: int) -> None:  # BT-03
    assert export(folder, "--conversation", ids[turn]) == 0
    (trace,) = read_traces(folder / "traces.jsonl")
    assert [call.extra["record_id"] for call in trace.calls] == ids
    assert [call.messages[-2] for call in trace.calls] == [("user", f"turn {n} of talk 0") for n in range(3)]
    assert {call.messages[-1][0] for call in trace.calls} == {"assistant"}
    assert all(call.messages[-1][1] for call in trace.calls)
    times = [call.timestamp for call in trace.calls]
    assert times[0] == 0.0
    assert times == sorted(times)
    assert trace.extra["conversation"] == ids[0]


def test_all_conversations_are_traces_nobody_has_labelled(folder: Path, ids: list[str], tmp_path: Path) -> None:
    """What nobody knows is in no rate: neither detected nor a false alarm (BT-03, BT-04)."""
    assert export(folder) == 0
    traces = read_traces(folder / "traces.jsonl")
    assert [len(trace.calls) for trace in traces] == [3, 3]
    assert ids
    assert not any(trace.labelled for trace in traces)
    args = ["traces", str(folder / "traces.jsonl"), "--run-name", "again", "--yes", "--quiet"]
    assert main([*args, "--runs-dir", str(tmp_path)]) == 0
    found: dict[str, Any] = json.loads((tmp_path / "again" / "summary.json").read_text())["results"]["traces"]["policy"]
    assert (found["traces"], found["unlabelled"]) == (2, 2)
    assert "2 (2 unlabelled)" in (tmp_path / "again" / "report" / "traces.html").read_text("utf-8")
    assert (found["detected"]["planned"], found["false_alarms"]["planned"]) == (0, 0)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--conversation", "nobody"], "no exchange of"),
        (["--format", "csv"], "a journal is exported with --format bells-trace, not csv"),
    ],
)
def test_a_mistake_is_one_clear_line(
    folder: Path, ids: list[str], args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ids
    assert export(folder, *args) == 2
    assert said in capsys.readouterr().err


def test_a_journal_of_hashes_has_no_conversation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(_talk(tmp_path))
    assert export(tmp_path) == 2
    assert "keeps text only with" in capsys.readouterr().err
