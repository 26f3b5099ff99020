"""Everything one config version needs to serve: built once, entered once, closed when its last request has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import Any, cast

from proxy.addresses import open_addresses
from proxy.bounded import Bounded, bound_supervisors
from proxy.bypass import Bypass
from proxy.cache import Caches
from proxy.call import Call
from proxy.checks import check_config, refuse_errors
from proxy.config import Config, config_version
from proxy.declared import LocalUpstreamConfig, UpstreamConfig
from proxy.keeping import Keeper
from proxy.keys import Keyring
from proxy.limited import Fuse, Limited, LimitedServer
from proxy.limits import Places
from proxy.metrics import Metrics
from proxy.misrouted import CHECK_ROUTE, SERVED_BELOW
from proxy.pipeline import Pipeline
from proxy.plan import OPAQUE, TOOLS, UNSEEN, Planner, StagePlan, forced_names, policy_rules
from proxy.ports import Model, Settings
from proxy.prepare import Catalogue
from proxy.resolving import owner_of
from proxy.reviving import KeptServer
from proxy.sinks import JournalSinks
from proxy.store.protocol import Journal
from proxy.store.reach import Attached, KnownKey, Reach
from proxy.store.rules import Archive, Labels
from proxy.tracing import Tracer, Traces, propagation_of, providers_of
from proxy.translating import ChatBacked
from proxy.upstream import Upstream
from proxy.upstream_settings import UpstreamSettings
from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.embeddings import EMBEDDINGS
from proxy.wire.messages import MESSAGES
from proxy.wire.moderation_field import FieldSettings
from proxy.wire.moderations import MODERATIONS
from proxy.wire.responses import RESPONSES
from supervisors.ask import close_part, open_part
from supervisors.chat import Budget, ChatService, ChatSettings
from supervisors.chat.breaker import Breaker
from supervisors.nesting import walk
from supervisors.transport import HttpClient, TransportLimits
from supervisors.types import Context, Endpoint

log = logging.getLogger(__name__)

ROUTES = frozenset(
    {
        CHAT.route,
        COMPLETIONS.route,
        EMBEDDINGS.route,
        MODERATIONS.route,
        RESPONSES.route,
        MESSAGES.route,
        *SERVED_BELOW,
        CHECK_ROUTE,
        "/metrics",
        "/health",
        "/livez",
        "/readyz",
        "/openapi.json",
    }
)


class Users:
    """Who is served with a runtime; the last one to leave a retired runtime sets `gone`."""

    __slots__ = ("_retired", "gone", "number")

    def __init__(self) -> None:
        self.number = 0
        self.gone = asyncio.Event()
        self._retired = False

    def leave(self) -> None:
        """Note that one has left."""
        self.number -= 1
        if self._retired and not self.number:
            self.gone.set()

    def retire(self) -> None:
        """Let nobody new in; those inside may stay."""
        self._retired = True
        if not self.number:
            self.gone.set()

    def close(self) -> None:
        """Wait for nobody: the process ends."""
        self.gone.set()


@dataclass(frozen=True, slots=True)
class Runtime:
    """What requests of one config version use.

    Args:
        config: as validated.
        version: its digest.
        keyring: callers.
        catalogue: models, policies, caps.
        models: model servers by configured name.
        limited: models that have places of their own, by configured name.
        pipeline: the line.
        sinks: journal and shadow queue.
        chat: model calls of supervisors.
        open_contexts: makes, for one exchange, the function that opens the context of a stage.
        bounded: supervisors that have places of their own, by configured name.
        kept: local model servers by upstream.
        users: who is served with it now.
    """

    config: Config
    version: str
    keyring: Keyring
    catalogue: Catalogue
    models: Mapping[str, LimitedServer]
    limited: Mapping[str, Limited]
    pipeline: Pipeline
    sinks: JournalSinks
    chat: ChatService
    open_contexts: Callable[[], Callable[[StagePlan], Context]]
    bounded: Mapping[str, Bounded]
    kept: Mapping[str, KeptServer]
    users: Users = field(default_factory=Users)

    def model_for(self, call: Call) -> Model:
        """Return the model server of a call, translating where it does not speak the caller's protocol."""
        model: Model = self.models[call.upstream]
        if self.limited:
            model = self.limited.get(call.model if call.model in self.catalogue.models else "*", model)
        if call.adapter is not MESSAGES or speaks_messages(self.config.upstreams[call.upstream]):
            return model
        return ChatBacked(model)

    def places(self) -> Mapping[str, Places]:
        """Return what bounds calls, by the name its gauges carry."""
        servers = {f"upstream {name}": server.places for name, server in self.models.items()}
        named = {f"model {name}": model.places for name, model in self.limited.items()}
        own = {f"supervisor {name}": supervisor.places for name, supervisor in self.bounded.items()}
        return {name: places for name, places in {**servers, **named, **own}.items() if places is not None}


def speaks_messages(settings: UpstreamConfig | LocalUpstreamConfig) -> bool:
    """Say whether an upstream serves `/messages` itself."""
    return isinstance(settings, UpstreamConfig) and settings.vendor == "anthropic" and settings.base_url is not None


def tells_usage(settings: UpstreamConfig | LocalUpstreamConfig) -> bool:
    """Say whether an upstream is asked for the usage of every stream; the local model is known to tell it."""
    return isinstance(settings, LocalUpstreamConfig) or settings.stream_usage


@asynccontextmanager
async def open_runtime(
    config: Config,
    journal: Journal,
    metrics: Metrics,
    hmac_key: bytes | None = None,
    tracer: Tracer | None = None,
) -> AsyncGenerator[Runtime]:
    """Build clients, warm supervisors, archive the config, and close everything at the end.

    Args:
        config: validated.
        journal: takes the records.
        metrics: shown the names of this config.
        hmac_key: of the digests, where the config names none.
        tracer: exports the exchanges, None without tracing.

    Raises:
        ConfigError: settings that cannot work together, or something a supervisor needs is missing.
    """
    refuse_errors(config)
    _warn(config)
    version = config_version(config)
    async with AsyncExitStack() as stack:
        opened = await open_addresses(stack, config, metrics.count_restart)
        addresses = opened.settings
        upstreams = {name: Upstream(address) for name, address in addresses.items()}
        for upstream in upstreams.values():
            stack.push_async_callback(upstream.aclose)
        models = {name: limit_server(upstream, config, name) for name, upstream in upstreams.items()}
        for name, supervisor in config.supervisors.items():
            for full, part in walk(name, supervisor):
                if hasattr(part, "__aenter__"):
                    holder = cast("AbstractAsyncContextManager[Any]", part)
                    await open_part(full, holder)
                    stack.push_async_callback(close_part, full, holder)
        chat = await _open_chat(stack, config, addresses)
        opener = _context_opener(chat, config)
        keeper = Keeper(config.journal.input, config.journal.output, _hmac_key(config, hmac_key))
        required = config.journal.on_record_failure == "block"
        sinks = JournalSinks(journal, keeper, opener, required=required, notes=config.journal.stream_notes)
        labels = declared_labels(config)
        if tracer is not None:
            sinks.traces = Traces(tracer, labels, providers_of(config))
        await journal.archive_config(version, _archive(config, labels).to_text())
        metrics.declare(version, labels, [route.path for route in config.unguarded_routes])
        line_settings = Settings(config.expose, config.limits.request_timeout_s, opener)
        caches = Caches(config.caches, version, metrics.count_cache)
        asked_of = bound_supervisors(config.supervisors, config.places, config.limits.max_queue)
        planner = Planner(config.policies, asked_of, remember=caches.remember if config.caches else None)
        field = FieldSettings(config.moderation_field, config.moderation_aliases())
        asked = frozenset([name for name, upstream in config.upstreams.items() if tells_usage(upstream)])
        catalogue = Catalogue(
            config.served_models(),
            planner,
            config.limits,
            config.tasks,
            version,
            field,
            asked,
            open_bypass(config),
            propagation_of(config),
            {name: one.tokens_field for name, one in config.upstreams.items() if isinstance(one, UpstreamConfig)},
        )
        pipeline = Pipeline(line_settings, sinks)
        keyring = Keyring(config.keys)
        limited = limit_models(config, models)
        bounded = {name: part for name, part in asked_of.items() if isinstance(part, Bounded)}
        yield Runtime(
            config, version, keyring, catalogue, models, limited, pipeline, sinks, chat, opener, bounded, opened.kept
        )


def limit_server(upstream: Upstream, config: Config, name: str) -> LimitedServer:
    """Put a model server behind its breaker and its places."""
    settings = config.upstreams[name]
    if isinstance(settings, LocalUpstreamConfig):
        return LimitedServer(upstream, Fuse(name=f"upstream {name}"))
    failures = settings.breaker_failures
    breaker = Breaker(asyncio.get_running_loop().time, failures, settings.breaker_open_s) if failures else None
    number = settings.max_concurrency
    fuse = Fuse(breaker, name=f"upstream {name}")
    return LimitedServer(upstream, fuse, Places(number, config.limits.max_queue) if number else None)


def limit_models(config: Config, servers: Mapping[str, LimitedServer]) -> Mapping[str, Limited]:
    """Return the models that have places of their own."""
    return {
        name: Limited(servers[model.upstream], Fuse(), Places(model.max_concurrency, config.limits.max_queue))
        for name, model in config.served_models().items()
        if model.max_concurrency is not None
    }


@asynccontextmanager
async def open_chat(config: Config) -> AsyncGenerator[ChatService]:
    """Start what the judges of a config need to be asked outside the proxy, local models included.

    Raises:
        ConfigError: settings that cannot work together, or something is missing.
    """
    refuse_errors(config)
    _warn(config)
    async with AsyncExitStack() as stack:
        opened = await open_addresses(stack, config)
        yield await _open_chat(stack, config, opened.settings)


def _warn(config: Config) -> None:
    for finding in check_config(config):
        if finding.severity == "warning":
            log.warning("configuration warning", extra={"setting": finding.path, "problem": finding.message})


async def _open_chat(stack: AsyncExitStack, config: Config, addresses: Mapping[str, UpstreamSettings]) -> ChatService:
    client = HttpClient(TransportLimits(read_s=600.0))
    stack.push_async_callback(client.aclose)
    served, bypass = config.served_models(), open_bypass(config)

    def resolve(endpoint: Endpoint) -> Endpoint:
        if endpoint.url is not None:
            return endpoint
        model = served.get(endpoint.model) or served.get("*")
        if model is None:
            return endpoint
        address, name = addresses[model.upstream], model.model or endpoint.model
        sign = bypass.signer(name) if getattr(config.upstreams[model.upstream], "bypass", False) else None
        key, vendor, more = address.api_key, address.vendor, address.extra_headers
        return Endpoint(name, address.base_url, key, vendor, sign, more, model.price)

    limits = config.limits
    settings = ChatSettings(
        max_concurrency=limits.judge_concurrency,
        max_per_model=limits.judge_concurrency_per_model,
        max_waiting=limits.max_queue,
    )
    return ChatService(client, settings, resolve=resolve, name_of=owner_of(config))


def open_bypass(config: Config) -> Bypass:
    """Return the tokens that this proxy makes and takes."""
    settings = config.bypass
    return Bypass() if settings is None else Bypass(settings.secret.value, settings.ttl_s, settings.accept)


def _context_opener(chat: ChatService, config: Config) -> Callable[[], Callable[[StagePlan], Context]]:
    limits = config.limits

    def open_contexts() -> Callable[[StagePlan], Context]:
        budget = Budget(limits.judge_calls_per_request, limits.judge_cost_usd_per_request)

        def open_context(plan: StagePlan) -> Context:
            return chat.context(plan.timeout_s, budget, exhaustive=plan.exhaustive, let_through=plan.let_through)

        return open_context

    return open_contexts


def _hmac_key(config: Config, fallback: bytes | None) -> bytes:
    """Return the key of the digests; without a configured one, equal texts can be matched within one start only."""
    secret = config.journal.hmac_key
    return secret.value.encode() if secret is not None else fallback or token_bytes(32)


def declared_labels(config: Config) -> Labels:
    """Return the names that metric labels may take (O-17)."""
    names = [full for name, supervisor in config.supervisors.items() for full, _ in walk(name, supervisor)]
    return Labels(
        models=frozenset([*config.served_models(), *config.moderation_aliases()]) - {"*"},
        supervisors=frozenset([*names, OPAQUE, TOOLS, UNSEEN]),
        policies=frozenset(config.policies),
        upstreams=frozenset(config.upstreams),
        routes=ROUTES | {route.path for route in config.unguarded_routes},
    )


def _archive(config: Config, labels: Labels) -> Archive:
    rules = {name: policy_rules(name, policy) for name, policy in config.policies.items()}
    forced = {name: forced_names(policy) for name, policy in config.policies.items()}
    attached = {
        name: Attached(one.attach.models, one.attach.keys, one.attach.routes, one.attach.tags)
        for name, one in config.policies.items()
    }
    keys = {one.digest[:12]: KnownKey(name, one.tags) for name, one in config.keys.items()}
    unguarded = frozenset(route.path for route in config.unguarded_routes)
    passing = config.bypass.accept if config.bypass is not None else ()
    reach = Reach(attached, keys, config.moderation_aliases(), unguarded, config.journal.retention_days, passing)
    return Archive(rules, labels, forced, reach)
