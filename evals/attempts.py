"""One call with its retries: what is tried again, how often, and what every failed attempt leaves behind (H-124)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, cast

from evals.client import Address
from evals.journal import JsonObject, canonical, parse_object
from supervisors.errors import StoreError
from supervisors.transport import HttpClient, HttpRequest, TransportError, TransportFault

RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
MAX_DELAY_S = 60.0
_RECORD_S = 0.05
"""Longest first wait for a record, however long one has taken."""
FailureKind = TransportFault | Literal["status", "not_json"]
_FINAL: frozenset[FailureKind] = frozenset({"request", "too_large"})
"""Failures that another attempt would only repeat."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed attempt: what went wrong, and how long was waited before the next one."""

    kind: FailureKind
    status: int | None
    delay_s: float | None


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply of the server, whatever its status.

    Args:
        status: HTTP status.
        headers: names in lower case.
        body: JSON object, empty when it was none.
        service_s: seconds of the successful attempt.
    """

    status: int
    headers: Mapping[str, str]
    body: JsonObject
    service_s: float

    @property
    def judged(self) -> bool:
        """Say whether the status is the decision of a guardrail and not a failure of a server."""
        error = self.body.get("error")
        return self.status != 200 and isinstance(error, dict) and isinstance(error.get("guardrail"), dict)


@dataclass(frozen=True, slots=True)
class Called:
    """What came of a call with its retries.

    Args:
        answer: the last reply, None when nobody answered.
        failed: the failed attempts in order.
        retry_s: seconds spent on failed attempts and waits.
    """

    answer: Answered | None
    failed: tuple[Attempt, ...]
    retry_s: float


@dataclass(frozen=True, slots=True)
class Lookup:
    """What came of asking for a record.

    Args:
        record: None when there is none to be seen.
        refused: the proxy shows no record to this key.
    """

    record: JsonObject | None = None
    refused: bool = False


@dataclass(slots=True)
class Caller:
    """Makes calls over one pool.

    Args:
        client: pool of connections.
        max_retries: further attempts after the first.
        timeout_s: of one call, None without.
        overloaded: told about each 429, and each 503 with retry-after.
        settling: told 1 when a trial has its answer and waits for its record, and -1 when it does not any more.
        backoff_s: longest wait after the first failure, doubled after each further one.
        record_s: how long a record takes to appear, as learned so far: nobody looks for it earlier.
    """

    client: HttpClient
    max_retries: int = 5
    timeout_s: float | None = None
    overloaded: Callable[[], None] = lambda: None
    settling: Callable[[int], None] = lambda _: None
    backoff_s: float = 1.0
    record_s: float = 0.0
    _random: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - jitter is no secret

    async def post(self, address: Address, path: str, body: JsonObject, request_id: str | None = None) -> Called:
        """Send a body until there is an answer that no retry would change; never raises on a failing server.

        Args:
            address: where to.
            path: below the address.
            body: what.
            request_id: name of the request for a proxy, which keeps it in its record.
        """
        failed: list[Attempt] = []
        started = perf_counter()
        while True:
            began = perf_counter()
            found = await self._once(address, path, body, request_id)
            attempt = found if isinstance(found, Attempt) else self._judge(found)
            if attempt is None and isinstance(found, Answered):
                return Called(found, tuple(failed), began - started)
            last = len(failed) >= self.max_retries or (attempt is not None and attempt.kind in _FINAL)
            delay = None if last or attempt is None else self._delay(len(failed), found)
            if attempt is not None:
                failed.append(Attempt(attempt.kind, attempt.status, delay))
            if delay is None:
                answer = found if isinstance(found, Answered) else None
                return Called(answer, tuple(failed), perf_counter() - started)
            await asyncio.sleep(delay)

    async def _once(self, address: Address, path: str, body: JsonObject, request_id: str | None) -> Answered | Attempt:
        named: Mapping[str, str] = {} if request_id is None else {"x-request-id": request_id}
        headers = (("content-type", "application/json"), *address.headers.items(), *named.items())
        began = perf_counter()
        data = canonical(body).encode("ascii")
        try:
            reply = await self.client.send(HttpRequest("POST", f"{address.url}{path}", headers, data, self.timeout_s))
        except TransportError as error:
            return Attempt(error.fault, None, None)
        seconds = perf_counter() - began
        parsed = parse_object(reply.body)
        if parsed is None and reply.status == 200:
            return Attempt("not_json", 200, None)
        received = {name.lower(): value for name, value in reply.headers}
        return Answered(reply.status, received, parsed or {}, seconds)

    def _judge(self, answer: Answered) -> Attempt | None:
        """Return the failure in an answer, None when it is final."""
        if answer.status not in RETRIED or answer.judged:
            return None
        if answer.status == 429 or (answer.status == 503 and "retry-after" in answer.headers):
            self.overloaded()
        return Attempt("status", answer.status, None)

    def _delay(self, failures: int, found: Answered | Attempt) -> float:
        """Return the wait before the next attempt: what the server asks for, else exponential with full jitter."""
        asked = found.headers.get("retry-after", "") if isinstance(found, Answered) else ""
        if asked.isdecimal():
            return min(MAX_DELAY_S, float(asked))
        return self._random.uniform(0.0, min(MAX_DELAY_S, self.backoff_s * 2.0**failures))

    async def find_record(self, address: Address, record_id: str, wait_s: float) -> Lookup:
        """Return the record of an exchange; the proxy writes it behind the reply, so it is waited for."""
        self.settling(1)
        try:
            return await self._find_record(address, record_id, wait_s)
        finally:
            self.settling(-1)

    async def _find_record(self, address: Address, record_id: str, wait_s: float) -> Lookup:
        began = perf_counter()
        pause = 0.005
        await asyncio.sleep(min(self.record_s, wait_s))
        found, looks = await self._look_up(address, record_id), 1
        while found.record is None and not found.refused and perf_counter() - began < wait_s:
            await asyncio.sleep(pause)
            pause = min(0.2, pause * 2)
            found, looks = await self._look_up(address, record_id), looks + 1
        if found.record is not None:
            taken = min(_RECORD_S, perf_counter() - began)
            self.record_s = self.record_s * 0.95 if looks == 1 else taken
        return found

    async def _look_up(self, address: Address, record_id: str) -> Lookup:
        if address.records is not None:  # a proxy in this process: what it would answer, without asking over HTTP
            return Lookup(await _read_own(address.records, record_id))
        url = f"{address.url}/decisions/{record_id}"
        try:
            reply = await self.client.send(HttpRequest("GET", url, tuple(address.headers.items())))
        except TransportError:
            return Lookup()
        if reply.status in (401, 403):
            return Lookup(refused=True)
        return Lookup(parse_object(reply.body) if reply.status == 200 else None)


async def _read_own(read: Callable[[str], Awaitable[Sequence[Mapping[str, object]]]], name: str) -> JsonObject | None:
    try:
        found = await read(name)
    except StoreError:
        return None  # as an answer of 503: it is asked again
    return as_object(found[0]) if len(found) == 1 else None


def as_object(value: object) -> JsonObject:
    """Return a JSON object, an empty one for anything else."""
    # A parsed JSON object has text names and JSON values.
    return cast("JsonObject", value) if isinstance(value, dict) else {}
