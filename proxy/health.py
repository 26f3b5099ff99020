"""What `/readyz` and the gauges say of a proxy: what keeps it from serving, and what it serves without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from proxy.gateway import Gateway
from proxy.reviving import LocalState
from supervisors.standing import can_clear
from supervisors.types import Cause

_BREAKER_WORDS: Mapping[int, Literal["closed", "half_open", "open"]] = {0: "closed", 1: "half_open", 2: "open"}
_LOCAL_WORDS: Mapping[LocalState, Literal["closed", "half_open", "open"]] = {
    "running": "closed",
    "starting": "half_open",
    "given_up": "open",
}


def show_states(gateway: Gateway) -> None:
    """Set the gauges of what holds now: places, queues, breakers."""
    metrics, runtime = gateway.metrics, gateway.runtime
    metrics.forget_states()
    metrics.set_in_flight("requests", gateway.in_flight)
    for name, state in runtime.chat.breaker_states.items():
        metrics.set_breaker(name, _BREAKER_WORDS[state])
    for name, server in runtime.models.items():
        if server.fuse.breaker is not None:
            metrics.set_breaker(f"upstream {name}", _BREAKER_WORDS[server.fuse.state])
    for name, kept in runtime.kept.items():
        metrics.set_breaker(f"upstream {name}", _LOCAL_WORDS[kept.state])
    for name, places in runtime.places().items():
        metrics.set_in_flight(name, places.taken)
        metrics.set_queue_depth(name, places.waiting)
    for name, number in runtime.keyring.in_flight().items():
        metrics.set_in_flight(f"key {name}", number)


def readiness(gateway: Gateway) -> list[str]:
    """Return what keeps the proxy from serving; empty when it is ready."""
    missing: list[str] = []
    if not gateway.ready:
        missing.append("draining" if gateway.stopping or gateway.draining else "starting")
    elif not gateway.runtime.sinks.ready():
        missing.append("journal")
    else:
        missing += blocking_failures(gateway)
        missing += [f"upstream {name}" for name, kept in gateway.runtime.kept.items() if kept.state == "given_up"]
    return missing


def blocking_failures(gateway: Gateway) -> list[str]:
    """Return the forced supervisors that can call nothing safe now and whose failure blocks: nothing would pass.

    A composite is one of them when its own rule would not say safe although all members that do not fail did.
    """
    failing = {name for names in gateway.runtime.chat.failing for name in (names, *names.split(","))}
    if not failing:
        return []
    config = gateway.runtime.config
    found: set[str] = set()
    for policy in config.policies.values():
        for stage in (policy.input, policy.output):
            if stage.mode != "shadow" and stage.unknown_policy.action(Cause.ERROR) == "block":
                forced = {name: config.supervisors[name] for name in stage.forced}
                found |= {name for name, one in forced.items() if not can_clear(name, one, failing)}
    return [f"supervisor {name}" for name in sorted(found)]


def degradation(gateway: Gateway) -> list[str]:
    """Return the dependencies that are failing while the policy still decides without them."""
    if not gateway.ready:
        return []
    chat = gateway.runtime.chat
    broken = [name for name, state in chat.breaker_states.items() if state != 0]
    journal = [] if gateway.journal.healthy else ["journal"]
    down = [f"upstream {name}" for name, server in gateway.runtime.models.items() if server.fuse.failing]
    down += [f"upstream {name}" for name, kept in gateway.runtime.kept.items() if kept.state != "running"]
    return sorted({*broken, *chat.refused_by, *journal, *down})
