"""Passes over a growing text: who is asked together, and how the verdicts of several passes fold into one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from proxy.plan import StagePlan
from supervisors.ask import stream_capability
from supervisors.light import light_dataclass
from supervisors.types import Cause, Label, Segment, Span, Supervisor, Verdict

Group = Literal["window", "growth", "final"]


@light_dataclass(frozen=True, slots=True)
class Pass:
    """One question to put to a group of supervisors.

    Args:
        group: which schedule they follow.
        named: whom to ask.
        segments: the text to judge.
        places: for each path, the path of the field and where in its whole text the text given begins.
        complete: this is the final pass.
        ended: paths whose text is complete although the pass is not the final one.
    """

    group: Group
    named: tuple[tuple[str, Supervisor], ...]
    segments: tuple[Segment, ...]
    places: Mapping[str, tuple[str, int]]
    complete: bool
    ended: frozenset[str] = frozenset()


def group_supervisors(
    plan: StagePlan, *, ignore_final: bool = False
) -> dict[Group, tuple[tuple[str, Supervisor], ...]]:
    """Return the enforcing supervisors by schedule; `ignore_final` lets those for whole texts judge as they grow."""
    groups: dict[Group, list[tuple[str, Supervisor]]] = {"window": [], "growth": [], "final": []}
    for name, supervisor in plan.blocking:
        match stream_capability(supervisor):
            case "incremental" | "windowed":
                groups["window"].append((name, supervisor))
            case "growth":
                groups["growth"].append((name, supervisor))
            case "final":
                groups["growth" if ignore_final else "final"].append((name, supervisor))
    return {name: tuple(members) for name, members in groups.items()}


def holdback_of(supervisor: Supervisor) -> int:
    """Return how many characters a supervisor's longest match may still need.

    A panel of rules and judges follows the schedule of the judges, and still needs what its rules need.
    """
    longest: Callable[[], int] | None = getattr(supervisor, "holdback_chars", None)
    return longest() if longest is not None else 0


def first_open(named: Sequence[tuple[str, Supervisor]], text: str) -> int:
    """Return where in a growing text a match longer than the hold-back may have begun; its length if none can."""
    found = [int(ask(text)) for _, one in named if (ask := getattr(one, "first_open", None)) is not None]
    return min(found, default=len(text))


def shift_spans(verdict: Verdict, places: Mapping[str, tuple[str, int]]) -> Verdict:
    """Move spans from the judged window to the whole field."""
    moved: list[Span] = []
    for span in verdict.spans:
        path, offset = places.get(span.path, (span.path, 0))
        moved.append(replace(span, path=path, start=span.start + offset, end=span.end + offset))
    return replace(verdict, spans=tuple(moved))


_SAFE = Label.SAFE
_STRENGTH: Final = {"safe": 1, "unknown": 2, "unsafe": 3}


def join_passes(before: Verdict | None, now: Verdict) -> Verdict:
    """Combine the verdicts of two passes: unsafe over unknown over safe; skipped adds nothing."""
    if before is not None and before.label is _SAFE and now.label is _SAFE:
        return before if now.score is None else now
    if before is None or before.cause is Cause.SKIPPED:
        return now
    if now.cause is Cause.SKIPPED:
        return before
    worse, other = (now, before) if _STRENGTH[now.label] > _STRENGTH[before.label] else (before, now)
    if now.label == before.label == "unsafe":
        scores = [score for score in (before.score, now.score) if score is not None]
        return replace(
            worse,
            spans=tuple(dict.fromkeys((*before.spans, *now.spans))),
            categories=tuple(dict.fromkeys((*before.categories, *now.categories))),
            score=max(scores, default=None),
            rest=before.rest or now.rest,
        )
    if worse.spans and worse.rest is None and other.cause is not None:
        return replace(worse, rest=other.cause)
    return worse if worse.label != "safe" or now.score is None else now
