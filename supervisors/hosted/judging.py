"""Judge an exchange with a hosted guard: cut, batch, call, halve what is too long, combine (guards §8, GU-24)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field

from supervisors.ask import to_unknown
from supervisors.asking import ask_each
from supervisors.errors import ChatError, ChatRefused, ReplyError
from supervisors.hosted.pieces import Match, Piece, halve, locate, plan_pieces
from supervisors.hosted.replies import Broken, iterate_strings
from supervisors.material import LOOP_CHARS, Selection, count_chars, has_media
from supervisors.narrowing import Narrowing, Turns
from supervisors.scores import Part, combine_parts
from supervisors.types import (
    Capability,
    Cause,
    Context,
    Exchange,
    Kind,
    Label,
    Role,
    Scope,
    Verdict,
    unknown,
)

_TOO_LONG_STATUS = 413
_TOO_LONG = (
    "too long",
    "too large",
    "too many characters",
    "exceeds the maximum",
    "maximum context length",
    "maximum input size",
    "text unit",
    "invalidrequestbody",
)
"""What services say of a text that is longer than they take; compared casefolded."""


class JudgedTexts(BaseModel):
    """The options every hosted guard has.

    Args:
        scopes: scopes judged.
        roles: narrows what of a request is judged.
        kinds: narrows what is judged.
        turns: narrows what of a request is judged.
        max_chars: longest text of a call; longer ones are cut.
        overlap: characters two chunks share.
        max_chunks: more pieces than this are ``unknown/over_limit``.
        parallel: most calls at the same time.
        timeout_s: time for all calls together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    capability: ClassVar[Capability] = "growth"
    per_call: ClassVar[int] = 1
    documents_per_call: ClassVar[int] = 1
    in_context: ClassVar[bool] = False

    scopes: tuple[Scope, ...] = Field(default=("conversation",), min_length=1)
    roles: frozenset[Role] | None = None
    kinds: frozenset[Kind] | None = None
    turns: Turns = "all"
    max_chars: int = Field(default=9_000, ge=600)
    overlap: int = Field(default=256, ge=0, le=300)
    max_chunks: int = Field(default=128, ge=1)
    parallel: int = Field(default=4, ge=1, le=64)
    timeout_s: float | None = Field(default=None, gt=0.0)


@dataclass(frozen=True, slots=True)
class Request:
    """One call: where, what, and with which credentials."""

    url: str
    body: object
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a service says of one piece.

    Args:
        verdict: the label with score, categories and facts.
        matches: what would have to go for the text to pass; None when that cannot be said.
    """

    verdict: Verdict
    matches: tuple[Match, ...] | None = None


class Service(Protocol):
    """What a hosted guard adds to the options: how a call is written and its reply read."""

    per_call: ClassVar[int]
    """How many texts a call takes."""
    documents_per_call: ClassVar[int]
    """How many texts of third parties a call takes."""
    in_context: ClassVar[bool]
    """Whether it judges a text after the turns before it."""

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write a call."""
        ...

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read the reply to it, one finding a piece.

        Raises:
            Broken: the decisive member is missing or of another type.
        """
        ...


async def judge_texts(service: Service, options: JudgedTexts, exchange: Exchange, context: Context) -> Verdict:
    """Judge every selected text; one that is unsafe is enough, one that is unknown keeps the rest from being safe.

    Args:
        service: whom to ask.
        options: the same object, for what is judged.
        exchange: what to judge.
        context: carries the calls.
    """
    selection = Selection(
        "prompt" if exchange.stage == "input" else "response",
        whole=False,
        max_chars=options.max_chars,
        overlap=options.overlap,
        scopes=options.scopes,
        narrowing=Narrowing(options.roles, options.kinds, options.turns),
    )
    chars = count_chars(exchange, selection)
    if chars > options.max_chunks * options.max_chars:
        return unknown(Cause.OVER_LIMIT, detail="max_chunks")
    plan = partial(_plan, service, exchange, selection, options.max_chunks + 1)
    pieces = await asyncio.to_thread(plan) if chars > LOOP_CHARS else plan()
    if len(pieces) > options.max_chunks:
        return unknown(Cause.OVER_LIMIT, detail="max_chunks")
    findings = await _Calls(service, options, context).ask_all(pieces) if pieces else []
    if has_media(exchange, selection):
        findings.append(Finding(unknown(Cause.UNSUPPORTED, detail="media")))
    if not findings:
        return unknown(Cause.SKIPPED, detail="no_text")
    return _combine(findings, exchange, selection)


def _plan(service: Service, exchange: Exchange, selection: Selection, most: int) -> list[Piece]:
    return list(islice(plan_pieces(exchange, selection, in_context=service.in_context), most))


def _combine(findings: Sequence[Finding], exchange: Exchange, selection: Selection) -> Verdict:
    """Combine by `any` (GP-14). Spans are given only if masking them leaves nothing bad and nothing unjudged."""
    several = len(findings) > 1
    parts = [Part(finding.verdict, index if several else None) for index, finding in enumerate(findings)]
    verdict = combine_parts(parts, len(findings))
    bad = [finding.matches for finding in findings if finding.verdict.label is Label.UNSAFE]
    sure = all(finding.verdict.label is not Label.UNKNOWN for finding in findings)
    known = [matches for matches in bad if matches]
    if not bad or not sure or len(known) != len(bad):
        return verdict
    return replace(verdict, spans=locate(exchange, selection, [match for matches in known for match in matches]))


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls for one exchange."""

    service: Service
    options: JudgedTexts
    context: Context

    async def ask_all(self, pieces: Sequence[Piece]) -> list[Finding]:
        found = await ask_each(
            list(self._batch(pieces)),
            self._ask,
            lambda batch: [Finding(unknown(Cause.TIMEOUT))] * len(batch),
            seconds=min(self.context.remaining_s, self.options.timeout_s or self.context.remaining_s),
            parallel=self.options.parallel,
        )
        findings = [finding for batch in found for finding in batch]
        return [_place(finding, piece) for finding, piece in zip(findings, pieces, strict=True)]

    def _batch(self, pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
        """Yield neighbouring pieces of one kind that fit into one call, by number and by characters."""
        batch: list[Piece] = []
        for piece in pieces:
            chars = sum([len(each.text) for each in batch]) + len(piece.text)
            most = self.service.documents_per_call if piece.document else self.service.per_call
            full = len(batch) >= most or chars > self.options.max_chars
            if batch and (full or batch[0].document != piece.document):
                yield batch
                batch = []
            batch.append(piece)
        if batch:
            yield batch

    async def _ask(self, batch: Sequence[Piece]) -> Sequence[Finding]:
        """Ask about a batch; what the service finds too long is halved once (GU-24)."""
        found = await self._call(batch)
        if found is not None:
            return found
        halved = [halve(piece, self.options.overlap) for piece in batch]
        return [await self._ask_halves(halves) for halves in halved]

    async def _ask_halves(self, halves: Sequence[Piece]) -> Finding:
        findings: list[Finding] = []
        for half in halves:
            again = await self._call([half])
            findings.extend([Finding(unknown(Cause.OVER_LIMIT, detail="too_long"))] if again is None else again)
        verdict = combine_parts([Part(finding.verdict) for finding in findings], len(findings))
        bad = [finding.matches for finding in findings if finding.verdict.label is not Label.SAFE]
        known = [match for matches in bad for match in matches or ()]
        return Finding(verdict, tuple(known) if all(bad) else None)

    async def _call(self, batch: Sequence[Piece]) -> Sequence[Finding] | None:
        """Call the service once; None when it finds the text too long."""
        request = self.service.write(batch)
        try:
            status, answer = await self.context.post(request.url, request.body, request.headers)
        except ChatRefused as error:
            if error.status == _TOO_LONG_STATUS:
                return None
            return [Finding(to_unknown(error))] * len(batch)
        except (ChatError, ReplyError) as error:
            return [Finding(to_unknown(error))] * len(batch)
        if status == _TOO_LONG_STATUS or (400 <= status < 500 and is_too_long(answer)):
            return None
        if not 200 <= status < 300:
            return [Finding(unknown(Cause.ERROR, detail=f"status_{status}"))] * len(batch)
        return self._read(answer, batch)

    def _read(self, answer: object, batch: Sequence[Piece]) -> Sequence[Finding]:
        try:
            findings = self.service.read(answer, batch)
        except Broken as error:
            return [Finding(unknown(Cause.UNPARSABLE, detail=error.detail))] * len(batch)
        if len(findings) != len(batch):
            return [Finding(unknown(Cause.UNPARSABLE, detail="missing_verdict"))] * len(batch)
        return findings


def is_too_long(answer: object) -> bool:
    """Say whether an error body speaks of the length of the text, wherever in it the words stand."""
    return any(words in text.casefold() for text in iterate_strings(answer) for words in _TOO_LONG)


def _place(finding: Finding, piece: Piece) -> Finding:
    """Name the scope of what was found."""
    scope = piece.scope if finding.verdict.label is Label.UNSAFE else None
    return replace(finding, verdict=replace(finding.verdict, scope=scope))
