"""Judge by a model that runs in the process by a library of its own: `use: in_process`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from supervisors.embeddings import Embedder, embed
from supervisors.errors import ReplyError
from supervisors.foreign import OnLanguage, mind_language
from supervisors.in_process.cards import InProcessCard, resolve_in_process
from supervisors.in_process.code import check_code
from supervisors.in_process.gliguard import Model, Side, load_gliguard, read_gliguard, tasks_for
from supervisors.in_process.lionguard import Head, load_lionguard, predict, read_lionguard
from supervisors.lock import find_guard
from supervisors.narrowing import Turns
from supervisors.offsets import Place
from supervisors.pieces import Piece, find_pieces
from supervisors.scores import Part, combine_parts
from supervisors.secret import Secret
from supervisors.types import Capability, Cause, Context, Exchange, Kind, Label, Role, Scope, Stage, Verdict, unknown
from supervisors.views import cut_chunks

_SIDE_OF: Mapping[Stage, Side] = {"input": "prompt", "output": "response"}


@dataclass(slots=True)
class _Loaded:
    """The model, once it was loaded."""

    model: Model | None = None
    head: Head | None = None


class InProcess(BaseModel):
    """Judge every text with GLiGuard or LionGuard.

    Args:
        card: name of a card, or a mapping with `base:` and what differs from it.
        path: folder with the model; None takes the lock's.
        lock: lock file that names and hashes the files; null takes the folder as it is.
        verify: ``cached`` hashes a locked file again only after it changed; ``always`` reads every file at every start.
        allow_code: names of cards whose repository's code may run in this process.
        url: for LionGuard, the server of the embeddings, up to and including ``/v1``.
        model: its model; None takes the card's.
        api_key: where that server asks for one.
        judge: side that is judged, instead of the one the stage stands for.
        threshold: risk from which a text is unsafe, instead of the card's.
        on_language: what becomes of text clearly in a language that the card does not list: ``judge`` judges it and
            says so, ``abstain`` makes it ``unknown/abstained``.
        scopes: scopes judged.
        roles: narrows what of a request is judged.
        kinds: narrows what is judged.
        turns: narrows what of a request is judged.
        max_chunks: more chunks than this are ``unknown/over_limit``.
        timeout_s: time for all calls together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    capability: ClassVar[Capability] = "growth"

    use: Literal["in_process"] = "in_process"
    card: Annotated[InProcessCard, BeforeValidator(resolve_in_process, json_schema_input_type=str | dict[str, Any])]
    path: str | None = Field(default=None, min_length=1)
    lock: str | None = Field(default="guards.lock", min_length=1)
    verify: Literal["cached", "always"] = "cached"
    allow_code: tuple[str, ...] = ()
    url: str | None = Field(default=None, pattern=r"^https?://")
    model: str | None = Field(default=None, min_length=1)
    api_key: Secret | None = None
    judge: Literal["prompt", "response"] | None = None
    threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    on_language: OnLanguage = "judge"
    scopes: tuple[Scope, ...] = Field(default=("conversation",), min_length=1)
    roles: frozenset[Role] | None = None
    kinds: frozenset[Kind] | None = None
    turns: Turns = "all"
    max_chunks: int = Field(default=64, ge=1)
    timeout_s: float | None = Field(default=None, gt=0.0)

    _loaded: _Loaded = PrivateAttr(default_factory=_Loaded)

    @model_validator(mode="after")
    def _check(self) -> Self:
        vectors = bool(self.card.embedding_model)
        for wrong, message in (
            (self.card.family == "qwen_stream", f"{self.card.name} is a card of use: qwen_stream"),
            (vectors and self.url is None, f"{self.card.name} reads embeddings: url names the server that makes them"),
            (not vectors and self.url is not None, f"url has no effect with {self.card.name}"),
            (not vectors and self.model is not None, f"model has no effect with {self.card.name}"),
            (self.path is None and self.lock is None, "give path, or a lock that names a folder"),
            (self.card.remote_code and self.lock is None, f"code of {self.card.name} runs from a lock only: name it"),
            (
                self.card.remote_code and self.card.name not in self.allow_code,
                f"{self.card.name} runs code of its repository in this process: read it, then allow_code: "
                f"[{self.card.name}]",
            ),
        ):
            if wrong:
                raise ValueError(message)
        return self

    @property
    def stages(self) -> frozenset[Stage]:
        """Return the stages it can serve: what its card judges, or both if `judge` is set."""
        return frozenset(
            [stage for stage, side in _SIDE_OF.items() if self.judge or self.card.judges in (side, "both")]
        )

    def attach(self, *, model: Model | None = None, head: Head | None = None) -> None:
        """Use what is loaded already instead of the files."""
        self._loaded.model, self._loaded.head = model, head

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.load_model)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.attach()

    def load_model(self) -> None:
        """Check the lock, then load; once.

        Raises:
            ConfigError: a file is not what was locked, or cannot be loaded.
        """
        if self._loaded.model is not None or self._loaded.head is not None:
            return
        found = find_guard(self.card.name, self.path, self.lock)
        found.check(self.verify)
        if self.card.remote_code and found.entry is not None:
            check_code(found.folder, found.entry, self.card.name)
        match self.card.family:
            case "gliguard":
                self._loaded.model = load_gliguard(found.folder)
            case "lionguard" | "qwen_stream":
                self._loaded.head = load_lionguard(found.folder, self.card.name)

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text and what its encoded runs say; one unsafe chunk is enough."""
        if exchange.stage not in self.stages:
            return unknown(Cause.UNSUPPORTED, detail="stage")
        judge = partial(self._assess, exchange, context)
        return await mind_language(self.on_language, self.card.languages, exchange, judge)

    async def _assess(self, exchange: Exchange, context: Context) -> Verdict:
        pieces = await find_pieces(exchange, self, self._cut)
        if isinstance(pieces, Verdict):
            return pieces
        await asyncio.to_thread(self.load_model)
        parts = [Part(verdict) for verdict in await self._judge(exchange, pieces.found, context)]
        if pieces.gap is not None:
            parts.append(Part(pieces.gap))
        if len(parts) > 1:
            parts = [Part(part.verdict, number) for number, part in enumerate(parts)]
        return combine_parts(parts, len(parts))

    def _cut(self, text: str) -> Sequence[Place]:
        return cut_chunks(len(text), self.card.max_chars, self.card.overlap) if text.strip() else ()

    async def _judge(self, exchange: Exchange, pieces: Sequence[Piece], context: Context) -> list[Verdict]:
        if self._loaded.head is not None:
            return await self._judge_vectors(self._loaded.head, pieces, context)
        model = self._loaded.model
        side = self.judge or _SIDE_OF[exchange.stage]
        verdicts: list[Verdict] = []
        for piece in pieces:  # one after the other: a call cannot be stopped, and takes all the cores it may
            if model is None:
                return [unknown(Cause.ERROR, detail="not_loaded")]
            ask = partial(model.classify_text, piece.text, tasks_for(side, self.card), include_confidence=True)
            answer = await asyncio.to_thread(ask)
            verdicts.append(self._place(piece, partial(read_gliguard, answer, side, self.card, self.threshold)))
        return verdicts

    async def _judge_vectors(self, head: Head, pieces: Sequence[Piece], context: Context) -> list[Verdict]:
        embedder = Embedder(self.url or "", self.model or self.card.embedding_model, self.api_key)
        found = await embed(embedder, [self.card.prefix + piece.text for piece in pieces], context)
        if len(found.vectors[0]) != self.card.dimensions:
            msg = f"vectors of {self.card.name} have {self.card.dimensions} numbers, not {len(found.vectors[0])}"
            raise ReplyError(msg, detail="missing_field")
        answer = await asyncio.to_thread(predict, head, found.vectors)
        return [
            self._place(piece, partial(read_lionguard, answer, place, self.card, self.threshold))
            for place, piece in enumerate(pieces)
        ]

    def _place(self, piece: Piece, read: Callable[[], Verdict]) -> Verdict:
        """Read the answer about one piece and say where it stands; an unreadable one is unknown, not the whole."""
        try:
            verdict = read()
        except ReplyError as error:
            return unknown(Cause.UNPARSABLE, detail=error.detail)
        if verdict.label is not Label.UNSAFE:
            return verdict
        return replace(verdict, scope=piece.scope, transform=piece.chain or None)
