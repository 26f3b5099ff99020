"""From headers and a parsed body to a `Call`: model look-up, added supervisors, the merged plan."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from secrets import token_bytes, token_hex
from time import perf_counter
from typing import Any

from proxy.bypass import Bypass
from proxy.call import BOTH_STAGES, Call
from proxy.caps import bound_reply, check_caps
from proxy.config import LimitsConfig
from proxy.declared import ModelConfig
from proxy.inline import tighten_plan
from proxy.keys import Caller
from proxy.plan import Plan, Planner, Request
from proxy.record import BYPASS_TASK
from proxy.traceparent import Propagation
from proxy.wire.adapter import INPUT_ONLY, Adapter
from proxy.wire.body import refuse_forbidden, take_bool, take_guardrails
from proxy.wire.errors import RequestError, invalid, unsupported
from proxy.wire.moderation_field import FIELD_ROUTES, FieldAsk, FieldSettings, take_field
from proxy.wire.servers import SERVER_ROUTES, refuse_servers
from proxy.wire.usage import USAGE_ROUTES, ask_usage
from supervisors.light import light_dataclass


def new_id() -> str:
    """Return a unique, time-sortable record id: 12 hex digits of milliseconds, 16 random ones."""
    return f"{time.time_ns() // 1_000_000:012x}{token_hex(8)}"


class IdSource:
    """Make record ids of the form of `new_id` without asking the kernel for every one.

    To draw random bytes gives the interpreter away, and with it, under load, a turn to the journal's writer. The ids
    are unique, not secret; a process forked from this one draws others.
    """

    def __init__(self) -> None:
        self._draw = Random(token_bytes(32)).getrandbits  # noqa: S311 - unique, not secret
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:
        self._draw = Random(token_bytes(32)).getrandbits  # noqa: S311 - as above

    def make(self, now_s: float) -> str:
        """Return a new id for an exchange that began at this time (seconds since the epoch)."""
        return f"{int(now_s * 1000):012x}{self._draw(64):016x}"


@light_dataclass(frozen=True, slots=True)
class Arrival:
    """A judged request before its body is understood.

    Args:
        id: id of the record to be.
        request_id: value of `x-request-id`.
        adapter: route family.
        caller: who is asking.
        headers: lower-case request headers.
        started: seconds since the epoch.
        clock: `perf_counter` at the start.
    """

    id: str
    request_id: str
    adapter: Adapter
    caller: Caller
    headers: Mapping[str, str]
    started: float
    clock: float


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What requests are checked against.

    Args:
        models: served models by name; ``*`` serves every name.
        planner: merges policies.
        limits: caps.
        tasks: words that `x-guardrail-task` may carry.
        version: config version.
        moderation: how the `moderation` field is treated.
        ask_usage: upstreams that are asked for the usage of every stream (W-04).
        bypass: which calls of other proxies' judges pass unjudged (G-42).
        propagation: upstreams that are told the trace (O-22).
        tokens_fields: upstream → field that bounds the reply on the chat route, where it is not `max_tokens`.
    """

    models: Mapping[str, ModelConfig]
    planner: Planner
    limits: LimitsConfig
    tasks: Sequence[str]
    version: str
    moderation: FieldSettings = field(default_factory=FieldSettings)
    ask_usage: frozenset[str] = frozenset()
    bypass: Bypass = field(default_factory=Bypass)
    propagation: Propagation = field(default_factory=Propagation)
    tokens_fields: Mapping[str, str] = field(default_factory=dict[str, str])


def prepare(arrival: Arrival, body: dict[str, Any], catalogue: Catalogue, size_bytes: int = 0) -> Call:
    """Return the call; edits `body`: our own fields are removed, the model is the upstream's.

    Raises:
        RequestError: 400, 403 or 404 with the path of the field.
    """
    refuse_forbidden(body)
    model, served = find_model(body, arrival.caller, catalogue.models)
    stream = take_bool(body, "stream")
    input_only = arrival.adapter.route in INPUT_ONLY
    if input_only and stream:
        raise invalid(f"{arrival.adapter.route} never streams; leave 'stream' out.", "stream")
    check_caps(body, arrival.adapter, catalogue.limits)
    asked = read_asked(body, arrival.headers)
    unseen = arrival.adapter.unseen_history(body)
    plan = plan_for(arrival, model, asked, catalogue, unseen=unseen)
    if arrival.adapter.route in SERVER_ROUTES:
        refuse_servers(body, plan.mcp_servers)
    moderation = None
    if "moderation" in body:
        moderation = _take_moderation(body, arrival.adapter, catalogue.moderation)
        if moderation is not None:
            plan = tighten_plan(plan, moderation)
    if served.model is not None:
        body["model"] = served.model
    if catalogue.limits.max_tokens is not None:
        wanted = catalogue.tokens_fields.get(served.upstream, "max_tokens")
        bound_reply(body, arrival.adapter.route, catalogue.limits.max_tokens, wanted)
    hide_usage = stream and served.upstream in catalogue.ask_usage and arrival.adapter.route in USAGE_ROUTES
    if hide_usage:
        hide_usage = ask_usage(body)
    call = Call(  # in the order of the fields: a constructor with keywords costs three times as much
        arrival.id,
        arrival.request_id,
        arrival.adapter,
        body,
        stream,
        model,
        served.upstream,
        plan,
        catalogue.version,
        arrival.caller.key_id,
        read_task(arrival.headers, catalogue.tasks),
        arrival.started,
        arrival.clock,
        catalogue.propagation.pass_on(tuple(arrival.headers.items()), arrival.id, served.upstream),
        "exchange",
        size_bytes,
        ("input",) if input_only else BOTH_STAGES,
        moderation,
        unseen,
        hide_usage,
        model in catalogue.models,
    )
    return catalogue.bypass.admit(call, arrival.headers)


def arrive(adapter: Adapter, caller: Caller, headers: Mapping[str, str], record_id: str, request_id: str) -> Arrival:
    """Return an arrival stamped with the time of now."""
    return Arrival(record_id, request_id, adapter, caller, headers, time.time(), perf_counter())


def plan_for(
    arrival: Arrival, model: str, asked: tuple[str, ...] | None, catalogue: Catalogue, *, unseen: bool = False
) -> Plan:
    """Return the merged plan of this caller, model and route."""
    caller = arrival.caller
    return catalogue.planner.plan(Request(model, caller.name, arrival.adapter.route, caller.tags, asked, unseen))


def find_model(body: Mapping[str, Any], caller: Caller, models: Mapping[str, ModelConfig]) -> tuple[str, ModelConfig]:
    """Return the model asked for and how it is served.

    Raises:
        RequestError: 400 when the field is missing, 403 when the key may not use it, 404 when nobody serves it.
    """
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise invalid("'model' must be the name of a model, see GET /v1/models.", "model")
    served = models.get(model) or models.get("*")
    if served is None:
        msg = f"The model {model[:100]!r} is not served here; GET /v1/models lists those that are."
        raise RequestError(404, "model_not_found", msg, param="model")
    caller.allow_model(model)
    return model, served


def read_task(headers: Mapping[str, str], tasks: Sequence[str]) -> str | None:
    """Return the caller's task tag if it is a configured word, ``other`` if it is not."""
    word = headers.get("x-guardrail-task")
    if word is None:
        return None
    return word if word in tasks and word != BYPASS_TASK else "other"


def _take_moderation(body: dict[str, Any], adapter: Adapter, settings: FieldSettings) -> FieldAsk | None:
    """Take the `moderation` field; where we cannot answer it, a silent pass would look like a promise."""
    if adapter.route in FIELD_ROUTES:
        return take_field(body, settings)
    if settings.mode != "forward":
        raise unsupported("moderation")
    return None


def read_asked(body: dict[str, Any], headers: Mapping[str, str]) -> tuple[str, ...] | None:
    """Take the supervisors that a caller asks for, in the body or in `x-guardrail-add`; None when it names none.

    Raises:
        RequestError: 400 ``invalid_guardrails`` for anything but names.
    """
    in_body = take_guardrails(body)
    header = headers.get("x-guardrail-add")
    if header is None:
        return in_body
    names = [name.strip() for name in header.split(",") if name.strip()]
    if not names:  # an empty header adds nothing; it is no way to leave something out
        return in_body
    return tuple(dict.fromkeys([*(in_body or ()), *names]))
