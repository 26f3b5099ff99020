"""What became of each setting of an imported file: every one is read, and every one read is accounted for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["mapped", "changed", "dropped", "left", "unmapped"]
OUTCOMES: Mapping[Outcome, str] = {
    "unmapped": "no counterpart: the import is not complete",
    "changed": "mapped to something that is not the same; read why",
    "dropped": "needs no counterpart",
    "left": "no setting of a guardrail; not looked at",
    "mapped": "mapped",
}


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the report.

    Args:
        outcome: what became of it.
        path: where it stands in the file.
        text: what it became, or why it did not.
    """

    outcome: Outcome
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.outcome}: {self.path}: {self.text}"


@dataclass(slots=True)
class Report:
    """The lines of an import, in the order in which the file was read."""

    notes: list[Note] = field(default_factory=list[Note])

    def add(self, outcome: Outcome, path: str, text: str) -> None:
        """Append a line."""
        self.notes.append(Note(outcome, path, text))

    def has(self, outcome: Outcome) -> bool:
        """Say whether a line has this outcome."""
        return any(note.outcome == outcome for note in self.notes)

    @property
    def complete(self) -> bool:
        """Say whether everything has a counterpart."""
        return not self.has("unmapped")

    def lines(self) -> Iterator[str]:
        """Yield the report: what needs a reader first, then the rest, then the counts."""
        for outcome in OUTCOMES:
            yield from [str(note) for note in self.notes if note.outcome == outcome]
        counts = {outcome: sum([note.outcome == outcome for note in self.notes]) for outcome in OUTCOMES}
        yield ", ".join([f"{count} {outcome}" for outcome, count in counts.items() if count]) or "nothing to import"


_MISSING: Any = object()


@dataclass(slots=True)
class Entry:
    """A mapping of the file, read member by member; what nobody read is reported as unmapped.

    Args:
        path: where it stands.
        members: as in the file.
        report: where its lines go.
    """

    path: str
    members: Mapping[str, Any]
    report: Report
    _read: set[str] = field(default_factory=set[str])

    def take(self, name: str) -> Any:
        """Return a member, or None; it counts as read."""
        self._read.add(name)
        return self.members.get(name)

    def note(self, outcome: Outcome, name: str, text: str) -> None:
        """Report on a member, if the file has it; it counts as read."""
        self._read.add(name)
        if self.members.get(name, _MISSING) is not _MISSING:
            self.report.add(outcome, f"{self.path}.{name}", text)

    def take_as(self, name: str, text: str) -> Any:
        """Return a member and report it as mapped."""
        self.note("mapped", name, text)
        return self.members.get(name)

    def drop(self, why: Mapping[str, str]) -> None:
        """Report members that need no counterpart."""
        for name, text in why.items():
            self.note("dropped", name, text)

    def finish(self) -> None:
        """Report what was not read."""
        for name, value in self.members.items():
            if name not in self._read and value not in (None, False):
                self.report.add("unmapped", f"{self.path}.{name}", "no counterpart")
