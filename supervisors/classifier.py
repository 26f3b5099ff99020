"""Encoder classifiers as supervisors: `use: classifier`, in the process or behind a server (guards §7)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from supervisors import onnx_model, torch_model
from supervisors.ask import to_unknown
from supervisors.encoder import (
    EncoderCard,
    WrongScores,
    judge_row,
    read_classify,
    read_predict,
    resolve_encoder,
)
from supervisors.errors import ChatError, ChatRefused, ConfigError, MissingError, MissingPart, ReplyError
from supervisors.foreign import OnLanguage, mind_language
from supervisors.lock import GuardFiles, find_guard
from supervisors.material import to_turns, write_transcript
from supervisors.narrowing import Turns
from supervisors.offload import Stop, run_pieces
from supervisors.offsets import Place
from supervisors.onnx_model import OnnxModel
from supervisors.pieces import Piece, find_pieces
from supervisors.scores import Part, combine_parts
from supervisors.secret import Secret
from supervisors.torch_model import TorchModel
from supervisors.types import (
    Capability,
    Cause,
    Context,
    Exchange,
    Kind,
    Label,
    Role,
    Scope,
    Stage,
    Verdict,
    unknown,
)
from supervisors.views import cut_chunks
from supervisors.windows import Text

Route = Literal["onnx", "transformers", "classify", "predict", "hf"]
_HERE = frozenset({"onnx", "transformers"})
_PER_CALL = 16
_TOO_LONG = "the server finds the text too long"


@dataclass(slots=True)
class _Loaded:
    """The model, once it was loaded."""

    model: OnnxModel | TorchModel | None = None


class Classifier(BaseModel):
    """Judge every text with a classification model.

    Args:
        card: name of an encoder card, or a mapping with `base:` and what differs from it.
        route: ``onnx`` runs the model in the process (extra: onnx), ``transformers`` too, from safetensors (extra:
            transformers); ``classify`` is vLLM and SGLang, ``predict`` Text
            Embeddings Inference, ``hf`` the inference API.
        path: folder with the model, for those in the process; None takes the lock's.
        lock: lock file that names and hashes the files; null takes the folder as it is.
        verify: ``cached`` hashes a locked file again only after it changed; ``always`` reads every file at every start.
        url: address of the server; for ``classify`` and ``predict`` without that word.
        model: model id for ``classify``; None takes the card's hub id.
        api_key: where the server asks for one.
        judge: side that is judged, instead of the one the stage stands for.
        threshold: risk from which a text is unsafe, instead of the card's.
        abstain: risks between these two are ``unknown/abstained``.
        threads: processor threads of one call, for ``onnx``; for ``transformers`` of the process.
        device: where ``transformers`` computes: ``cpu``, ``cuda``, ``cuda:0`` …, or ``mps``.
        on_language: what becomes of text clearly in a language that the card does not list: ``judge`` judges it and
            says so, ``abstain`` makes it ``unknown/abstained``.
        scopes: scopes judged.
        roles: narrows what of a request is judged.
        kinds: narrows what is judged.
        turns: narrows what of a request is judged.
        max_chars: characters of one call to a server; a model in the process cuts by tokens.
        overlap: characters two chunks share.
        max_chunks: more windows than this are ``unknown/over_limit``.
        timeout_s: time for all calls together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    capability: ClassVar[Capability] = "growth"

    use: Literal["classifier"] = "classifier"
    card: Annotated[EncoderCard, BeforeValidator(resolve_encoder, json_schema_input_type=str | dict[str, Any])]
    route: Route = "onnx"
    path: str | None = Field(default=None, min_length=1)
    lock: str | None = Field(default="guards.lock", min_length=1)
    verify: Literal["cached", "always"] = "cached"
    url: str | None = Field(default=None, pattern=r"^https?://")
    model: str | None = Field(default=None, min_length=1)
    api_key: Secret | None = None
    judge: Literal["prompt", "response"] | None = None
    threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    abstain: tuple[float, float] | None = None
    threads: int = Field(default=1, ge=1, le=64)
    device: str = Field(default="cpu", pattern=r"^(cpu|mps|cuda(:\d{1,2})?)$")
    on_language: OnLanguage = "judge"
    scopes: tuple[Scope, ...] = Field(default=("conversation",), min_length=1)
    roles: frozenset[Role] | None = None
    kinds: frozenset[Kind] | None = None
    turns: Turns = "all"
    max_chars: int = Field(default=1_200, ge=300)
    overlap: int = Field(default=200, ge=0)
    max_chunks: int = Field(default=256, ge=1)
    timeout_s: float | None = Field(default=None, gt=0.0)

    _loaded: _Loaded = PrivateAttr(default_factory=_Loaded)

    @model_validator(mode="after")
    def _check(self) -> Self:
        local = self.route in _HERE
        for wrong, message in (
            (local and self.url is not None, f"url has no effect with route {self.route}"),
            (not local and self.url is None, f"route {self.route} needs url"),
            (not local and self.path is not None, f"path has no effect with route {self.route}"),
            (
                local and self.path is None and self.lock is None,
                f"route {self.route} needs path, or a lock that names a folder",
            ),
            (
                local and self.card.remote_code,
                f"{self.card.name} needs code of its own, which is not run here: serve it",
            ),
            (self.route != "transformers" and self.device != "cpu", f"device has no effect with route {self.route}"),
            (self.overlap * 2 > self.max_chars, f"overlap {self.overlap} is more than half of {self.max_chars}"),
            (
                self.abstain is not None and not self._is_band(self.abstain),
                "abstain is [low, high], 0 <= low < high <= 1",
            ),
        ):
            if wrong:
                raise ValueError(message)
        if local:
            try:
                self._check_local()
            except MissingError as error:
                raise MissingPart(str(error)) from error
            except ConfigError as error:
                raise ValueError(str(error)) from error
        return self

    def _check_local(self) -> None:
        """Refuse at once what loading would refuse later."""
        kind = torch_model if self.route == "transformers" else onnx_model
        kind.check_extra()
        kind.check_folder(self._files().folder, self.card)

    def _is_band(self, band: tuple[float, float]) -> bool:
        return 0.0 <= band[0] < band[1] <= 1.0

    @property
    def stages(self) -> frozenset[Stage]:
        """Return the stages it can serve: what its card judges, or both if `judge` is set."""
        sides: Mapping[Stage, str] = {"input": "prompt", "output": "response"}
        return frozenset([stage for stage, side in sides.items() if self.judge or self.card.judges in (side, "both")])

    def _files(self) -> GuardFiles:
        return find_guard(self.card.name, self.path, self.lock)

    def load_model(self) -> OnnxModel | TorchModel:
        """Return the model in the process, loaded once; the lock is checked before.

        Raises:
            ConfigError: a file is not what was locked, or cannot be loaded.
        """
        if self._loaded.model is None:
            found = self._files()
            found.check(self.verify)
            if self.route == "transformers":
                self._loaded.model = TorchModel(found.folder, self.card, self.threads, self.device)
            else:
                self._loaded.model = OnnxModel(found.folder, self.card, self.threads)
        return self._loaded.model

    async def __aenter__(self) -> Self:
        if self.route in _HERE:
            await asyncio.to_thread(self.load_model)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loaded.model = None

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text and what its encoded runs say; one unsafe window is enough."""
        if exchange.stage not in self.stages:
            return unknown(Cause.UNSUPPORTED, detail="stage")
        judge = partial(self._assess, exchange, context)
        return await mind_language(self.on_language, self.card.languages, exchange, judge)

    async def _assess(self, exchange: Exchange, context: Context) -> Verdict:
        pieces = await find_pieces(exchange, self, self._cut)
        if isinstance(pieces, Verdict):
            return pieces
        if self.route in _HERE:
            parts = await run_pieces(partial(self._judge_here, exchange, pieces.found))
        else:
            parts = await self._judge_there(exchange, pieces.found, context)
        if pieces.gap is not None:
            parts.append(Part(pieces.gap))
        several = len(parts) > 1
        return combine_parts([part if several else Part(part.verdict) for part in parts], len(parts))

    def _cut(self, text: str) -> Sequence[Place]:
        if not text.strip():
            return ()
        return (Place(0, len(text)),) if self.route in _HERE else cut_chunks(len(text), self.max_chars, self.overlap)

    def _judge_here(self, exchange: Exchange, pieces: Sequence[Piece], stop: Stop) -> list[Part]:
        """Judge in the calling thread, window by window; too many windows are known before the first is run."""
        model = self.load_model()
        before = self._prompt_of(exchange)
        texts = [Text(piece.text, before) for piece in pieces]
        if sum([model.count_windows(text) for text in texts]) > self.max_chunks:
            return [Part(unknown(Cause.OVER_LIMIT, detail="max_chunks"))]
        parts: list[Part] = []
        for piece, text in zip(pieces, texts, strict=True):
            try:
                rows = model.score(text, stop)
            except WrongScores as error:
                parts.append(Part(unknown(Cause.UNPARSABLE, detail=error.detail)))
                continue
            parts += [
                Part(self._judge_row(exchange, piece, row), len(parts) + number) for number, row in enumerate(rows)
            ]
        return parts

    async def _judge_there(self, exchange: Exchange, pieces: Sequence[Piece], context: Context) -> list[Part]:
        parts: list[Part] = []
        before = self._prompt_of(exchange)
        for start in range(0, len(pieces), _PER_CALL):
            batch = pieces[start : start + _PER_CALL]
            verdicts = await self._judge_batch(exchange, batch, before, context)
            parts += [Part(verdict, start + number) for number, verdict in enumerate(verdicts)]
        return parts

    async def _judge_batch(
        self, exchange: Exchange, batch: Sequence[Piece], before: str, context: Context, *, halved: bool = False
    ) -> list[Verdict]:
        """Judge a batch; what the server finds too long is halved once (GU-10)."""
        try:
            rows = await self._post([Text(piece.text, before) for piece in batch], context)
        except (ChatError, ReplyError) as error:
            verdict = to_unknown(error)
            if halved or verdict.cause is not Cause.OVER_LIMIT or error.args[0] != _TOO_LONG:
                return [verdict] * len(batch)
        else:
            return [self._judge_row(exchange, piece, row) for piece, row in zip(batch, rows, strict=True)]
        verdicts: list[Verdict] = []
        for piece in batch:
            half = len(piece.text) // 2 + self.overlap // 2
            places = cut_chunks(len(piece.text), max(half, 1), min(self.overlap, half // 2))
            halves = [replace(piece, text=piece.text[start:end]) for start, end in places]
            found = await self._judge_batch(exchange, halves, before, context, halved=True)
            verdicts.append(combine_parts([Part(each) for each in found], len(halves)))
        return verdicts

    async def _post(self, texts: Sequence[Text], context: Context) -> list[tuple[float, ...]]:
        """Ask a server about a batch.

        Raises:
            ChatError: the server failed or refused.
            ReplyError: its scores cannot be used.
        """
        base, headers = (self.url or "").rstrip("/"), {}
        if self.api_key is not None:
            headers = {"authorization": f"Bearer {self.api_key.value}"}
        plain: list[object] = [[text.before, text.text] if text.before else text.text for text in texts]
        match self.route:
            case "classify":
                body: dict[str, object] = {"model": self.model or self.card.hub_id, "input": plain}
                return read_classify(self.card, await _call(context, f"{base}/classify", body, headers), len(texts))
            case "predict":
                body = {"inputs": plain, "raw_scores": False, "truncate": False}
                return read_predict(self.card, await _call(context, f"{base}/predict", body, headers), len(texts))
            case "hf" | "onnx" | "transformers":
                return read_predict(self.card, await _call(context, base, {"inputs": plain}, headers), len(texts))

    def _prompt_of(self, exchange: Exchange) -> str:
        """Return the prompt that a model for pairs sees before a response."""
        if not self.card.pair or exchange.stage != "output":
            return ""
        return write_transcript(to_turns(exchange.request))

    def _judge_row(self, exchange: Exchange, piece: Piece, row: Sequence[float]) -> Verdict:
        verdict = judge_row(
            self.card,
            row,
            threshold=self.threshold,
            abstain=self.abstain,
            document=_is_document(exchange, piece.path),
        )
        if verdict.label is not Label.UNSAFE:
            return verdict
        return replace(verdict, scope=piece.scope, transform=piece.chain or None)


def _is_document(exchange: Exchange, path: str) -> bool:
    return any(
        segment.role in ("tool", "function") or segment.kind == "tool_result"
        for segment in exchange.judged
        if segment.path == path
    )


async def _call(context: Context, url: str, body: object, headers: Mapping[str, str]) -> object:
    status, answer = await context.post(url, body, headers)
    if status in (413, 422):
        raise ChatRefused(_TOO_LONG, status=status, code="context_length_exceeded")
    if not 200 <= status < 300:
        msg = f"the server refused the request with status {status}"
        raise ChatRefused(msg, status=status, code=f"status_{status}")
    return answer
