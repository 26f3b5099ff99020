"""What a journal says about a plan: which trials are done, and what the counting line of each is (H-115)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.journal import JsonObject
from evals.lines import Counted
from evals.plan import PlannedTrial

_FINAL = frozenset({"ok", "skipped"})


def counting_lines(lines: Sequence[JsonObject]) -> Mapping[str, JsonObject]:
    """Return the line that counts for each trial key: the newest, but an error never replaces an ok."""
    places: dict[str, int] = {}
    done = bytearray(len(lines))
    for place, line in enumerate(lines):
        if line.get("type") != "trial":
            continue
        key = sys.intern(str(line.get("trial_key")))  # the plan and the scores hold the same text
        before = places.get(key)
        done[place] = line.get("status") == "ok"
        if before is None or not done[before] or done[place]:
            places[key] = place
    return Counted(lines, places)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Args:
        planned: trials.
        ok, errors, skipped: by the counting lines.
        missing: planned and without a line.
    """

    planned: int
    ok: int
    errors: int
    skipped: int
    missing: int

    @property
    def complete(self) -> bool:
        """Say whether every trial is done without error."""
        return self.errors == 0 and self.missing == 0


def progress_of(plan: Sequence[PlannedTrial], counted: Mapping[str, JsonObject]) -> Progress:
    """Count the states of the planned trials."""
    states = [str(counted[trial.trial_key]["status"]) if trial.trial_key in counted else "missing" for trial in plan]
    return Progress(
        len(plan), states.count("ok"), states.count("error"), states.count("skipped"), states.count("missing")
    )


def remaining(plan: Sequence[PlannedTrial], counted: Mapping[str, JsonObject]) -> list[PlannedTrial]:
    """Return what is still to be done: missing trials and those that ended in an error, in plan order."""
    return [trial for trial in plan if counted.get(trial.trial_key, {}).get("status") not in _FINAL]
