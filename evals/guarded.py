"""A proxy of the harness's own: served with the guard in front of the target.

It runs in this process behind a real loopback socket, so that what is measured is what is served.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evals.client import Address, Guard
from evals.serving import serve
from proxy.app import create_app
from proxy.checks import refuse_errors
from proxy.config import Config, KeyConfig
from proxy.declared import UpstreamConfig
from proxy.outside import refuse_missing
from proxy.policy import Policy, ScopePolicy, StagePolicy, UnknownPolicy
from supervisors.errors import ConfigError
from supervisors.nesting import walk
from supervisors.plugins import flatten_errors
from supervisors.secret import Secret
from supervisors.types import Endpoint, Scope


@asynccontextmanager
async def open_proxy(
    guard: Guard, models: Sequence[str], target: Address, journal: Path, *, observe: bool
) -> AsyncGenerator[Address]:
    """Serve the guard in front of the target while the body runs.

    Args:
        guard: supervision.
        models: names the target answers to.
        target: where it answers.
        journal: file of the proxy's decision journal.
        observe: judge everything and act on nothing, so that the model's own answer is seen (H-155).

    Raises:
        ConfigError: the configuration cannot work; one line a problem.
    """
    key = secrets.token_hex(24)
    config = serving_config(guard, models, target, observe=observe)
    update: dict[str, object] = {
        "keys": {"evals": KeyConfig(sha256=sha256(key.encode()).hexdigest(), admin=True)},
        "journal": config.journal.in_file(journal).model_copy(update={"input": "off", "output": "off"}),
    }
    app = create_app(config.model_copy(update=update))
    async with serve(app, lambda: app.gateway.failure) as url:
        yield Address(f"{url}/v1", key, records=app.gateway.journal.get)


def check_served(guard: Guard, models: Sequence[str]) -> None:
    """Refuse, before any call and before there is a run folder, what the proxy would not start with.

    Args:
        guard: supervision.
        models: names the target answers to.

    Raises:
        ConfigError: the configuration cannot work; one line a problem.
        MissingError: packages or files are not there.
    """
    try:
        config = serving_config(guard, models, Address("http://127.0.0.1:9/v1"), observe=False)
        refuse_errors(config)
        refuse_missing(config)
    except ConfigError as error:
        lines = [line.removeprefix(f"policy {guard.name}: ") for line in str(error).splitlines()]
        raise type(error)("\n".join([f"policy {guard.name}: {line}" for line in lines])) from error


def serving_config(guard: Guard, models: Sequence[str], target: Address, *, observe: bool) -> Config:
    """Return the configuration the proxy is served with: the target takes the place of a model of its name.

    Raises:
        ConfigError: a supervisor asks the model whose place the target would take, or settings cannot work together.
    """
    own = guard.models()
    _refuse_clash(guard, {model for model in models if model in own or "*" in own} - {"*"})
    place = next(name for name in _free_names() if name not in guard.upstreams)
    key = Secret("env:TARGET", target.key) if target.key else None
    upstreams: dict[str, Any] = {**guard.upstreams, place: UpstreamConfig(base_url=target.url, api_key=key, retries=0)}
    entry = {"upstream": place, "price": target.price}
    named: dict[str, Any] = {**dict.fromkeys(models, entry), **own, **dict.fromkeys(set(models) - {"*"}, entry)}
    policies = {name: _observing(p) if observe else p for name, p in guard.config.policies.items()}
    signing = guard.config.bypass
    try:
        return Config.model_validate(
            {
                "upstreams": upstreams,
                "models": named,
                "supervisors": dict(guard.config.supervisors),
                "policies": policies,
                "limits": guard.config.limits,
                "journal": guard.config.journal,
                "tasks": guard.config.tasks,
                "bypass": signing and signing.model_copy(update={"accept": ()}),
            }
        )
    except ValidationError as error:
        problems = [f"{where}: {message}" for where, message in flatten_errors(error)]
        raise ConfigError("\n".join(problems)) from error


def _free_names() -> Iterator[str]:
    yield "target"
    yield from (f"target-{number}" for number in count(2))


def _refuse_clash(guard: Guard, taken: Collection[str]) -> None:
    """Refuse a target with the name of a model that a supervisor asks: it would ask the target instead of its own."""
    asked = {name for policy in guard.config.policies.values() for _, names in policy.named() for name in names}
    for name in sorted(asked):
        for full, part in walk(name, guard.supervisors[name]):
            endpoint: object = getattr(part, "endpoint", None)
            if isinstance(endpoint, Endpoint) and endpoint.url is None and endpoint.model in taken:
                msg = (
                    f"policy {guard.name}: the supervisor {full} asks the model {endpoint.model!r}, and the target has "
                    "the same name: it would ask the target; give its model another name under 'models'"
                )
                raise ConfigError(msg)


def _observing(policy: Policy) -> Policy:
    """Return the policy with everybody asked in line and nothing acted on, so that its time is measured too."""
    return policy.model_copy(update={"input": _observed(policy.input), "output": _observed(policy.output)})


def _observed(stage: StagePolicy) -> StagePolicy:
    logged: Mapping[Scope, ScopePolicy] = {scope: ScopePolicy(on_unsafe="log") for scope in stage.scopes}
    return stage.model_copy(
        update={
            "mode": "blocking",
            "on_unsafe": "log",
            "on_unknown": UnknownPolicy(default="log"),
            "exhaustive": True,
            "scopes": dict(logged),
        }
    )
