from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from evals.folder import RunFolder
from evals.journal import MAX_LINE_BYTES, JournalFile, JsonObject, read_journal
from evals.limit import Limiter, fixed
from evals.plan import PlannedTrial
from evals.replay import Counts, Ending, Limits, Runner
from evals.statistics.jsonable import Json
from evals.trials import Finished, outline
from evals.writer import Writer
from tests.timing import PATIENCE_S

PLANNED = PlannedTrial(
    *("k", "d", "i", "c", "harmful", None, None, None, None, None),
    *((), "none", 0, "m", "observed", "g", "plain-1", "", 0, "clean"),
)
Send = Callable[[PlannedTrial], Awaitable[Finished]]


def _trials(count: int) -> list[PlannedTrial]:
    return [replace(PLANNED, trial_key=f"k{n}", item_id=f"i{n}") for n in range(count)]


async def _ok(trial: PlannedTrial) -> Finished:
    return Finished({**outline(trial, "ok", None, None), "cost_usd": 1.0})


async def _error(trial: PlannedTrial) -> Finished:
    return Finished(outline(trial, "error", "status_500", None))


class Ran:
    """A runner over a journal in a folder, and what came of it."""

    def __init__(self, path: Path, send: Send, limiter: Limiter, limits: Limits, todo: int) -> None:
        self.path = path / "journal.jsonl"
        self.journal = JournalFile(self.path)
        self.writer = Writer(self.journal, RunFolder(path), keep_texts=True)
        self.runner = Runner(send, self.writer, limiter, limits, Counts(todo))

    async def run(self, todo: list[PlannedTrial]) -> Ending:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.writer.run())
            try:
                return await self.runner.run(todo)
            finally:
                await self.writer.close()

    @property
    def lines(self) -> list[JsonObject]:
        self.journal.close()
        return [line for line in read_journal(self.path).lines if line["type"] == "trial"]


async def _run(
    path: Path, send: Send, count: int, limits: Limits | None = None, limiter: Limiter | None = None
) -> tuple[Ending, list[JsonObject]]:
    ran = Ran(path, send, limiter or fixed(4), limits or Limits(), count)
    ending = await ran.run(_trials(count))
    return ending, ran.lines


async def test_every_trial_is_written_once(tmp_path: Path) -> None:
    ending, lines = await _run(tmp_path, _ok, 200)
    assert ending == "done"
    assert sorted(str(line["trial_key"]) for line in lines) == sorted(f"k{n}" for n in range(200))


async def test_never_more_trials_are_in_flight_than_the_limit(tmp_path: Path) -> None:
    now, most = 0, 0

    async def send(trial: PlannedTrial) -> Finished:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return await _ok(trial)

    await _run(tmp_path, send, 50, limiter=fixed(3))
    assert most == 3


@pytest.mark.parametrize(("limits", "most"), [(Limits(), 4), (Limits(max_cost=100.0), 2)])
async def test_a_trial_that_waits_for_its_record_leaves_its_place_unless_a_budget_counts_it(
    tmp_path: Path, limits: Limits, most: int
) -> None:  # H-133
    in_flight: list[int] = []

    async def send(trial: PlannedTrial) -> Finished:
        ran.runner.settling(1)
        try:
            for _ in range(20):
                await asyncio.sleep(0)
                in_flight.append(ran.runner.in_flight)
        finally:
            ran.runner.settling(-1)
        return await _ok(trial)

    ran = Ran(tmp_path, send, fixed(2), limits, 12)
    assert await ran.run(_trials(12)) == "done"
    assert max(in_flight) == most
    assert len(ran.lines) == 12


async def test_a_defect_in_one_trial_is_that_trials_error(tmp_path: Path) -> None:  # H-23, H-126
    async def send(trial: PlannedTrial) -> Finished:
        if trial.item_id == "i3":
            raise KeyError("bug")
        return await _ok(trial)

    ending, lines = await _run(tmp_path, send, 10)
    assert ending == "done"
    assert [line["detail"] for line in lines if line["status"] == "error"] == ["KeyError"]


@pytest.mark.parametrize("value", [float("nan"), "x" * MAX_LINE_BYTES])
async def test_a_line_that_cannot_be_written_is_that_trials_error(tmp_path: Path, value: Json) -> None:  # H-126
    async def send(trial: PlannedTrial) -> Finished:
        made = await _ok(trial)
        return Finished({**made.fields, "latency": {"service_s": value}}) if trial.item_id == "i3" else made

    ending, lines = await _run(tmp_path, send, 10)
    assert ending == "done"
    assert [line["detail"] for line in lines if line["status"] == "error"] == ["ValueError"]
    assert len(lines) == 10


async def test_a_trial_that_hangs_ends_at_its_deadline(tmp_path: Path) -> None:  # H-27, H-125
    async def send(trial: PlannedTrial) -> Finished:
        await asyncio.Event().wait()
        return await _ok(trial)

    ending, lines = await _run(tmp_path, send, 2, Limits(deadline_s=0.05))
    assert ending == "done"
    assert [(line["status"], line["cause"]) for line in lines] == [("error", "timeout")] * 2


async def test_too_many_errors_stop_the_run_after_fifty_trials(tmp_path: Path) -> None:  # H-127
    ending, lines = await _run(tmp_path, _error, 500, limiter=fixed(1))
    assert ending == "too_many_errors"
    assert 50 <= len(lines) <= 52


async def test_a_number_of_errors_stops_the_run(tmp_path: Path) -> None:  # H-127
    ending, lines = await _run(tmp_path, _error, 500, Limits(max_errors=3), fixed(1))
    assert ending == "too_many_errors"
    assert len(lines) == 4


async def test_a_refused_key_on_the_first_trial_stops_at_once(tmp_path: Path) -> None:  # H-127
    async def send(trial: PlannedTrial) -> Finished:
        return Finished(outline(trial, "error", "status_401", None), auth_failed=True)

    ending, lines = await _run(tmp_path, send, 500, limiter=fixed(1))
    assert ending == "unauthorised"
    assert len(lines) == 1


async def test_a_budget_is_overrun_at_most_by_what_is_in_flight(tmp_path: Path) -> None:  # H-133
    ending, lines = await _run(tmp_path, _ok, 500, Limits(max_cost=10.0), fixed(4))
    assert ending == "budget"
    assert 10 <= len(lines) <= 14


async def test_a_budget_of_tokens_or_seconds_stops_a_run_too(tmp_path: Path) -> None:  # H-133
    async def send(trial: PlannedTrial) -> Finished:
        usage: JsonObject = {"prompt_tokens": 3, "completion_tokens": 2}
        return Finished({**outline(trial, "ok", None, None), "answer": {}, "usage": usage})

    for name, limits, done in (
        ("tokens", Limits(max_run_tokens=50), range(10, 15)),
        ("seconds", Limits(max_run_s=0.0), range(1)),
    ):
        (tmp_path / name).mkdir()
        ending, lines = await _run(tmp_path / name, send, 500, limits, fixed(4))
        assert ending == "budget"
        assert len(lines) in done


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 3}])
async def test_a_server_that_reports_no_tokens_cannot_keep_a_budget_of_them(
    tmp_path: Path, usage: JsonObject | None
) -> None:  # H-38, H-133
    async def send(trial: PlannedTrial) -> Finished:
        return Finished({**outline(trial, "ok", None, None), "answer": {}, "usage": usage})

    ending, lines = await _run(tmp_path, send, 500, Limits(max_run_tokens=1_000_000), fixed(4))
    assert (ending, len(lines) <= 8) == ("budget", True)


async def test_the_first_interruption_lets_trials_finish(tmp_path: Path) -> None:  # H-118
    gate = asyncio.Event()

    async def send(trial: PlannedTrial) -> Finished:
        if trial.item_id == "i5":
            ran.runner.interrupt()
        asyncio.get_running_loop().call_soon(gate.set)
        await gate.wait()
        return await _ok(trial)

    ran = Ran(tmp_path, send, fixed(4), Limits(), 100)
    assert await ran.run(_trials(100)) == "interrupted"
    lines = ran.lines
    assert 6 <= len(lines) < 20
    assert {str(line["status"]) for line in lines} == {"ok"}


async def test_the_second_interruption_cancels(tmp_path: Path) -> None:  # H-118
    async def send(trial: PlannedTrial) -> Finished:
        if trial.item_id == "i3":
            ran.runner.interrupt()
            ran.runner.interrupt()
        await asyncio.Event().wait()
        return await _ok(trial)

    ran = Ran(tmp_path, send, fixed(4), Limits(), 100)
    async with asyncio.timeout(PATIENCE_S):
        assert await ran.run(_trials(100)) == "interrupted"
    assert ran.lines == []


async def test_a_rate_spaces_the_starts(tmp_path: Path) -> None:
    begun = monotonic()
    ending, lines = await _run(tmp_path, _ok, 4, Limits(rate_rpm=600.0))
    assert (ending, len(lines)) == ("done", 4)
    assert monotonic() - begun >= 0.3  # three pauses, none after the last


@pytest.mark.parametrize("limits", [Limits(rate_rpm=0.1), Limits(rate_rpm=0.1, max_cost=1.0)])
async def test_a_run_that_shall_start_nothing_more_does_not_wait_for_its_rate(tmp_path: Path, limits: Limits) -> None:
    async def send(trial: PlannedTrial) -> Finished:
        if limits.max_cost is None:
            ran.runner.interrupt()
        return await _ok(trial)

    ran = Ran(tmp_path, send, fixed(4), limits, 100)
    async with asyncio.timeout(PATIENCE_S):
        ending = await ran.run(_trials(100))
    assert ending == ("interrupted" if limits.max_cost is None else "budget")
    assert len(ran.lines) == 1


async def test_a_run_whose_time_is_up_does_not_wait_for_its_rate(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        ending, lines = await _run(tmp_path, _ok, 100, Limits(rate_rpm=0.1, max_run_s=0.3))
    assert ending == "budget"
    assert len(lines) <= 1


async def test_changes_of_the_limit_are_in_the_journal(tmp_path: Path) -> None:  # H-123
    ran = Ran(tmp_path, _ok, Limiter(), Limits(), 100)
    ran.runner.overloaded()
    await ran.run(_trials(100))
    ran.journal.close()
    changes = [line for line in read_journal(ran.path).lines if line["type"] == "limit_change"]
    assert [(line["limit"], line["reason"]) for line in changes] == [(16, "overloaded")]


async def test_a_disk_that_takes_nothing_stops_the_run(tmp_path: Path) -> None:  # H-110
    made = 0

    async def send(trial: PlannedTrial) -> Finished:
        nonlocal made
        made += 1
        return replace(await _ok(trial), texts=("an answer",))

    (tmp_path / "text").write_text("a file where the folder of texts should be")
    ran = Ran(tmp_path, send, fixed(2), Limits(), 500)
    with pytest.raises(ExceptionGroup) as raised:
        await ran.run(_trials(500))
    assert "cannot be made" in str(raised.value.exceptions[0])
    assert made <= 4
    assert ran.lines == []
