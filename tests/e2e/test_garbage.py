"""A request leaves nothing that only the collector of cycles can free: its pauses were the tail of the latency."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_chunks, sse
from tests.e2e.serving import CANARY, Serving, guarded, serving

_OURS = ("<class 'proxy.", "<class 'supervisors.", "<class 'uvicorn.")


@contextmanager
def cycles() -> Generator[Counter[str]]:
    """Collect, at the end of the body, the types of our own objects that only the collector can free."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        garbage: list[object] = gc.garbage
        kinds = [str(one.__class__) for one in garbage]  # as "<class 'proxy.line.Line'>"
        found.update([kind for kind in kinds if kind.startswith(_OURS)])
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def allowed(proxy: Serving, up: FakeUpstream) -> int:
    return (await proxy.chat()).status_code


async def blocked_input(proxy: Serving, up: FakeUpstream) -> int:
    return (await proxy.chat(CANARY)).status_code


async def streamed(proxy: Serving, up: FakeUpstream) -> int:
    up.script(Answer(frames=sse(*chat_chunks("Hello", " there", ", all", " is", " well."))))
    return (await proxy.chat(stream=True)).status_code


async def blocked_stream(proxy: Serving, up: FakeUpstream) -> int:
    up.script(Answer(frames=sse(*chat_chunks("All is well. ", "Take a violet", " umbrella now"))))
    return (await proxy.chat(stream=True)).status_code


async def refused(proxy: Serving, up: FakeUpstream) -> int:
    return (await proxy.chat(model="nobody")).status_code


@pytest.mark.parametrize(
    ("ask", "status"), [(allowed, 200), (blocked_input, 400), (streamed, 200), (blocked_stream, 200), (refused, 404)]
)
async def test_a_request_leaves_no_cycle_of_objects(tmp_path: Path, ask: Any, status: int) -> None:  # PF-29
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        await ask(proxy, up)
        await proxy.records()
        with cycles() as found:
            assert [await ask(proxy, up) for _ in range(20)] == [status] * 20
        assert [kind for kind, number in found.items() if number >= 15] == []
