"""Chat for all supervisors: retries, semaphore, breakers, and what each server was found to accept."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from supervisors.chat.breaker import Breaker, BreakerState
from supervisors.chat.calls import Formats, Progress, Transient, call_model, post_json
from supervisors.chat.context import Budget, ChatContext
from supervisors.chat.retrying import retry
from supervisors.errors import (
    ChatError,
    ChatRefused,
    ChatTimeout,
    ChatUnavailable,
    ConfigError,
    GuardrailError,
    ReplyError,
)
from supervisors.transport import HttpClient, check_base_url
from supervisors.types import ChatReply, ChatRequest, Endpoint, Passing, Scope, Tokens

log = logging.getLogger(__name__)

T = TypeVar("T")

_DOWN = frozenset({502, 503, 504})
"""Statuses of a server that is down; a 500, a 429 or a broken reply may be the fault of one caller's text."""

_REFUSED = frozenset({401, 403, 404})
_UNAUTHORIZED = 401
_OK, _FIRST_ERROR = 200, 400
_BACKOFF_S = 0.25


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """Bounds of all model calls of supervisors.

    Args:
        retries: further attempts after a connect error, 408, 429 or 5xx (G-48).
        max_concurrency: calls under way (G-46).
        max_per_model: calls of one model under way, so that a slow one leaves places to the others.
        max_waiting: calls waiting for their turn; more are refused.
        breaker_failures: failures in a row that open a breaker (G-47).
        breaker_open_s: its pause.
        max_reply_bytes: largest reply.
    """

    retries: int = 1
    max_concurrency: int = 64
    max_per_model: int = 64
    max_waiting: int = 256
    breaker_failures: int = 5
    breaker_open_s: float = 60.0
    max_reply_bytes: int = 8 * 2**20


_DEFAULTS = ChatSettings()


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One finished call, for metrics: never a URL, a key or a text.

    Args:
        dependency: model name as configured; of a hosted guard the supervisor's name, or ``hosted:`` and eight hex
            digits of its URL's hash where no supervisor is known for it.
        outcome: ok, refused, timeout, unavailable, reply, or cancelled.
        seconds: wall-clock time, waiting and retries included.
        attempts: HTTP requests made.
        status: of the failure, if one was received.
        tokens: as reported.
        cost: US dollars as reported.
    """

    dependency: str
    outcome: str
    seconds: float
    attempts: int
    status: int | None = None
    tokens: Tokens | None = None
    cost: float | None = None


@dataclass(slots=True)
class _Dependency:
    """What is known about one backend.

    Args:
        name: label for metrics.
        breaker: its breaker.
        slots: places of calls under way.
        formats: what it accepts.
        refused: last status if that was 401, 403 or 404: credentials or address are wrong, `/readyz` is degraded.
        told: that its breaker is open has been logged.
        answered: it has taken a call since the start: a 403 or 404 after that may be about one text.
    """

    name: str
    breaker: Breaker
    slots: asyncio.Semaphore
    formats: Formats = field(default_factory=Formats)
    refused: int | None = None
    answered: bool = False
    told: bool = False

    @property
    def failing(self) -> bool:
        """Say whether it fails whatever it is asked, as far as its answers tell."""
        refused = self.refused is not None and (self.refused == _UNAUTHORIZED or not self.answered)
        return refused or self.breaker.state is not BreakerState.CLOSED

    def heard(self, status: int) -> None:
        """Note what the status of an answer says about credentials and address."""
        self.refused = status if status in _REFUSED else None
        self.answered = self.answered or status < _FIRST_ERROR


class ChatService:
    """Make the model calls of all supervisors.

    Args:
        client: shared HTTP client.
        settings: bounds.
        resolve: turns an alias (an `Endpoint` without URL) into the real endpoint.
        name_of: says which configured supervisor a hosted guard's URL belongs to, None when none does.
        on_call: told of every finished call.
        seed: of the jitter.
    """

    def __init__(
        self,
        client: HttpClient,
        settings: ChatSettings = _DEFAULTS,
        *,
        resolve: Callable[[Endpoint], Endpoint] | None = None,
        name_of: Callable[[str], str | None] | None = None,
        on_call: Callable[[ModelCall], None] | None = None,
        seed: int | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._resolve = resolve
        self._name_of = name_of
        self._on_call = on_call
        self._random = random.Random(seed)  # noqa: S311 - spreads retries, guards nothing
        self._slots = asyncio.Semaphore(settings.max_concurrency)
        self._waiting = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._dependencies: dict[tuple[str, str, str], _Dependency] = {}

    def context(
        self,
        timeout_s: float,
        budget: Budget | None = None,
        *,
        exhaustive: bool = False,
        let_through: Mapping[Scope, Passing] = MappingProxyType({}),
    ) -> ChatContext:
        """Return the context of one stage of one exchange.

        Args:
            timeout_s: until the stage's deadline.
            budget: shared by the stages of the request; None gives a fresh default one.
            exhaustive: composites ask every member although their label is fixed.
            let_through: by scope, what may become of a text with a finding there, where that is not a block.
        """
        loop = self._loop
        if loop is None:  # asked for once: finding it is a call of the kernel
            loop = self._loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        return ChatContext(self, loop, deadline, budget or Budget(), exhaustive=exhaustive, let_through=let_through)

    @property
    def breaker_states(self) -> dict[str, BreakerState]:
        """Return the worst state by dependency name, for the metric and `/readyz`."""
        states: dict[str, BreakerState] = {}
        for dependency in self._dependencies.values():
            states[dependency.name] = max(dependency.breaker.state, states.get(dependency.name, BreakerState.CLOSED))
        return states

    @property
    def refused_by(self) -> dict[str, int]:
        """Return the dependencies whose last answer was 401, 403 or 404, with that status."""
        return {each.name: each.refused for each in self._dependencies.values() if each.refused is not None}

    @property
    def failing(self) -> frozenset[str]:
        """Return the dependencies that would fail for everybody now: what no single text can bring about."""
        return frozenset({each.name for each in self._dependencies.values() if each.failing})

    async def chat(self, endpoint: Endpoint, request: ChatRequest, deadline: float) -> ChatReply:
        """Call a model by `deadline` (loop time). Supervisors use `ChatContext.chat`, which also minds the budget."""
        target = endpoint if self._resolve is None else self._resolve(endpoint)
        if target.url is None and target.vendor == "openai":
            msg = f"the model {endpoint.model!r} has no URL and is no alias under models"
            raise ConfigError(msg, "models")
        dependency = self._dependency((target.vendor, target.url or "", target.model), endpoint.model, target.url)
        progress = self._begin(deadline)
        reply = await self._run(
            dependency, progress, lambda: call_model(self._client, target, request, dependency.formats, progress)
        )
        dependency.heard(_OK)
        return replace(reply, attempts=progress.attempts, cost=_cost_of(reply, target))

    async def post(self, url: str, body: object, headers: Mapping[str, str], deadline: float) -> tuple[int, object]:
        """POST JSON to a hosted guard by `deadline` (loop time). Supervisors use `ChatContext.post`."""
        name = self._name_of(url) if self._name_of is not None else None
        name = name or f"hosted:{hashlib.sha256(url.encode()).hexdigest()[:8]}"
        dependency = self._dependency(("post", url, ""), name)
        progress = self._begin(deadline)
        answer = await self._run(dependency, progress, lambda: post_json(self._client, url, body, headers, progress))
        dependency.heard(answer[0])
        return answer

    def _dependency(self, key: tuple[str, str, str], name: str, base_url: str | None = None) -> _Dependency:
        found = self._dependencies.get(key)
        if found is None:
            if base_url is not None:
                _check_url(base_url, name)
            clock = asyncio.get_running_loop().time
            breaker = Breaker(clock, self._settings.breaker_failures, self._settings.breaker_open_s)
            slots = asyncio.Semaphore(self._settings.max_per_model)
            found = self._dependencies[key] = _Dependency(name, breaker, slots)
        return found

    def _begin(self, deadline: float) -> Progress:
        now = asyncio.get_running_loop().time()
        margin_s = min(0.02, 0.05 * max(0.0, deadline - now))  # so that a slow backend fails here and is counted
        return Progress(deadline - margin_s, self._settings.max_reply_bytes)

    async def _run(self, dependency: _Dependency, progress: Progress, attempt: Callable[[], Awaitable[T]]) -> T:
        started = asyncio.get_running_loop().time()
        error: GuardrailError | None = None
        value: T | None = None
        try:
            if dependency.breaker.state is BreakerState.OPEN:
                raise _circuit_open()
            async with self._slot(dependency.slots, progress.until), self._slot(self._slots, progress.until):
                value = await self._run_counted(dependency, progress, attempt)
        except GuardrailError as caught:
            error = caught
            raise
        else:
            return value
        finally:
            if self._on_call is not None:
                seconds = asyncio.get_running_loop().time() - started
                self._on_call(_describe(dependency.name, value, error, seconds, progress.attempts))

    async def _run_counted(self, dependency: _Dependency, progress: Progress, attempt: Callable[[], Awaitable[T]]) -> T:
        """Tell the breaker how the call ended; a cancelled one says nothing."""
        if not dependency.breaker.allow():
            raise _circuit_open()
        settled = False
        try:
            value = await self._retry(progress, attempt)
        except (ChatError, ReplyError) as error:
            settled = True
            with _telling(dependency, error):
                _settle(dependency, error)
            raise
        else:
            settled = True
            with _telling(dependency):
                dependency.breaker.succeeded()
            return value
        finally:
            if not settled:
                dependency.breaker.abandoned()

    async def _retry(self, progress: Progress, attempt: Callable[[], Awaitable[T]]) -> T:
        def wait_s(error: Transient, number: int) -> float:
            spread_s = self._random.uniform(0.5, 1.0) * _BACKOFF_S * 2.0 ** (number - 1)
            return spread_s if error.wait_s is None else error.wait_s + 0.1 * spread_s

        def enough(_: Transient, number: int) -> bool:
            return number > self._settings.retries

        return await retry(attempt, Transient, wait_s, enough, progress.until)

    @asynccontextmanager
    async def _slot(self, slots: asyncio.Semaphore, until: float) -> AsyncGenerator[None]:
        """Hold one of the slots, of one model or of all; the queue before them is bounded (G-46)."""
        await self._take_slot(slots, until)
        try:
            yield
        finally:
            slots.release()

    async def _take_slot(self, slots: asyncio.Semaphore, until: float) -> None:
        if not slots.locked():
            await slots.acquire()
            return
        if self._waiting >= self._settings.max_waiting:
            msg = "too many model calls are waiting"
            raise ChatUnavailable(msg, code="overloaded")
        self._waiting += 1
        try:
            async with asyncio.timeout_at(until):
                await slots.acquire()
        except TimeoutError:
            msg = "no free slot for a model call within the deadline"
            raise ChatTimeout(msg, code="overloaded") from None
        finally:
            self._waiting -= 1


@contextmanager
def _telling(dependency: _Dependency, error: GuardrailError | None = None) -> Generator[None]:
    """Log a change of the breaker while the body settles a call: once when it opens, once when it closes."""
    before = dependency.told
    yield
    state = dependency.breaker.state
    dependency.told = state is not BreakerState.CLOSED
    if dependency.told and not before:
        cause = getattr(error, "code", None) or type(error).__name__
        extra = {"dependency": dependency.name, "cause": cause, "pause_s": round(dependency.breaker.wait_s)}
        log.warning("dependency fails and is not called for a while", extra=extra)
    elif before and not dependency.told:
        log.warning("dependency answers again", extra={"dependency": dependency.name})


def _check_url(base_url: str, name: str) -> None:
    try:
        check_base_url(base_url, allow_link_local=True)  # the client checks the resolved address by its own rule
    except ValueError as error:
        raise ConfigError(str(error), f"models.{name}") from None


def _circuit_open() -> ChatUnavailable:
    return ChatUnavailable("the backend failed repeatedly and is not called for a while", code="circuit_open")


def _settle(dependency: _Dependency, error: ChatError | ReplyError) -> None:
    """Count only what says that the server is down: what one text can bring about must not close it to others."""
    match error:
        case ChatRefused():
            dependency.breaker.succeeded()
            dependency.refused = error.status if error.status in _REFUSED else None
        case ChatTimeout():
            dependency.breaker.failed()
        case ChatError() if error.status in _DOWN or error.code == "connect":
            dependency.breaker.failed()
        case _:
            dependency.breaker.succeeded()


def _cost_of(reply: ChatReply, target: Endpoint) -> float | None:
    """Return what the server says the call cost, else what its tokens cost at the price in the config."""
    if reply.cost is not None or reply.tokens is None or target.price is None:
        return reply.cost
    price_in, price_out = target.price
    return (reply.tokens.input * price_in + reply.tokens.output * price_out) / 1_000_000


def _describe(name: str, value: object, error: GuardrailError | None, seconds: float, attempts: int) -> ModelCall:
    match error:
        case ChatError():
            kinds = {ChatRefused: "refused", ChatTimeout: "timeout"}
            outcome = next((word for kind, word in kinds.items() if isinstance(error, kind)), "unavailable")
            return ModelCall(name, outcome, seconds, attempts, error.status)
        case GuardrailError():
            return ModelCall(name, "reply", seconds, attempts)
        case None:
            pass
    if isinstance(value, ChatReply):
        return ModelCall(name, "ok", seconds, attempts, None, value.tokens, value.cost)
    return ModelCall(name, "cancelled" if value is None else "ok", seconds, attempts)
