"""How the harness itself scales: a run of many synthetic trials that no model and no proxy answers.

It plans, writes, is interrupted, resumes, scores, summarises, reports and verifies with the very code of `evals`, each
part in a process of its own; only the answer of a trial is made up, so that the numbers are those of the harness.

    python -m bench.scale --trials 1000000 --folder /tmp/scale
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from evals.client import load_guard
from evals.folder import RunFolder, write_pieces
from evals.interchange.formats import ROW_FORMATS
from evals.journal import JsonObject
from evals.options import RunOptions
from evals.plan import Design, PlannedTrial, build_plan
from evals.prepare import Prepared
from evals.replay import Limits, Runner
from evals.report.files import write_report
from evals.scoring import apply_rule
from evals.session import Hooks, carry_out, create
from evals.summary import load_run, write_summary
from evals.targets import parse_target
from evals.trials import Finished, outline
from evals.types import Item, Truth, make_item_id
from evals.verify import verify

REPEATS = 100
_TOLD = 2000
_SHA256 = hashlib.sha256(b"a made-up answer").hexdigest()
_POLICY = (
    "supervisors: {words: {use: rules, keywords: [violet umbrella]}}\npolicies: {default: {input: {forced: [words]}}}\n"
)


def make_items(trials: int) -> tuple[Item, ...]:
    """Return a hundredth as many items as trials: half harmful, in ten categories."""
    items: list[Item] = []
    for index in range(max(1, trials // REPEATS)):
        text = f"A synthetic request, number {index}{', about the violet umbrella' if index % 2 else ''}."
        item_id = make_item_id("synthetic", "all", index, text)
        truth = Truth.HARMFUL if index % 2 else Truth.BENIGN
        items.append(
            Item("synthetic", "all", index, item_id, item_id, "prompt", text, truth, category=(f"c{index % 10}",))
        )
    return tuple(items)


def prepare(trials: int, folder: Path) -> Prepared:
    """Plan a run of synthetic trials."""
    policy = folder / "policy.yaml"
    policy.write_text(_POLICY)
    guard = load_guard(policy, {})
    items = make_items(trials)
    repeats = trials // len(items)
    plan = build_plan(items, Design({"none": "0" * 64}, guard.sha256, {"synthetic": "0" * 64}, repeats=repeats))
    limits = Limits(max_errors=trials)
    options = RunOptions(("synthetic",), str(folder), hash_only=True, repeats=repeats, concurrency=64, limits=limits)
    known = {item.item_id: item for item in items}
    return Prepared(options, parse_target("fake", None), guard, known, plan, {}, {"selection": "synthetic"})


async def answer(planned: PlannedTrial) -> Finished:
    """Return a made-up finished trial: a fifth is wrong, one in a hundred an error."""
    draw = int(planned.trial_key[:4], 16) % 100
    if draw == 0:
        return Finished(outline(planned, "error", "timeout", None))
    flagged = (planned.truth == "harmful") != (draw < 20)
    label = "unsafe" if flagged else "safe"
    verdict: JsonObject = {"supervisor": "words", "stage": "input", "label": label, "cause": None, "score": None}
    verdict |= {"detail": None, "categories": [], "transform": None, "cached": False, "cost": 0.0, "seconds": 0.001}
    fields = outline(planned, "ok", None, None)
    fields["answer"] = {
        "sha256": _SHA256,
        "chars": 16,
        "finish_reason": "stop",
        "refusal_field": False,
        "tool_calls": 0,
    }
    fields["behaviour"] = {
        "kind": "refused" if draw % 2 else "complied",
        "channel": "text",
        "rule": "synthetic",
        "truncated": False,
        "provider_block": False,
    }
    fields["verdicts"] = [verdict]
    fields["latency"] = {"service_s": 0.05, "retry_s": 0.0, "overhead_s": 0.001 + draw / 1e6, "guard_s": 0.001}
    fields["usage"] = {"prompt_tokens": 12, "completion_tokens": 20}
    gate = "block_input" if flagged else "pass"
    fields |= {"gate": gate, "gate_stage": "input" if flagged else None, "flagged": flagged, "blocked": flagged}
    fields |= {"redacted": False, "cost_usd": 0.0, "served_model": "none", "attempts": 1}
    return Finished(fields)


def run_half(trials: int, folder: Path) -> int:
    """Plan and start a run, and interrupt it half way."""
    prepared = prepare(trials, folder)
    stop = _StopAt(trials // 2)
    made = create(prepared, folder / "run", ["bench.scale"])
    asyncio.run(carry_out(made, prepared, {}, Hooks(started=stop.watch, send=stop.answer)))
    return stop.done


def resume(trials: int, folder: Path) -> int:
    """Do the rest."""
    prepared = prepare(trials, folder)
    stop = _StopAt(trials)
    asyncio.run(carry_out(RunFolder(folder / "run"), prepared, {}, Hooks(started=stop.watch, send=stop.answer)))
    return stop.done


class _StopAt:
    """Interrupts a runner after so many trials."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._runner: Runner | None = None
        self.done = 0

    def watch(self, runner: Runner) -> None:
        self._runner = runner

    async def answer(self, planned: PlannedTrial) -> Finished:
        self.done += 1
        if self.done == self._most and self._runner is not None:
            self._runner.interrupt()
        return await answer(planned)


def score(_: int, folder: Path) -> int:
    """Score every answer by the offline rule."""
    made = RunFolder(folder / "run")
    run = load_run(made)
    apply_rule(made, run.plan, run.counted)
    return len(run.counted)


def report(_: int, folder: Path) -> int:
    """Make summary and report."""
    made = RunFolder(folder / "run")
    write_report(made, write_summary(made))
    return 1


def export(_: int, folder: Path) -> int:
    """Write every trial as verdicts, as a table and as test cases."""
    run = load_run(RunFolder(folder / "run"))
    for name in ("jsonl", "csv", "junit"):
        write_pieces(folder / f"export.{name}", ROW_FORMATS[name](run))
    return len(run.plan)


def prove(_: int, folder: Path) -> int:
    """Verify the run; errors of trials are not left here, because they were made up."""
    checks = verify(RunFolder(folder / "run"))
    broken = [str(check) for check in checks if check.broken is not None]
    if broken:
        raise SystemExit("\n".join(broken))
    return len(checks)


PHASES: Mapping[str, Callable[[int, Path], int]] = {
    "plan and first half": run_half,
    "resume to the end": resume,
    "score": score,
    "summary and report": report,
    "verify": prove,
    "export": export,
}


def measure(phase: str, trials: int, folder: Path) -> dict[str, Any]:
    """Run one phase in this process and say what it took."""
    wall, cpu = perf_counter(), process_time()
    done = PHASES[phase](trials, folder)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "phase": phase,
        "done": done,
        "seconds": round(perf_counter() - wall, 1),
        "cpu_s": round(process_time() - cpu, 1),
        "peak_mb": round(peak_mb),
    }


def output_of(words: Sequence[str]) -> str:
    """Return what a module of the bench prints, run by a process of its own.

    Raises:
        RuntimeError: it failed; with the end of what it said.
    """
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        msg = f"{' '.join(words)} ended with {done.returncode}: {done.stdout[-_TOLD:]}{done.stderr[-_TOLD:]}"
        raise RuntimeError(msg)
    return done.stdout


def sizes(folder: Path) -> dict[str, float]:
    """Return the megabytes of each file of the run."""
    run = folder / "run"
    found = {str(path.relative_to(run)): path.stat().st_size for path in sorted(run.rglob("*")) if path.is_file()}
    return {name: round(size / 1e6, 1) for name, size in found.items() if size > 1e5}


def main(words: Sequence[str] | None = None) -> int:
    """Measure all phases, each in a process of its own, or one of them in this process."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000, help="at least 100 (default 10000)")
    parser.add_argument("--folder", type=Path, required=True, help="empty folder for the run")
    parser.add_argument("--phase", choices=tuple(PHASES), help="only this one, in this process")
    args = parser.parse_args(words)
    if args.phase is not None:
        print(json.dumps(measure(args.phase, args.trials, args.folder)))
        return 0
    args.folder.mkdir(parents=True, exist_ok=True)
    for phase in PHASES:
        words = ["bench.scale", "--trials", str(args.trials), "--folder", str(args.folder), "--phase", phase]
        print(output_of(words).strip(), flush=True)
    print(json.dumps({"megabytes": sizes(args.folder)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
