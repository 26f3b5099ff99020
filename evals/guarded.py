"""A proxy of the harness's own: served with the guard in front of the target.

It runs in this process behind a real loopback socket, so that what is measured is what is served.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evals.client import Address, Guard
from evals.serving import serve
from proxy.app import create_app
from proxy.config import Config, KeyConfig
from proxy.declared import UpstreamConfig
from proxy.policy import Policy, ScopePolicy, StagePolicy, UnknownPolicy
from supervisors.errors import ConfigError
from supervisors.plugins import flatten_errors
from supervisors.secret import Secret
from supervisors.types import Scope

_TARGET = "target"


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


def serving_config(guard: Guard, models: Sequence[str], target: Address, *, observe: bool) -> Config:
    """Return the configuration the proxy is served with."""
    upstreams: dict[str, Any] = {**guard.config.upstreams}
    upstreams[_TARGET] = UpstreamConfig(
        base_url=target.url, api_key=Secret("env:TARGET", target.key) if target.key else None, retries=0
    )
    named: dict[str, Any] = {**guard.config.models}
    clash = named.keys() & set(models)
    if clash:
        msg = f"policy {guard.name}: models {sorted(clash)} are also the target's; give the judges other names"
        raise ConfigError(msg)
    named |= {model: {"upstream": _TARGET, "price": target.price} for model in models}
    policies = {name: _observing(p) if observe else p for name, p in guard.config.policies.items()}
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
            }
        )
    except ValidationError as error:
        problems = [f"{where}: {message}" for where, message in flatten_errors(error)]
        raise ConfigError("\n".join(problems)) from error


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
