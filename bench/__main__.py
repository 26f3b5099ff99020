"""Measure the proxy beside its peers: ``python -m bench`` (docs/performance.md)."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.native import Invalid, build
from bench.report import chart, insert, markdown
from bench.session import SECTIONS, Options, measure_all

ROOT = Path(__file__).parent.parent


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds, of which the median counts")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one throughput measurement")
    parser.add_argument("--latency-seconds", type=float, default=20.0, help="length of one latency measurement")
    parser.add_argument("--further", type=int, default=100_000, help="requests after the first 10,000 for growth")
    parser.add_argument("--sections", default=",".join(SECTIONS), help=f"comma-separated: {', '.join(SECTIONS)}")
    parser.add_argument("--litellm-env", type=Path, help="virtual environment with litellm[proxy]")
    parser.add_argument("--nemo-env", type=Path, help="virtual environment with nemoguardrails[server]")
    parser.add_argument("--portkey-env", type=Path, help="folder with node_modules/@portkey-ai/gateway")
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=COMMAND", help="other gateway; {port} and {upstream}"
    )
    parser.add_argument("--ahead", action="store_true", help="throughput ahead of all foreign load, which then stalls")
    parser.add_argument("--json", type=Path, help="write everything that was found to this file")
    parser.add_argument("--publish", action="store_true", help="write docs/performance.md and docs/img/bench.svg")
    args = parser.parse_args(words)
    unknown = set(args.sections.split(",")) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown section {', '.join(sorted(unknown))}; known are {', '.join(SECTIONS)}")
    return args


def main() -> int:
    """Measure, print, write; returns 1 when something that must run could not."""
    args = parse()
    try:
        for name in ("upstream", "load"):
            build(name)
    except Invalid as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    options = Options(
        rounds=args.rounds,
        seconds=args.seconds,
        latency_s=args.latency_seconds,
        further=args.further,
        sections=tuple(args.sections.split(",")),
        ahead=args.ahead,
        litellm=args.litellm_env,
        nemo=args.nemo_env,
        portkey=args.portkey_env,
        commands=tuple(args.peer),
    )
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        report = measure_all(options, Path(folder))
    section = markdown(report)
    print(section)
    if args.json:
        args.json.write_text(report.to_json(), "utf-8")
    if args.publish:
        insert(ROOT / "docs" / "performance.md", section)
        image = ROOT / "docs" / "img" / "bench.svg"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_text(chart(report), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
