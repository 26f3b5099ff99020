"""What the harness shares with the proxy: policies as it reads them, its records, decisions as it makes them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, cast

from evals.asked import ask_only
from evals.fingerprint import has_embedded, to_plain
from evals.journal import JsonObject, sha256_json
from evals.reasons import reason_of
from evals.statistics.jsonable import Json
from evals.written import read_policies
from proxy.config import Config, parse_config
from proxy.declared import LocalUpstreamConfig, ModelConfig, UpstreamConfig
from proxy.local import LocalSettings, find_weights
from proxy.locating import name_file
from proxy.misrouted import find_misrouted
from proxy.plan import Plan, Planner, Request, StagePlan
from proxy.policy import Policy, StagePolicy
from proxy.redact import RedactionImpossible, redact_body
from proxy.reviving import keep_local
from proxy.stages import StageResult, conclude
from proxy.store.protocol import StoredRecord
from supervisors.embedded.shipped import shipped_weights
from supervisors.errors import ConfigError
from supervisors.self_judge import SelfJudge
from supervisors.types import Assessment, Cause, Label, Scope, Span, Stage, Supervisor, Verdict

CHAT_ROUTE = "/v1/chat/completions"
CHECK_ROUTE = "/v1/guardrails/check"
_NOWHERE = "none in the policy"
_DUMMY = {"upstreams": {_NOWHERE: {"base_url": "http://127.0.0.1:9/v1"}}}
BUILTIN_POLICIES = Path(str(resources.files("evals"))) / "policies"
Action = Literal["pass", "flag", "redact", "block"]


@dataclass(frozen=True, slots=True)
class Guard:
    """The supervision under evaluation, as configured.

    Args:
        name: file name of its policy.
        text: content of the file, for the manifest.
        config: as validated; its upstreams and models serve judges, the target's are added when it is served.
        sha256: hash of everything that can change a verdict or a decision (H-114).
    """

    name: str
    text: str
    config: Config
    sha256: str
    _plans: dict[str, Plan] = field(default_factory=dict[str, Plan], init=False, compare=False, repr=False)

    @property
    def supervisors(self) -> Mapping[str, Supervisor]:
        """Return the configured supervisors by name."""
        return self.config.supervisors

    def policies(self) -> Mapping[str, Policy]:
        """Return the policies by name."""
        return self.config.policies

    @property
    def upstreams(self) -> Mapping[str, UpstreamConfig | LocalUpstreamConfig]:
        """Return the model servers that the file names."""
        return {name: one for name, one in self.config.upstreams.items() if name != _NOWHERE}

    def models(self) -> Mapping[str, ModelConfig]:
        """Return the models that the file serves, which its judges ask by name."""
        return self.config.served_models() if self.upstreams else self.config.models

    @property
    def exhaustive(self) -> bool:
        """Say whether every stage asks everybody (H-134)."""
        stages = [stage for p in self.config.policies.values() for stage in (p.input, p.output)]
        return all(s.exhaustive or len(s.forced) + len(s.optional) < 2 or _only_notes(s) for s in stages)

    @property
    def self_judge(self) -> str | None:
        """Return the name of a supervisor that asks the answering model about its input, None without one."""
        stages = [policy.input for policy in self.config.policies.values()]
        asked = {name for stage in stages for name in (*stage.forced, *stage.optional)}
        found = [name for name, one in self.config.supervisors.items() if isinstance(one, SelfJudge) and name in asked]
        return found[0] if found else None

    def plan(self, model: str) -> Plan:
        """Return the plan of an ordinary request for a model, as the proxy merges it; merged once a model."""
        if model not in self._plans:
            self._plans[model] = Planner(self.policies(), self.supervisors).plan(Request(model, "evals", CHAT_ROUTE))
        return self._plans[model]


def _only_notes(stage: StagePolicy) -> bool:
    """Say whether no verdict blocks, so that nothing ends the stage before everybody was heard."""
    unknown = {action for action in stage.unknown_policy.model_dump().values() if action is not None}
    return {stage.unsafe_action, *unknown, *[one.on_unsafe for one in stage.scopes.values()]} <= {"log", None}


def load_guard(path: Path | None, environ: Mapping[str, str], only: Sequence[str] = ()) -> Guard:
    """Read a policy file: a proxy configuration of which only supervision is used.

    Args:
        path: None takes the built-in policy with the embedded guard.
        environ: where `{env: NAME}` is looked up.
        only: the supervisors that are asked; none for all that the policy asks.

    Raises:
        ConfigError: one line a problem.
    """
    file = path or BUILTIN_POLICIES / "embedded.yaml"
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"policy {file}: cannot be read: {reason_of(error)}"
        raise ConfigError(msg) from error
    return parse_guard(file, text, environ, only)


def parse_guard(file: Path, text: str, environ: Mapping[str, str], only: Sequence[str] = ()) -> Guard:
    """Read the text of a policy file; what it names is looked up beside `file`, the rest is as for `load_guard`."""
    body = read_policies(text, str(file))
    if not body.get("upstreams"):
        body |= _DUMMY
    body = ask_only(body, only)
    body.pop("keys", None)
    try:
        config = parse_config(json.dumps(body), environ, file.parent)  # JSON is YAML
        _refuse_strange(config)
    except ConfigError as error:
        raise type(error)(name_file(file, str(error).splitlines())) from error
    return make_guard(file.name, config, text)


def _refuse_strange(config: Config) -> None:
    """Refuse routes that there are not; what policies are attached to otherwise is that of the config's own callers."""
    strange = [f"{one.path}: {one.message}" for one in find_misrouted(config)]
    if strange:
        raise ConfigError("\n".join(strange))


def foreign_guard(url: str) -> Guard:
    """Return what is known of the supervision of a running proxy: that it is its own.

    Args:
        url: of the proxy.
    """
    return Guard(f"own policy of {url}", "", Config.model_validate(_DUMMY), sha256_json({"proxy": url}))


def make_guard(name: str, config: Config, text: str = "") -> Guard:
    """Wrap a validated configuration; tests and plug-ins may hold supervisors built in code."""
    if not config.policies:
        msg = f"policy {name}: names no policy; nothing would be judged"
        raise ConfigError(msg)
    return Guard(name, text, config, sha256_json(_fingerprint(config)))


def _fingerprint(config: Config) -> JsonObject:
    """Return what can change a verdict: policies, supervisors with what they have read, limits, our version.

    Not `config_version` of the proxy: that covers addresses and the journal, which are not part of an evaluation.
    """
    return {
        "supervisors": to_plain(config.supervisors),
        "policies": to_plain(config.policies),
        "limits": to_plain(config.limits),
        "weights": shipped_weights().header.weights_sha256 if has_embedded(config.supervisors) else None,
        "version": version("guardrail-proxy"),
    }


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server answers: base URL with ``/v1``, key or None, and the journal of a proxy of our own."""

    url: str
    key: str | None = field(default=None, repr=False)
    price: tuple[float, float] | None = None
    records: Callable[[str], Awaitable[Sequence[StoredRecord]]] | None = field(default=None, repr=False, compare=False)

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers of a call."""
        return {} if self.key is None else {"authorization": f"Bearer {self.key}"}


@asynccontextmanager
async def open_local() -> AsyncGenerator[Address]:
    """Start the local model in a child process, the one `use: local` starts.

    Raises:
        MissingError: its packages are not installed.
    """
    async with keep_local(LocalSettings()) as server:
        yield Address(server.url, server.api_key)


def check_local() -> None:
    """Raise `MissingError` when the local model is not installed, before anything is planned."""
    find_weights()


@dataclass(frozen=True, slots=True)
class GateDecision:
    """What the policy does with one exchange.

    Args:
        action: pass, flag, redact or block; the strictest of both stages.
        stage: which stage blocks or redacts.
        reason: unsafe or unknown, None on pass.
        flagged: some enforcing verdict is unsafe.
        unknown: some stage that asked somebody who enforces has no verdict of safe or unsafe.
        seconds: time of both stages.
        spans: what is redacted from the reply.
    """

    action: Action
    stage: Stage | None = None
    reason: str | None = None
    flagged: bool = False
    unknown: bool = False
    seconds: float = 0.0
    spans: tuple[Span, ...] = ()


def decide_again(plan: Plan, record: JsonObject) -> GateDecision:
    """Decide from recorded verdicts what the enforcing policy does; the proxy's own pure function (H-155).

    An input block ends the exchange: the output stage is not looked at then.
    """
    made = GateDecision("pass")
    for stage_plan in (plan.input, plan.output):
        found = _assessments(record, stage_plan.stage)
        if not found:
            continue
        made = _stricter(made, _to_gate(stage_plan, conclude(stage_plan, None, found, _seconds(record, stage_plan))))
        if made.action == "block":
            break
    return made


def watching(plan: Plan) -> frozenset[tuple[str, str]]:
    """Return who only watches under a plan (mode shadow), as supervisor and stage."""
    stages = (plan.input, plan.output)
    return frozenset([(name, one.stage) for one in stages for name, rule in one.rules.items() if not rule.enforce])


_RANK: Mapping[Action, int] = {"pass": 0, "flag": 1, "redact": 2, "block": 3}


def _to_gate(plan: StagePlan, result: StageResult) -> GateDecision:
    acts = result.action in ("block", "redact")
    enforced = [made for made in result.decisions if made.enforce]  # what only watches changes no result
    return GateDecision(
        action=result.action,
        stage=plan.stage if acts else None,
        reason=result.reason,
        flagged=any(made.flagged for made in enforced),
        unknown=any(made.label is Label.UNKNOWN and made.cause is not Cause.SKIPPED for made in enforced),
        seconds=result.seconds,
        spans=tuple(result.spans) if result.action == "redact" and plan.stage == "output" else (),
    )


def _stricter(one: GateDecision, other: GateDecision) -> GateDecision:
    winner = other if _RANK[other.action] > _RANK[one.action] else one
    return GateDecision(
        winner.action,
        winner.stage,
        winner.reason,
        one.flagged or other.flagged,
        one.unknown or other.unknown,
        one.seconds + other.seconds,
        winner.spans,
    )


def _seconds(record: JsonObject, plan: StagePlan) -> float:
    rows = [row for row in objects(record.get("decisions")) if row.get("stage") == plan.stage]
    return max([number(row.get("seconds")) or 0.0 for row in rows], default=0.0)


def _assessments(record: JsonObject, stage: Stage) -> list[Assessment]:
    rows = [row for row in objects(record.get("verdicts")) if row.get("stage") == stage]
    return [Assessment(str(row["supervisor"]), to_verdict(row)) for row in rows if "/" not in str(row["supervisor"])]


def to_verdict(row: JsonObject) -> Verdict:
    """Return the verdict of a recorded row, as far as a decision looks at it."""
    cause = row.get("cause")
    spans = [span for span in cast("list[list[Any]]", row.get("spans") or []) if len(span) == 4]
    return Verdict(
        Label(str(row.get("label"))),
        cause=Cause(str(cause)) if cause is not None else None,
        scope=cast("Scope | None", row.get("scope")),  # written by the proxy from the same closed set
        spans=tuple([Span(str(path), int(start), int(end), str(category)) for path, start, end, category in spans]),
    )


def objects(value: Json) -> list[JsonObject]:
    """Return the objects of a JSON list, nothing for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def number(raw: Json) -> float | None:
    """Return a finite JSON number, None for anything else."""
    return float(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) and abs(raw) <= 1e308 else None


def redact_reply(text: str, spans: Sequence[Span]) -> str | None:
    """Return the answer with the spans replaced as the proxy replaces them, None where it would block instead."""
    reply: dict[str, Any] = {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}
    try:
        redact_body(reply, spans)
    except RedactionImpossible:
        return None
    return str(reply["choices"][0]["message"]["content"])
