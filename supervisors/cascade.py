"""One supervisor after the other: the cheap one first, the next only where it is not sure (G-30)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import BaseModel, Field, model_validator

from supervisors import nesting
from supervisors.ask import patience_s
from supervisors.plugins import SupervisorEntry
from supervisors.scopes import gravest
from supervisors.types import (
    Assessment,
    Capability,
    Cause,
    Context,
    Exchange,
    Label,
    Passing,
    Scope,
    Stage,
    Supervisor,
    Verdict,
    unknown,
)

Action = Literal["next", "safe", "unsafe", "unknown"]


class Step(BaseModel, frozen=True, extra="forbid"):
    """One step of a cascade.

    Args:
        supervisor: whom to ask.
        name: name in the record; None takes ``step1``, ``step2`` …
        low: a score at or below it is certainly safe.
        high: a score at or above it is certainly unsafe. With `low` or `high`, everything else goes to the next step.
        on_safe: what a safe verdict leads to.
        on_unsafe: what an unsafe verdict leads to.
        on_unknown: what a failure leads to.
    """

    supervisor: SupervisorEntry
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    low: float | None = Field(default=None, ge=0, le=1)
    high: float | None = Field(default=None, ge=0, le=1)
    on_safe: Action = "next"
    on_unsafe: Action = "unsafe"
    on_unknown: Action = "next"

    @model_validator(mode="after")
    def _check(self) -> Step:
        if not self.banded:
            return self
        if (self.on_safe, self.on_unsafe) != ("next", "unsafe"):
            msg = "'low' and 'high' decide by the score: 'on_safe' and 'on_unsafe' would have no effect"
            raise ValueError(msg)
        if self.low is not None and self.high is not None and self.low >= self.high:
            msg = f"'low' {self.low} must be below 'high' {self.high}"
            raise ValueError(msg)
        return self

    @property
    def banded(self) -> bool:
        """Say whether the score decides instead of the label."""
        return self.low is not None or self.high is not None

    def act(self, verdict: Verdict) -> Action:
        """Return what this verdict leads to."""
        if verdict.cause is Cause.SKIPPED:  # not applicable is no failure (G-17)
            return "next"
        if verdict.label is Label.UNKNOWN:
            return self.on_unknown
        if self.banded:
            return self._act_on_score(verdict.score)
        return self.on_safe if verdict.label is Label.SAFE else self.on_unsafe

    def _act_on_score(self, score: float | None) -> Action:
        if score is not None and self.low is not None and score <= self.low:
            return "safe"
        if score is not None and self.high is not None and score >= self.high:
            return "unsafe"
        return "next"


class Cascade(BaseModel, frozen=True, extra="forbid"):
    """Ask step after step until one is certain; the last step's label decides if none was.

    Args:
        steps: in order.
        exhaustive: ask every step although the label is fixed (evaluation runs).
        timeout_s: own limit for all steps together.
    """

    use: Literal["cascade"] = "cascade"
    steps: tuple[Step, ...]
    exhaustive: bool = False
    timeout_s: float | None = Field(default=None, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _check_raw_depth(cls, entry: object) -> object:
        nesting.check_raw_depth(entry)
        return entry

    @model_validator(mode="after")
    def _check(self) -> Cascade:
        if not self.steps:  # as a field constraint it would also be reported when a step is wrong
            msg = "a cascade needs at least 1 step"
            raise ValueError(msg)
        if len(self.nested) < len(self.steps):
            msg = f"every step needs a name of its own, got: {', '.join(self._names)}"
            raise ValueError(msg)
        nesting.check_depth(self)
        nesting.common_stages(self._all)
        return self

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple([step.name or f"step{number}" for number, step in enumerate(self.steps, 1)])

    @property
    def nested(self) -> Mapping[str, Supervisor]:
        """Return the steps' supervisors by name, for walks over the tree."""
        return {name: step.supervisor for name, step in zip(self._names, self.steps, strict=True)}

    @property
    def _all(self) -> tuple[Supervisor, ...]:
        return tuple([step.supervisor for step in self.steps])

    @property
    def local(self) -> bool:
        """Say whether no step waits on anything outside the process."""
        return nesting.all_local(self._all)

    @property
    def capability(self) -> Capability:
        """Return the weakest stream capability among the steps."""
        return nesting.weakest_capability(self._all)

    @property
    def stages(self) -> frozenset[Stage]:
        """Return the stages all steps can serve."""
        return nesting.common_stages(self._all)

    def holdback_chars(self) -> int:
        """Return the longest hold-back among the steps."""
        return nesting.longest_holdback(self._all)

    def first_open(self, text: str) -> int:
        """Return the leftmost place where a member's match may have begun."""
        return nesting.first_open(self._all, text)

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Ask the steps in order and stop at the first certain label."""
        now = asyncio.get_running_loop().time
        end = now() + nesting.budget_s(self, context)
        exhaustive = nesting.is_exhaustive(self, context)
        mild = nesting.let_through(context)
        members: list[Assessment] = []
        course = _Course(mild or nesting.NAMED, nesting.may_redact(context))
        for name, step in zip(self._names, self.steps, strict=True):
            if not exhaustive and (course.ended if mild else course.found):
                members.append(Assessment(name, unknown(Cause.SKIPPED)))
                course.skip()
                continue
            found = await _ask_until(name, step.supervisor, exchange, context, end)
            members.append(found)
            course.take(found.verdict, step.act(found.verdict), name)
        return _with_members(course.conclude(), members)


@dataclass(slots=True)
class _Course:
    """What the steps have come to: what was found for certain, and what later steps say of the rest.

    Args:
        mild: in which scopes a text goes on with its finding masked or noted; the rest is for the next steps.
        masks: places that are named may be masked.
        found: the verdicts that were certain, all but the last unsafe.
        ended: nothing is left for a next step.
        last: latest verdict on the rest that was applicable; before any finding the rest is the whole text.
    """

    mild: Mapping[Scope, Passing]
    masks: bool
    found: list[Verdict] = field(default_factory=list[Verdict])
    ended: bool = False
    last: Verdict | None = None

    def take(self, verdict: Verdict, action: Action, name: str) -> None:
        """Add the verdict of the next step."""
        if self.ended or (action == "next" and verdict.cause is Cause.SKIPPED):
            return
        if action == "next":
            self.last = verdict
        else:
            self._find(_relabel(verdict, action, name))

    def skip(self) -> None:
        """Note that a step is not asked."""
        if not self.ended:
            self.last = self.last or unknown(Cause.SKIPPED)

    def _find(self, verdict: Verdict) -> None:
        self.found.append(verdict)
        goes_on = verdict.label is Label.UNSAFE and nesting.passes(verdict, self.mild)
        self.ended = not goes_on
        self.last = verdict if not goes_on else unknown(verdict.rest) if verdict.rest else None

    def conclude(self) -> Verdict:
        """Return the verdict: of the first step that was certain, else of the last that was applicable.

        It names places only where no later step takes for unsafe what masking them leaves.
        """
        if not self.found:  # a label resolves earlier unknowns, nothing else does
            return self.last or unknown(Cause.SKIPPED)
        if not self.ended and self.last is not None and self.last.label is Label.UNSAFE:
            self._find(self.last)
        first, bad = self.found[0], [verdict for verdict in self.found if verdict.label is Label.UNSAFE]
        if first.label is not Label.UNSAFE:
            return first
        stopped = self.masks and self.last is not None and self.last.label is Label.UNSAFE
        spans = () if stopped else tuple(dict.fromkeys([span for verdict in bad for span in verdict.spans]))
        return replace(
            first,
            categories=tuple(dict.fromkeys([name for verdict in bad for name in verdict.categories])),
            spans=spans,
            scope=gravest([verdict.scope for verdict in bad]),
            rest=self.last.cause if self.last is not None else None,
        )


async def _ask_until(name: str, supervisor: Supervisor, exchange: Exchange, context: Context, end: float) -> Assessment:
    started = asyncio.get_running_loop().time()
    if started >= end:
        return Assessment(name, unknown(Cause.TIMEOUT))
    try:
        async with asyncio.timeout_at(end + patience_s(supervisor)):
            return await context.ask(name, supervisor, exchange)
    except TimeoutError:
        return Assessment(name, unknown(Cause.TIMEOUT), end - started)


def _relabel(verdict: Verdict, action: Action, name: str) -> Verdict:
    label = Label(action)
    if label is verdict.label:
        return verdict
    cause = Cause.ABSTAINED if label is Label.UNKNOWN else None
    # The score and the findings belong to another label; they stay visible in the step's own verdict.
    return replace(verdict, label=label, cause=cause, score=None, categories=(), spans=(), detail=f"set_by_{name}")


def _with_members(verdict: Verdict, members: Sequence[Assessment]) -> Verdict:
    return replace(
        verdict,
        tokens=nesting.total_tokens(members),
        cost=nesting.total_cost(members),
        members=tuple(members),
        extras={"steps_asked": sum([member.verdict.cause is not Cause.SKIPPED for member in members])},
    )
