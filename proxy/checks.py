"""What `validate` and `serve` look for beyond the schema: settings that cannot work together, and coverage gaps."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Literal, cast
from urllib.parse import urlsplit

from proxy.config import MOST_PROBLEMS, Config, Examined, examine_config
from proxy.declared import UpstreamConfig
from proxy.extent import refusing
from proxy.misled import find_misled
from proxy.misrouted import SERVED, SERVED_BELOW, find_misrouted, find_unjudged
from proxy.plan import OPAQUE, TOOLS, UNSEEN
from proxy.policy import Policy, StagePolicy
from proxy.record import BYPASS_TASK
from proxy.resolving import find_unresolved
from proxy.unreached import find_unreached
from proxy.wire.adapter import INPUT_ONLY
from supervisors.ask import judged_stages, stream_capability
from supervisors.errors import ConfigError
from supervisors.nearest import did_you_mean
from supervisors.nesting import walk
from supervisors.transport import check_base_url
from supervisors.types import Stage, Supervisor
from supervisors.vote import Vote, advise

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")


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


def refuse_errors(config: Config) -> None:
    """Raise `ConfigError` with one line for every setting that keeps the proxy from starting."""
    errors = [f"{finding.path}: {finding.message}" for finding in check_config(config) if finding.severity == "error"]
    if errors:
        raise ConfigError("\n".join(errors))


def check_examined(examined: Examined) -> list[Finding]:
    """Return every finding about a file; while settings are wrong, the errors that the others have besides.

    Warnings wait until then: what is not covered cannot be known before every supervisor is.
    """
    if examined.config is not None:
        return check_config(examined.config)
    mended = examined.mended
    found = check_config(mended.value) if mended is not None else []
    asked = [line for line in examined.problems if "did you mean" in line]
    errors = [one for one in found if one.severity == "error" and not _is_asked(one.path, asked)]
    return [one for one in errors if mended is not None and mended.tells(one.path)]


def _is_asked(path: str, problems: Iterable[str]) -> bool:
    """Say whether what is missing at a path stands beside it under a misspelt name, which a problem asks about."""
    parent, _, name = path.rpartition(".")
    asked = f"did you mean {name!r}"
    return any(asked in line and line.partition(": ")[0].rpartition(".")[0] == parent for line in problems)


def load_checked(path: Path) -> Config:
    """Do as `load_config`, and say of a file with wrong settings what does not fit together in the rest, too.

    Raises:
        ConfigError: one line a problem, as `validate` prints them.
    """
    examined = examine_config(path)
    if examined.problems:
        with refusing(path):
            further = [f"{one.path}: {one.message}" for one in check_examined(examined)]
        raise examined.to_error(further)
    return examined.require()


def _check_all(config: Config) -> Iterator[Finding]:
    yield from _check_reserved(config)
    if not config.policies:
        yield Finding("warning", "policies", "no policy: everything passes unjudged")
    else:
        yield from [Finding("warning", one.path, one.message) for one in find_unreached(config)]
    for name, supervisor in config.supervisors.items():
        yield from _check_panels(name, supervisor)
        yield from _check_recursion(name, supervisor, config)
    for name, policy in config.policies.items():
        yield from _check_policy(f"policies.{name}", policy, config.supervisors)
    yield from [Finding("error", one.path, one.message) for one in find_unresolved(config)]
    yield from [Finding("warning", one.path, one.message) for one in find_misled(config)]
    yield from [Finding("error", one.path, one.message) for one in find_misrouted(config)]
    yield from [Finding("warning", one.path, one.message) for one in find_unjudged(config)]
    yield from _check_unused(config)
    yield from _check_aliases(config)
    yield from _check_bypass(config)
    yield from _check_unguarded(config)
    yield from _check_names(config)
    yield from _check_attachments(config)
    yield from _check_keys(config)
    for name, upstream in config.upstreams.items():
        if isinstance(upstream, UpstreamConfig):
            yield from _check_upstream(f"upstreams.{name}", upstream)
    if not config.keys and config.server.host not in ("127.0.0.1", "::1", "localhost"):
        message = f"{config.server.host} is not loopback and no key is configured; add keys or listen on 127.0.0.1"
        yield Finding("error", "server.host", message)


def _check_unused(config: Config) -> Iterator[Finding]:
    """A supervisor that is defined and never asked protects nobody."""
    named = {name for policy in config.policies.values() for _, names in policy.named() for name in names}
    members = [part for one in config.supervisors.values() for _, part in list(walk("", one))[1:]]
    for name, supervisor in config.supervisors.items():
        if config.policies and name not in named and supervisor not in members:
            message = "no policy names it, so it judges nothing; name it in a policy's input or output, or remove it"
            yield Finding("warning", f"supervisors.{name}", message)


def _check_aliases(config: Config) -> Iterator[Finding]:
    for alias, name in (config.moderations.aliases or {}).items():
        policy = config.policies.get(name)
        if policy is None:
            known = ", ".join(sorted(config.policies)) or "none"
            yield Finding(
                "error",
                f"moderations.aliases.{alias}",
                f"unknown policy {name!r}; known: {known}{did_you_mean(name, config.policies)}",
            )
            continue
        stage = policy.input
        if stage.mode == "shadow" or not stage.forced:
            message = f"the policy {name} forces no enforcing supervisor on its input, so nobody would moderate"
            yield Finding("error", f"moderations.aliases.{alias}", message)


def _check_bypass(config: Config) -> Iterator[Finding]:
    """Find tokens that nobody could make, or that open nothing (G-42)."""
    for name, upstream in config.upstreams.items():
        if not isinstance(upstream, UpstreamConfig) or not upstream.bypass:
            continue
        path = f"upstreams.{name}.bypass"
        if config.bypass is None:
            yield Finding("error", path, "there is no secret to sign with: give bypass.secret")
        if upstream.vendor != "openai":
            yield Finding(
                "error", path, "only another proxy takes tokens, and it speaks OpenAI's protocol: vendor openai"
            )
    if config.bypass is not None and "*" not in config.served_models():
        yield from _check_matches("bypass.accept", config.bypass.accept, config.served_models())
    if BYPASS_TASK in config.tasks:
        yield Finding("error", "tasks", f"the task {BYPASS_TASK!r} is reserved for calls with a token")


def _check_unguarded(config: Config) -> Iterator[Finding]:
    """A declared route must not stand where a judged or administrative one does, nor be declared twice."""
    seen: set[tuple[str, str]] = set()
    known = ", ".join(sorted(config.upstreams))
    for index, route in enumerate(config.unguarded_routes):
        path = f"unguarded_routes.{index}"
        if route.upstream is None and len(config.upstreams) > 1:
            yield Finding("error", f"{path}.upstream", f"name the model server it leads to; known: {known}")
        elif route.upstream is not None and route.upstream not in config.upstreams:
            yield Finding("error", f"{path}.upstream", f"unknown upstream {route.upstream!r}; known: {known}")
        taken = [one for one in SERVED if route.covers(one)]
        taken += [one for one in SERVED_BELOW if route.path.startswith(f"{one}/")]
        if taken:
            yield Finding("error", f"{path}.path", f"{route.path} would hide {taken[0]}, which the proxy serves itself")
        elif (route.method, route.path) in seen:
            yield Finding("error", path, f"{route.method} {route.path} is declared twice")
        else:
            yield Finding("warning", path, f"nothing that passes through {route.method} {route.path} is judged")
        seen.add((route.method, route.path))


def _check_names(config: Config) -> Iterator[Finding]:
    """Names appear in headers, in lists separated by commas, and in metrics."""
    groups: dict[str, Iterable[str]] = {
        "supervisors": config.supervisors,
        "policies": config.policies,
        "keys": config.keys,
    }
    for group, names in groups.items():
        for name in names:
            if not _NAME.fullmatch(name):
                message = f"{name[:64]!r} must be made of letters, digits and . _ - only"
                yield Finding("error", group, message)


def _check_attachments(config: Config) -> Iterator[Finding]:
    """A policy attached to a name that nobody has would silently never apply."""
    models = config.served_models()
    tags = {tag for key in config.keys.values() for tag in key.tags}
    for name, policy in config.policies.items():
        attach, path = policy.attach, f"policies.{name}.attach"
        if "*" not in models:
            yield from _check_matches(f"{path}.models", attach.models, models)
        yield from _check_matches(f"{path}.keys", attach.keys, config.keys)
        yield from _check_matches(f"{path}.tags", attach.tags, tags)
    for name, key in config.keys.items():
        if "*" not in models:
            yield from _check_matches(f"keys.{name}.models", key.models, models)


def _check_matches(path: str, patterns: Iterable[str], names: Collection[str]) -> Iterator[Finding]:
    strange = [one for one in patterns if one != "*" and not any(fnmatchcase(name, one) for name in names)]
    near = len(names) <= MOST_PROBLEMS >= len(strange)  # looking for likeness takes long
    for pattern in strange:
        known = ", ".join(sorted(names)) or "none"
        hint = did_you_mean(pattern, names) if near else ""
        yield Finding("error", path, f"{pattern!r} matches nothing; known: {known}{hint}")


def _check_keys(config: Config) -> Iterator[Finding]:
    owners: dict[str, str] = {}
    for name, key in config.keys.items():
        other = owners.setdefault(key.digest, name)
        if other != name:
            yield Finding("error", f"keys.{name}", f"this is the same key as keys.{other}")


def _check_upstream(path: str, upstream: UpstreamConfig) -> Iterator[Finding]:
    if upstream.base_url is None:
        if upstream.vendor == "openai":
            message = "an upstream that speaks OpenAI's protocol needs a base URL, as in http://127.0.0.1:8080/v1"
            yield Finding("error", f"{path}.base_url", message)
        return
    try:
        check_base_url(upstream.base_url, allow_link_local=upstream.allow_link_local)
    except ValueError as error:
        yield Finding("error", f"{path}.base_url", str(error))


def _check_reserved(config: Config) -> Iterator[Finding]:
    reserved = {OPAQUE: "on_opaque", UNSEEN: "on_unseen_history", TOOLS: "allowed_tools"}
    for name, setting in reserved.items():
        if name in config.supervisors:
            yield Finding("error", f"supervisors.{name}", f"this name is reserved for the built-in check of {setting}")


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
        with suppress(ValueError):  # no address at all is an error of its own
            if address is not None and urlsplit(address).netloc in own:
                message = "its model is reached through this proxy, which would judge the judge; use the server's URL"
                yield Finding("error", f"supervisors.{full}", message)


def _check_policy(path: str, policy: Policy, supervisors: Mapping[str, Supervisor]) -> Iterator[Finding]:
    for word in _PLACEHOLDER.findall(policy.on_block.message):
        if word not in ("policy", "request_id"):
            message = f"unknown placeholder {{{word}}}; known: {{policy}}, {{request_id}}"
            yield Finding("error", f"{path}.on_block.message", message)
    if not any((policy.input.forced, policy.input.optional, policy.output.forced, policy.output.optional)):
        yield Finding("warning", path, "an empty policy lets everything through")
    yield from _check_parallel(f"{path}.input", policy.input)
    for stage, settings in (("input", policy.input), ("output", policy.output)):
        yield from _check_stage(f"{path}.{stage}", "input" if stage == "input" else "output", settings, supervisors)
    yield from _check_streams(path, policy, supervisors)
    yield from _check_routes(path, policy)


def _check_parallel(path: str, stage: StagePolicy) -> Iterator[Finding]:
    if stage.mode != "parallel":
        return
    message = "redact is impossible in parallel mode: the model has the text already; use mode blocking"
    if stage.unsafe_action == "redact":
        yield Finding("error", f"{path}.on_unsafe", message)
    for name, scope in stage.scopes.items():
        if scope.on_unsafe == "redact":
            yield Finding("error", f"{path}.scopes.{name}.on_unsafe", message)


def _check_routes(path: str, policy: Policy) -> Iterator[Finding]:
    """Find settings that the routes this policy names do not have; where a wildcard covers them, they are left out."""
    named = [route for route in policy.attach.routes if route in INPUT_ONLY]
    if named and policy.on_block.input == "refusal":
        message = (
            f"{' and '.join(named)} cannot hold a notice: a blocked input is an error there; use on_block.input: error"
        )
        yield Finding("error", f"{path}.on_block.input", message)
    if len(named) == len(policy.attach.routes) and (policy.output.forced or policy.output.optional):
        message = f"{' and '.join(named)} has no output stage; its supervisors never run there"
        yield Finding("warning", f"{path}.output", message)


def _check_stage(
    path: str, stage: Stage, settings: StagePolicy, supervisors: Mapping[str, Supervisor]
) -> Iterator[Finding]:
    for name in (*settings.forced, *settings.optional):
        supervisor = supervisors[name]
        if stage not in judged_stages(supervisor):
            served = " and ".join(sorted(judged_stages(supervisor)))
            yield Finding("error", path, f"{name} judges {served} only and cannot serve the {stage} stage")
        for full, part in walk(name, supervisor):
            yield from _check_part(path, settings, full, part)
    if settings.opt_out and not settings.default_on:
        yield Finding("warning", f"{path}.opt_out", "there is nothing to leave out without default_on")
    if settings.mode == "shadow":
        return
    yield from _check_coverage(path, settings, supervisors)
    if settings.forced and settings.unknown_policy.default == "log":
        yield Finding("warning", f"{path}.on_unknown", "a failed supervisor lets the exchange pass (on_unknown: log)")


def _check_part(path: str, settings: StagePolicy, full: str, part: Supervisor) -> Iterator[Finding]:
    if settings.mode != "shadow" and getattr(part, "sample", 1) < 1:
        yield Finding("error", path, f"{full} judges a sample only: what enforces cannot; use mode: shadow")
    own: float | None = getattr(part, "timeout_s", None)
    if own is not None and own > settings.timeout_s:
        message = f"{full} may take {own:g} s but the stage ends after {settings.timeout_s:g} s"
        yield Finding("error", f"{path}.timeout_s", message)


def _check_coverage(path: str, settings: StagePolicy, supervisors: Mapping[str, Supervisor]) -> Iterator[Finding]:
    """Say what no enforcing supervisor judges (G-04)."""
    for name in settings.forced:
        for full, part in walk(name, supervisors[name]):
            for option, whole in (("turns", "all"), ("roles", None), ("kinds", None)):
                value: object = getattr(part, option, whole)
                if value != whole:
                    message = f"coverage gap: only {_words(value)} is judged; {_remedy(option, full)}"
                    yield Finding("warning", f"supervisors.{full}.{option}", message)
    parts = [part for name in settings.forced for _, part in walk(name, supervisors[name]) if hasattr(part, "scopes")]
    judged: set[str] = {scope for part in parts for scope in getattr(part, "scopes", ())}
    missing = sorted({"conversation", "system", "tool_def"} - judged)
    if path.endswith(".input") and parts and len(parts) == len(settings.forced) and missing:
        message = (
            f"coverage gap: no forced supervisor of this policy judges the scope {' or '.join(missing)} by itself; "
            f"add it to the scopes of one: scopes: [{', '.join(sorted(judged | set(missing)))}]"
        )
        yield Finding("warning", path, message)


def _words(value: object) -> str:
    """Return a setting's value as it is written in the file."""
    if isinstance(value, set | frozenset | tuple | list):
        return ", ".join(sorted([str(one) for one in cast("Iterable[object]", value)]))
    return str(value)


def _remedy(option: str, name: str) -> str:
    remedy = "set turns: all" if option == "turns" else f"leave {option} out"
    return f"{remedy} of {name}, or force another supervisor that judges the rest"


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
        early = capability in ("incremental", "windowed")
        if early and longest is not None and overlap is not None and longest() > overlap:
            message = f"{name} needs an overlap of {longest()} characters, {overlap} are configured; leave it out"
            yield Finding("error", f"{path}.output.stream.overlap_chars", message)
