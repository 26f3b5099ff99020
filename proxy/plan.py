"""Which policies apply to a request, and what they merge to: the strictest setting for each supervisor (G-16)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Literal

from proxy.merging import merge_blocks, merge_streams, merge_unknown, strictest
from proxy.policy import (
    Attach,
    BlockPolicy,
    Mode,
    OnUnsafe,
    OutputPolicy,
    Policy,
    Rule,
    StagePolicy,
    StreamPolicy,
)
from proxy.wire.errors import RequestError, invalid
from supervisors.light import light_dataclass
from supervisors.nesting import want_signals
from supervisors.opaque import HistoryCheck, OpaqueCheck, ToolCheck
from supervisors.scopes import SCOPES
from supervisors.types import Passing, Scope, Stage, Supervisor

_UNSAFE_ORDER: Sequence[OnUnsafe] = ("log", "redact", "block")
_MODE_ORDER: Sequence[Mode] = ("shadow", "parallel", "blocking")
_LONGEST_NAME = 256
"""Characters of a model name that a plan is kept for: names come from callers."""

OPAQUE = "opaque"
"""Reserved name of the built-in check behind `on_opaque: block`."""
UNSEEN = "unseen_history"
"""Reserved name of the built-in check behind `on_unseen_history: block`."""
TOOLS = "allowed_tools"
"""Reserved name of the built-in check behind `allowed_tools`."""
_BUILT_IN: Mapping[str, Supervisor] = {OPAQUE: OpaqueCheck(), UNSEEN: HistoryCheck()}

Named = tuple[tuple[str, Supervisor], ...]


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage of the merged plan.

    Args:
        stage: input or output.
        blocking: judged before the upstream call (input) or before release (output).
        parallel: judged beside the upstream call; input only.
        shadow: judged after the reply, never acted on.
        rules: by supervisor name, how its verdict is treated.
        policies: for each policy that takes part, the names of its supervisors here.
        timeout_s: the smallest of all.
        exhaustive: ask everybody even when the block is certain.
        stream: the strictest stream setting; meaningful on output.
        block_scope: a block of one choice blocks only that choice, or the whole response.
        on_signed: what a redaction inside signed text does: leave out its part of the reply, or block the reply.
        names: every supervisor the stage prescribes.
        wants_signals: one of its supervisors reads what the provider says of its own filters.
        selves: the supervisors that ask the model itself.
        deciding: policy and mode of every decision that is made when all of them have judged.
        let_through: by scope, the mildest thing that becomes of a finding there, where that is not a block.
        redacts: a verdict of this stage can lead to a redaction.
    """

    stage: Stage
    blocking: Named = ()
    parallel: Named = ()
    shadow: Named = ()
    rules: Mapping[str, Rule] = field(default_factory=dict[str, Rule])
    policies: tuple[tuple[str, tuple[str, ...]], ...] = ()
    timeout_s: float = 30.0
    exhaustive: bool = False
    stream: StreamPolicy = field(default_factory=StreamPolicy)
    block_scope: Literal["choice", "response"] = "choice"
    on_signed: Literal["strip", "block"] = "strip"
    names: tuple[str, ...] = field(init=False)
    wants_signals: bool = field(init=False)
    selves: frozenset[str] = field(init=False)
    deciding: tuple[tuple[str, bool], ...] = field(init=False)
    let_through: Mapping[Scope, Passing] = field(init=False)
    redacts: bool = field(init=False)

    def __post_init__(self) -> None:  # once a plan, not once a request
        named = (*self.blocking, *self.parallel, *self.shadow)
        selves = frozenset({name for name, supervisor in named if getattr(supervisor, "judges_itself", False)})
        object.__setattr__(self, "names", tuple([name for name, _ in named]))
        object.__setattr__(self, "wants_signals", want_signals(named))
        object.__setattr__(self, "selves", selves)
        object.__setattr__(self, "deciding", self.deciding_of(self.names))
        rules = [rule for rule in self.rules.values() if rule.enforce]
        actions = [{rule.unsafe_action(scope) for rule in rules} for scope in SCOPES]
        mildest: dict[Scope, Passing] = {
            scope: "log" if "log" in found else "redact"
            for scope, found in zip(SCOPES, actions, strict=True)
            if found & {"log", "redact"}
        }
        object.__setattr__(self, "let_through", mildest)
        object.__setattr__(self, "redacts", any("redact" in found for found in actions))

    def deciding_of(self, names: Sequence[str]) -> tuple[tuple[str, bool], ...]:
        """Return policy and mode (true: enforcing) of every decision over the verdicts of these supervisors."""
        modes = [
            (policy, {self.rules[name].enforce for name in supervisors if name in names})
            for policy, supervisors in self.policies
        ]
        return tuple([(policy, enforce) for policy, found in modes for enforce in (True, False) if enforce in found])

    def observing(self) -> StagePlan:
        """Return the same stage with nothing enforced: observe mode records and alters nothing."""
        return replace(self, rules={name: replace(rule, enforce=False) for name, rule in self.rules.items()})


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens to a request under all policies that match it.

    Args:
        policies: names of those that match.
        input: the stage before the model is called.
        output: the stage before the reply is released.
        on_block: what the caller of a blocked exchange gets.
        mcp_servers: addresses that a caller may have the provider call; each policy must allow them.
        hidden: those that only judge in the shadow: recorded, never shown to callers.
        shown: the others.
        prescribed: every (supervisor, stage) that must have a verdict in the record (O-11).
    """

    policies: tuple[str, ...]
    input: StagePlan
    output: StagePlan
    on_block: BlockPolicy = field(default_factory=BlockPolicy)
    mcp_servers: tuple[tuple[str, ...], ...] = ()
    hidden: frozenset[str] = frozenset()
    shown: tuple[str, ...] = field(init=False)
    prescribed: tuple[tuple[str, Stage], ...] = field(init=False)

    def __post_init__(self) -> None:
        inputs: list[tuple[str, Stage]] = [(name, "input") for name in self.input.names]
        prescribed = (*inputs, *[(name, "output") for name in self.output.names])
        object.__setattr__(self, "prescribed", prescribed)
        object.__setattr__(self, "shown", tuple([name for name in self.policies if name not in self.hidden]))


@light_dataclass(frozen=True, slots=True)
class Request:
    """The dimensions policies are attached by, what the caller asked to add, and whether history is out of sight."""

    model: str
    key: str | None
    route: str
    tags: tuple[str, ...] = ()
    asked: tuple[str, ...] | None = None
    unseen: bool = False


class Planner:
    """Match and merge policies; the result is cached, because there are few combinations of declared names.

    Args:
        policies: by name.
        supervisors: by name.
        max_cached: combinations kept; beyond that the cache starts anew.
        remember: gives a supervisor the verdicts it has said to one caller (name, supervisor, name of the key).
    """

    def __init__(
        self,
        policies: Mapping[str, Policy],
        supervisors: Mapping[str, Supervisor],
        max_cached: int = 4096,
        remember: Callable[[str, Supervisor, str], Supervisor] | None = None,
    ) -> None:
        self._remember = remember
        self._policies = policies
        self._names = sorted(policies)
        self._supervisors = supervisors
        self._cache: dict[Request, Plan] = {}
        self._max_cached = max_cached

    def plan(self, request: Request) -> Plan:
        """Return the merged plan.

        Raises:
            RequestError: 400 ``unknown_guardrail`` when the caller asks for a supervisor that is not optional here.
        """
        found = self._cache.get(request)
        if found is None:
            found = self._build(request)
            if len(request.model) > _LONGEST_NAME:
                return found
            if len(self._cache) >= self._max_cached:
                self._cache.clear()
            self._cache[request] = found
        return found

    def plan_only(self, policy: str) -> Plan:
        """Return the plan of one policy alone, whatever it is attached to (for checks).

        Raises:
            RequestError: 400 for a policy that is not configured.
        """
        if policy not in self._policies:
            known = ", ".join(sorted(self._policies)) or "none"
            raise invalid(f"Unknown policy {policy[:64]!r}; known are: {known}.", "policy")
        request = Request("*", None, "*")
        return self._plan_of([(policy, self._policies[policy])], request, None)

    def addable(self, request: Request) -> tuple[tuple[str, tuple[Stage, ...], bool], ...]:
        """Return (name, stages, optional) of every supervisor of the matching policies but the shadows (W-36)."""
        found: dict[str, tuple[set[Stage], bool]] = {}
        for _, policy in self._matching(request):
            for stage, settings in _stages(policy):
                if settings.mode == "shadow":
                    continue
                for name in (*settings.forced, *settings.optional):
                    stages, optional = found.get(name, (set[Stage](), True))
                    stages.add(stage)
                    found[name] = (stages, optional and name not in settings.forced)
        return tuple([(name, tuple(sorted(stages)), optional) for name, (stages, optional) in sorted(found.items())])

    def _matching(self, request: Request) -> list[tuple[str, Policy]]:
        """Return the policies in the order of their names, so that their order in the file changes nothing (G-16)."""
        return [(name, self._policies[name]) for name in self._names if matches(self._policies[name].attach, request)]

    def _build(self, request: Request) -> Plan:
        matching = self._matching(request)
        optional = {name for _, policy in matching for _, stage in _stages(policy) for name in stage.optional}
        forced = {name for _, policy in matching for _, stage in _stages(policy) for name in stage.forced}
        for name in request.asked or ():
            if name not in optional and name not in forced:
                known = ", ".join([name for name, _, addable in self.addable(request) if addable]) or "none"
                msg = f"Unknown guardrail {name[:64]!r}; the ones you may add are: {known}."
                raise RequestError(400, "unknown_guardrail", msg, param="guardrails")
        return self._plan_of(matching, request, request.key or "")

    def _plan_of(self, matching: Sequence[tuple[str, Policy]], request: Request, caller: str | None) -> Plan:
        def find(name: str) -> Supervisor:
            found = _BUILT_IN.get(name) or self._supervisors[name]
            # A plan that several callers share remembers nothing: what is kept for one could tell another.
            return found if self._remember is None or caller is None else self._remember(name, found, caller)

        return Plan(
            policies=tuple([name for name, _ in matching]),
            input=self._merge("input", [(n, p.input) for n, p in matching], request, find),
            output=self._merge("output", [(n, p.output) for n, p in matching], request, find),
            on_block=merge_blocks([policy.on_block for _, policy in matching]),
            mcp_servers=tuple([policy.mcp_servers for _, policy in matching]),
            hidden=frozenset({name for name, policy in matching if _is_hidden(policy)}),
        )

    def _merge(
        self,
        stage: Stage,
        settings: Sequence[tuple[str, StagePolicy]],
        request: Request,
        find: Callable[[str], Supervisor],
    ) -> StagePlan:
        chosen = [
            (name, policy, _with_built_in(policy, choose(policy, request.asked), unseen=request.unseen))
            for name, policy in settings
        ]
        holders: dict[str, list[tuple[str, StagePolicy]]] = {}
        for name, policy, supervisors in chosen:
            for supervisor in supervisors:
                holders.setdefault(supervisor, []).append((name, policy))
        modes: dict[str, Mode] = {
            s: strictest(_MODE_ORDER, (policy.mode for _, policy in held)) for s, held in holders.items()
        }
        active = [policy for _, policy, supervisors in chosen if supervisors]
        # A shadow policy must not change what the others do to a reply.
        active = [policy for policy in active if policy.mode != "shadow"] or active
        outputs = [policy for policy in active if isinstance(policy, OutputPolicy)]

        def named(*wanted: Mode) -> Named:
            lists = [policy.allowed_tools for _, policy in settings if policy.allowed_tools is not None]
            chosen = [name for name, mode in modes.items() if mode in wanted]
            return tuple([(name, ToolCheck(lists) if name == TOOLS else find(name)) for name in chosen])

        return StagePlan(
            stage=stage,
            blocking=named("blocking") if stage == "input" else named("blocking", "parallel"),
            parallel=named("parallel") if stage == "input" else (),
            shadow=named("shadow"),
            rules={s: _merge_rule(s, held, enforce=modes[s] != "shadow") for s, held in holders.items()},
            policies=tuple([(name, supervisors) for name, _, supervisors in chosen if supervisors]),
            timeout_s=min([policy.timeout_s for policy in active], default=30.0),
            exhaustive=any(policy.exhaustive for policy in active),
            stream=merge_streams([policy.stream for policy in outputs]),
            block_scope="response" if any(p.block_scope == "response" for p in outputs) else "choice",
            on_signed=strictest(("strip", "block"), (p.on_signed for p in outputs)),
        )


def _with_built_in(policy: StagePolicy, chosen: tuple[str, ...], *, unseen: bool) -> tuple[str, ...]:
    """Add the built-in checks where the policy blocks on what nobody can read, or on what nobody here has seen."""
    opaque = (OPAQUE,) if policy.on_opaque == "block" else ()
    history = (UNSEEN,) if unseen and policy.on_unseen_history == "block" else ()
    tools = (TOOLS,) if policy.allowed_tools is not None else ()
    return (*chosen, *opaque, *history, *tools)


def policy_rules(name: str, policy: Policy) -> Mapping[Literal["input", "output", "stream"], Sequence[Rule]]:
    """Return the rules this policy alone sets, every optional supervisor included: what `verify` decides again with.

    ``stream`` is there when streamed replies are only observed.
    """
    rules: dict[Literal["input", "output", "stream"], Sequence[Rule]] = {}
    for stage, settings in _stages(policy):
        supervisors = _with_built_in(settings, (*settings.forced, *settings.optional), unseen=True)
        enforce = settings.mode != "shadow"
        rules[stage] = [_merge_rule(one, [(name, settings)], enforce=enforce) for one in dict.fromkeys(supervisors)]
    if policy.output.stream.mode == "observe":
        rules["stream"] = [replace(rule, enforce=False) for rule in rules["output"]]
    return rules


def forced_names(policy: Policy) -> Mapping[Stage, Sequence[str]]:
    """Return, by stage, the supervisors no caller can leave out (G-15)."""
    return {stage: _with_built_in(settings, settings.forced, unseen=False) for stage, settings in _stages(policy)}


def _stages(policy: Policy) -> tuple[tuple[Stage, StagePolicy], tuple[Stage, StagePolicy]]:
    return ("input", policy.input), ("output", policy.output)


def _is_hidden(policy: Policy) -> bool:
    """Say whether a policy judges, and does so in the shadow alone."""
    judging = [s for _, s in _stages(policy) if _with_built_in(s, (*s.forced, *s.optional), unseen=True)]
    return bool(judging) and all(settings.mode == "shadow" for settings in judging)


def matches(attach: Attach, request: Request) -> bool:
    """Say whether all given dimensions match; `*` is a wildcard."""
    if attach.tags and not set(attach.tags) & set(request.tags):
        return False
    return (
        _any_match(attach.models, request.model)
        and _any_match(attach.keys, request.key or "")
        and _any_match(attach.routes, request.route)
    )


def _any_match(patterns: Iterable[str], value: str) -> bool:
    return any(pattern == "*" or fnmatchcase(value, pattern) for pattern in patterns)


def choose(policy: StagePolicy, asked: Sequence[str] | None) -> tuple[str, ...]:
    """Return the supervisors that run: the forced ones always, optional ones as asked or by default (G-15)."""
    if asked is None:
        added = policy.optional if policy.default_on else ()
    else:
        stay_on = policy.default_on and not (policy.opt_out and not asked)
        added = tuple([name for name in policy.optional if stay_on or name in asked])
    return tuple(dict.fromkeys((*policy.forced, *added)))


def _merge_rule(supervisor: str, held: Sequence[tuple[str, StagePolicy]], *, enforce: bool) -> Rule:
    policies = [policy for _, policy in held]
    on_unsafe: OnUnsafe = strictest(_UNSAFE_ORDER, (policy.unsafe_action for policy in policies))
    scopes: dict[Scope, OnUnsafe] = {}
    for scope in SCOPES:
        action: OnUnsafe = strictest(_UNSAFE_ORDER, (_scope_action(policy, scope) for policy in policies))
        if action != on_unsafe:
            scopes[scope] = action
    return Rule(
        supervisor=supervisor,
        on_unsafe=on_unsafe,
        on_unknown=merge_unknown([policy.unknown_policy for policy in policies]),
        on_scope=scopes,
        enforce=enforce,
        policies=tuple([name for name, _ in held]),
    )


def _scope_action(policy: StagePolicy, scope: Scope) -> OnUnsafe:
    """Return what a policy does about a finding in a scope: as the stage, but tool definitions are logged (G-04)."""
    own = policy.scopes.get(scope)
    if own is not None:
        return own.on_unsafe
    return "log" if scope == "tool_def" else policy.unsafe_action
