"""Keep a conversation off some topics, or on some: `use: topics`, by the nearness of embeddings to examples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Final, Literal, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from supervisors.embeddings import Embedded, Embedder, Vector, cosine, embed
from supervisors.errors import ConfigError, MissingError, MissingPart, ReplyError
from supervisors.narrowing import Turns
from supervisors.nesting import is_exhaustive, may_redact
from supervisors.offload import Stop, run_pieces
from supervisors.offsets import Place
from supervisors.pieces import Piece, find_pieces
from supervisors.scopes import gravest
from supervisors.secret import Secret
from supervisors.similarity import Comparer, LocalEngine, Row, Search, check_engine, load_comparer
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
_MOST: Final[Mapping[str, int]] = {"server": 64, "minilm": 40_000, "wordllama": 200_000}
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
    """Vectors of the examples once they were asked for, or what compares here; making it twice at once is harmless."""

    examples: tuple[Vector, ...] = ()
    comparer: Comparer | None = None


@dataclass(frozen=True, slots=True)
class _Compared:
    """Similarities by text, those that were not needed missing, and what a server counted."""

    rows: Mapping[str, Row]
    tokens: Tokens | None = None


class Topics(BaseModel):
    """Flag text near the examples of a topic, or, with ``mode: allow``, text near none of them.

    Args:
        use: the word that selects this kind.
        topics: by name, a list of examples or a mapping with `examples` and `threshold`.
        mode: ``deny`` flags what is on a topic, ``allow`` what is on none.
        engine: ``server`` asks one for the vectors; ``minilm`` and ``wordllama`` make them in the process (extra:
            embeddings), the second one a hundred times as fast, from the words alone.
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
            asked, 40,000 with ``minilm``, 200,000 with ``wordllama``: the deadline bounds those.
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
    engine: Literal["server"] | LocalEngine = "server"
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
        named = [name for name in ("model", "url", "api_key") if getattr(self, name) is not None]
        if self.engine == "server":
            if self.model is None or self.url is None:
                msg = "engine server needs model and url; engines minilm and wordllama need neither"
                raise ValueError(msg)
            return self
        if named:
            msg = f"{', '.join(named)} has no effect with engine {self.engine}"
            raise ValueError(msg)
        try:
            check_engine(self.engine)
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
        compared = await self._compare([piece.text for piece in pieces.found], context)
        near = {text: self._find_nearest(row) for text, row in compared.rows.items()}
        judged = [(piece, near[piece.text]) for piece in pieces.found if piece.text in near]
        verdict = replace(self._conclude(judged, pieces.gap), tokens=compared.tokens)
        if len(judged) == len(pieces.found):
            return verdict
        counted = {"pieces": len(pieces.found), "pieces_judged": len(judged)}
        return replace(verdict, spans=(), extras={**verdict.extras, **counted})  # masking some would leave the others

    async def _compare(self, texts: Sequence[str], context: Context) -> _Compared:
        if self.engine != "server":
            whole = is_exhaustive(self, context) or may_redact(context)
            search = None if whole else Search(self._counts, self.mode == "deny")
            return _Compared(await run_pieces(partial(self._compare_here, self.engine, texts, search)))
        spent = await self._embed_examples(context)
        different = list(dict.fromkeys(texts))
        found = await self._ask(different, context)
        if len(found.vectors[0]) != len(self._cache.examples[0]):
            msg = "the embeddings server changed the length of its vectors"
            raise ReplyError(msg, detail="missing_field")
        rows = [[cosine(vector, example) for example in self._cache.examples] for vector in found.vectors]
        return _Compared(dict(zip(different, rows, strict=True)), Tokens(found.tokens + spent, 0))

    async def _ask(self, texts: Sequence[str], context: Context) -> Embedded:
        return await embed(Embedder(self.url or "", self.model or "", self.api_key), texts, context)

    async def _embed_examples(self, context: Context) -> int:
        """Ask for the vectors of the examples, once, and return the tokens that took."""
        if self._cache.examples:
            return 0
        embedded = await self._ask(list(dict.fromkeys(self._examples)), context)
        vectors = dict(zip(dict.fromkeys(self._examples), embedded.vectors, strict=True))
        self._cache.examples = tuple([vectors[example] for example in self._examples])
        return embedded.tokens

    def _compare_here(
        self, engine: LocalEngine, texts: Sequence[str], search: Search | None, stop: Stop
    ) -> Mapping[str, Row]:
        if self._cache.comparer is None:
            self._cache.comparer = load_comparer(engine, self._examples)
        return self._cache.comparer.compare(texts, stop, search)

    @property
    def _examples(self) -> Sequence[str]:
        return [example for topic in self.topics.values() for example in topic.examples]

    def _counts(self, row: Row) -> bool:
        return self._find_nearest(row).reached is (self.mode == "deny")

    def _cut(self, text: str) -> Iterator[Place]:
        usual = "both" if self.engine != "server" and self.mode == "deny" else "stretch"
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

    def _find_nearest(self, row: Row) -> _Near:
        """Return the topic that is most over its threshold, or the nearest when none is."""
        near: list[_Near] = []
        start = 0
        for name, topic in self.topics.items():
            end = start + len(topic.examples)
            similarity = max(row[start:end])
            near.append(_Near(name, similarity, similarity >= (topic.threshold or self.threshold)))
            start = end
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
        found = Verdict(Label.UNSAFE, None, score, categories, spans, transform=hits[0][0].chain)
        return replace(
            found,
            scope=gravest([piece.scope for piece, _ in hits]),
            rest=gap.cause if gap is not None else None,
            extras=facts,
        )
