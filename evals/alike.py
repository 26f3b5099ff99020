"""Trials that tell the same story, counted: one row for all repeats of an item that ended alike.

Nearly every number of a summary is a count of such stories, and there are far fewer of them than trials. What differs
from trial to trial (key, repeat, times, scores, hashes, costs) is not in these rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from evals.attempts import as_object
from evals.client import objects
from evals.journal import JsonObject
from evals.packed import Bag
from evals.plan import PlannedTrial
from evals.rows import Row, Rows
from evals.scoring import AnswerVerdict
from evals.statistics.jsonable import Json

_REMEMBERED = 65_536
"""Stories that the next trial is compared with; trials of an item stand together, so older ones hardly come again."""
_MEMBERS = ("status", "cause", "gate", "flagged", "blocked", "served_model")
_BEHAVIOUR = ("kind", "channel", "truncated", "provider_block")
_VERDICT = ("supervisor", "stage", "label", "cause", "mode")


class Alike(Bag[Row]):
    """Rows with how many trials each stands for, in the order of the first of them."""

    def where(self, wanted: Callable[[PlannedTrial], bool]) -> Alike:
        """Return those whose planned trial is wanted; it has no key and no repeat."""
        return Alike((row, times) for row, times in self.counts() if wanted(row.planned))

    def by_group(self) -> Mapping[tuple[str, str], Alike]:
        """Split by data set and target, in plan order."""
        groups: dict[tuple[str, str], list[tuple[Row, int]]] = {}
        for row, times in self.counts():
            groups.setdefault((row.planned.dataset, row.planned.target), []).append((row, times))
        return {name: Alike(found) for name, found in groups.items()}

    def where_judged(self) -> Alike:
        """Return those whose answer has votes."""
        return Alike((row, times) for row, times in self.counts() if row.answer is not None and row.answer.votes)

    def tally(self, name: Callable[[Row], str]) -> Counter[str]:
        """Count trials by a name."""
        found: Counter[str] = Counter()
        for row, times in self.counts():
            found[name(row)] += times
        return found


def count_alike(rows: Rows, take: Callable[[Row], None] | None = None) -> Alike:
    """Go through rows once and count those that tell the same story.

    Args:
        rows: trials.
        take: gets each of them, so that what is counted of trials one by one needs no second reading.
    """
    known: dict[Hashable, int] = {}
    shared = _Shared()
    first: list[Row] = []
    counts: list[int] = []
    for place, (shape, row) in enumerate(rows.shaped()):
        if take is not None:
            take(row)
        line, answer, behind = shared.line(row), shared.answer(row.answer), shared.answer(row.behind)
        alone = None if row.alone is None else (shared.line(row.alone), shared.answer(row.alone.answer))
        voted = any(one is not None and one.votes for one in (answer, behind, alone[1] if alone else None))
        # Lines and answers are kept as long as the rows, so no id comes again.
        told = (id(line), id(answer), id(behind), *map(id, alone or ()))
        key = (shape, told, place if voted else None)
        if key not in known:
            if len(known) >= _REMEMBERED:
                known.clear()
            known[key] = len(first)
            first.append(Row(shape, line, answer, behind, _alone(row, *alone) if alone else None))
            counts.append(0)
        counts[known[key]] += 1
    return Alike(zip(first, counts, strict=True))


def _alone(row: Row, line: JsonObject | None, answer: AnswerVerdict | None) -> Row | None:
    """Return the trial past the proxy without what is its own."""
    return row.alone and Row(replace(row.alone.planned, trial_key="", repeat=0), line, answer, None)


class _Shared:
    """Lines and answers without what is of one trial only, equal ones once; nobody changes them."""

    def __init__(self) -> None:
        self._lines: dict[_Story, JsonObject] = {}
        self._answers: dict[Hashable, AnswerVerdict] = {}

    def line(self, row: Row) -> JsonObject | None:
        """Return what a line tells."""
        if row.line is None:
            return None
        story = _story(row.line)
        found = self._lines.get(story)
        if found is None:
            found = self._lines[story] = _line(story)
        return found

    def answer(self, answer: AnswerVerdict | None) -> AnswerVerdict | None:
        """Return a verdict without its trial; one with votes equals no other."""
        if answer is None or answer.votes:
            return answer
        own = replace(answer, trial_key="")
        return self._answers.setdefault(own, own)


_Story = tuple[tuple[Json, ...], tuple[Json, ...], tuple[tuple[Json, ...], ...]]


def _story(line: JsonObject) -> _Story:
    behaviour = line.get("behaviour")
    seen = as_object(behaviour)
    policy = line.get("policy")
    detail = line.get("detail") if str(line.get("cause")).startswith("status_") else None
    return (
        (*[line.get(name) for name in _MEMBERS], detail, as_object(policy).get("version"), bool(policy)),
        () if behaviour is None else tuple([seen.get(name) for name in _BEHAVIOUR]),
        tuple([_told(verdict) for verdict in objects(line.get("verdicts"))]),
    )


def _told(verdict: JsonObject) -> tuple[Json, ...]:
    return (*[verdict.get(name) for name in _VERDICT], verdict.get("score") is not None)


def _line(story: _Story) -> JsonObject:
    """Return a trial line of what a story holds."""
    members, behaviour, verdicts = story
    *plain, detail, version, judged = members
    return {
        **dict(zip(_MEMBERS, plain, strict=True)),
        "detail": detail,
        "policy": {"version": version} if judged else None,
        "behaviour": dict(zip(_BEHAVIOUR, behaviour, strict=True)) if behaviour else None,
        "verdicts": [dict(zip((*_VERDICT, "scored"), one, strict=True)) for one in verdicts],
    }
