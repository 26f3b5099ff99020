"""A model server behind its breaker and its places (G-46, G-47)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from proxy.limited import Fuse, Limited
from proxy.limits import Places
from proxy.ports import CallerHeaders
from proxy.upstream import UpstreamReply, UpstreamStream
from proxy.upstream_errors import UpstreamStatusError, protocol_error, timeout_error
from supervisors.chat.breaker import Breaker, BreakerState
from supervisors.errors import UpstreamError


def status_error(status: int) -> UpstreamError:
    return UpstreamStatusError("x", status=status, code="c", error_type="t", param=None, headers=())


def connect_error() -> UpstreamError:
    return UpstreamError("x", status=502, code="upstream_error", kind="connect")


def refused_error() -> UpstreamError:
    return UpstreamError("x", status=502, code="upstream_error", kind="status")


@dataclass
class FakeModel:
    """A model that fails as told, then answers."""

    errors: list[UpstreamError] = field(default_factory=list[UpstreamError])
    calls: int = 0

    async def complete(self, path: str, body: bytes, headers: CallerHeaders) -> UpstreamReply:
        self._fail()
        return UpstreamReply(200, (), b"{}")

    @asynccontextmanager
    async def stream(self, path: str, body: bytes, headers: CallerHeaders) -> AsyncGenerator[UpstreamStream]:
        self._fail()
        yield UpstreamStream(200, (), _nothing())

    def _fail(self) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)


async def _nothing() -> AsyncIterator[bytes]:
    for data in list[bytes]():
        yield data


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def limited(model: FakeModel, clock: Clock, places: Places | None = None) -> Limited:
    return Limited(model, Fuse(Breaker(clock, failures=2, open_s=60.0), name="upstream main"), places)


async def call(model: Limited, *, stream: bool) -> None:
    if stream:
        async with model.stream("/x", b"{}", ()):
            pass
    else:
        await model.complete("/x", b"{}", ())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("error", [connect_error(), timeout_error(), status_error(503)])
async def test_a_server_that_is_down_is_not_called_until_the_pause_is_over(
    error: UpstreamError, stream: bool
) -> None:  # F-09
    fake, clock = FakeModel([error, error]), Clock()
    model = limited(fake, clock, Places(1, 0))
    for _ in range(2):
        with pytest.raises(UpstreamError):
            await call(model, stream=stream)
    with pytest.raises(UpstreamStatusError, match="not called for a while") as caught:
        await call(model, stream=stream)
    assert (caught.value.status, caught.value.kind, caught.value.headers) == (
        502,
        "circuit_open",
        (("retry-after", "60"),),
    )
    assert (fake.calls, model.fuse.failing) == (2, True)
    clock.now = 60.0
    await call(model, stream=stream)
    assert (fake.calls, model.fuse.state) == (3, BreakerState.CLOSED)


async def test_a_breaker_is_logged_once_when_it_opens_and_once_when_it_closes(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    model = limited(FakeModel([connect_error()] * 4), clock)
    for now in (0.0, 0.0, 60.0, 120.0):  # two failures, and two probes that fail as well
        clock.now = now
        with pytest.raises(UpstreamError):
            await call(model, stream=False)
    clock.now = 180.0
    await call(model, stream=False)
    await call(model, stream=False)
    shown = [(line.getMessage(), vars(line)["dependency"]) for line in caplog.records]
    assert shown == [
        ("dependency fails", "upstream main"),
        ("dependency fails and is not called for a while", "upstream main"),
        ("dependency answers again", "upstream main"),
    ]
    assert (vars(caplog.records[1])["cause"], vars(caplog.records[1])["pause_s"]) == ("connect", 60)


@pytest.mark.parametrize("error", [status_error(400), status_error(429), status_error(500), protocol_error("x")])
async def test_what_one_request_may_have_caused_stops_no_other(error: UpstreamError) -> None:
    model = limited(FakeModel([error] * 9), Clock())
    for _ in range(9):
        with pytest.raises(UpstreamError):
            await call(model, stream=False)
    assert model.fuse.state is BreakerState.CLOSED


async def test_refused_credentials_show_until_a_call_is_taken() -> None:  # F-05
    model = limited(FakeModel([refused_error()]), Clock())
    with pytest.raises(UpstreamError):
        await call(model, stream=False)
    assert model.fuse.failing
    await call(model, stream=False)
    assert not model.fuse.failing


@pytest.mark.parametrize("stream", [False, True])
async def test_every_place_comes_back(stream: bool) -> None:
    places = Places(1, 0)
    model = limited(FakeModel([status_error(500), connect_error()]), Clock(), places)
    for _ in range(2):
        with pytest.raises(UpstreamError):
            await call(model, stream=stream)
    await call(model, stream=stream)
    assert places.taken == 0


async def test_a_stream_holds_its_place_to_its_end() -> None:
    places = Places(1, 0)
    model = limited(FakeModel(), Clock(), places)
    async with model.stream("/x", b"{}", ()):
        assert places.taken == 1
    assert places.taken == 0


async def test_a_server_that_begins_to_fail_is_logged_once_until_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    # O-23
    model = limited(FakeModel([status_error(400), status_error(404), status_error(404)]), Clock())
    for _ in range(3):
        with pytest.raises(UpstreamError):
            await call(model, stream=False)
    await call(model, stream=False)
    await call(model, stream=False)
    shown = [(line.getMessage(), vars(line).get("reason"), vars(line).get("status")) for line in caplog.records]
    assert shown == [("dependency fails", "status", 404), ("dependency answers again", None, None)]
    assert {vars(line)["dependency"] for line in caplog.records} == {"upstream main"}
