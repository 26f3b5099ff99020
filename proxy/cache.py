"""Verdicts kept for a while: the same question to the same supervisor under the same config (G-43, G-44)."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from time import monotonic
from types import MappingProxyType
from typing import Any, Literal

from proxy.declared import CacheConfig
from supervisors.nesting import let_through
from supervisors.types import Assessment, Cause, Context, Exchange, Label, Passing, Scope, Segment, Supervisor, Verdict

OnLookup = Callable[[str, Literal["miss", "expired"]], None]

_FORMAT = 3
"""Of the key; another one makes every kept verdict unreachable."""


@dataclass(frozen=True, slots=True)
class _Kept:
    verdict: Verdict
    until: float


class VerdictCache:
    """The verdicts of one supervisor, the longest unused one forgotten first.

    Args:
        name: configured name of the supervisor.
        settings: how long and how many.
        version: config version, which covers prompt, card, model, threshold and policy.
        on_lookup: told of every look-up that found nothing usable.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        settings: CacheConfig,
        version: str,
        on_lookup: OnLookup,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._name = name
        self._settings = settings
        self._version = version
        self._on_lookup = on_lookup
        self._clock = clock
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def key(self, exchange: Exchange, caller: str, mild: Mapping[Scope, Passing] = MappingProxyType({})) -> bytes:
        """Return the digest of everything a verdict may depend on.

        Args:
            exchange: what is judged.
            caller: name of the key; callers share nothing unless the scope is ``global``.
            mild: what becomes of findings where the verdict is asked for: where they may pass, more is asked.
        """
        scope = caller if self._settings.scope == "key" else None
        where = [scope, exchange.stage, exchange.choice, exchange.model, sorted(mild.items())]
        head = [_FORMAT, self._name, self._version, *where]
        texts = [[_parts(segment) for segment in side] for side in (exchange.request, exchange.reply)]
        signals = [astuple(signal) for signal in exchange.signals]
        return sha256(json.dumps([head, texts, signals]).encode()).digest()

    def find(self, key: bytes) -> Verdict | None:
        """Return the verdict kept under a key."""
        kept = self._kept.get(key)
        if kept is None:
            self._on_lookup(self._name, "miss")
            return None
        if self._clock() >= kept.until:
            del self._kept[key]
            self._on_lookup(self._name, "expired")
            return None
        self._kept.move_to_end(key)
        return kept.verdict

    def keep(self, key: bytes, verdict: Verdict) -> None:
        """Keep a verdict, stamped as what it will be when it is found; what is unknown, or in part, is not kept."""
        if verdict.label is Label.UNKNOWN or verdict.rest not in (None, Cause.SKIPPED):
            return
        self._kept[key] = _Kept(replace(_spent(verdict), cached=True), self._clock() + self._settings.ttl_s)
        self._kept.move_to_end(key)
        if len(self._kept) > self._settings.max_entries:
            self._kept.popitem(last=False)


class Cached:
    """A supervisor that looks before it asks; in everything else it is the supervisor itself.

    Args:
        supervisor: whom to ask.
        cache: its verdicts.
        caller: name of the key whose plan this is.
    """

    def __init__(self, supervisor: Supervisor, cache: VerdictCache, caller: str) -> None:
        self._supervisor = supervisor
        self._cache = cache
        self._caller = caller

    def __getattr__(self, name: str) -> Any:
        return getattr(self._supervisor, name)

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Return the kept verdict, or ask and keep.

        A growing stream is not looked up: its parts do not come again. Nor is media, whose bytes are elsewhere.
        """
        if not exchange.complete or any(segment.media is not None for segment in _segments(exchange)):
            return await self._supervisor.assess(exchange, context)
        key = self._cache.key(exchange, self._caller, let_through(context))
        found = self._cache.find(key)
        if found is not None:
            return found
        verdict = await self._supervisor.assess(exchange, context)
        if isinstance(verdict, Verdict):  # pyright: ignore[reportUnnecessaryIsInstance] # a plugin may break its promise
            self._cache.keep(key, verdict)
        return verdict


class Caches:
    """The caches of one config version.

    Args:
        settings: by supervisor.
        version: config version.
        on_lookup: told of every look-up that found nothing usable.
    """

    def __init__(self, settings: Mapping[str, CacheConfig], version: str, on_lookup: OnLookup) -> None:
        self._caches = {name: VerdictCache(name, one, version, on_lookup) for name, one in settings.items()}

    def remember(self, name: str, supervisor: Supervisor, caller: str) -> Supervisor:
        """Return the supervisor as it serves one caller."""
        cache = self._caches.get(name)
        return supervisor if cache is None else Cached(supervisor, cache, caller)


def _segments(exchange: Exchange) -> Iterator[Segment]:
    yield from exchange.request
    yield from exchange.reply


def _parts(segment: Segment) -> list[object]:
    return [segment.path, segment.role, segment.kind, segment.turn, segment.choice, segment.text]


def _spent(verdict: Verdict) -> Verdict:
    """Return the verdict without what its calls cost: a verdict that is found again costs nothing."""
    extras = {name: value for name, value in verdict.extras.items() if name != "repaired"}
    members: tuple[Assessment, ...] = tuple(
        [replace(member, verdict=_spent(member.verdict)) for member in verdict.members]
    )
    return replace(verdict, tokens=None, cost=None, members=members, extras=extras)
