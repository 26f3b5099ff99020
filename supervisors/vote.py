"""A panel: several supervisors judge the same view and one strategy counts their votes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints, model_validator

from supervisors import nesting
from supervisors.plugins import SupervisorEntry
from supervisors.polling import Poll, Verdicts
from supervisors.scopes import gravest
from supervisors.tally import (
    Ballot,
    OnTie,
    Outcome,
    Rule,
    agreement,
    settled,
    tally_all,
    tally_any,
    tally_first_available,
    tally_majority,
    tally_quorum,
    tally_weighted,
)
from supervisors.types import (
    Assessment,
    Capability,
    Cause,
    Context,
    Exchange,
    Label,
    Passing,
    Scope,
    Span,
    Stage,
    Supervisor,
    Verdict,
)

Strategy = Literal["any", "all", "majority", "quorum", "weighted", "first_available"]
MemberName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]

_OPTIONS: Mapping[str, frozenset[str]] = {
    "any": frozenset(),
    "all": frozenset(),
    "first_available": frozenset(),
    "majority": frozenset({"min_answers", "on_tie", "reserve"}),
    "quorum": frozenset({"count", "min_score", "min_answers", "missing", "reserve"}),
    "weighted": frozenset({"weights", "threshold", "min_weight", "use_scores", "reserve"}),
}
"""Which options each strategy reads; any other option is a mistake that would otherwise stay without effect."""

_ABSTENTIONS = (Cause.REFUSED, Cause.ABSTAINED)


class Vote(BaseModel, frozen=True, extra="forbid"):
    """Combine several supervisors into one verdict.

    Args:
        strategy: how votes are counted (`supervisors.tally`).
        members: supervisors by name; `reserve` names some of them that are asked only when needed.
        start: ``all`` asks everybody at once; ``lazy`` only as many as can decide, and further ones on disagreement.
        hedge_s: with ``lazy``, start the next member when nobody has answered for this many seconds.
        exhaustive: ask everybody, cancel nobody (evaluation runs).
        timeout_s: own limit; whoever has not answered by then counts as ``unknown/timeout``.
    """

    use: Literal["vote"] = "vote"
    strategy: Strategy = "majority"
    members: dict[MemberName, SupervisorEntry] = Field(min_length=1)
    reserve: tuple[str, ...] = ()
    start: Literal["all", "lazy"] = "all"
    hedge_s: float | None = Field(default=None, gt=0)
    exhaustive: bool = False
    timeout_s: float | None = Field(default=None, gt=0)
    min_answers: int | None = Field(default=None, ge=1)
    on_tie: OnTie = "unknown"
    count: int | None = Field(default=None, ge=1)
    min_score: float | None = Field(default=None, ge=0, le=1)
    missing: Literal["count", "ignore"] = "count"
    weights: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=dict)
    threshold: float = Field(default=0.5, gt=0, le=1)
    min_weight: float = Field(default=0.5, ge=0, le=1)
    use_scores: bool = False

    @model_validator(mode="before")
    @classmethod
    def _check_raw_depth(cls, entry: object) -> object:
        nesting.check_raw_depth(entry)
        return entry

    @model_validator(mode="after")
    def _check(self) -> Vote:
        self._check_options()
        self._check_names()
        n = len(self.panel)
        if self.count is not None and self.count > n:
            msg = f"count {self.count} can never be reached by {n} member(s)"
            raise ValueError(msg)
        if self.min_answers is not None and self.min_answers > n:
            msg = f"min_answers {self.min_answers} is more than the {n} member(s)"
            raise ValueError(msg)
        nesting.check_depth(self)
        nesting.common_stages(self._all)
        return self

    def _check_options(self) -> None:
        fields = type(self).model_fields
        for option in sorted(frozenset[str]().union(*_OPTIONS.values()) - _OPTIONS[self.strategy]):
            if getattr(self, option) != fields[option].get_default(call_default_factory=True):
                msg = f"strategy {self.strategy!r} does not read {option!r}"
                raise ValueError(msg)
        if self.strategy == "quorum" and self.count is None:
            msg = "strategy 'quorum' needs 'count': how many unsafe votes make the verdict unsafe"
            raise ValueError(msg)
        if self.hedge_s is not None and self.start == "all":
            msg = "'hedge_s' needs 'start: lazy'; with 'start: all' everybody is asked at once"
            raise ValueError(msg)
        if self.on_tie == "reserve" and not self.reserve:
            msg = "'on_tie: reserve' needs 'reserve', a list of member names"
            raise ValueError(msg)

    def _check_names(self) -> None:
        for option, names in (("reserve", self.reserve), ("weights", tuple(self.weights))):
            unknown_names = [name for name in names if name not in self.members]
            if unknown_names:
                msg = f"{option} names {', '.join(unknown_names)}; members are: {', '.join(self.members)}"
                raise ValueError(msg)
        if len(set(self.reserve)) < len(self.reserve) or not self.panel:
            msg = "'reserve' must name each member once and leave at least one member in the panel"
            raise ValueError(msg)

    @property
    def panel(self) -> tuple[str, ...]:
        """Return the names asked from the start: all members but the reserve."""
        return tuple([name for name in self.members if name not in self.reserve])

    @property
    def nested(self) -> Mapping[str, Supervisor]:
        """Return the members, for walks over the tree."""
        return self.members

    @property
    def _all(self) -> tuple[Supervisor, ...]:
        return tuple(self.members.values())

    @property
    def local(self) -> bool:
        """Say whether no member waits on anything outside the process."""
        return nesting.all_local(self._all)

    @property
    def capability(self) -> Capability:
        """Return the weakest stream capability among the members."""
        return nesting.weakest_capability(self._all)

    @property
    def stages(self) -> frozenset[Stage]:
        """Return the stages all members can serve."""
        return nesting.common_stages(self._all)

    def holdback_chars(self) -> int:
        """Return the longest hold-back among the members."""
        return nesting.longest_holdback(self._all)

    def first_open(self, text: str) -> int:
        """Return the leftmost place where a member's match may have begun."""
        return nesting.first_open(self._all, text)

    def rule(self, names: Sequence[str]) -> Rule:
        """Return the strategy with its options bound, for ballots in the order of `names`."""
        match self.strategy:
            case "any":
                return tally_any
            case "all":
                return tally_all
            case "first_available":
                return tally_first_available
            case "majority":
                return partial(tally_majority, min_answers=self.min_answers, on_tie=self.on_tie)
            case "quorum":
                return partial(
                    tally_quorum,
                    count=self.count or 1,
                    min_score=self.min_score,
                    min_answers=self.min_answers,
                    missing=self.missing,
                )
            case "weighted":
                return partial(
                    tally_weighted,
                    weights=[self.weights.get(name, 1.0) for name in names],
                    threshold=self.threshold,
                    min_weight=self.min_weight,
                    use_scores=self.use_scores,
                )

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Ask the panel, then the reserve if that is needed, and count."""
        now = asyncio.get_running_loop().time
        end = now() + nesting.budget_s(self, context)
        exhaustive = nesting.is_exhaustive(self, context)
        found = await self._poll(self.panel, exchange, context, end - now(), exhaustive=exhaustive)
        asked = list(self.panel)
        outcome = first = self._count(asked, found)
        for name in self.reserve:
            if not inconclusive(outcome) or end <= now():
                break
            found |= await self._poll((name,), exchange, context, end - now(), exhaustive=exhaustive)
            asked.append(name)
            outcome = self._count(asked, found)
        members = [found.get(name) or Assessment(name, Verdict(Label.UNKNOWN, Cause.SKIPPED)) for name in self.members]
        counted = _Counted(outcome, first.tied or outcome.tied, len(self.panel), len(asked))
        mild = nesting.let_through(context) or nesting.NAMED
        rest = self.rule(asked)([_to_ballot(found[name].verdict, mild) for name in asked])
        placed = rest.label is not Label.UNSAFE or not nesting.may_redact(context)
        return _to_verdict(counted, members, rest.cause, placed=placed)

    async def _poll(
        self, names: Sequence[str], exchange: Exchange, context: Context, seconds: float, *, exhaustive: bool
    ) -> dict[str, Assessment]:
        rule = self.rule(names)
        single = len(names) == 1

        def decided(verdicts: Verdicts) -> bool:
            if exhaustive or single:
                return False
            outcome = settled(rule, [_ballot(verdicts.get(name)) for name in names])
            # With a reserve an unknown outcome is not the end, and every vote still missing may matter.
            if outcome is None or (self.reserve and outcome.label is Label.UNKNOWN):
                return False
            mild = nesting.let_through(context)
            if not mild or outcome.label is not Label.UNSAFE:
                return True
            return settled(rule, [_ballot(verdicts.get(name), mild) for name in names]) is not None

        def in_flight(verdicts: Verdicts) -> int:
            ballots = [_ballot(verdicts.get(name)) for name in names]
            return ballots.count(None) if exhaustive or self.start == "all" else count_needed(rule, ballots)

        members = {name: self.members[name] for name in names}
        return await Poll(members, exchange, context, seconds, decided, in_flight, self.hedge_s).run()

    def _count(self, names: Sequence[str], found: Mapping[str, Assessment]) -> Outcome:
        return self.rule(names)([_to_ballot(found[name].verdict) for name in names])


def count_needed(rule: Rule, ballots: Sequence[Ballot | None]) -> int:
    """Return how many outstanding members, in order, have to run so that they could settle the label by agreeing."""
    outstanding = [index for index, ballot in enumerate(ballots) if ballot is None]
    for needed in range(1, len(outstanding)):
        for label in (Label.SAFE, Label.UNSAFE):
            assumed = list(ballots)
            for index in outstanding[:needed]:
                assumed[index] = Ballot(label)
            if settled(rule, assumed):
                return needed
    return len(outstanding)


def advise(vote: Vote) -> tuple[str, ...]:
    """Return what `validate` should tell the author of a panel, one sentence each (J-09); empty if nothing."""
    models: dict[str, list[str]] = {}
    for name, member in vote.members.items():
        model: str | None = getattr(member, "model", None)
        if model is not None:
            models.setdefault(model, []).append(name)
    shared = [
        f"members {', '.join(names)} ask the same model {model!r}: their errors are the same too, and count as one vote"
        for model, names in models.items()
        if len(names) > 1
    ]
    if len(models) > 1 and not shared:
        return ()
    if len(models) == len(vote.members) == 1:
        return ("a panel of one judge adds cost and no second opinion",)
    return tuple(shared)


def inconclusive(outcome: Outcome) -> bool:
    """Say whether the reserve would be asked."""
    return outcome.label is Label.UNKNOWN and outcome.detail in ("tie", "quorum_miss")


def _to_ballot(verdict: Verdict, mild: Mapping[Scope, Passing] = MappingProxyType({})) -> Ballot:
    """Return a vote, or the one on what is left of a text that goes on with its findings masked or noted.

    Whose finding lets the text go on has no objection to the rest, if that was judged.
    """
    if verdict.label is Label.UNSAFE and nesting.passes(verdict, mild):
        return Ballot(Label.SAFE, 0.0) if verdict.rest is None else Ballot(Label.UNKNOWN, None, verdict.rest)
    return Ballot(verdict.label, verdict.score, verdict.cause)


def _ballot(verdict: Verdict | None, mild: Mapping[Scope, Passing] = MappingProxyType({})) -> Ballot | None:
    return None if verdict is None else _to_ballot(verdict, mild)


@dataclass(frozen=True, slots=True)
class _Counted:
    outcome: Outcome
    tie: bool
    configured: int
    asked: int


def _to_verdict(counted: _Counted, members: Sequence[Assessment], rest: Cause | None, *, placed: bool) -> Verdict:
    """Return the verdict of a panel.

    Args:
        counted: its outcome.
        members: what each member said.
        rest: why there is no outcome for what is left when all that was found is masked.
        placed: it names places: masking them leaves nothing that is unsafe by the same count.
    """
    verdicts = [member.verdict for member in members]
    answered = [verdict for verdict in verdicts if verdict.label is not Label.UNKNOWN]
    scores = [verdict.score for verdict in answered if verdict.score is not None]
    # A verdict of safe carries no finding, whatever the minority found; that stays visible in `members`.
    objecting = [verdict for verdict in answered if verdict.label is Label.UNSAFE]
    finding = [] if counted.outcome.label is Label.SAFE else objecting
    return Verdict(
        counted.outcome.label,
        counted.outcome.cause,
        score=sum(scores) / len(scores) if scores else None,
        categories=tuple(dict.fromkeys([name for verdict in finding for name in verdict.categories])),
        spans=_join_spans(finding) if placed else (),
        rest=rest if counted.outcome.label is Label.UNSAFE else None,
        detail=counted.outcome.detail,
        transform=next((verdict.transform for verdict in finding if verdict.transform), None),
        scope=gravest([verdict.scope for verdict in finding]),
        tokens=nesting.total_tokens(members),
        cost=nesting.total_cost(members),
        members=tuple(members),
        extras=_extras(counted, members),
    )


def _join_spans(finding: Sequence[Verdict]) -> tuple[Span, ...]:
    # If one of those who object cannot say where, redacting what the others found would not answer its objection.
    if not all(verdict.spans for verdict in finding):
        return ()
    return tuple(dict.fromkeys([span for verdict in finding for span in verdict.spans]))


def _extras(counted: _Counted, members: Sequence[Assessment]) -> dict[str, Any]:
    causes = [member.verdict.cause for member in members]
    return {
        "judges_configured": counted.configured,
        "judges_succeeded": causes.count(None),
        "judges_failed": sum([cause is not None and cause not in (*_ABSTENTIONS, Cause.SKIPPED) for cause in causes]),
        "judges_abstained": sum([cause in _ABSTENTIONS for cause in causes]),
        "replacements_used": counted.asked - counted.configured,
        "tie": counted.tie,
        "agreement": agreement([member.verdict.label for member in members]),
        "labels": {member.supervisor: str(member.verdict.label) for member in members},
    }
