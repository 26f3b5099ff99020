"""Keep a conversation off some topics, or on some: `use: topics`, by the nearness of embeddings to examples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, ClassVar, Final, Literal, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from supervisors.embeddings import Embedded, Embedder, Vector, cosine, embed
from supervisors.errors import ConfigError, MissingError, MissingPart, ReplyError
from supervisors.minilm import MiniLM, find_files
from supervisors.narrowing import Turns
from supervisors.offload import Stop, run_pieces
from supervisors.offsets import Place
from supervisors.pieces import Piece, find_pieces
from supervisors.secret import Secret
from supervisors.types import (
    Capability,
    Context,
    Exchange,
    Kind,
    Label,
    Role,
    Scope,
    Tokens,
    Verdict,
)
from supervisors.views import cut_chunks

OFF_TOPIC = "off_topic"
_MOST: Final[Mapping[str, int]] = {"server": 64, "minilm": 40_000}
"""Stretches and sentences judged where `max_chunks` leaves it open: a server's calls are paid for."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def split_places(text: str) -> Iterator[Place]:
    """Return where the sentences of a text are."""
    start = 0
    for match in _SENTENCE_END.finditer(text):
        yield Place(start, match.start())
        start = match.end()
    yield Place(start, len(text))


class Topic(BaseModel):
    """One topic.

    Args:
        examples: sentences as somebody would write them on this topic; a dozen tell more than one.
        threshold: similarity to the nearest example from which a text is on it; None takes the supervisor's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    examples: tuple[str, ...] = Field(min_length=1)
    threshold: float | None = Field(default=None, gt=0, le=1)

    @field_validator("examples")
    @classmethod
    def _check_examples(cls, examples: tuple[str, ...]) -> tuple[str, ...]:
        if not all(example.strip() for example in examples):
            msg = "an example must not be empty"
            raise ValueError(msg)
        return examples


def _to_topic(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return {"examples": cast("Sequence[object]", value)}  # the fields check the items
    return value


@dataclass(frozen=True, slots=True)
class _Near:
    """The topic a piece is nearest to."""

    name: str
    similarity: float
    reached: bool


@dataclass(slots=True)
class _Cache:
    """Vectors of the examples once they were asked for, and the model here; making them twice at once is harmless."""

    examples: dict[str, tuple[Vector, ...]] = field(default_factory=dict[str, "tuple[Vector, ...]"])
    minilm: MiniLM | None = None


class Topics(BaseModel):
    """Flag text near the examples of a topic, or, with ``mode: allow``, text near none of them.

    Args:
        use: the word that selects this kind.
        topics: by name, a list of examples or a mapping with `examples` and `threshold`.
        mode: ``deny`` flags what is on a topic, ``allow`` what is on none.
        engine: ``server`` asks one for the vectors, ``minilm`` makes them in the process (extra: embeddings).
        model: embedding model of the server.
        url: base URL of an OpenAI-compatible server, up to and including ``/v1``.
        api_key: ``{env: NAME}`` or ``{file: PATH}``.
        threshold: cosine similarity from which a text is on a topic; it depends on the model: measure your own.
        scopes: scopes judged.
        roles: judge only what these roles wrote; None is all.
        kinds: judge only segments of these kinds; None is all.
        turns: ``last_user`` judges the newest user turn, ``new`` what came after the last assistant turn.
        max_chars: characters a vector stands for; a long text dilutes what one sentence of it says.
        overlap: characters two neighbouring stretches share.
        max_chunks: more stretches and sentences than this are ``unknown/over_limit``; None is 64 where a server is
            asked, 40,000 in the process: the deadline bounds those.
        granularity: ``stretch`` compares stretches, which dilute what one of their sentences says, ``sentence`` every
            sentence, ``both`` the stretches, and the sentences of a text of more than one. None is ``both`` in the
            process with `mode` ``deny``, else ``stretch``: a server is paid for every text, and with ``allow`` a
            sentence that is on no topic is no reason.
        timeout_s: its own limit within the stage's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    capability: ClassVar[Capability] = "growth"

    use: Literal["topics"] = "topics"
    topics: Mapping[str, Annotated[Topic, BeforeValidator(_to_topic)]] = Field(min_length=1)
    mode: Literal["deny", "allow"] = "deny"
    engine: Literal["server", "minilm"] = "server"
    model: str | None = Field(default=None, min_length=1)
    url: str | None = Field(default=None, pattern=r"^https?://")
    api_key: Secret | None = None
    threshold: float = Field(default=0.5, gt=0, le=1)
    scopes: tuple[Scope, ...] = Field(default=("conversation",), min_length=1)
    roles: frozenset[Role] | None = None
    kinds: frozenset[Kind] | None = None
    turns: Turns = "all"
    max_chars: int = Field(default=1_000, ge=600)
    overlap: int = Field(default=256, ge=256, le=300)
    max_chunks: int | None = Field(default=None, ge=1)
    granularity: Literal["stretch", "sentence", "both"] | None = None
    timeout_s: float | None = Field(default=None, gt=0)

    _cache: _Cache = PrivateAttr(default_factory=_Cache)

    @model_validator(mode="after")
    def _check(self) -> Self:
        asked = self.engine == "server"
        named = [name for name in ("model", "url", "api_key") if getattr(self, name) is not None]
        if asked and (self.model is None or self.url is None):
            msg = "engine server needs model and url; engine minilm needs neither"
            raise ValueError(msg)
        if not asked and named:
            msg = f"{', '.join(named)} has no effect with engine minilm"
            raise ValueError(msg)
        if not asked:
            try:
                find_files()
            except MissingError as error:
                raise MissingPart(str(error)) from error
            except ConfigError as error:
                raise ValueError(str(error)) from error
        return self

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Compare every stretch of the selected texts, and what their encoded runs say, with the examples."""
        pieces = await find_pieces(exchange, self, self._cut, _MOST[self.engine])
        if isinstance(pieces, Verdict):
            return pieces
        examples, spent = await self._embed_examples(context)
        found = await self._embed([piece.text for piece in pieces.found], context)
        if len(found.vectors[0]) != len(next(iter(examples.values()))[0]):
            msg = "the embeddings server changed the length of its vectors"
            raise ReplyError(msg, detail="missing_field")
        near = {vector: self._find_nearest(vector, examples) for vector in set(found.vectors)}
        nearest = [near[vector] for vector in found.vectors]
        verdict = self._conclude(list(zip(pieces.found, nearest, strict=True)), pieces.gap)
        return verdict if self.engine == "minilm" else replace(verdict, tokens=Tokens(found.tokens + spent, 0))

    async def _embed(self, texts: Sequence[str], context: Context) -> Embedded:
        """Return a vector of each text; of the same one twice, the same vector."""
        different = list(dict.fromkeys(texts))
        found = await self._ask(different, context)
        vectors = dict(zip(different, found.vectors, strict=True))
        return Embedded(tuple([vectors[text] for text in texts]), found.tokens)

    async def _ask(self, texts: Sequence[str], context: Context) -> Embedded:
        if self.engine == "server":
            return await embed(Embedder(self.url or "", self.model or "", self.api_key), texts, context)
        return await run_pieces(partial(self._embed_here, texts))

    def _embed_here(self, texts: Sequence[str], stop: Stop) -> Embedded:
        if self._cache.minilm is None:
            self._cache.minilm = MiniLM()
        return self._cache.minilm.embed(stop.watch(texts))

    def _cut(self, text: str) -> Iterator[Place]:
        usual = "both" if self.engine == "minilm" and self.mode == "deny" else "stretch"
        granularity = self.granularity or usual
        if granularity != "sentence":
            yield from self._stretch(text, [Place(0, len(text))])
        if granularity == "sentence" or (granularity == "both" and len(text) > self.max_chars):
            yield from self._stretch(text, split_places(text))

    def _stretch(self, text: str, parts: Iterable[Place]) -> Iterator[Place]:
        for part in parts:
            if text[part.start : part.end].strip():
                for start, end in cut_chunks(part.end - part.start, self.max_chars, self.overlap):
                    yield Place(part.start + start, part.start + end)

    async def _embed_examples(self, context: Context) -> tuple[Mapping[str, tuple[Vector, ...]], int]:
        """Return the vectors of the examples, asked for once, and the tokens that took."""
        if self._cache.examples:
            return self._cache.examples, 0
        texts = [example for topic in self.topics.values() for example in topic.examples]
        embedded = await self._embed(texts, context)
        vectors = iter(embedded.vectors)
        found = {name: tuple([next(vectors) for _ in topic.examples]) for name, topic in self.topics.items()}
        self._cache.examples = found
        return found, embedded.tokens

    def _find_nearest(self, vector: Vector, examples: Mapping[str, tuple[Vector, ...]]) -> _Near:
        """Return the topic that is most over its threshold, or the nearest when none is."""
        near: list[_Near] = []
        for name, vectors in examples.items():
            similarity = max([cosine(vector, example) for example in vectors])
            near.append(_Near(name, similarity, similarity >= (self.topics[name].threshold or self.threshold)))
        return max(near, key=lambda found: (found.reached, found.similarity))

    def _conclude(self, judged: Sequence[tuple[Piece, _Near]], gap: Verdict | None) -> Verdict:
        denied = self.mode == "deny"
        hits = [(piece, near) for piece, near in judged if near.reached is denied]
        closest = max([near.similarity for _, near in judged])
        score = max(0.0, min(1.0, closest if denied else 1.0 - min([near.similarity for _, near in judged])))
        facts = {"nearest": max([near for _, near in judged], key=lambda near: near.similarity).name}
        if not hits:
            return gap or Verdict(Label.SAFE, score=score, extras=facts)
        spans = tuple([piece.to_span(near.name if denied else OFF_TOPIC) for piece, near in hits])
        categories = tuple(dict.fromkeys([span.category for span in spans]))
        first = hits[0][0]
        return Verdict(
            Label.UNSAFE, None, score, categories, spans, transform=first.chain, scope=first.scope, extras=facts
        )
