"""What composites share: the tree under them, what it can do as a whole, and when to stop waiting for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

from supervisors.ask import is_local, judged_stages, stream_capability
from supervisors.scopes import SCOPES, rank
from supervisors.types import Assessment, Capability, Context, Passing, Scope, Stage, Supervisor, Tokens, Verdict

NAMED: Mapping[Scope, Passing] = dict.fromkeys(SCOPES, "redact")
"""Stands for what is let through where nothing is: nobody masks anything, and the record may name what was found."""

MAX_DEPTH = 4
"""Composites may nest this deep (G-31)."""

_STRONGEST_FIRST: tuple[Capability, ...] = ("incremental", "windowed", "growth", "final")
_STEP_S = 0.01
_STEP_SHARE = 0.025


def children(supervisor: Supervisor) -> Mapping[str, Supervisor]:
    """Return the members of a composite by name; nothing for anything else."""
    nested: Mapping[str, Supervisor] = getattr(supervisor, "nested", {})
    return nested


def walk(name: str, supervisor: Supervisor) -> Iterator[tuple[str, Supervisor]]:
    """Yield the supervisor and everything under it, members as ``panel/a``."""
    yield name, supervisor
    for child, member in children(supervisor).items():
        yield from walk(f"{name}/{child}", member)


def want_signals(named: Iterable[tuple[str, Supervisor]]) -> bool:
    """Say whether one of these, or a member of one, reads what the provider says of its filters."""
    return any(getattr(part, "reads_signals", False) for name, each in named for _, part in walk(name, each))


def height(supervisor: Supervisor) -> int:
    """Count the levels of composites: 0 for a plain supervisor."""
    members = children(supervisor)
    return 1 + max([height(member) for member in members.values()]) if members else 0


def check_raw_depth(entry: object) -> None:
    """Refuse a config entry nested too deep before it is built; a YAML alias to itself has no end.

    Raises:
        ValueError: more than `MAX_DEPTH` composites inside one another.
    """
    _walk_raw(entry, 0)


def _walk_raw(entry: object, depth: int) -> None:
    if not isinstance(entry, dict):
        return
    options = cast("dict[str, object]", entry)  # keys of a YAML mapping
    members = options.get("members")
    steps = options.get("steps")
    nested: list[object] = list(cast("dict[str, object]", members).values()) if isinstance(members, dict) else []
    if isinstance(steps, list):
        nested += [
            cast("dict[str, object]", step).get("supervisor") for step in cast("list[object]", steps) if _is_dict(step)
        ]
    if nested and depth >= MAX_DEPTH:
        msg = f"composites nest deeper than {MAX_DEPTH}; a supervisor may not contain itself"
        raise ValueError(msg)
    for child in nested:
        _walk_raw(child, depth + 1)


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def check_depth(supervisor: Supervisor) -> None:
    """Refuse a composite that is too high.

    Raises:
        ValueError: more than `MAX_DEPTH` composites inside one another.
    """
    levels = height(supervisor)
    if levels > MAX_DEPTH:
        msg = f"composites nest {levels} deep; at most {MAX_DEPTH} are allowed"
        raise ValueError(msg)


def all_local(members: Sequence[Supervisor]) -> bool:
    """Say whether no member waits on anything outside the process."""
    return all(is_local(member) for member in members)


def weakest_capability(members: Sequence[Supervisor]) -> Capability:
    """Return the stream capability all members have."""
    return max([stream_capability(member) for member in members], key=_STRONGEST_FIRST.index)


def common_stages(members: Sequence[Supervisor]) -> frozenset[Stage]:
    """Return the stages every member can serve.

    Raises:
        ValueError: there is none.
    """
    stages = frozenset[Stage].intersection(*[judged_stages(member) for member in members])
    if not stages:
        msg = "the members have no stage in common: some judge only the input, others only the output"
        raise ValueError(msg)
    return stages


def longest_holdback(members: Sequence[Supervisor]) -> int:
    """Return the largest hold-back of the incremental members, in characters."""
    longest = 0
    for member in members:
        ask_member: Callable[[], int] | None = getattr(member, "holdback_chars", None)
        longest = max(longest, ask_member() if ask_member is not None else 0)
    return longest


def first_open(members: Sequence[Supervisor], text: str) -> int:
    """Return the leftmost place where a member's match may have begun; the length of the text if none can."""
    asked = [ask_member for member in members if (ask_member := getattr(member, "first_open", None)) is not None]
    return min([ask_member(text) for ask_member in asked], default=len(text))


def budget_s(supervisor: Supervisor, context: Context) -> float:
    """Return how long a composite may wait, so that it can still count the votes before its own deadline.

    The lower a composite is in the tree, the earlier it stops: a panel inside a panel delivers its outcome before
    the outer one counts it as late.
    """
    own: float | None = getattr(supervisor, "timeout_s", None)
    limit = context.remaining_s if own is None else min(own, context.remaining_s)
    margin = min(_STEP_S, _STEP_SHARE * limit) * (MAX_DEPTH + 1 - height(supervisor))
    return limit - margin


def is_exhaustive(supervisor: Supervisor, context: Context) -> bool:
    """Say whether everybody has to be asked: evaluation runs switch early exit off (G-22)."""
    return bool(getattr(supervisor, "exhaustive", False) or getattr(context, "exhaustive", False))


def let_through(context: Context) -> Mapping[Scope, Passing]:
    """Return in which scopes a finding does not block: the text goes on, with the finding masked or noted.

    Then those who were not asked yet have to judge the rest.
    """
    found: Mapping[Scope, Passing] = getattr(context, "let_through", {})
    return found


def may_redact(context: Context) -> bool:
    """Say whether what is found may be masked."""
    return "redact" in let_through(context).values()


def passes(verdict: Verdict, mild: Mapping[Scope, Passing]) -> bool:
    """Say whether a text with this finding may go on, and another one could still stop it.

    What is only noted ends nothing where no graver scope has a stricter action: all that could follow is noted, too.
    """
    scope = verdict.scope or "conversation"
    if mild.get(scope) == "redact":
        return bool(verdict.spans)
    return mild.get(scope) == "log" and any(mild.get(other) != "log" for other in SCOPES[: rank(scope)])


def total_tokens(assessments: Sequence[Assessment]) -> Tokens | None:
    """Add up the tokens of those that report any; None if nobody does."""
    counts = [found.verdict.tokens for found in assessments if found.verdict.tokens is not None]
    if not counts:
        return None
    return Tokens(sum([count.input for count in counts]), sum([count.output for count in counts]))


def total_cost(assessments: Sequence[Assessment]) -> float | None:
    """Add up the costs; None if nobody reports any, or somebody used tokens at an unknown price."""
    if any(found.verdict.tokens is not None and found.verdict.cost is None for found in assessments):
        return None
    costs = [found.verdict.cost for found in assessments if found.verdict.cost is not None]
    return sum(costs) if costs else None
