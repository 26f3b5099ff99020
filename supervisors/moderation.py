"""OpenAI's moderation service, or one that speaks its protocol, as a supervisor: `use: moderation` (guards §8.1)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from supervisors.ask import to_unknown
from supervisors.asking import ask_each
from supervisors.decoded import append_decoded
from supervisors.errors import ChatError, ReplyError
from supervisors.material import LOOP_CHARS, Selection, count_chars, cut_text, has_media
from supervisors.narrowing import Narrowing, Turns, select
from supervisors.scores import Part, combine_parts
from supervisors.secret import Secret
from supervisors.taxonomy import load_taxonomies
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

_PER_CALL = 32
"""Strings in one call (guards §8.1)."""
_TOO_LONG = ("too long", "too large", "exceeds the maximum", "maximum context length")


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds on the service's scores, in its own category names.

    Args:
        all: highest score from which a text is unsafe; None leaves that to the service's own flag.
        by_category: thresholds that override it.
    """

    all: float | None
    by_category: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Text:
    """One string to judge and the scope it belongs to."""

    text: str
    scope: Scope


class Moderation(BaseModel):
    """Ask a moderation service about every text on its own, without context.

    Args:
        model: model of the service.
        url: base URL up to and including ``/v1``.
        api_key: ``{env: NAME}`` or ``{file: PATH}``; required at api.openai.com.
        threshold: highest score from which a text is unsafe, instead of the service's own flag.
        thresholds: the same for single categories, by the service's names.
        scopes: scopes judged.
        roles: narrows what of a request is judged.
        kinds: narrows what is judged.
        turns: narrows what of a request is judged.
        max_chars: longest string sent; longer ones are cut.
        overlap: characters two chunks share.
        max_chunks: more strings than this are ``unknown/over_limit``.
        parallel: most calls at the same time.
        timeout_s: time for all calls together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    capability: ClassVar[Capability] = "growth"

    use: Literal["moderation"] = "moderation"
    model: str = Field(default="omni-moderation-latest", min_length=1)
    url: str = Field(default="https://api.openai.com/v1", pattern=r"^https?://")
    api_key: Secret | None = None
    threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    thresholds: Mapping[str, Annotated[float, Field(ge=0.0, le=1.0)]] = Field(default_factory=dict[str, float])
    scopes: tuple[Scope, ...] = Field(default=("conversation",), min_length=1)
    roles: frozenset[Role] | None = None
    kinds: frozenset[Kind] | None = None
    turns: Turns = "all"
    max_chars: int = Field(default=20_000, ge=600)
    overlap: int = Field(default=256, ge=0, le=300)
    max_chunks: int = Field(default=256, ge=1)
    parallel: int = Field(default=4, ge=1, le=64)
    timeout_s: float | None = Field(default=None, gt=0.0)

    @field_validator("thresholds")
    @classmethod
    def _check_names(cls, thresholds: Mapping[str, float]) -> Mapping[str, float]:
        strange = [name for name in thresholds if name not in load_taxonomies()["openai"].rows]
        if strange:
            known = ", ".join(load_taxonomies()["openai"].rows)
            msg = f"the service has no category {', '.join(strange)}; it has {known}"
            raise ValueError(msg)
        return thresholds

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if self.api_key is None and urlsplit(self.url).hostname == "api.openai.com":
            msg = "api_key is required at api.openai.com"
            raise ValueError(msg)
        return self

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text; one that is flagged is enough."""
        selection = Selection(
            "prompt",
            whole=False,
            max_chars=self.max_chars,
            overlap=self.overlap,
            scopes=self.scopes,
            narrowing=Narrowing(self.roles, self.kinds, self.turns),
        )
        chars = count_chars(exchange, selection)
        if chars > self.max_chunks * self.max_chars:
            return unknown(Cause.OVER_LIMIT, detail="max_chunks")
        plan = partial(self._cut, exchange, selection)
        texts = await asyncio.to_thread(plan) if chars > LOOP_CHARS else plan()
        media = [unknown(Cause.UNSUPPORTED, detail="media")] if has_media(exchange, selection) else []
        if len(texts) > self.max_chunks:
            return unknown(Cause.OVER_LIMIT, detail="max_chunks")
        if not texts:
            return media[0] if media else unknown(Cause.SKIPPED, detail="no_text")
        verdicts = [*await self._ask_all(texts, context), *media]
        several = len(verdicts) > 1
        parts = [Part(verdict, index if several else None) for index, verdict in enumerate(verdicts)]
        return combine_parts(parts, len(texts) + len(media))

    def _cut(self, exchange: Exchange, selection: Selection) -> list[_Text]:
        """Return the strings to judge, and one more than allowed if there are too many."""
        return list(islice(self._iterate(exchange, selection), self.max_chunks + 1))

    def _iterate(self, exchange: Exchange, selection: Selection) -> Iterator[_Text]:
        for scope in self.scopes:
            for segment in select(exchange, scope, selection.narrowing):
                if segment.kind != "media" and segment.text.strip():
                    full = append_decoded(segment.text)
                    long = len(full) > self.max_chars
                    for chunk in cut_text(full, self.max_chars, self.overlap) if long else (full,):
                        yield _Text(chunk, scope)

    async def _ask_all(self, texts: Sequence[_Text], context: Context) -> list[Verdict]:
        found = await ask_each(
            [texts[start : start + _PER_CALL] for start in range(0, len(texts), _PER_CALL)],
            lambda batch: self._ask([text.text for text in batch], context),
            lambda batch: [unknown(Cause.TIMEOUT)] * len(batch),
            seconds=min(context.remaining_s, self.timeout_s or context.remaining_s),
            parallel=self.parallel,
        )
        verdicts = [verdict for batch in found for verdict in batch]
        return [
            replace(verdict, scope=text.scope if verdict.label is Label.UNSAFE else None)
            for verdict, text in zip(verdicts, texts, strict=True)
        ]

    async def _ask(self, texts: Sequence[str], context: Context) -> list[Verdict]:
        """Ask about a batch; texts the service finds too long are halved once (GU-24)."""
        first = await self._post(texts, context)
        if first is not None:
            return first
        verdicts: list[Verdict] = []
        for text in texts:
            half = max(len(text) // 2, 1) + self.overlap
            halves = list(cut_text(text, half, self.overlap)) if half < len(text) else [text]
            again = await self._post(halves, context)
            parts = again if again is not None else [unknown(Cause.OVER_LIMIT, detail="too_long")]
            verdicts.append(combine_parts([Part(verdict) for verdict in parts], len(parts)))
        return verdicts

    async def _post(self, texts: Sequence[str], context: Context) -> list[Verdict] | None:
        """Call the service once; None when it finds the input too long."""
        headers = {"authorization": f"Bearer {self.api_key.value}"} if self.api_key else {}
        body = {"model": self.model, "input": list(texts)}
        try:
            status, answer = await context.post(f"{self.url.rstrip('/')}/moderations", body, headers)
        except (ChatError, ReplyError) as error:
            return [to_unknown(error)] * len(texts)
        if status == 413 or (400 <= status < 500 and _is_too_long(answer)):
            return None
        if not 200 <= status < 300:
            return [unknown(Cause.ERROR, detail=f"status_{status}")] * len(texts)
        return read_results(answer, len(texts), Limits(self.threshold, self.thresholds))


def _is_too_long(answer: object) -> bool:
    error = _member(answer, "error")
    message = _member(error, "message")
    return isinstance(message, str) and any(words in message.casefold() for words in _TOO_LONG)


def _member(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None


def read_results(answer: object, expected: int, limits: Limits) -> list[Verdict]:
    """Map the body of a moderation reply to one verdict a string.

    A missing ``flagged`` is never read as false, and a different number of results than strings sent makes all of
    them unreadable. The body of the inline ``moderation`` member of a chat reply has the same form.

    Args:
        answer: parsed JSON body.
        expected: number of strings sent.
        limits: thresholds of the supervisor.
    """
    results = _member(answer, "results")
    if not isinstance(results, list) or len(cast("list[object]", results)) != expected:
        return [unknown(Cause.UNPARSABLE, detail="missing_verdict")] * expected
    model = _member(answer, "model")
    served = {"model_served": model} if isinstance(model, str) else {}
    verdicts = [_read_result(result, limits) for result in cast("list[object]", results)]
    return [replace(verdict, extras={**served, **verdict.extras}) for verdict in verdicts]


def _read_result(result: object, limits: Limits) -> Verdict:
    flagged = _member(result, "flagged")
    if not isinstance(flagged, bool):
        return unknown(Cause.UNPARSABLE, detail="missing_verdict")
    scores = _read_scores(_member(result, "category_scores"))
    names = _read_names(_member(result, "categories"))
    if scores is None or names is None:
        return unknown(Cause.UNPARSABLE, detail="missing_field")
    top = max(scores.values(), default=None)
    if limits.all is not None or limits.by_category:
        if not scores:
            return unknown(Cause.UNPARSABLE, detail="missing_field")
        over = _find_over(scores, limits)
        flagged = bool(over) if limits.all is not None else flagged or bool(over)
        names = (*names, *over)
    raw = tuple(dict.fromkeys(names))
    types = _member(result, "category_applied_input_types")
    extras: dict[str, Any] = {
        "score_kind": "probability" if top is not None else "label",
        **({"raw_categories": list(raw)} if raw else {}),
        **({"applied_input_types": types} if isinstance(types, Mapping) else {}),
    }
    score = top if top is not None else float(flagged)
    if not flagged:
        return Verdict(Label.SAFE, score=score, extras=extras)
    found = load_taxonomies()["openai"].to_canonical(raw)
    return Verdict(Label.UNSAFE, score=score, categories=found, extras=extras)


def _find_over(scores: Mapping[str, float], limits: Limits) -> list[str]:
    """Return the categories that reach their threshold; without one of its own a category has the common one."""
    found: list[str] = []
    for name, score in scores.items():
        limit = limits.by_category.get(name, limits.all)
        if limit is not None and score >= limit:
            found.append(name)
    return found


def _read_scores(value: object) -> Mapping[str, float] | None:
    """Return the scores, an empty mapping when there are none, None when one is not a number in 0..1."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return None
    scores: dict[str, float] = {}
    for name, score in cast("Mapping[str, object]", value).items():
        if score is None:
            continue  # older models leave categories unset: not assessed
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            return None
        if not 0.0 <= score <= 1.0:
            return None
        scores[name] = float(score)
    return scores


def _read_names(value: object) -> tuple[str, ...] | None:
    """Return the categories that are true; None when one is neither true, false nor unset."""
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        return None
    members = cast("Mapping[str, object]", value)
    if any(not isinstance(member, bool) and member is not None for member in members.values()):
        return None
    return tuple([name for name, member in members.items() if member is True])
