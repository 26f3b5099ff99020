"""What a journal says about a plan: which trials are done, and what the counting line of each is (H-115)."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.journal import JsonObject
from evals.keys import Keys
from evals.lines import Counted
from evals.plan import Plan, PlannedTrial

_FINAL = frozenset({"ok", "skipped"})


def counting_lines(lines: Sequence[JsonObject], keys: Keys | None = None) -> Counted:
    """Return the line that counts for each trial key: the newest, but an error never replaces an ok.

    Args:
        lines: of the journal.
        keys: of the plan, to be shared; those of lines that were not planned are added.
    """
    keys = Keys() if keys is None else keys
    places = array("q", [-1]) * len(keys)
    done = bytearray(len(lines))
    for number, line in enumerate(lines):
        if line.get("type") != "trial":
            continue
        place = keys.add(str(line.get("trial_key")))
        if place >= len(places):
            places.extend([-1] * (place + 1 - len(places)))
        done[number] = line.get("status") == "ok"
        before = places[place]
        if before < 0 or not done[before] or done[number]:
            places[place] = number
    return Counted(lines, keys, places)


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
    lines = (counted.get(trial.trial_key) for trial in plan)
    states = Counter("missing" if line is None else str(line["status"]) for line in lines)
    return Progress(len(plan), states["ok"], states["error"], states["skipped"], states["missing"])


def remaining(plan: Plan, counted: Mapping[str, JsonObject]) -> Sequence[PlannedTrial]:
    """Return what is still to be done: missing trials and those that ended in an error, in plan order."""
    done = (counted.get(trial.trial_key, {}).get("status") in _FINAL for trial in plan)
    return plan.part(array("Q", (place for place, final in enumerate(done) if not final)))
