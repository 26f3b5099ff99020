"""Policies as configured, the rule each supervisor is held to, and the decision: a pure function of verdicts.

Source of every table here: the guarding rules G-15 to G-19 of docs/policies.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from proxy.wire.servers import check_server
from supervisors.light import light_dataclass
from supervisors.types import Assessment, Cause, Label, Scope, Stage, Verdict

OnUnsafe = Literal["block", "redact", "log"]
OnUnknown = Literal["block", "log"]
Mode = Literal["blocking", "parallel", "shadow"]
StreamMode = Literal["hold", "window", "sentence", "observe"]
Action = Literal["pass", "flag", "redact", "block"]
Reason = Literal["unsafe", "unknown"]

_SAFE = Label.SAFE
_STRICT: ConfigDict = ConfigDict(frozen=True, extra="forbid")


def _by_cause(value: Any) -> Any:
    return {"default": value} if isinstance(value, str) else value


class UnknownPolicy(BaseModel):
    """What to do on an unknown verdict, by cause; causes not named take `default` (G-17)."""

    model_config = _STRICT

    default: OnUnknown = "block"
    error: OnUnknown | None = None
    timeout: OnUnknown | None = None
    overloaded: OnUnknown | None = None
    unparsable: OnUnknown | None = None
    over_limit: OnUnknown | None = None
    unsupported: OnUnknown | None = None
    refused: OnUnknown | None = None
    abstained: OnUnknown | None = None

    def action(self, cause: Cause) -> OnUnknown:
        """Return what this cause leads to."""
        own: OnUnknown | None = getattr(self, cause.value, None)
        return own or self.default


UnknownSetting = Annotated[UnknownPolicy, BeforeValidator(_by_cause)]


class ScopePolicy(BaseModel):
    """What to do when the finding is in one scope (G-04)."""

    model_config = _STRICT

    on_unsafe: OnUnsafe


class StreamPolicy(BaseModel):
    """How a streamed reply is held and released (guarding §5, §7).

    Without `overlap_chars`, windows overlap by what the supervisors' longest match needs, at least 256 characters.
    """

    model_config = _STRICT

    mode: StreamMode = "window"
    window_chars: int = Field(default=1000, ge=1)
    overlap_chars: int | None = Field(default=None, ge=0)
    max_buffer_bytes: int = Field(default=4 * 1024 * 1024, ge=1)
    on_buffer_exceeded: Literal["block", "window"] = "block"
    on_unstreamable: Literal["hold", "refuse"] = "hold"
    on_block: Literal["cancel", "drain"] = "cancel"
    block_frame: Literal["refusal", "error"] = "refusal"
    heartbeat_s: float = Field(default=15.0, gt=0)


class StagePolicy(BaseModel):
    """One stage of a policy: who judges, and what their verdicts lead to."""

    model_config = _STRICT

    forced: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    default_on: bool = False
    opt_out: bool = False
    mode: Mode = "blocking"
    on_unsafe: OnUnsafe | None = None
    on_unknown: UnknownSetting | None = None
    on_opaque: Literal["pass", "block"] = "pass"
    on_unseen_history: Literal["log", "block"] = "log"
    allowed_tools: tuple[str, ...] | None = None
    timeout_s: float = Field(default=30.0, gt=0)
    exhaustive: bool = False
    scopes: dict[Scope, ScopePolicy] = {}

    @property
    def unsafe_action(self) -> OnUnsafe:
        """Return `on_unsafe` with its default: block, or log in shadow mode (G-18)."""
        return self.on_unsafe or ("log" if self.mode == "shadow" else "block")

    @property
    def unknown_policy(self) -> UnknownPolicy:
        """Return `on_unknown` with its default: block, or log in shadow mode (G-18)."""
        return self.on_unknown or UnknownPolicy(default="log" if self.mode == "shadow" else "block")


class OutputPolicy(StagePolicy):
    """The output stage also says how streams are held."""

    stream: StreamPolicy = StreamPolicy()
    block_scope: Literal["choice", "response"] = "choice"
    on_signed: Literal["strip", "block"] = "strip"


class BlockPolicy(BaseModel):
    """What the caller of a blocked exchange gets (wire §5)."""

    model_config = _STRICT

    input: Literal["error", "refusal"] = "error"
    output: Literal["refusal", "error"] = "refusal"
    message: str = "This request cannot be completed because of a content policy."


def full_route(pattern: str) -> str:
    """Return a route as records name it: with ``/v1``, without a slash at its end; callers may write it so (W-02)."""
    head = pattern.split("/", 2)[1] if pattern.startswith("/") else ""
    bare = pattern.rstrip("/") if head else pattern
    return f"/v1{bare}" if head and head != "v1" and not set(head) & set("*?[") else bare


Routes = tuple[Annotated[str, AfterValidator(full_route)], ...]


class Attach(BaseModel):
    """Which exchanges a policy applies to: all given dimensions must match; ``*`` is a wildcard."""

    model_config = _STRICT

    models: tuple[str, ...] = ("*",)
    keys: tuple[str, ...] = ("*",)
    routes: Routes = ("*",)
    tags: tuple[str, ...] = ()


class Policy(BaseModel):
    """A named policy."""

    model_config = _STRICT

    attach: Attach = Attach()
    input: StagePolicy = StagePolicy()
    output: OutputPolicy = OutputPolicy()
    on_block: BlockPolicy = BlockPolicy()
    mcp_servers: tuple[Annotated[str, AfterValidator(check_server)], ...] = ()

    def named(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the supervisors named, by the setting that names them."""
        stages: list[tuple[str, StagePolicy]] = [("input", self.input), ("output", self.output)]
        return [
            (f"{stage}.{how}", names)
            for stage, settings in stages
            for how, names in (("forced", settings.forced), ("optional", settings.optional))
        ]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one supervisor's verdict is treated: the strictest setting over all matching policies (G-16).

    Args:
        supervisor: configured name.
        on_unsafe: action on an unsafe verdict in the conversation scope.
        on_unknown: action by cause.
        on_scope: actions for findings in other scopes.
        enforce: false in shadow and observe mode: recorded, never acted on.
        policies: names of the policies that prescribe it.
    """

    supervisor: str
    on_unsafe: OnUnsafe = "block"
    on_unknown: UnknownPolicy = field(default_factory=UnknownPolicy)
    on_scope: Mapping[Scope, OnUnsafe] = field(default_factory=dict[Scope, OnUnsafe])
    enforce: bool = True
    policies: tuple[str, ...] = ("default",)

    def unsafe_action(self, scope: Scope | None) -> OnUnsafe:
        """Return the action on an unsafe verdict found in `scope`."""
        return self.on_scope.get(scope, self.on_unsafe) if scope is not None else self.on_unsafe


@light_dataclass(frozen=True, slots=True)
class Decision:
    """What a policy makes of the verdicts of one stage and choice.

    Args:
        policy: name of the policy.
        stage: input or output.
        choice: reply choice, None on input.
        label: verdict of the stage: unsafe if any is, else unknown if any is, else safe.
        cause: first cause of an unknown stage verdict; ``skipped`` when nobody judged.
        flagged: some enforcing verdict is unsafe.
        blocked: the content does not pass.
        redacted: the content passes with its spans replaced.
        action: pass, flag, redact or block.
        reason: unsafe or unknown, None on pass.
        enforce: false for the decision a shadow stage would have made.
        seconds: duration of the stage.
        late_spans: spans that began in text already released (must stay 0).
    """

    policy: str
    stage: Stage
    choice: int | None
    label: Label
    cause: Cause | None
    flagged: bool
    blocked: bool
    redacted: bool
    action: Action
    reason: Reason | None
    enforce: bool = True
    seconds: float = 0.0
    late_spans: int = 0


_RANK: Mapping[Action, int] = {"pass": 0, "flag": 1, "redact": 2, "block": 3}


def judge_verdict(rule: Rule, verdict: Verdict) -> tuple[Action, Reason | None]:
    """Return what one verdict alone would lead to under its rule."""
    if verdict.label is _SAFE or verdict.cause is Cause.SKIPPED:
        return "pass", None
    if verdict.cause is not None:
        return ("block" if rule.on_unknown.action(verdict.cause) == "block" else "flag"), "unknown"
    action = rule.unsafe_action(verdict.scope)
    if action == "block" or (action == "redact" and not verdict.spans):
        return "block", "unsafe"
    if _leaves_unjudged(rule, verdict.rest):
        return "block", "unknown"
    return ("redact" if action == "redact" else "flag"), "unsafe"


def _leaves_unjudged(rule: Rule, rest: Cause | None) -> bool:
    """Say whether the text beside a finding that is let through has no verdict, and must not pass without one."""
    return rest is not None and rest is not Cause.SKIPPED and rule.on_unknown.action(rest) == "block"


def settles(rule: Rule, verdict: Verdict) -> bool:
    """Say whether this verdict alone makes the block certain, so that the others need not be awaited (G-22)."""
    return verdict.label is not _SAFE and rule.enforce and judge_verdict(rule, verdict)[0] == "block"


def decide(
    policy: str, stage: Stage, choice: int | None, rules: Sequence[Rule], assessments: Sequence[Assessment]
) -> Decision:
    """Decide one policy, stage and choice from the verdicts; pure.

    The strictest action wins; `reason` is unsafe if an unsafe finding alone would have caused that action.

    Args:
        policy: name of the policy, for the record.
        stage: input or output.
        choice: reply choice, None on input.
        rules: one a supervisor, all enforcing or all shadow.
        assessments: results by supervisor name; a missing one counts as skipped.
    """
    verdicts = {assessment.supervisor: assessment.verdict for assessment in assessments}
    action: Action = "pass"
    reason: Reason | None = None
    flagged = False
    for rule in rules:
        verdict = verdicts.get(rule.supervisor)
        if verdict is None:
            continue
        flagged = flagged or verdict.label is Label.UNSAFE
        own, why = judge_verdict(rule, verdict)
        if _RANK[own] > _RANK[action] or (own == action and why == "unsafe"):
            action, reason = own, why
    label, cause = label_stage([verdicts[rule.supervisor] for rule in rules if rule.supervisor in verdicts])
    return Decision(
        policy=policy,
        stage=stage,
        choice=choice,
        label=label,
        cause=cause,
        flagged=flagged,
        blocked=action == "block",
        redacted=action == "redact",
        action=action,
        reason=reason if action != "pass" else None,
        enforce=all(rule.enforce for rule in rules),
    )


def label_stage(verdicts: Sequence[Verdict]) -> tuple[Label, Cause | None]:
    """Return the verdict of a stage and, if unknown, its cause; a stage nobody judged is ``unknown/skipped``."""
    labels = [verdict.label for verdict in verdicts]  # lists: `in` goes by identity, and hashes no enum
    if Label.UNSAFE in labels:
        return Label.UNSAFE, None
    causes = [cause for verdict in verdicts if (cause := verdict.cause) is not None and cause is not Cause.SKIPPED]
    if causes:
        return Label.UNKNOWN, next(cause for cause in Cause if cause in causes)
    return (Label.SAFE, None) if Label.SAFE in labels else (Label.UNKNOWN, Cause.SKIPPED)
