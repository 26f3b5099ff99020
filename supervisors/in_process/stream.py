"""Qwen3Guard-Stream: a level for every token of a reply, in the process: `use: qwen_stream` (guards §6.2).

Source: the model's card. All tokens up to the end of the last user turn are fed as the user's, the reply's as the
assistant's, and the stream is closed whatever happens. The model judges in its own vocabulary, so a reply of another
model is tokenised anew; of a reply that still grows, the last token may change and is not fed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Protocol, Self, cast

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from supervisors.errors import ConfigError, ReplyError
from supervisors.in_process.code import check_code
from supervisors.lock import find_guard
from supervisors.material import Turn, to_turns
from supervisors.narrowing import EVERYTHING, select
from supervisors.offsets import Place
from supervisors.pieces import Piece, cut_pieces
from supervisors.scores import Part, combine_parts
from supervisors.taxonomy import load_taxonomies
from supervisors.types import (
    Capability,
    Cause,
    Context,
    Exchange,
    Label,
    Span,
    Stage,
    Verdict,
    unknown,
)
from supervisors.windows import check_files, check_packages

EXTRA: Final = ("torch", "transformers", "safetensors", "tokenizers")
_SPECIAL: Final = re.compile(r"<(?=\|)")
_BREAK: Final = "\u200b"
_SCORES: Final[Mapping[str, float]] = {"Safe": 0.0, "Controversial": 0.5, "Unsafe": 1.0}

Name = Literal["qwen3guard-stream-0.6b", "qwen3guard-stream-4b", "qwen3guard-stream-8b"]
Levels = Mapping[str, Sequence[object]]


@dataclass(frozen=True, slots=True)
class Tokens:
    """A conversation in the model's vocabulary.

    Args:
        user: ids up to and including the end of the last user turn.
        reply: ids after that.
        places: where each of `reply` stands in the reply's text; None for what the template adds.
    """

    user: tuple[int, ...]
    reply: tuple[int, ...]
    places: tuple[tuple[int, int] | None, ...]


class StreamModel(Protocol):
    """The model and its tokenizer."""

    def tokenise(self, turns: Sequence[Turn], reply: str, *, complete: bool) -> Tokens:
        """Return the ids of a conversation that ends with a reply."""
        ...

    def judge(self, tokens: Tokens) -> Levels:
        """Return ``risk_level`` and ``category`` of every token of the reply."""
        ...


class TransformersStream:
    """The model as its repository has it, run by the transformers library.

    Args:
        folder: holds weights, tokenizer and code.

    Raises:
        MissingError: the library or a file is not there.
        ConfigError: the model cannot be loaded.
    """

    def __init__(self, folder: Path) -> None:
        check_packages(EXTRA, "transformers")
        files = ("config.json", "*.safetensors", "tokenizer.json", "*.py")
        check_files(folder, files, "guardrail-proxy guard pull qwen3guard-stream-0.6b --allow-remote-code")
        transformers: Any = import_module("transformers")  # an extra that takes seconds
        self._torch: Any = import_module("torch")
        local = {"local_files_only": True, "trust_remote_code": True}
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(folder), **local)
            self._model: Any = transformers.AutoModel.from_pretrained(str(folder), use_safetensors=True, **local).eval()
        except (ImportError, OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
            msg = f"the model in {folder} cannot be loaded: {type(error).__name__}"
            raise ConfigError(msg) from error

    def tokenise(self, turns: Sequence[Turn], reply: str, *, complete: bool) -> Tokens:
        """Render with the model's own template, then cut after the last user turn."""
        messages = [{"role": turn.speaker, "content": turn.text} for turn in turns]
        rendered: str = self._tokenizer.apply_chat_template(
            [*messages, {"role": "assistant", "content": reply}],
            tokenize=False,
            add_generation_prompt=False,
            enable_thinking=False,
        )
        start = rendered.rfind(reply)
        if start < 0:
            msg = "the guard's template changes the reply"
            raise ReplyError(msg, detail="template")
        text = rendered if complete else rendered[: start + len(reply)]
        found: Any = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, offsets = list(found["input_ids"]), list(found["offset_mapping"])
        cut = self._end_of_user(ids)
        end = start + len(reply)
        places = [(a - start, b - start) if start <= a < end else None for a, b in offsets[cut:]]
        kept = len(ids) if complete else len(ids) - 1
        return Tokens(tuple(ids[:cut]), tuple(ids[cut:kept]), tuple(places[: kept - cut]))

    def _end_of_user(self, ids: Sequence[int]) -> int:
        start, user, end = self._tokenizer.convert_tokens_to_ids(["<|im_start|>", "user", "<|im_end|>"])
        begins = [place for place, pair in enumerate(pairwise(ids)) if pair == (start, user)]
        ends = [place for place in range(begins[-1], len(ids)) if ids[place] == end] if begins else []
        if not ends:
            msg = "the guard's template has no user turn"
            raise ReplyError(msg, detail="template")
        return ends[0] + 1

    def judge(self, tokens: Tokens) -> Levels:
        """Feed the user's tokens, then the reply's, and close the stream."""
        state: Any = None
        with self._torch.inference_mode():
            try:
                user = self._torch.tensor(tokens.user)
                _, state = self._model.stream_moderate_from_ids(user, role="user", stream_state=None)
                reply = self._torch.tensor(tokens.reply)
                found, state = self._model.stream_moderate_from_ids(reply, role="assistant", stream_state=state)
            finally:
                if state is not None:
                    self._model.close_stream(state)
        return cast("Levels", found)


@dataclass(slots=True)
class _Loaded:
    """The model, once it was loaded."""

    model: StreamModel | None = None


class QwenStream(BaseModel):
    """Judge every token of a reply with Qwen3Guard-Stream.

    Args:
        card: which size.
        path: folder with the model; None takes the lock's.
        lock: lock file that names and hashes the files; code runs from a lock only.
        verify: ``cached`` hashes a locked file again only after it changed; ``always`` reads every file at every start.
        allow_code: names of cards whose repository's code may run in this process.
        controversial: what the middle level means.
        debounce: tokens in a row that must have a level before it counts.
        max_tokens: longer conversations are ``unknown/over_limit``.
        timeout_s: its own limit within the stage's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    capability: ClassVar[Capability] = "growth"
    stages: ClassVar[frozenset[Stage]] = frozenset({"output"})

    use: Literal["qwen_stream"] = "qwen_stream"
    card: Name = "qwen3guard-stream-0.6b"
    path: str | None = Field(default=None, min_length=1)
    lock: str = Field(default="guards.lock", min_length=1)
    verify: Literal["cached", "always"] = "cached"
    allow_code: tuple[str, ...] = ()
    controversial: Literal["unsafe", "safe", "unknown"] = "unsafe"
    debounce: int = Field(default=2, ge=1, le=16)
    max_tokens: int = Field(default=8_192, ge=64)
    timeout_s: float | None = Field(default=None, gt=0.0)

    _loaded: _Loaded = PrivateAttr(default_factory=_Loaded)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.card not in self.allow_code:
            msg = f"{self.card} runs code of its repository in this process: read it, then allow_code: [{self.card}]"
            raise ValueError(msg)
        return self

    def attach(self, model: StreamModel | None) -> None:
        """Use what is loaded already instead of the files."""
        self._loaded.model = model

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.load_model)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.attach(None)

    def load_model(self) -> StreamModel:
        """Check the lock, then load; once.

        Raises:
            ConfigError: a file is not what was locked, or cannot be loaded.
        """
        if self._loaded.model is None:
            found = find_guard(self.card, self.path, self.lock)
            found.check(self.verify)
            if found.entry is not None:  # there is always a lock
                check_code(found.folder, found.entry, self.card)
            self._loaded.model = TransformersStream(found.folder)
        return self._loaded.model

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every text of the reply, and what its encoded runs say, after the conversation before it."""
        if exchange.stage != "output":
            return unknown(Cause.UNSUPPORTED, detail="stage")
        if any(segment.kind == "media" for segment in select(exchange, "conversation", EVERYTHING)):
            return unknown(Cause.UNSUPPORTED, detail="media")
        pieces = await asyncio.to_thread(cut_pieces, exchange, ("conversation",), EVERYTHING, _take_whole)
        if not pieces.found:
            return pieces.gap or unknown(Cause.SKIPPED, detail="no_text")
        before = [Turn(turn.speaker, _SPECIAL.sub("<" + _BREAK, turn.text)) for turn in to_turns(exchange.request)]
        if not any(turn.speaker == "user" for turn in before):
            before.append(Turn("user", "."))
        model = await asyncio.to_thread(self.load_model)
        complete = exchange.complete
        parts = [Part(await asyncio.to_thread(self._judge, model, before, one, complete)) for one in pieces.found]
        if pieces.gap is not None:
            parts.append(Part(pieces.gap))
        return combine_parts(parts, len(parts))

    def _judge(self, model: StreamModel, before: Sequence[Turn], piece: Piece, complete: bool) -> Verdict:
        """Judge one text, or what an encoded run of it says, as a reply; blocks."""
        text = _SPECIAL.sub("<" + _BREAK, piece.text)
        try:
            tokens = model.tokenise(before, text, complete=complete)
            if len(tokens.user) + len(tokens.reply) > self.max_tokens:
                return unknown(Cause.OVER_LIMIT, detail="max_tokens")
            if not tokens.reply:
                return unknown(Cause.SKIPPED, detail="no_text")
            verdict, first = read_levels(model.judge(tokens), len(tokens.reply), self.controversial, self.debounce)
        except ReplyError as error:
            return unknown(Cause.UNPARSABLE, detail=error.detail)
        if verdict.label is not Label.UNSAFE:
            return verdict
        start = piece.start
        if piece.chain is None:
            start = _unbroken(text, next((place[0] for place in tokens.places[first:] if place is not None), 0))
        span = Span(piece.path, start, piece.end, verdict.categories[0])
        return replace(verdict, spans=(span,), scope=piece.scope, transform=piece.chain)


def _take_whole(text: str) -> Sequence[Place]:
    return [Place(0, len(text))] if text.strip() else ()


def _unbroken(text: str, place: int) -> int:
    """Return a place in the text before its marks were broken."""
    return place - len(re.findall(f"<{_BREAK}(?=\\|)", text[:place]))


def read_levels(
    found: object, expected: int, controversial: Literal["unsafe", "safe", "unknown"], debounce: int
) -> tuple[Verdict, int]:
    """Read the levels of a reply's tokens.

    Args:
        found: of the model.
        expected: tokens that were fed.
        controversial: what the middle level means.
        debounce: tokens in a row that must be bad.

    Returns:
        The verdict, and the first token of the first row that is bad.

    Raises:
        ReplyError: not one known level and one category a token.
    """
    levels, categories = _row(found, "risk_level", expected), _row(found, "category", expected)
    strange = [level for level in levels if level not in _SCORES]
    if strange:
        msg = "the guard's level is none"
        raise ReplyError(msg, detail="unknown_label")
    extras: dict[str, object] = {"score_kind": "label", "severity": max(levels, key=_SCORES.__getitem__)}
    bad = {"Unsafe", "Controversial"} if controversial == "unsafe" else {"Unsafe"}
    first = _first_row(levels, bad, debounce)
    if first is not None:
        row = slice(first, first + debounce)
        worst = max(levels[row], key=_SCORES.__getitem__)
        raw = [name for name in dict.fromkeys(categories[row]) if name not in ("None", "")]
        named = load_taxonomies()["qwen3guard"].to_canonical(raw) or ("other",)
        unsafe = Verdict(Label.UNSAFE, score=_SCORES[worst], categories=named, extras={**extras, "raw_categories": raw})
        return unsafe, first
    if controversial == "unknown" and _first_row(levels, {"Unsafe", "Controversial"}, debounce) is not None:
        return Verdict(Label.UNKNOWN, Cause.ABSTAINED, 0.5, extras=extras), 0
    risk = 0.5 if controversial != "unsafe" and "Controversial" in levels else 0.0
    return Verdict(Label.SAFE, score=risk, extras=extras), 0


def _first_row(levels: Sequence[str], bad: set[str], debounce: int) -> int | None:
    run = 0
    for place, level in enumerate(levels):
        run = run + 1 if level in bad else 0
        if run == debounce:
            return place - debounce + 1
    return None


def _row(found: object, name: str, expected: int) -> list[str]:
    value = cast("Mapping[str, object]", found).get(name) if isinstance(found, Mapping) else None
    listed = list(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else []
    words = ["None" if word is None and name == "category" else word for word in listed]
    if len(words) != expected or not all(isinstance(word, str) for word in words):
        msg = f"the guard gave {len(words)} values of {name} for {expected} tokens"
        raise ReplyError(msg, detail="missing_field")
    return [str(word) for word in words]
