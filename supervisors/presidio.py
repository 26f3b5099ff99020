"""Find names, places and further personal data with Presidio: `use: presidio`, an optional extra.

Our own patterns run in addition to Presidio's recognisers: they know what those miss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from supervisors.narrowing import Narrowing, Turns, select
from supervisors.offload import Offload, Stop
from supervisors.offsets import Place
from supervisors.pieces import cut_pieces
from supervisors.pii import pii_patterns
from supervisors.recognisers import load_engine
from supervisors.scan import build_matcher, scan_segments
from supervisors.scopes import gravest
from supervisors.types import (
    Capability,
    Cause,
    Context,
    Exchange,
    Kind,
    Role,
    Scope,
    Span,
    Verdict,
    safe,
    unknown,
    unsafe,
)
from supervisors.variants import VARIANTS
from supervisors.views import cut_chunks

ENTITIES = (
    "CRYPTO", "IBAN_CODE", "CREDIT_CARD", "IP_ADDRESS", "LOCATION", "MEDICAL_LICENSE", "PERSON", "PHONE_NUMBER",
    "US_BANK_NUMBER", "US_DRIVER_LICENSE", "US_ITIN", "US_PASSPORT", "US_SSN", "UK_NHS",
)  # fmt: skip

_CHUNK_CHARS = 10_000
_OVERLAP = 256


class _Found(NamedTuple):
    """What Presidio found in a stretch."""

    start: int
    end: int
    category: str


@dataclass(slots=True)
class _Loaded:
    engine: Any = None


class Presidio(BaseModel):
    """Flag personal data found by Presidio's recognisers in English text, or by our own patterns.

    Args:
        use: the word that selects this kind.
        entities: Presidio's names of what is looked for.
        threshold: confidence from which a finding counts.
        scopes: scopes judged.
        roles: judge only what these roles wrote; None is all.
        kinds: judge only segments of these kinds; None is all.
        turns: ``last_user`` judges the newest user turn, ``new`` what came after the last assistant turn.
        max_chunks: more stretches of 10,000 characters than this are ``unknown/over_limit``.
        timeout_s: its own limit within the stage's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    capability: ClassVar[Capability] = "growth"

    use: Literal["presidio"] = "presidio"
    entities: tuple[str, ...] = Field(default=ENTITIES, min_length=1)
    threshold: float = Field(default=0.5, ge=0, le=1)
    scopes: tuple[Scope, ...] = Field(default=("conversation",), min_length=1)
    roles: frozenset[Role] | None = None
    kinds: frozenset[Kind] | None = None
    turns: Turns = "all"
    max_chunks: int = Field(default=512, ge=1)
    timeout_s: float | None = Field(default=None, gt=0)

    _loaded: _Loaded = PrivateAttr(default_factory=_Loaded)

    @model_validator(mode="after")
    def _load(self) -> Presidio:
        engine = load_engine(self.threshold)
        known = cast("list[str]", engine.get_supported_entities("en"))
        strange = [name for name in self.entities if name not in known]
        if strange:
            msg = f"Presidio has no entity {', '.join(strange)}; it has {', '.join(sorted(known))}"
            raise ValueError(msg)
        self._loaded.engine = engine
        return self

    @cached_property
    def _offload(self) -> Offload:
        return Offload()

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge the selected texts and what their encoded runs say, in a thread."""
        return await self._offload.run_pieces(exchange.chars, partial(self.judge, exchange))

    def judge(self, exchange: Exchange, stop: Stop | None = None) -> Verdict:
        """Judge in the calling thread, as long as somebody waits."""
        narrowing = Narrowing(self.roles, self.kinds, self.turns)
        pieces = cut_pieces(exchange, self.scopes, narrowing, cut_long)
        if len(pieces.found) > self.max_chunks:
            return unknown(Cause.OVER_LIMIT, detail="max_chunks")
        segments = [segment for scope in self.scopes for segment in select(exchange, scope, narrowing)]
        own = scan_segments(segments, build_matcher(None, "pii", pii_patterns(), VARIANTS))
        found: list[tuple[Span, Scope, str]] = [
            (Span(one.path, one.start, one.end, one.category), one.scope, one.chain) for one in own.findings
        ]
        said: dict[str, tuple[_Found, ...]] = {}
        for piece in (stop or Stop()).watch(pieces.found):
            if piece.text not in said:
                said[piece.text] = tuple(self._analyse(piece.text))
            for start, end, category in said[piece.text]:
                whole = piece.chain is not None  # a finding in an encoded run takes the whole run (G-11)
                place = (piece.start, piece.end) if whole else (piece.start + start, piece.start + end)
                found.append((Span(piece.path, *place, category), piece.scope, piece.chain or "raw"))
        if not found and own.over_limit:  # joined segments may hide more than each of them
            return unknown(Cause.OVER_LIMIT, detail=",".join(own.over_limit))
        if not found:
            return pieces.gap or (safe(score=0.0) if pieces.found else unknown(Cause.SKIPPED, detail="no_text"))
        spans = tuple(dict.fromkeys([span for span, _, _ in found]))
        categories = dict.fromkeys([span.category for span in spans])
        gap = pieces.gap.cause if pieces.gap is not None else None
        verdict = unsafe(*categories, score=1.0, spans=spans, transform=found[0][2])
        return replace(
            verdict, scope=gravest([scope for _, scope, _ in found]), rest=Cause.OVER_LIMIT if own.over_limit else gap
        )

    def _analyse(self, text: str) -> Iterator[_Found]:
        results: Sequence[Any] = self._loaded.engine.analyze(text, language="en", entities=list(self.entities))
        for result in results:
            if result.score >= self.threshold:
                yield _Found(result.start, result.end, f"pii.{str(result.entity_type).lower()}")


def cut_long(text: str) -> Sequence[Place]:
    """Cut a text into what one call of Presidio gets."""
    return cut_chunks(len(text), _CHUNK_CHARS, _OVERLAP) if text.strip() else ()
