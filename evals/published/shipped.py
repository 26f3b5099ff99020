"""The published numbers that come with the package, from files whose licence lets us, and how they were collected."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from evals.published.readers import HELM_SCORE, read_published
from evals.published.values import Published, parse

SOURCES = (
    "guard-leaderboards/guardrail_benchmarks.json",
    "saturation-helm-safety/score_matrix_helm.csv",
    "air-bench-2024/inspect_evals_results.csv",
)
"""Files below a data folder that permit it (class A); a test holds the stored numbers against them.

GuardBench's leaderboard is under a copyleft licence and is read from the user's copy: `evals report --published FILE`.
"""


def shipped() -> tuple[Published, ...]:
    """Return the numbers that come with the package, those of sets we have a card for."""
    name = "scores.json"
    return parse(files("evals.published").joinpath(name).read_text("utf-8"), Path(name))


def collect(data_dir: Path) -> tuple[Published, ...]:
    """Read the numbers again from the files they came from.

    Raises:
        DatasetError: a file is missing or of another form.
    """
    found = [one for name in SOURCES for one in read_published(data_dir / name) if one.dataset]
    return tuple([one for one in found if one.source != "HELM Safety" or one.metric == HELM_SCORE])
