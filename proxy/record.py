"""The one fact per exchange. Store, metrics, headers and traces all read this value; `proxy.rows` has its JSON form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from proxy.policy import Decision
from supervisors.light import light_dataclass
from supervisors.types import Assessment, Stage, Verdict

RecordKind = Literal["exchange", "check", "moderation", "unguarded"]
Outcome = Literal[
    "answered",
    "blocked_input",
    "blocked_output",
    "unavailable",
    "upstream_error",
    "client_error",
    "cancelled",
    "interrupted",
]
Phase = Literal["before_upstream", "before_first_token", "streaming"]
Terminator = Literal["done", "error", "none"]


Digest = Callable[[], str | None]
"""Gives a digest in hex, None without any text; asked by the journal's writer, beside the event loop."""


@light_dataclass(frozen=True, slots=True)
class JudgedBy:
    """One verdict as recorded: who, at which stage and choice, under which mode.

    Args:
        assessment: verdict with its stamps.
        stage: input or output.
        choice: reply choice, None on input and for a stage that never ran.
        enforce: false in shadow and observe mode.
        late_spans: spans of it that began in text already released (must stay 0).
    """

    assessment: Assessment
    stage: Stage
    choice: int | None
    enforce: bool
    late_spans: int = 0


SHADOW_DROPPED = "queue_full"
"""Detail of the ``unknown/skipped`` verdict of a shadow supervisor whose queue was full."""


BYPASS_TASK = "bypass"
"""Tag of the call of another proxy's judge that passed unjudged (G-42); no caller can give it."""


@light_dataclass(frozen=True, slots=True)
class View:
    """What the canonical view contained.

    Args:
        segments: number of segments of request and reply.
        chars: characters in them.
        opaque: segments nobody can read.
        media: non-text segments.
        unseen_history: older turns live at the provider.
        input_hmac: gives the keyed digest of the request's text.
        output_hmac: gives the keyed digest of the reply's text.
    """

    segments: int = 0
    chars: int = 0
    opaque: int = 0
    media: int = 0
    unseen_history: bool = False
    input_hmac: Digest | None = None
    output_hmac: Digest | None = None


@light_dataclass(frozen=True, slots=True)
class UpstreamCall:
    """The call of the model server, if any."""

    called: bool = False
    status: int | None = None
    seconds: float | None = None
    first_token_s: float | None = None
    attempts: int = 0
    cancelled: bool = False
    filtered: bool = False
    error_kind: str | None = None


@light_dataclass(frozen=True, slots=True)
class ClientEnd:
    """What the caller saw.

    Args:
        status: HTTP status sent, 499 when the caller left before any.
        finish_reasons: one a choice, in index order.
        bytes: body bytes sent.
        terminator: how a stream ended.
        cancelled_phase: where the caller left, None if it stayed.
    """

    status: int
    finish_reasons: tuple[str | None, ...] = ()
    bytes: int = 0
    terminator: Terminator = "none"
    cancelled_phase: Phase | None = None


@light_dataclass(frozen=True, slots=True)
class Record:
    """One exchange. `seq`, `prev` and `hash` are added by the store's writer, which owns the chain.

    Args:
        id: unique and time-sortable.
        started: seconds since the epoch.
        seconds: total duration.
        policies: names of the policies that matched.
        version: config version, 64 hex digits.
        prescribed: (supervisor, stage) pairs that the policies and the caller's additions prescribe, for `verify`
            (O-11); empty when the exchange failed before judging (O-13).
        tightened: stages where the caller asked for a block on unsafe (the `moderation` field, W-15).
        usage: as reported by the upstream.
        content: texts by path after redaction, only in content mode ``full``; keyed digests in ``hashed``.
    """

    id: str
    request_id: str
    started: float
    seconds: float
    kind: RecordKind
    route: str
    stream: bool
    task: str | None
    key_id: str | None
    model: str
    model_served: str | None
    upstream: str | None
    policies: tuple[str, ...]
    version: str
    outcome: Outcome
    view: View = field(default_factory=View)
    verdicts: tuple[JudgedBy, ...] = ()
    decisions: tuple[Decision, ...] = ()
    upstream_call: UpstreamCall = field(default_factory=UpstreamCall)
    client: ClientEnd = field(default_factory=lambda: ClientEnd(500))
    usage: Mapping[str, Any] | None = None
    overhead_s: float = 0.0
    holdback_s: float = 0.0
    coherence: Mapping[str, Any] | None = None
    content: Mapping[str, Any] | None = None
    prescribed: tuple[tuple[str, Stage], ...] = ()
    tightened: tuple[Stage, ...] = ()


@light_dataclass(frozen=True, slots=True)
class Begun:
    """A streamed exchange whose text begins to leave: kept until its record is, so that a crash leaves a trace.

    Args:
        id: of the record to be; the rest as there.
    """

    id: str
    request_id: str
    started: float
    route: str
    key_id: str | None
    model: str
    upstream: str | None
    policies: tuple[str, ...]
    version: str

    def to_record(self) -> Record:
        """Return the record of an exchange that a crash cut off: nothing is known of its verdicts and its end."""
        return Record(
            id=self.id,
            request_id=self.request_id,
            started=self.started,
            seconds=0.0,
            kind="exchange",
            route=self.route,
            stream=True,
            task=None,
            key_id=self.key_id,
            model=self.model,
            model_served=None,
            upstream=self.upstream,
            policies=self.policies,
            version=self.version,
            outcome="interrupted",
            upstream_call=UpstreamCall(called=True),
            client=ClientEnd(200),
        )


_TEXT_EXTRAS = frozenset({"reply", "critique", "masked_text"})
_LONGEST_FACT = 128


def is_text_extra(key: str, value: object) -> bool:
    """Say whether an extra may quote what was judged: it then follows the content mode and never stands in a row."""
    return key in _TEXT_EXTRAS or (isinstance(value, str) and len(value) > _LONGEST_FACT)


def flatten(assessments: Sequence[JudgedBy]) -> list[tuple[str, JudgedBy, Verdict]]:
    """Return (full name, how it was judged, verdict) of every verdict, members included: what metrics count."""
    found: list[tuple[str, JudgedBy, Verdict]] = []
    for judged in assessments:
        _flatten(judged, judged.assessment, judged.assessment.supervisor, found)
    return found


def _flatten(judged: JudgedBy, assessment: Assessment, name: str, found: list[tuple[str, JudgedBy, Verdict]]) -> None:
    found.append((name, judged, assessment.verdict))
    for member in assessment.verdict.members:
        _flatten(judged, member, f"{name}/{member.supervisor}", found)
