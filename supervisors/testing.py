"""Fakes for authors of supervisors: an exchange, a context with scripted replies, and a check of the contract.

No test of ours patches code; every fake that a test needs is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from supervisors.ask import ask
from supervisors.errors import ChatRefused, ChatTimeout, ChatUnavailable, ReplyError
from supervisors.types import (
    Assessment,
    Cause,
    ChatReply,
    ChatRequest,
    Endpoint,
    Exchange,
    Label,
    Role,
    Segment,
    Span,
    Stage,
    Supervisor,
    Verdict,
    safe,
    unsafe,
)

Scripted = ChatReply | Exception | str
Answer = Scripted | Callable[[Endpoint, ChatRequest], Scripted]


def exchange(*texts: str, stage: Stage = "input", reply: str | None = None, system: str | None = None) -> Exchange:
    """Build an exchange of alternating user and assistant turns.

    Args:
        texts: turns, the first by the user.
        stage: input judges the turns; output judges `reply`.
        reply: text of choice 0 on output.
        system: optional system message in front.
    """
    request: list[Segment] = []
    if system is not None:
        request.append(Segment("/messages/0/content", "system", "text", system))
    for text in texts:
        turn = len(request)
        role: Role = "user" if (turn - (system is not None)) % 2 == 0 else "assistant"
        request.append(Segment(f"/messages/{turn}/content", role, "text", text, turn))
    answer: tuple[Segment, ...] = ()
    if reply is not None:
        answer = (Segment("/choices/0/message/content", "assistant", "text", reply, len(request), 0),)
    return Exchange("test", "model", stage, tuple(request), answer, 0 if stage == "output" else None)


@dataclass(slots=True)
class FakeContext:
    """A `Context` that answers from a script and records what it was asked.

    Args:
        replies: answers in order; the last one repeats. A string is the reply's text, an exception is raised,
            a callable gets the call.
        posts: answers of `post` in order: (status, JSON) or an exception.
        seconds: what `remaining_s` says.
    """

    replies: Sequence[Answer] = ()
    posts: Sequence[tuple[int, object] | Exception] = ()
    seconds: float = 5.0
    calls: list[tuple[Endpoint, ChatRequest]] = field(default_factory=list[tuple[Endpoint, ChatRequest]])
    posted: list[tuple[str, object, Mapping[str, str]]] = field(
        default_factory=list[tuple[str, object, Mapping[str, str]]]
    )

    @property
    def remaining_s(self) -> float:
        """Return the scripted number of seconds."""
        return self.seconds

    async def chat(self, endpoint: Endpoint, request: ChatRequest) -> ChatReply:
        """Return or raise the next scripted reply."""
        answer = self.replies[min(len(self.calls), len(self.replies) - 1)]
        self.calls.append((endpoint, request))
        await asyncio.sleep(0)
        scripted = answer(endpoint, request) if callable(answer) else answer
        if isinstance(scripted, Exception):
            raise scripted
        return scripted if isinstance(scripted, ChatReply) else ChatReply(scripted, "stop", model=endpoint.model)

    async def post(self, url: str, body: object, headers: Mapping[str, str]) -> tuple[int, object]:
        """Return or raise the next scripted answer."""
        answer = self.posts[min(len(self.posted), len(self.posts) - 1)]
        self.posted.append((url, body, headers))
        await asyncio.sleep(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ask(self, name: str, supervisor: Supervisor, exchange: Exchange) -> Assessment:
        """Ask through the real `supervisors.ask`."""
        return await ask(name, supervisor, exchange, self)


def context(*replies: Answer, seconds: float = 5.0) -> FakeContext:
    """Build a context that answers `chat` with these replies in order."""
    return FakeContext(replies, seconds=seconds)


@dataclass(frozen=True, slots=True)
class Always:
    """A local supervisor that always gives one verdict."""

    verdict: Verdict = field(default_factory=safe)
    local: bool = True
    capability: str = "windowed"

    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        """Return the fixed verdict."""
        return self.verdict


@dataclass(frozen=True, slots=True)
class Sleeps:
    """A remote supervisor that takes its time before its verdict."""

    seconds: float
    verdict: Verdict = field(default_factory=safe)

    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        """Wait, then return the verdict."""
        await asyncio.sleep(self.seconds)
        return self.verdict


@dataclass(frozen=True, slots=True)
class Fails:
    """A supervisor that raises."""

    error: Exception

    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        """Raise the error."""
        raise self.error


@dataclass(frozen=True, slots=True)
class Finds:
    """A local, incremental supervisor that flags one phrase: the simplest honest guard for tests."""

    phrase: str
    category: str = "canary"
    local: bool = True
    capability: str = "incremental"

    def holdback_chars(self) -> int:
        """Return the longest match minus one."""
        return len(self.phrase) - 1

    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        """Flag every place of the phrase with its span."""
        spans: list[Span] = []
        for segment in exchange.judged:
            start = segment.text.find(self.phrase)
            while start >= 0:
                spans.append(Span(segment.path, start, start + len(self.phrase), self.category))
                start = segment.text.find(self.phrase, start + len(self.phrase))
        return unsafe(self.category, score=1.0, spans=tuple(spans)) if spans else safe(score=0.0)


FAULTS: Mapping[str, tuple[Answer, Cause]] = {
    "connection refused": (ChatUnavailable("connect"), Cause.ERROR),
    "timeout": (ChatTimeout("deadline"), Cause.TIMEOUT),
    "unauthorised": (ChatRefused("status", status=401), Cause.ERROR),
    "forbidden": (ChatRefused("status", status=403), Cause.ERROR),
    "not found": (ChatRefused("status", status=404), Cause.ERROR),
    "too many requests": (ChatUnavailable("status", status=429), Cause.ERROR),
    "server error": (ChatUnavailable("status", status=500), Cause.ERROR),
    "redirect": (ChatUnavailable("redirect", status=302), Cause.ERROR),
    "not JSON": (ReplyError("no JSON"), Cause.UNPARSABLE),
    "empty reply": ("", Cause.UNPARSABLE),
    "blank reply": (" \n\t ", Cause.UNPARSABLE),
    "null content": (ChatReply(None, "stop"), Cause.UNPARSABLE),
    "nonsense": ("purple monkey dishwasher", Cause.UNPARSABLE),
    "cut off": (ChatReply('{"label": "sa', "length"), Cause.UNPARSABLE),
    "filtered": (ChatReply(None, "content_filter"), Cause.REFUSED),
    "refused": (ChatReply(None, "stop", refusal="I can't help with that."), Cause.REFUSED),
    "bug": (RuntimeError("bug"), Cause.ERROR),
}
"""The fault table of guarding §14: a supervisor backed by a model must answer each with this cause."""


async def check_supervisor(supervisor: Supervisor, sample: Exchange | None = None) -> list[str]:
    """Run the fault table against a model-backed supervisor and return what it got wrong, one sentence each.

    An empty list means: every failure became `unknown` with the right cause, and none became `safe`.
    """
    wrong: list[str] = []
    for name, (answer, cause) in FAULTS.items():
        assessment = await ask("checked", supervisor, sample or exchange("hello"), context(answer))
        verdict = assessment.verdict
        if verdict.label is not Label.UNKNOWN or verdict.cause is not cause:
            wrong.append(f"{name}: expected unknown/{cause}, got {verdict.label}/{verdict.cause}")
    return wrong


HOSTED_FAULTS: Mapping[str, tuple[tuple[int, object] | Exception, Cause]] = {
    **{name: (fault, cause) for name, (fault, cause) in FAULTS.items() if isinstance(fault, Exception)},
    "wrong key": ((401, {"error": {"code": "Unauthorized", "message": "bad key"}}), Cause.ERROR),
    "no access": ((403, {"message": "not allowed"}), Cause.ERROR),
    "no such thing": ((404, {"message": "not here"}), Cause.ERROR),
    "bad request": ((400, {"message": "what is this"}), Cause.ERROR),
    "too long, twice": ((413, {}), Cause.OVER_LIMIT),
    "empty object": ((200, {}), Cause.UNPARSABLE),
    "null": ((200, None), Cause.UNPARSABLE),
    "a word": ((200, "safe"), Cause.UNPARSABLE),
    "a truth value": ((200, False), Cause.UNPARSABLE),
    "a number": ((200, 0), Cause.UNPARSABLE),
    "an empty list": ((200, []), Cause.UNPARSABLE),
    "an error with status 200": ((200, {"error": {"code": "Busy", "message": "try later"}}), Cause.UNPARSABLE),
}
"""The fault table for a supervisor that asks a service with `Context.post`."""


async def check_hosted(supervisor: Supervisor, sample: Exchange | None = None) -> list[str]:
    """Run the fault table against a hosted guard and return what it got wrong, one sentence each."""
    wrong: list[str] = []
    for name, (answer, cause) in HOSTED_FAULTS.items():
        fake = FakeContext(posts=[answer])
        verdict = (await ask("checked", supervisor, sample or exchange("hello"), fake)).verdict
        if verdict.label is not Label.UNKNOWN or verdict.cause is not cause:
            wrong.append(f"{name}: expected unknown/{cause}, got {verdict.label}/{verdict.cause}")
    return wrong
