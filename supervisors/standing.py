"""Can a supervisor still call anything safe while some of the models behind it fail?"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from supervisors.cascade import Cascade
from supervisors.nesting import children
from supervisors.tally import Ballot
from supervisors.types import Cause, Endpoint, Label, Supervisor
from supervisors.vote import Vote, inconclusive

_SAFE = Ballot(Label.SAFE, 0.0)
_FAILED = Ballot(Label.UNKNOWN, cause=Cause.ERROR)


def can_clear(name: str, supervisor: Supervisor, failing: Collection[str]) -> bool:
    """Say whether something could be judged safe now: a panel by its own rule, a cascade by its own steps.

    Whoever does not fail is taken to find nothing, which is the best that can come of it.

    Args:
        name: as the record has it, members as ``panel/a``.
        supervisor: itself or a composite.
        failing: models and supervisors whose calls fail whatever they are asked.
    """
    if isinstance(supervisor, Vote):
        return _panel_clears(name, supervisor, failing)
    if isinstance(supervisor, Cascade):
        return _cascade_clears(name, supervisor, failing)
    members = children(supervisor)
    if members:  # of a plugin, whose rule nobody knows
        return any(can_clear(f"{name}/{member}", one, failing) for member, one in members.items())
    return not any(one in failing for one in _names(name, supervisor))


def _names(name: str, supervisor: Supervisor) -> Iterator[str]:
    yield name
    endpoint: object = getattr(supervisor, "endpoint", None)
    model: object = endpoint.model if isinstance(endpoint, Endpoint) else getattr(supervisor, "model", None)
    if isinstance(model, str):
        yield model


def _panel_clears(name: str, vote: Vote, failing: Collection[str]) -> bool:
    """Count as the panel does: who fails is unknown, all others say safe; the reserve is asked where that is needed."""
    ballots = {
        member: _SAFE if can_clear(f"{name}/{member}", one, failing) else _FAILED
        for member, one in vote.members.items()
    }
    asked = list(vote.panel)
    outcome = vote.rule(asked)([ballots[member] for member in asked])
    for member in vote.reserve:
        if not inconclusive(outcome):
            break
        asked.append(member)
        outcome = vote.rule(asked)([ballots[one] for one in asked])
    return outcome.label is Label.SAFE


def _cascade_clears(name: str, cascade: Cascade, failing: Collection[str]) -> bool:
    """Follow the steps: one that fails goes where `on_unknown` says, a sure one may end it, the last one has to."""
    safe = False
    for (step_name, supervisor), step in zip(cascade.nested.items(), cascade.steps, strict=True):
        safe = can_clear(f"{name}/{step_name}", supervisor, failing)
        if not safe and step.on_unknown != "next":
            return step.on_unknown == "safe"
        if safe and (step.low is not None or "safe" in (step.on_safe, step.on_unsafe)):
            return True
        if safe and not step.banded and "next" not in (step.on_safe, step.on_unsafe):
            return False
    return safe
