"""Trials that tell the same story, counted: one row for all repeats of an item that ended alike.

Nearly every number of a summary is a count of such stories, and there are far fewer of them than trials. What differs
from trial to trial (key, repeat, times, scores, hashes, costs) is not in these rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping

from evals.attempts import as_object
from evals.client import objects
from evals.journal import JsonObject
from evals.packed import Bag
from evals.plan import PlannedTrial
from evals.rows import Row, Rows
from evals.scoring import AnswerVerdict
from evals.statistics.jsonable import Json

_MEMBERS = ("status", "cause", "gate", "flagged", "blocked", "served_model")
_BEHAVIOUR = ("kind", "channel", "truncated", "provider_block")
_VERDICT = ("supervisor", "stage", "label", "cause", "mode")


class Alike(Bag[Row]):
    """Rows with how many trials each stands for, in the order of the first of them."""

    def where(self, wanted: Callable[[PlannedTrial], bool]) -> Alike:
        """Return those whose planned trial is wanted; its key and repeat are those of the first trial."""
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


def count_alike(rows: Rows) -> Alike:
    """Go through rows once and count those that tell the same story."""
    first: list[Row] = []
    places: dict[Hashable, int] = {}
    stories: dict[_Story, _Story] = {}
    lines: dict[_Story, JsonObject] = {}  # shared by all rows of a story: nobody changes them
    counts: list[int] = []
    for place, row in enumerate(rows):
        own = _story(row.fields)
        story = stories.setdefault(own, own)
        key = (rows.shape(place), story, _said(row.answer, place), _said(row.behind, place))
        known = places.setdefault(key, len(first))
        if known == len(first):
            line = None if row.line is None else lines.setdefault(story, _line(story))
            first.append(Row(row.planned, line, row.answer, row.behind))
            counts.append(0)
        counts[known] += 1
    return Alike(zip(first, counts, strict=True))


def _said(answer: AnswerVerdict | None, place: int) -> Hashable:
    """Return what makes two answers equal; one with votes equals no other."""
    if answer is None:
        return None
    if answer.votes:
        return place
    return answer.label, answer.cause, answer.detail, answer.behaviour, answer.score, answer.channel, answer.cost_usd


_Story = tuple[tuple[Json, ...], tuple[Json, ...], tuple[tuple[Json, ...], ...]]


def _story(line: JsonObject) -> _Story:
    behaviour = line.get("behaviour")
    seen = as_object(behaviour)
    policy = line.get("policy")
    detail = line.get("detail") if str(line.get("cause")).startswith("status_") else None
    return (
        (*[line.get(name) for name in _MEMBERS], detail, as_object(policy).get("version") if policy else None),
        () if behaviour is None else tuple([seen.get(name) for name in _BEHAVIOUR]),
        tuple([_told(verdict) for verdict in objects(line.get("verdicts"))]),
    )


def _told(verdict: JsonObject) -> tuple[Json, ...]:
    return (*[verdict.get(name) for name in _VERDICT], verdict.get("score") is not None)


def _line(story: _Story) -> JsonObject:
    """Return a trial line of what a story holds."""
    members, behaviour, verdicts = story
    *plain, detail, version = members
    return {
        **dict(zip(_MEMBERS, plain, strict=True)),
        "detail": detail,
        "policy": None if version is None else {"version": version},
        "behaviour": dict(zip(_BEHAVIOUR, behaviour, strict=True)) if behaviour else None,
        "verdicts": [dict(zip((*_VERDICT, "scored"), one, strict=True)) for one in verdicts],
    }
