"""Measure the proxy beside its peers: ``python -m bench``."""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench import throughput
from bench.native import Invalid
from bench.targets import fake_upstream, nginx, ours, relay


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds, of which the median counts")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one measurement")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        work = Path(folder)
        upstream = stack.enter_context(fake_upstream(work))
        targets = [upstream]
        try:
            targets.append(stack.enter_context(nginx(work, upstream)))
        except Invalid as missing:
            print(f"not measured: {missing}")
        targets += [stack.enter_context(relay(work, upstream)), stack.enter_context(ours(work, upstream))]
        found = throughput.measure(targets, upstream, rounds=args.rounds, seconds=args.seconds)
    print(
        f"{'target':18} {'req/s':>9} {'req/core-s':>11} {'us/req':>8} {'loop us':>8}"
        f" {'p50 ms':>8} {'p99 ms':>8} {'foreign':>8}"
    )
    for one in found.values():
        limited = " (limited by the tools)" if one.generator_limited else ""
        print(
            f"{one.name:18} {one.median('per_s'):9.0f} {one.per_core_s:11.0f} {one.median('cpu_us'):8.1f}"
            f" {one.median('loop_us'):8.1f} {one.median('p50_ms'):8.2f} {one.median('p99_ms'):8.2f}"
            f" {one.median('foreign_share'):8.2f}{limited}"
        )


if __name__ == "__main__":
    main()
