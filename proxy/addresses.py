"""Where the model servers of a config are: those it names, and the local ones, which are started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from proxy.config import Config
from proxy.declared import LocalUpstreamConfig, UpstreamConfig
from proxy.local import LocalSettings
from proxy.reviving import KeptServer, keep_local
from proxy.upstream_settings import UpstreamSettings
from supervisors.errors import ConfigError, MissingError


@dataclass(frozen=True, slots=True)
class Addresses:
    """What is known of the model servers.

    Args:
        settings: of each, by upstream.
        kept: the local ones, by upstream.
    """

    settings: Mapping[str, UpstreamSettings]
    kept: Mapping[str, KeptServer]


def _count_nothing(upstream: str, number: int) -> None:
    """Count nowhere."""


async def open_addresses(
    stack: AsyncExitStack, config: Config, count_restart: Callable[[str, int], None] = _count_nothing
) -> Addresses:
    """Start the local servers, which the stack ends, and return where everybody is.

    Args:
        stack: of the config's life.
        config: validated.
        count_restart: told how many further starts of a local server there have been, at first none.

    Raises:
        ConfigError: settings that cannot be right, or what a local server needs is missing.
    """
    settings: dict[str, UpstreamSettings] = {}
    kept: dict[str, KeptServer] = {}
    for name, upstream in config.upstreams.items():
        if isinstance(upstream, LocalUpstreamConfig):
            count_restart(name, 0)
            kept[name] = await _keep(stack, name, upstream, partial(count_restart, name, 1))
            settings[name] = _local_address(kept[name], upstream, config.limits.max_reply_bytes)
        else:
            settings[name] = _address(name, upstream, config.limits.max_reply_bytes)
    return Addresses(settings, kept)


async def _keep(
    stack: AsyncExitStack, name: str, upstream: LocalUpstreamConfig, on_restart: Callable[[], None]
) -> KeptServer:
    local = LocalSettings(upstream.model, upstream.path, upstream.n_ctx, upstream.slots, upstream.threads)
    try:
        return await stack.enter_async_context(keep_local(local, name, on_restart))
    except MissingError as error:
        raise MissingError(str(error).removeprefix(f"{error.path}: "), f"upstreams.{name}.path") from error


def _local_address(server: KeptServer, upstream: LocalUpstreamConfig, max_reply: int) -> UpstreamSettings:
    return UpstreamSettings(
        server.url,
        server.api_key,
        idle_s=upstream.idle_timeout_s,
        timeout_s=upstream.timeout_s,
        max_reply_bytes=max_reply,
        lacks=("/embeddings",),
    )


def _address(name: str, settings: UpstreamConfig, max_reply: int) -> UpstreamSettings:
    try:
        return UpstreamSettings(
            base_url=settings.base_url,
            api_key=settings.api_key.value if settings.api_key else None,
            vendor=settings.vendor,
            connect_s=settings.connect_timeout_s,
            idle_s=settings.idle_timeout_s,
            timeout_s=settings.timeout_s,
            retries=settings.retries,
            forward_headers=settings.forward_headers,
            extra_headers=tuple(settings.fixed_headers()),
            secrets=tuple(settings.header_secrets()),
            max_connections=settings.max_connections,
            max_reply_bytes=max_reply,
            proxy=settings.proxy.value if settings.proxy else None,
            allow_link_local=settings.allow_link_local,
            propagate_trace=settings.propagate_trace,
        )
    except ConfigError as error:
        message = str(error).removeprefix(f"{error.path}: ")
        raise ConfigError(message, f"upstreams.{name}.{error.path}") from error
