"""Verdicts that are kept (guarding G-43, G-44, D-13, D-14)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from proxy.cache import Cached, Caches, VerdictCache
from proxy.declared import CacheConfig
from supervisors.ask import is_local
from supervisors.signals import Signal
from supervisors.testing import Always, context, exchange
from supervisors.types import (
    Assessment,
    Cause,
    Context,
    Exchange,
    Media,
    Segment,
    Tokens,
    Verdict,
    safe,
    unknown,
    unsafe,
)


@dataclass
class Counts:
    """A supervisor that says the same and counts how often it is asked."""

    verdict: Verdict = field(default_factory=safe)
    asked: int = 0

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        self.asked += 1
        return self.verdict


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def build(version: str = "v", **settings: Any) -> tuple[VerdictCache, list[str], Clock]:
    told: list[str] = []
    clock = Clock()
    cache = VerdictCache("s", CacheConfig(**settings), version, lambda _, result: told.append(result), clock)
    return cache, told, clock


async def ask(supervisor: Cached, *texts: str, **changes: Any) -> Verdict:
    return await supervisor.assess(replace(exchange(*texts), **changes), context())


async def test_the_same_question_is_asked_once_and_the_answer_is_stamped() -> None:
    cache, told, clock = build(ttl_s=10)
    asked = Counts(replace(unsafe(), categories=("x",), score=0.9))
    supervisor = Cached(asked, cache, "app")
    first, second = await ask(supervisor, "hello"), await ask(supervisor, "hello")
    assert (first.cached, second.cached, asked.asked, told) == (False, True, 1, ["miss"])
    assert replace(second, cached=False) == first
    clock.now = 10.0
    assert not (await ask(supervisor, "hello")).cached
    assert (asked.asked, told) == (2, ["miss", "expired"])


@pytest.mark.parametrize("cause", list(Cause))
async def test_an_unknown_verdict_is_never_kept(cause: Cause) -> None:
    cache, _, _ = build()
    asked = Counts(unknown(cause))
    supervisor = Cached(asked, cache, "app")
    await ask(supervisor, "hello")
    await ask(supervisor, "hello")
    assert (asked.asked, len(cache)) == (2, 0)


SEGMENT = Segment("/messages/0/content", "user", "text", "hello")


@pytest.mark.parametrize(("rest", "asked"), [(None, 1), (Cause.SKIPPED, 1), (Cause.TIMEOUT, 2)])
async def test_a_finding_beside_what_nobody_has_judged_is_not_kept(rest: Cause | None, asked: int) -> None:
    cache, _, _ = build()
    panel = Counts(replace(unsafe("canary"), rest=rest))
    for _ in range(2):
        await ask(Cached(panel, cache, "ann"), "hello")
    assert panel.asked == asked


def test_where_a_finding_may_pass_another_verdict_is_asked_for() -> None:
    cache, _, _ = build()
    assert cache.key(exchange("x"), "ann") != cache.key(exchange("x"), "ann", {"tool_def": "log"})


@pytest.mark.parametrize(
    "other",
    [
        replace(SEGMENT, text="hello "),
        replace(SEGMENT, text="Hello"),
        replace(SEGMENT, role="system"),
        replace(SEGMENT, kind="tool_args"),
        replace(SEGMENT, turn=1),
        replace(SEGMENT, path="/messages/1/content"),
    ],
)
def test_whatever_a_verdict_may_depend_on_makes_another_key(other: Segment) -> None:  # G-43, D-14
    cache, _, _ = build()
    one = Exchange("a", "m", "input", (SEGMENT,))
    assert cache.key(one, "app") == cache.key(replace(one, id="b"), "app")
    different = (
        replace(one, request=(other,)),
        replace(one, request=(SEGMENT, other)),
        replace(one, stage="output", request=(), reply=(SEGMENT,)),
        replace(one, model="n"),
        replace(one, choice=0),
    )
    assert cache.key(one, "app") not in {cache.key(each, "app") for each in different}
    assert cache.key(one, "app") != build("w")[0].key(one, "app")  # D-13


def test_callers_share_nothing_unless_the_config_says_so() -> None:  # G-44
    one = exchange("hello")
    apart, shared = build()[0], build(scope="global")[0]
    assert apart.key(one, "a") != apart.key(one, "b")
    assert shared.key(one, "a") == shared.key(one, "b") != apart.key(one, "a")


async def test_the_longest_unused_is_forgotten_first() -> None:
    cache, _, _ = build(max_entries=2)
    asked = Counts()
    supervisor = Cached(asked, cache, "app")
    for text in ("a", "b", "a", "c", "a", "b"):
        await ask(supervisor, text)
    assert (asked.asked, len(cache)) == (4, 2)


async def test_growing_streams_and_media_are_asked_every_time() -> None:
    cache, told, _ = build()
    asked = Counts()
    supervisor = Cached(asked, cache, "app")
    image = Segment("/m", "user", "media", "", media=Media("image/png", 3, "0" * 64))
    for _ in range(2):
        await ask(supervisor, "hello", complete=False)
        await ask(supervisor, "hello", request=(image,))
    assert (asked.asked, told) == (4, [])


async def test_a_verdict_that_is_found_costs_nothing_again() -> None:
    cache, _, _ = build()
    spent = replace(unsafe(), tokens=Tokens(5, 6), cost=0.1, extras={"repaired": True, "x": 1})
    panel = replace(spent, members=(Assessment("a", spent),))
    supervisor = Cached(Counts(panel), cache, "app")
    await ask(supervisor, "hello")
    found = await ask(supervisor, "hello")
    for verdict in (found, found.members[0].verdict):
        assert (verdict.tokens, verdict.cost, dict(verdict.extras)) == (None, None, {"x": 1})


def test_a_supervisor_without_a_cache_stays_itself_and_one_with_keeps_its_traits() -> None:
    def tell(name: str, result: str) -> None:
        pytest.fail(f"nobody looked for {name}: {result}")

    caches = Caches({"s": CacheConfig()}, "v", tell)
    plain = Always(safe())
    assert caches.remember("other", plain, "app") is plain
    kept = caches.remember("s", plain, "app")
    assert kept is not plain
    assert is_local(kept) is is_local(plain)


async def test_another_report_of_the_provider_is_another_question() -> None:
    cache, _, _ = build()
    inner = Counts()
    cached = Cached(inner, cache, "key")
    for signals in ((), (Signal("azure", "prompt", "hate", "none"),), (Signal("azure", "prompt", "hate", "filtered"),)):
        await ask(cached, "hello", signals=signals)
    assert inner.asked == 3
