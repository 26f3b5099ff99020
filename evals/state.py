"""What a journal says about a plan: which trials are done, and what the counting line of each is (H-115)."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.journal import JsonObject, read_journal
from evals.keys import Keys
from evals.lines import OTHER, STATES, Contents, Counted, Taker
from evals.packed import Places
from evals.plan import Plan, PlannedTrial

_CODES = {state: code for code, state in enumerate(STATES)}
_OK = _CODES["ok"]
_FINAL = frozenset({"ok", "skipped"})


class Counting:
    """Finds the line that counts for each trial key: the newest, but an error never replaces an ok.

    Args:
        keys: of the plan, to be shared; those of lines that were not planned are added.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._places = array("i", [-1]) * len(keys)
        self._states = bytearray(len(keys))

    def take(self, number: int, line: JsonObject, _data: bytes = b"") -> None:
        """Take the next line of the journal."""
        if line.get("type") != "trial":
            return
        place = self._keys.add(str(line.get("trial_key")))
        if place >= len(self._places):
            self._places.extend([-1] * (place + 1 - len(self._places)))
            self._states.extend(bytes(place + 1 - len(self._states)))
        code = _CODES.get(str(line.get("status")), OTHER)
        if self._states[place] != _OK or code == _OK:
            self._places[place] = number
            self._states[place] = code

    def counted(self, lines: Sequence[JsonObject]) -> Counted:
        """Return what was found in these lines."""
        return Counted(lines, self._keys, self._places, bytes(self._states))


def counting_lines(lines: Sequence[JsonObject], keys: Keys | None = None) -> Counted:
    """Return the line that counts for each trial key.

    Args:
        lines: of the journal.
        keys: of the plan, to be shared; those of lines that were not planned are added.
    """
    counting = Counting(Keys() if keys is None else keys)
    for number, line in enumerate(lines):
        counting.take(number, line)
    return counting.counted(lines)


def read_counted(path: Path, keys: Keys, *takers: Taker) -> tuple[Contents, Counted]:
    """Read a journal and what counts of it, in one go.

    Args:
        path: the journal.
        keys: of the plan.
        takers: get each line, too.

    Raises:
        StoreError: it cannot be read, or is corrupt.
    """
    counting = Counting(keys)
    contents = read_journal(path, counting.take, *takers)
    return contents, counting.counted(contents.lines)


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


def progress_of(plan: Plan, counted: Counted) -> Progress:
    """Count the states of the planned trials."""
    states = Counter(_states(plan, counted))
    return Progress(len(plan), states["ok"], states["error"], states["skipped"], states["missing"])


def remaining(plan: Plan, counted: Counted) -> Sequence[PlannedTrial]:
    """Return what is still to be done: missing trials and those that ended in an error, in plan order."""
    return plan.part(Places(place for place, state in enumerate(_states(plan, counted)) if state not in _FINAL))


def _states(plan: Plan, counted: Counted) -> Iterator[str]:
    """Yield the state of each planned trial, without reading a line."""
    if counted.known is plan.keys:
        return (counted.state(place) for place in range(len(plan)))
    found = (counted.known.find(trial.trial_key) for trial in plan)
    return ("missing" if place is None else counted.state(place) for place in found)
