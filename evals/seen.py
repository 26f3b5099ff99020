"""One pass over the lines of a journal for `evals verify`: what is wrong with a line, and what is counted over all."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from evals.attempts import as_object
from evals.client import number, objects
from evals.journal import JsonObject
from evals.keys import Keys
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


@dataclass(slots=True)
class Seen:
    """What one pass over the journal found.

    Args:
        starts: lines that start or resume the run.
        done: place of a trial key → lines with which it was done.
        planned, domains, costs: problems of single lines.
        records: ids of the proxy's records.
        record_times: place of a record → trials that name it.
        texts: hashes of the texts that must be there.
    """

    starts: list[JsonObject] = field(default_factory=list[JsonObject])
    done: array[int] = field(default_factory=lambda: array("I"))
    planned: Problems = field(default_factory=Problems)
    domains: Problems = field(default_factory=Problems)
    costs: Problems = field(default_factory=Problems)
    records: Keys = field(default_factory=Keys)
    record_times: array[int] = field(default_factory=lambda: array("I"))
    texts: Keys = field(default_factory=Keys)


def look_at(lines: Iterable[JsonObject], plan: Plan, *, texts: bool) -> Seen:
    """Go through the lines of a journal once.

    Args:
        lines: all of them.
        plan: of the run.
        texts: the run keeps texts.
    """
    places = array("q", [-1]) * len(plan.keys)
    for place in range(len(plan)):
        places[plan.key_place(place)] = place
    seen = Seen(done=array("I", bytes(4 * len(places))))
    for line in lines:
        kind = line.get("type")
        if kind in ("run_start", "resume"):
            seen.starts.append(line)
        elif kind == "trial":
            _hold_against_plan(seen, line, plan, places)
            _check_domains(seen, line)
            _collect(seen, line, texts=texts)
    return seen


def _hold_against_plan(seen: Seen, line: JsonObject, plan: Plan, places: array[int]) -> None:
    key = str(line.get("trial_key"))
    place = plan.keys.find(key)
    if place is None or place >= len(places) or places[place] < 0:
        seen.planned.add(f"line {number_of(line)}: trial {key[:12]} is not planned")
        return
    if line.get("rendered_prompt_sha256") != (plan[places[place]].prompt_sha256 or None):
        seen.planned.add(f"line {number_of(line)}: another prompt was sent than planned")
    seen.done[place] += line.get("status") in ("ok", "skipped")


def _check_domains(seen: Seen, line: JsonObject) -> None:
    status, gate, cost = line.get("status"), line.get("gate"), line.get("cost_usd")
    if not _is_one_of(status, _STATES) or not _is_one_of(gate, _GATES):
        seen.domains.add(f"line {number_of(line)}: status {status!r} or gate {gate!r}")
    for verdict in objects(line.get("verdicts")):
        label, cause = verdict.get("label"), verdict.get("cause")
        known = _is_one_of(label, LABELS) and (cause is None or _is_one_of(cause, _CAUSES))
        if not known or (label == "unknown") != (cause is not None):
            seen.domains.add(f"line {number_of(line)}: {label!r} with cause {cause!r}")
    if cost is not None and (number(cost) is None or (number(cost) or 0) < 0):
        seen.costs.add(f"line {number_of(line)}: cost {cost!r}")


def _is_one_of(value: object, allowed: frozenset[str] | frozenset[str | None]) -> bool:
    return (value is None or isinstance(value, str)) and value in allowed


def _collect(seen: Seen, line: JsonObject, *, texts: bool) -> None:
    if line.get("record_id") is not None:
        place = seen.records.add(str(line["record_id"]))
        if place == len(seen.record_times):
            seen.record_times.append(0)
        seen.record_times[place] += 1
    if texts and line.get("status") == "ok":
        for name in ("answer", "reasoning", "behind"):
            sha256 = as_object(line.get(name)).get("sha256")
            if sha256:
                seen.texts.add(str(sha256))


def number_of(line: JsonObject) -> str:
    """Return the number of a line as an editor counts, as far as the line says it."""
    return str(int(number(line.get("seq")) or 0) + 1)
