"""What the tests of runs share: a guard built in code, and a run from options to summary."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evals.client import Guard, make_guard
from evals.folder import RunFolder
from evals.journal import JsonObject
from evals.options import RunOptions
from evals.prepare import Prepared, prepare
from evals.replay import Ending
from evals.scoring import apply_rule
from evals.session import Hooks, carry_out, create
from evals.summary import load_run, write_summary
from proxy.config import Config
from supervisors.testing import Finds

CANARY = "violet umbrella"


def make_words_guard(policy: Mapping[str, Any] | None = None, **supervisors: object) -> Guard:
    """Return a guard that flags the canary on input, or the given policy over the given supervisors."""
    config = Config.model_validate(
        {
            "upstreams": {"target": {"base_url": "http://127.0.0.1:9/v1"}},
            "supervisors": {"words": Finds(CANARY), **supervisors},
            "policies": {"default": policy or {"input": {"forced": ["words"]}}},
        }
    )
    return make_guard("words", config)


def make_options(tmp_path: Path, **changes: Any) -> RunOptions:
    """Return options of a smoke run."""
    return replace(RunOptions(("smoke",), str(tmp_path)), **changes)


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run."""

    folder: RunFolder
    prepared: Prepared
    ending: Ending
    summary: JsonObject

    @property
    def section(self) -> dict[str, Any]:
        """Return the first section of the summary."""
        results: Any = self.summary["results"]
        first: dict[str, Any] = results["sections"][0]
        return first

    @property
    def warnings(self) -> list[str]:
        """Return the warnings of the summary."""
        results: Any = self.summary["results"]
        return [str(line) for line in results["warnings"]]

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Return the counting lines in plan order."""
        found = load_run(self.folder)
        return [dict(found.counted[trial.trial_key]) for trial in found.plan if trial.trial_key in found.counted]


@dataclass(slots=True)
class Shown:
    """Collects what a run shows."""

    states: list[JsonObject] = field(default_factory=list[JsonObject])


def make_run(path: Path, options: RunOptions, guard: Guard | None = None, hooks: Hooks | None = None) -> Run:
    """Prepare, create, carry out, score by the rule and summarise."""
    prepared = prepare(options, {}, guard or make_words_guard())
    return finish_run(create(prepared, path, ["evals"]), prepared, hooks)


def finish_run(folder: RunFolder, prepared: Prepared, hooks: Hooks | None = None) -> Run:
    """Carry a created run out, or on."""
    ending = asyncio.run(carry_out(folder, prepared, {}, hooks or Hooks()))
    run = load_run(folder)
    apply_rule(folder, run.plan, run.counted)
    return Run(folder, prepared, ending, write_summary(folder))
