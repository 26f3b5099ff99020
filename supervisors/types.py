"""The values that travel through the house: segments, exchanges, verdicts, and what a supervisor may use.

Everything here is frozen and nothing here does I/O. `supervisors.testing` has short constructors for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from supervisors.light import frozen_dataclass, light_dataclass
from supervisors.signals import Signal

Stage = Literal["input", "output"]
Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
Scope = Literal["system", "tool_def", "conversation"]
Passing = Literal["redact", "log"]
Kind = Literal[
    "text",
    "reasoning",
    "refusal",
    "tool_args",
    "tool_result",
    "tool_def",
    "name",
    "transcript",
    "prediction",
    "suffix",
    "annotation",
    "url",
    "media",
    "opaque",
    "other",
]
Capability = Literal["incremental", "windowed", "growth", "final"]
"""How a supervisor can judge a stream (guarding §7); a supervisor without the attribute is ``growth``."""


class Label(StrEnum):
    """What one supervisor says."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """Why a verdict is unknown, in the order of precedence used by composites (G-27)."""

    ERROR = "error"
    TIMEOUT = "timeout"
    OVERLOADED = "overloaded"
    UNPARSABLE = "unparsable"
    OVER_LIMIT = "over_limit"
    UNSUPPORTED = "unsupported"
    REFUSED = "refused"
    ABSTAINED = "abstained"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Media:
    """Describe a non-text part; its bytes stay in the body.

    Args:
        mime: media type, e.g. ``image/png``.
        size_bytes: decoded size.
        sha256: 64 hex digits of the decoded bytes.
    """

    mime: str
    size_bytes: int
    sha256: str


@frozen_dataclass(frozen=True, slots=True)
class Segment:
    """One text of an exchange.

    Args:
        path: JSON Pointer into the wire body; for text inside JSON text, pointer + ``#`` + inner pointer.
        role: who wrote it.
        kind: what it is (guarding §1).
        text: exact text, never trimmed; empty for media.
        turn: index of the message or item; tool definitions −1; the reply = last + 1.
        choice: reply choice, None on input.
        media: set for kind ``media``.
        reading: the text of which this is part of another reading, "" for the ordinary one; the segments of one
            reading are read joined, but not to those of another.
    """

    path: str
    role: Role
    kind: Kind
    text: str
    turn: int = 0
    choice: int | None = None
    media: Media | None = None
    reading: str = ""

    @property
    def scope(self) -> Scope:
        """Return the scope of G-04: system, tool_def or conversation."""
        if self.kind == "tool_def":
            return "tool_def"
        return "system" if self.role in ("system", "developer") else "conversation"


@frozen_dataclass(frozen=True, slots=True)
class Exchange:
    """What is judged: the request, and on output one choice of the reply.

    Args:
        id: id of the record.
        model: model as requested by the caller.
        stage: input or output.
        request: segments of the request, in wire order.
        reply: segments of one reply choice, empty on input.
        choice: index of that choice, None on input.
        complete: false while a stream is still growing.
        signals: what the provider's reply says of its own filters; only if some supervisor of the stage reads it.
        ended: paths of segments that are complete even so: nothing will be appended to their text.
    """

    id: str
    model: str
    stage: Stage
    request: tuple[Segment, ...]
    reply: tuple[Segment, ...] = ()
    choice: int | None = None
    complete: bool = True
    signals: tuple[Signal, ...] = ()
    ended: frozenset[str] = frozenset()

    @property
    def judged(self) -> tuple[Segment, ...]:
        """Return the segments under judgement: the request on input, the choice on output."""
        return self.request if self.stage == "input" else self.reply

    @property
    def chars(self) -> int:
        """Count the characters under judgement."""
        return sum([len(segment.text) for segment in self.judged])


@dataclass(frozen=True, slots=True)
class Span:
    """Mark ``text[start:end]`` of the segment at `path` for redaction (character offsets in the raw text)."""

    path: str
    start: int
    end: int
    category: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """Count tokens as reported by a backend."""

    input: int
    output: int


_NO_EXTRAS: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one supervisor says about one exchange.

    Build it with `safe`, `unsafe` or `unknown`. Who said it and how long it took is an `Assessment`.

    Args:
        label: safe, unsafe or unknown.
        cause: set if and only if the label is unknown.
        score: risk in 0..1, higher is riskier, or None.
        categories: names in order of first appearance.
        spans: what to redact; empty when the supervisor cannot localise.
        rest: beside a finding, why there is no verdict on the rest of the text; None when it was judged.
        detail: short code such as ``tie``, ``quorum_miss``, ``truncated``.
        transform: variant chain that hit, e.g. ``base64>base64``.
        reason: free text, for the record only.
        scope: scope of the finding, the gravest of several (`supervisors.scopes`).
        tokens: sum over the calls made.
        cost: US dollars, None when unknown.
        cached: taken from the verdict cache.
        members: assessments of a composite's members, in config order.
        extras: facts beside the verdict, JSON values only.
    """

    label: Label
    cause: Cause | None = None
    score: float | None = None
    categories: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    rest: Cause | None = None
    detail: str | None = None
    transform: str | None = None
    reason: str | None = None
    scope: Scope | None = None
    tokens: Tokens | None = None
    cost: float | None = None
    cached: bool = False
    members: tuple[Assessment, ...] = ()
    extras: Mapping[str, Any] = field(default_factory=lambda: _NO_EXTRAS)

    def __post_init__(self) -> None:
        if (self.label is Label.UNKNOWN) != (self.cause is not None):
            msg = f"cause {self.cause!r} does not fit label {self.label!r}: unknown has a cause, others none"
            raise ValueError(msg)
        if self.score is not None and not 0.0 <= self.score <= 1.0:
            msg = f"score {self.score!r} is outside 0..1"
            raise ValueError(msg)


@light_dataclass(frozen=True, slots=True)
class Assessment:
    """What came of asking one supervisor: its verdict with the stamps.

    Args:
        supervisor: configured name; inside a composite the member's own name.
        verdict: what it said, or `unknown` with the cause of its failure.
        seconds: wall-clock time over all passes.
        passes: how often it was run (stream passes).
        chars_judged: characters given to it over all passes.
    """

    supervisor: str
    verdict: Verdict
    seconds: float = 0.0
    passes: int = 1
    chars_judged: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a supervisor's model answers.

    Args:
        model: model id sent to the backend, or an alias of the config's `models` when `url` is None.
        url: base URL up to and including ``/v1``; None means "look the alias up".
        api_key: secret value, never logged; None sends no key.
        vendor: ``openai`` for any OpenAI-compatible server; anything else goes through litellm.
        sign: makes one further header for each request, None for none.
        headers: sent with every request; one of them stands in for a header of the same name of ours.
        price: US dollars for a million tokens in and out, None when unknown; what a server itself reports comes first.
    """

    model: str
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    vendor: str = "openai"
    sign: Callable[[], tuple[str, str]] | None = field(default=None, repr=False, compare=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    price: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One model call of a supervisor.

    Args:
        messages: chat messages in OpenAI form; empty when `prompt` is given.
        prompt: text for the legacy completions route; None uses chat.
        max_tokens: output budget.
        temperature: None omits the parameter.
        response_format: OpenAI `response_format` object, or None.
        top_logprobs: number of alternatives asked for; None asks for no log-probabilities.
        extra: further members of the body (``chat_template_kwargs`` …).
    """

    messages: Sequence[Mapping[str, Any]] = ()
    prompt: str | None = None
    max_tokens: int = 1024
    temperature: float | None = 0.0
    response_format: Mapping[str, Any] | None = None
    top_logprobs: int | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: _NO_EXTRAS)


@dataclass(frozen=True, slots=True)
class TokenAlternatives:
    """One generated position: the chosen token and its alternatives with natural-log probabilities."""

    token: str
    alternatives: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model answered.

    Args:
        text: content, None when the field was null or absent.
        finish_reason: as reported, None when absent.
        refusal: content of the refusal field, None when absent.
        model: served model id as reported.
        tokens: usage as reported, None when absent.
        cost: US dollars or None.
        logprobs: one entry a generated position; None when the backend gave none.
        attempts: calls made, retries included.
    """

    text: str | None
    finish_reason: str | None = None
    refusal: str | None = None
    model: str | None = None
    tokens: Tokens | None = None
    cost: float | None = None
    logprobs: tuple[TokenAlternatives, ...] | None = None
    attempts: int = 1


class Context(Protocol):
    """What a supervisor may use. It is an argument, so a supervisor stays plain data and tests pass a fake."""

    @property
    def remaining_s(self) -> float:
        """Seconds until this supervisor's deadline; never negative."""
        ...

    async def chat(self, endpoint: Endpoint, request: ChatRequest) -> ChatReply:
        """Call a model: metered, retried, bounded by the deadline, recorded.

        Raises:
            ChatError: one of its three kinds.
            ReplyError: an answer came that is not the promised JSON.
        """
        ...

    async def post(self, url: str, body: object, headers: Mapping[str, str]) -> tuple[int, object]:
        """POST JSON to a hosted guard and return status and parsed JSON body, under the same rules as `chat`.

        Raises:
            ChatError: connect error, deadline, 429 or 5xx after the retries, redirect.
            ReplyError: the body is not JSON, has a key twice, is empty, or larger than 8 MiB.
        """
        ...

    async def ask(self, name: str, supervisor: Supervisor, exchange: Exchange) -> Assessment:
        """Ask a member of a composite: a failure becomes an unknown verdict; nothing but cancellation is raised."""
        ...


class Supervisor(Protocol):
    """Anything that judges an exchange.

    Optional class attributes, read with their defaults by `supervisors.ask`:
    ``capability: Capability = "growth"``, ``local: bool = False`` (true: `assess` never waits on anything
    outside the process), ``stages: frozenset[Stage]`` (default both). Optional method
    ``holdback_chars(self) -> int`` for incremental ones: longest possible match minus one. Where only some texts need
    more, ``first_open(self, text: str) -> int`` beside it: where in a growing text a longer match may have begun.
    """

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge the exchange. May raise anything: `supervisors.ask` turns a failure into `unknown`."""
        ...


PLAIN_SAFE = Verdict(Label.SAFE)
"""What a supervisor says that has found nothing and measures nothing."""


def safe(*, score: float | None = None, detail: str | None = None) -> Verdict:
    """Return a plain safe verdict, one and the same without arguments; `dataclasses.replace` sets further fields."""
    return PLAIN_SAFE if score is None and detail is None else Verdict(Label.SAFE, score=score, detail=detail)


def unsafe(
    *categories: str,
    score: float | None = None,
    spans: tuple[Span, ...] = (),
    detail: str | None = None,
    transform: str | None = None,
) -> Verdict:
    """Return an unsafe verdict with its categories."""
    return Verdict(Label.UNSAFE, score=score, categories=categories, spans=spans, detail=detail, transform=transform)


def unknown(cause: Cause, *, detail: str | None = None, reason: str | None = None) -> Verdict:
    """Return an unknown verdict with its cause."""
    return Verdict(Label.UNKNOWN, cause=cause, detail=detail, reason=reason)


def join_causes(causes: Sequence[Cause]) -> Cause:
    """Return the cause of a composite: the first in the order of `Cause` that occurs (G-27).

    Raises:
        ValueError: `causes` is empty.
    """
    for cause in Cause:
        if cause in causes:
            return cause
    msg = "no cause given"
    raise ValueError(msg)
