"""One pass over the lines of a journal for `evals verify`: what is wrong with a line, and what is counted over all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evals.attempts import as_object
from evals.client import number, objects
from evals.folder import RunFolder
from evals.journal import JsonObject
from evals.keys import Keys
from evals.packed import Codes
from evals.plan import Plan
from supervisors.types import Cause, Label

LABELS = frozenset([label.value for label in Label])
_STATES = frozenset({"ok", "error", "skipped"})
_GATES = frozenset(
    {"pass", "flag", "redact", "block_input", "block_output", "open_on_unknown", "closed_on_unknown", None}
)
_CAUSES = frozenset([cause.value for cause in Cause])


@dataclass(slots=True)
class Problems:
    """The first problem and how many there are: a broken run may have one a line."""

    first: str | None = None
    count: int = 0

    def add(self, problem: str) -> None:
        """Take note of a problem."""
        self.first = problem if self.first is None else self.first
        self.count += 1

    def told(self) -> Iterator[str]:
        """Yield the first, and a line for every further one."""
        if self.first is not None:
            yield self.first
        for _ in range(self.count - 1):
            yield "and more"


class Seen:
    """What one pass over the journal finds.

    Args:
        plan: of the run.
        folder: where the run keeps texts; None when it keeps hashes only.

    `starts` are the lines that start or resume the run, `done` says by place in the plan with how many lines a trial
    was done, `answers` whether it has one (1), or one behind the proxy too (2); `records` are ids of the proxy's.
    """

    def __init__(self, plan: Plan, folder: RunFolder | None) -> None:
        self._plan = plan
        self._folder = folder
        self.first: str | None = None
        self.starts: list[JsonObject] = []
        self.done = Codes()
        self.answers = Codes()
        self.planned, self.domains, self.costs, self.texts = Problems(), Problems(), Problems(), Problems()
        self.records = Keys()

    def take(self, number: int, line: JsonObject, _data: bytes) -> None:
        """Take the next line."""
        kind = line.get("type")
        if number == 0:
            self.first = str(kind)
        if kind in ("run_start", "resume"):
            self.starts.append(line)
        elif kind == "trial":
            self._hold_against_plan(line)
            self._check_domains(line)
            self._collect(line)

    def _hold_against_plan(self, line: JsonObject) -> None:
        key = str(line.get("trial_key"))
        place = self._plan.keys.find(key)
        if place is None or place >= len(self._plan):
            self.planned.add(f"line {number_of(line)}: trial {key[:12]} is not planned")
            return
        if line.get("rendered_prompt_sha256") != (self._plan.shape(place).prompt_sha256 or None):
            self.planned.add(f"line {number_of(line)}: another prompt was sent than planned")
        if line.get("status") in ("ok", "skipped"):
            self.done[place] = self.done[place] + 1
        if line.get("status") == "ok":
            has_answer = line.get("answer") is not None
            self.answers[place] = has_answer + (has_answer and line.get("behind") is not None)

    def _check_domains(self, line: JsonObject) -> None:
        status, gate, cost = line.get("status"), line.get("gate"), line.get("cost_usd")
        if not _is_one_of(status, _STATES) or not _is_one_of(gate, _GATES):
            self.domains.add(f"line {number_of(line)}: status {status!r} or gate {gate!r}")
        for verdict in objects(line.get("verdicts")):
            label, cause = verdict.get("label"), verdict.get("cause")
            known = _is_one_of(label, LABELS) and (cause is None or _is_one_of(cause, _CAUSES))
            if not known or (label == "unknown") != (cause is not None):
                self.domains.add(f"line {number_of(line)}: {label!r} with cause {cause!r}")
        if cost is not None and (number(cost) is None or (number(cost) or 0) < 0):
            self.costs.add(f"line {number_of(line)}: cost {cost!r}")

    def _collect(self, line: JsonObject) -> None:
        if line.get("record_id") is not None:
            self.records.append(str(line["record_id"]))
        if self._folder is None or line.get("status") != "ok":
            return
        for name in ("answer", "reasoning", "behind"):
            sha256 = as_object(line.get(name)).get("sha256")
            if sha256 and not self._folder.text_path(str(sha256)).exists():
                self.texts.add(f"text {str(sha256)[:12]} is missing")


def _is_one_of(value: object, allowed: frozenset[str] | frozenset[str | None]) -> bool:
    return (value is None or isinstance(value, str)) and value in allowed


def number_of(line: JsonObject) -> str:
    """Return the number of a line as an editor counts, as far as the line says it."""
    return str(int(number(line.get("seq")) or 0) + 1)
