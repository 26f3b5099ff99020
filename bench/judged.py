"""CPU time of one judge call, ours and litellm's, against the fake upstream: ``python -m bench.judged URL``."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys

import uvloop

from bench.judge_calls import run
from supervisors.chat import load_litellm


def main() -> None:
    """Print the medians as JSON."""
    load_litellm()
    uvloop.install()
    found = asyncio.run(run(sys.argv[1], 3, 2000))
    print(json.dumps({name: statistics.median(values) for name, values in found.items()}))


if __name__ == "__main__":
    main()
