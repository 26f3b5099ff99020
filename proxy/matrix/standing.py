"""A config as the matrix runs it: everything that calls out is scripted, everything that decides is the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from proxy.config import Config, KeyConfig, LimitsConfig
from proxy.declared import JournalConfig, LocalUpstreamConfig, UpstreamConfig
from proxy.matrix.aims import first_turn, looks_at
from proxy.matrix.cells import CANARY
from proxy.matrix.models import guard_model, judge_model, moderation_model
from proxy.matrix.server import SUPERVISORS, Responder
from proxy.policy import Policy
from proxy.runtime import speaks_messages
from supervisors.ask import is_local, judged_stages, stream_capability
from supervisors.cascade import Cascade
from supervisors.decoded import append_decoded
from supervisors.guard import ModelGuard
from supervisors.judge import Judge
from supervisors.moderation import Moderation
from supervisors.rules import Rules
from supervisors.types import (
    Capability,
    Cause,
    Exchange,
    Segment,
    Span,
    Stage,
    Supervisor,
    Verdict,
    safe,
    unknown,
    unsafe,
)
from supervisors.vote import Vote

_PARSER: Final = "safe_unsafe"


@dataclass(frozen=True, slots=True)
class StandIn:
    """Finds the canary in place of a supervisor that cannot be scripted, and looks where that one is set to look."""

    original: Supervisor
    capability: Capability
    local: bool
    stages: frozenset[Stage]

    def holdback_chars(self) -> int:
        """Return the longest match minus one."""
        return len(CANARY) - 1

    def _text(self, segment: Segment) -> str:
        """Return what the original would read: who names variants reads decoded stretches too (G-09)."""
        decodes = segment.kind != "media" and bool(getattr(self.original, "variants", None))
        return append_decoded(segment.text) if decodes else segment.text

    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        """Flag the canary; media is unsupported."""
        since = (
            first_turn(exchange.request, getattr(self.original, "turns", "all")) if exchange.stage == "input" else -1
        )
        seen = [one for one in exchange.judged if looks_at(self.original, one.scope, one.role, one.kind)]
        seen = [segment for segment in seen if segment.scope != "conversation" or segment.turn >= since]
        places = [(segment.path, segment.text.find(CANARY)) for segment in seen]
        spans = [Span(path, at, at + len(CANARY), "matrix") for path, at in places if at >= 0]
        if spans or CANARY in "".join([self._text(segment) for segment in seen]):
            return unsafe("matrix", score=1.0, spans=tuple(spans))
        media = any(segment.kind == "media" for segment in seen)
        return unknown(Cause.UNSUPPORTED, detail="media") if media else safe(score=0.0)


@dataclass(frozen=True, slots=True)
class Standing:
    """The config as it runs.

    Args:
        config: with everything that calls out replaced.
        keys: the made-up key of every configured name.
        responders: the models of supervisors, by name.
        stand_ins: supervisors that cannot be scripted and have one in their place.
    """

    config: Config
    keys: Mapping[str, str]
    responders: Mapping[str, Responder]
    stand_ins: Sequence[str]


class _Stage:
    """Puts scripted supervisors into place.

    Args:
        origin: of the scripted servers.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.responders: dict[str, Responder] = {}
        self.stand_ins: list[str] = []

    def place(self, name: str, supervisor: Supervisor) -> Supervisor:
        """Return the supervisor as it runs in the matrix."""
        url = f"{self._origin}{SUPERVISORS}{name}/v1"
        called = {"url": url, "api_key": None}
        match supervisor:
            case Vote():
                members = {key: self.place(f"{name}/{key}", one) for key, one in supervisor.members.items()}
                return supervisor.model_copy(update={"members": members, "exhaustive": True})
            case Cascade():
                return self._place_steps(name, supervisor)
            case Rules():
                return _look_for_canary(supervisor)
            case Judge():
                self.responders[name] = judge_model(supervisor)
                return supervisor.model_copy(update={**called, "vendor": "openai"})
            case Moderation():
                self.responders[name] = moderation_model
                return supervisor.model_copy(update=called)
            case ModelGuard() if supervisor.card.parser == _PARSER and supervisor.card.route == "chat":
                self.responders[name] = guard_model
                changes = {**called, "decide_by": "label", "logprobs": False}
                return supervisor.model_copy(update=changes)
            case _:
                self.stand_ins.append(name)
                capability = stream_capability(supervisor)
                return StandIn(supervisor, capability, is_local(supervisor), judged_stages(supervisor))

    def _place_steps(self, name: str, cascade: Cascade) -> Cascade:
        steps: list[Any] = []
        for child, step in zip(cascade.nested, cascade.steps, strict=True):
            inner = self.place(f"{name}/{child}", step.supervisor)
            steps.append(step.model_copy(update={"supervisor": inner}))
        return cascade.model_copy(update={"steps": type(cascade.steps)(steps)})


def _look_for_canary(rules: Rules) -> Rules:
    """Return the same rules, looking for one phrase more: built anew, because what they look for is compiled once."""
    options = rules.model_dump(exclude={"keywords_file"})
    return Rules.model_validate({**options, "keywords": [*rules.keywords, CANARY]})


def stand(config: Config, origin: str, folder: Path, *, native: bool) -> Standing:
    """Return a config that judges and decides as the given one does, and calls nothing but the scripted servers.

    Args:
        config: as validated.
        origin: of the scripted servers.
        folder: for the journal.
        native: servers that speak Anthropic Messages keep doing so; otherwise all speak OpenAI's protocol.
    """
    stage = _Stage(origin)
    keys = {name: sha256(f"matrix {name}".encode()).hexdigest() for name in config.keys}
    changes: dict[str, Any] = {
        "upstreams": {name: _upstream(one, origin, native=native) for name, one in config.upstreams.items()},
        "keys": {name: _key(one, keys[name]) for name, one in config.keys.items()},
        "supervisors": {name: stage.place(name, one) for name, one in config.supervisors.items()},
        "policies": {name: _exhaustive(one) for name, one in config.policies.items()},
        "journal": JournalConfig(path=folder / "matrix.sqlite3", input="off", output="off"),
        "limits": _limits(config.limits),
        "models": {name: one.model_copy(update={"max_concurrency": None}) for name, one in config.models.items()},
        "caches": {},
        "places": {},
        "server": config.server.model_copy(update={"allowed_hosts": ()}),
    }
    return Standing(config.model_copy(update=changes), keys, stage.responders, stage.stand_ins)


def _upstream(settings: UpstreamConfig | LocalUpstreamConfig, origin: str, *, native: bool) -> UpstreamConfig:
    vendor = "anthropic" if native and speaks_messages(settings) else "openai"
    return UpstreamConfig(base_url=f"{origin}/v1", vendor=vendor, timeout_s=20.0, breaker_failures=0)


def _limits(settings: LimitsConfig) -> LimitsConfig:
    """Return limits that no exchange of the matrix meets; what a request may cost at its judges is a decision, kept."""
    kept = ("judge_calls_per_request", "judge_cost_usd_per_request")
    return LimitsConfig(request_timeout_s=30.0).model_copy(update={name: getattr(settings, name) for name in kept})


def _key(settings: KeyConfig, key: str) -> KeyConfig:
    digest = sha256(key.encode()).hexdigest()
    unlimited = {"requests_per_minute": None, "max_in_flight": None}
    return settings.model_copy(update={"key": None, "sha256": digest, **unlimited})


def _exhaustive(policy: Policy) -> Policy:
    """Return the policy with everybody asked: each supervisor of a place is a cell of its own."""
    stages = {"input": policy.input, "output": policy.output}
    return policy.model_copy(
        update={name: stage.model_copy(update={"exhaustive": True}) for name, stage in stages.items()}
    )
