"""What `validate` and `serve` look for beyond the schema: settings that cannot work together, and coverage gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from proxy.config import Config, UpstreamConfig
from proxy.plan import OPAQUE, UNSEEN
from proxy.policy import Policy, StagePolicy
from supervisors.ask import judged_stages, stream_capability
from supervisors.nesting import walk
from supervisors.types import Stage, Supervisor
from supervisors.vote import Vote, advise


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem or warning.

    Args:
        severity: an error keeps the proxy from starting; a warning does not.
        path: setting it is about.
        message: what is wrong and what would be right.
    """

    severity: Literal["error", "warning"]
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.path}: {self.message}"


def check_config(config: Config) -> list[Finding]:
    """Return every finding, errors first."""
    found = list(_check_all(config))
    return sorted(found, key=lambda finding: finding.severity)


def _check_all(config: Config) -> Iterator[Finding]:
    for name in (OPAQUE, UNSEEN):
        if name in config.supervisors:
            yield Finding("error", f"supervisors.{name}", f"this name is reserved for the built-in check of on_{name}")
    if not config.policies:
        yield Finding("warning", "policies", "no policy: everything passes unjudged")
    for name, supervisor in config.supervisors.items():
        yield from _check_panels(name, supervisor)
        yield from _check_recursion(name, supervisor, config)
    for name, policy in config.policies.items():
        yield from _check_policy(f"policies.{name}", policy, config.supervisors)
    if not config.keys and config.server.host not in ("127.0.0.1", "::1", "localhost"):
        message = f"{config.server.host} is not loopback and no key is configured; add keys or listen on 127.0.0.1"
        yield Finding("error", "server.host", message)


def _check_panels(name: str, supervisor: Supervisor) -> Iterator[Finding]:
    for full, part in walk(name, supervisor):
        if isinstance(part, Vote):
            for advice in advise(part):
                yield Finding("warning", f"supervisors.{full}", advice)


def _check_recursion(name: str, supervisor: Supervisor, config: Config) -> Iterator[Finding]:
    """Refuse a judge whose calls would come back to this proxy and be judged by that judge again (G-42)."""
    own = {f"{host}:{config.server.port}" for host in (config.server.host, "127.0.0.1", "localhost", "[::1]")}
    for full, part in walk(name, supervisor):
        url: str | None = getattr(part, "url", None)
        model: str | None = getattr(part, "model", None)
        served = config.served_models().get(model) if url is None and model is not None else None
        upstream = config.upstreams.get(served.upstream) if served is not None else None
        address = url or (upstream.base_url if isinstance(upstream, UpstreamConfig) else None)
        if address is not None and urlsplit(address).netloc in own:
            message = "its model is reached through this proxy, which would judge the judge; use the model server's URL"
            yield Finding("error", f"supervisors.{full}", message)


def _check_policy(path: str, policy: Policy, supervisors: Mapping[str, Supervisor]) -> Iterator[Finding]:
    if not any((policy.input.forced, policy.input.optional, policy.output.forced, policy.output.optional)):
        yield Finding("warning", path, "an empty policy lets everything through")
    if policy.input.mode == "parallel" and policy.input.unsafe_action == "redact":
        message = "redact is impossible in parallel mode: the model has the text already; use mode blocking"
        yield Finding("error", f"{path}.input.on_unsafe", message)
    for stage, settings in (("input", policy.input), ("output", policy.output)):
        yield from _check_stage(f"{path}.{stage}", "input" if stage == "input" else "output", settings, supervisors)
    yield from _check_streams(path, policy, supervisors)


def _check_stage(
    path: str, stage: Stage, settings: StagePolicy, supervisors: Mapping[str, Supervisor]
) -> Iterator[Finding]:
    for name in (*settings.forced, *settings.optional):
        supervisor = supervisors[name]
        if stage not in judged_stages(supervisor):
            served = " and ".join(sorted(judged_stages(supervisor)))
            yield Finding("error", path, f"{name} judges {served} only and cannot serve the {stage} stage")
        own: float | None = getattr(supervisor, "timeout_s", None)
        if own is not None and own > settings.timeout_s:
            message = f"{name} may take {own:g} s but the stage ends after {settings.timeout_s:g} s"
            yield Finding("error", f"{path}.timeout_s", message)
    if settings.mode == "shadow":
        return
    if settings.forced and settings.unknown_policy.default == "log":
        yield Finding("warning", f"{path}.on_unknown", "a failed supervisor lets the exchange pass (on_unknown: log)")


def _check_streams(path: str, policy: Policy, supervisors: Mapping[str, Supervisor]) -> Iterator[Finding]:
    stream = policy.output.stream
    for name in (*policy.output.forced, *policy.output.optional):
        supervisor = supervisors[name]
        capability = stream_capability(supervisor)
        if capability == "final" and stream.on_unstreamable == "refuse" and stream.mode in ("window", "sentence"):
            message = f"{name} judges whole replies only; use mode hold, or on_unstreamable: hold"
            yield Finding("error", f"{path}.output.stream.mode", message)
        longest = getattr(supervisor, "holdback_chars", None)
        overlap = stream.overlap_chars
        if capability == "incremental" and longest is not None and overlap is not None and longest() > overlap:
            message = f"{name} needs an overlap of {longest()} characters, {overlap} are configured; leave it out"
            yield Finding("error", f"{path}.output.stream.overlap_chars", message)
