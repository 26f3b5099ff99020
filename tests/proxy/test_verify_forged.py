"""Records that somebody forged so that the chain holds: found where they do not fit, or by a head noted elsewhere."""

from __future__ import annotations

import argparse
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.commands.verify import DIFFERS, HOLDS, read_head
from proxy.store.sqlite import open_journal
from proxy.store.testing import ARCHIVE, VERSION, record
from tests.proxy.test_verify import NOT_ASKED, change, check, command, rewritten, write


def interrupt(body: dict[str, Any]) -> None:
    body.update(outcome="interrupted", verdicts=[], decisions=[], stream=True)
    body["prescribed"] = {"input": [], "output": []}


def skip_output(body: dict[str, Any]) -> None:
    kept = [row for row in body["verdicts"] if row["stage"] == "input"]
    names = [row["supervisor"] for row in body["verdicts"] if row["stage"] == "output" and "/" not in row["supervisor"]]
    skipped = {"stage": "output", "label": "unknown", "cause": "skipped", **NOT_ASKED}
    body["verdicts"] = [*kept, *[{**skipped, "supervisor": name} for name in names]]
    body["decisions"] = [row for row in body["decisions"] if row["stage"] == "input"]


async def test_a_record_forged_as_interrupted_or_unreached_is_found(tmp_path: Path) -> None:  # O-11, O-16
    path = tmp_path / "journal.db"
    await write(path, [record(number) for number in range(4)])
    rewritten(path, 3, interrupt)
    assert "stands behind records of its own start" in check(path)[0].message
    await write(tmp_path / "second.db", [record(number) for number in range(4)])
    rewritten(tmp_path / "second.db", 1, interrupt)
    assert "began after the start that found it" in check(tmp_path / "second.db")[0].message
    await write(tmp_path / "third.db", [record(number) for number in range(4)])
    rewritten(tmp_path / "third.db", 2, skip_output)
    assert {(one.seq, one.message) for one in check(tmp_path / "third.db")} == {
        (2, f"is answered, and {name} was skipped at output") for name in ("panel", "rules")
    }


async def test_every_chain_of_workers_that_served_together_has_a_head_to_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # O-15
    path = tmp_path / "journal.db"
    async with AsyncExitStack() as stack:
        workers = [await open_journal(path), await open_journal(path)]
        for number, journal in enumerate(workers):
            stack.push_async_callback(journal.aclose)
            await journal.archive_config(VERSION, ARCHIVE.to_text())
            journal.accept(record(number))
    assert command("--journal", str(path)) == HOLDS
    heads = [line.removeprefix("head=") for line in capsys.readouterr().out.splitlines() if line.startswith("head=")]
    noted = [word for head in heads for word in ("--head", head)]
    assert (len(heads), command("--journal", str(path), *noted)) == (2, HOLDS)
    boot = heads[0].split(":")[0]
    change(path, f"DELETE FROM records WHERE boot = '{boot}'")  # noqa: S608
    change(path, f"DELETE FROM boots WHERE boot = '{boot}'")  # noqa: S608
    capsys.readouterr()
    assert command("--journal", str(path), "--head", heads[1]) == HOLDS  # one head does not speak for the other chain
    assert command("--journal", str(path), *noted) == DIFFERS
    assert f"boot={boot}" in capsys.readouterr().out


async def test_a_noted_head_fixes_what_came_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # O-15
    path = tmp_path / "journal.db"
    await write(path, [record(number) for number in range(4)])
    assert command("--journal", str(path)) == HOLDS
    noted = capsys.readouterr().out.splitlines()[0].removeprefix("head=")
    await write(path, [record(number) for number in range(4, 6)])
    assert command("--journal", str(path), "--head", noted) == HOLDS
    assert command("--journal", str(path), "--json") == HOLDS
    heads = orjson.loads(capsys.readouterr().out.splitlines()[-1])["heads"]
    first, last = [f"{one['boot']}:{one['seq']}:{one['hash']}" for one in heads]
    assert first == noted
    change(path, f"DELETE FROM records WHERE boot = '{heads[1]['boot']}'")  # noqa: S608
    change(path, f"DELETE FROM boots WHERE boot = '{heads[1]['boot']}'")  # noqa: S608
    assert command("--journal", str(path)) == HOLDS  # the last start is gone, and nothing in the file tells
    assert command("--journal", str(path), "--head", last) == DIFFERS
    assert "the start that was noted is not in this journal" in capsys.readouterr().out
    rewritten(path, 2, lambda body: body.update(request_id="violet"))
    change(path, "UPDATE records SET request_id = 'violet' WHERE seq = 2")
    assert command("--journal", str(path)) == HOLDS
    assert command("--journal", str(path), "--head", noted) == DIFFERS
    assert "or has another hash" in capsys.readouterr().out
    for wrong in ("", "a:b:c", noted[:-1], f"{noted}0"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a head such as"):
            read_head(wrong)
