"""The harness against its own limits: each beside what it is held against, with CPU seconds beside those on the clock.

A fake server that takes 50 ms runs in a process of its own: the bench's upstream in C, or where there is no compiler
the harness's in Python, which sets the pace itself. Stored trials are made up as in `bench.scale`. Prints one line of
JSON a measurement: what was measured, the limit, what it is held against, and the load of the machine.

    python -m bench.harness --folder /tmp/bars
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from bench.bodies import BEHAVIOURS
from bench.native import Invalid, build
from bench.scale import answer, make_items, output_of, prepare
from bench.targets import fake_upstream
from evals.client import load_guard
from evals.fake import MODEL, FakeModel, FakeOptions
from evals.journal import Entry, JournalFile, JsonObject
from evals.options import RunOptions
from evals.plan import Arm, Design, build_plan
from evals.prepare import Prepared
from evals.replay import Runner
from evals.serving import serve
from evals.session import Hooks, carry_out, create
from evals.targets import parse_target
from supervisors.transport import HttpClient, HttpRequest, TransportLimits

CALLS = 1_000
LANES = 64
DELAY_S = 0.05
IDEAL_S = CALLS / LANES * DELAY_S
BATCH = 64
LINES = 20_000
_SLOW_S = 600.0
_JSON = (("content-type", "application/json"),)


def rate_of_lines(folder: Path, lines: int = LINES) -> JsonObject:
    """Write trial lines in batches as a run does, and the same bytes without numbering, hashing and chaining them."""
    plan = prepare(lines, folder).plan
    entries = [Entry("trial", asyncio.run(answer(trial)).fields) for trial in plan]
    journal = JournalFile(folder / "lines.jsonl")
    cpu, start = process_time(), perf_counter()
    for place in range(0, len(entries), BATCH):
        journal.append(entries[place : place + BATCH])
    wall, spent = perf_counter() - start, process_time() - cpu
    journal.close()
    written = (folder / "lines.jsonl").read_bytes().splitlines(keepends=True)
    start = perf_counter()
    with (folder / "plain.jsonl").open("wb") as stream:
        for place in range(0, len(written), BATCH):
            stream.writelines(written[place : place + BATCH])
            stream.flush()
            os.fsync(stream.fileno())
    plain = perf_counter() - start
    return {
        "lines_per_s": round(lines / wall),
        "lines_per_cpu_s": round(lines / max(spent, 1e-9)),
        "plain_writes_of_the_same_bytes_per_s": round(lines / plain),
    }


def calls(arm: Arm | None, folder: Path, count: int = CALLS) -> JsonObject:
    """Send a thousand items to the slow server: by a bare client (None), by the harness alone, or through its proxy."""
    return asyncio.run(_calls(arm, folder, count))


async def _calls(arm: Arm | None, folder: Path, count: int) -> JsonObject:
    async with _slow_server(folder) as url:
        if arm is None:
            cpu, start = process_time(), perf_counter()
            await _post_all(url, count)
            return {"seconds": round(perf_counter() - start, 2), "cpu_s": round(process_time() - cpu, 2)}
        prepared = _prepare_calls(arm, url, folder, count)
        made = create(prepared, folder / f"run-{arm}", ["bench.harness"])
        started: list[tuple[float, float]] = []

        def note(_: Runner) -> None:
            started.append((perf_counter(), process_time()))

        start, cpu = perf_counter(), process_time()
        await carry_out(made, prepared, {}, Hooks(started=note))
        if not started:
            msg = f"nothing was left to run in {folder}: give a folder that no earlier bench has used"
            raise RuntimeError(msg)
        (begun, begun_cpu), wall, spent = started[0], perf_counter(), process_time()
        return {
            "seconds": round(wall - begun, 2),
            "cpu_s": round(spent - begun_cpu, 2),
            "start_up_s": round(begun - start, 2),
            "start_up_cpu_s": round(begun_cpu - cpu, 2),
        }


@asynccontextmanager
async def _slow_server(folder: Path) -> AsyncGenerator[str]:
    """Run the fake server in a process of its own; yields its URL."""
    try:
        build("upstream")
    except Invalid:
        async with _python_server() as url:
            yield url
        return
    with fake_upstream(folder) as target:
        yield f"http://127.0.0.1:{target.port}{BEHAVIOURS['wait50']}/v1"


@asynccontextmanager
async def _python_server() -> AsyncGenerator[str]:
    words = [sys.executable, "-m", "bench.harness", "--serve"]
    child = await asyncio.create_subprocess_exec(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if child.stdout is None or child.stdin is None:
        msg = "the slow server has no pipes"
        raise RuntimeError(msg)
    try:
        yield (await child.stdout.readline()).decode().strip()
    finally:
        child.stdin.close()
        await child.wait()


async def _serve() -> None:
    async with serve(FakeModel(FakeOptions(delay_ms=DELAY_S * 1000))) as url:
        print(f"{url}/v1", flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until whoever measures has ended


async def _post_all(url: str, count: int) -> None:
    lanes = asyncio.Semaphore(LANES)
    client = HttpClient(TransportLimits(max_connections=LANES))

    async def post(number: int) -> None:
        body = {"model": MODEL, "messages": [{"role": "user", "content": f"A synthetic request, number {number}."}]}
        async with lanes:
            sent = HttpRequest("POST", f"{url}/chat/completions", _JSON, json.dumps(body).encode(), _SLOW_S)
            found = await client.send(sent)
        if found.status != 200:
            msg = f"the slow server answered {found.status}"
            raise RuntimeError(msg)

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(post(number))
    finally:
        await client.aclose()


def _prepare_calls(arm: Arm, url: str, folder: Path, count: int) -> Prepared:
    base = prepare(100, folder)
    items = make_items(count * 100)
    guard = load_guard(folder / "policy.yaml", {})
    design = Design({MODEL: "0" * 64}, guard.sha256, {"synthetic": "0" * 64}, arms=((arm, 1),))
    options: RunOptions = replace(base.options, arms=None, repeats=1, concurrency=LANES, hash_only=True)
    known = {item.item_id: item for item in items}
    target = parse_target(f"{url}#{MODEL}", None)
    return Prepared(options, target, guard, known, build_plan(items, design), {}, {"selection": "synthetic"})


def plan_many(folder: Path, trials: int = 100_000) -> JsonObject:
    """Plan many trials and write the plan, as a run does before its first call."""
    cpu, start = process_time(), perf_counter()
    create(prepare(trials, folder), folder / "planned", ["bench.harness"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "seconds": round(perf_counter() - start, 2),
        "cpu_s": round(process_time() - cpu, 2),
        "peak_mb": round(peak),
    }


def stored(folder: Path, trials: int = 10_000) -> JsonObject:
    """Score, report and verify stored trials, each in a process of its own."""
    made = folder / "stored"
    made.mkdir()
    found = output_of(["bench.scale", "--trials", str(trials), "--folder", str(made)]).splitlines()
    phases = {str(one.get("phase")): one for one in map(json.loads, found)}
    after = [phases[name] for name in ("summary and report", "verify")]
    return {
        "score_s": phases["score"]["seconds"],
        "score_cpu_s": phases["score"]["cpu_s"],
        "report_and_verify_s": round(sum([one["seconds"] for one in after]), 1),
        "report_and_verify_cpu_s": round(sum([one["cpu_s"] for one in after]), 1),
        "peak_mb": max([one["peak_mb"] for one in (*after, phases["score"])]),
    }


PARTS: Mapping[str, tuple[str, Callable[[Path], JsonObject]]] = {
    "bare client": (f"none: the ideal is {IDEAL_S:.2f} s", lambda folder: calls(None, folder)),
    "harness alone": (f"under {1.5 * IDEAL_S:.2f} s, 1.5 times the ideal", lambda folder: calls("direct", folder)),
    "harness and its proxy": (f"under {1.5 * IDEAL_S:.2f} s", lambda folder: calls("observed", folder)),
    "journal": ("5,000 lines a second", rate_of_lines),
    "plan of 100,000": ("under 10 s and 1,000 MB", plan_many),
    "10,000 stored trials": ("score under 10 s, report and verify under 20 s, 500 MB", stored),
}


def measure(part: str, folder: Path) -> dict[str, Any]:
    """Measure one part in this process."""
    limit, run = PARTS[part]
    folder.mkdir(parents=True, exist_ok=True)
    load = round(os.getloadavg()[0], 1)
    return {"part": part, "limit": limit, **run(folder), "load_before": load, "cores": os.cpu_count()}


def main(words: Sequence[str] | None = None) -> int:
    """Measure every part, each in a process of its own, or one of them in this process."""
    parser = argparse.ArgumentParser(prog="python -m bench.harness", description=__doc__)
    parser.add_argument("--folder", type=Path, help="empty folder to work in")
    parser.add_argument("--part", choices=tuple(PARTS), help="only this one, in this process")
    parser.add_argument("--serve", action="store_true", help="be the slow server until standard input ends")
    args = parser.parse_args(words)
    if args.serve:
        asyncio.run(_serve())
        return 0
    if args.folder is None:
        parser.error("--folder DIR is needed")
    if args.part is not None:
        print(json.dumps(measure(args.part, args.folder)))
        return 0
    for number, part in enumerate(PARTS):
        folder = args.folder / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        print(output_of(["bench.harness", "--folder", str(folder), "--part", part]).strip(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
