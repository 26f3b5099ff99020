"""Guard models as supervisors: `use: guard`, described by a card."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from supervisors.answers import Choices
from supervisors.asking import Asker, ask_each
from supervisors.card import Card, Caution, Grade, Server, UnknownCard, read_policy_file, resolve_card
from supervisors.encoder import list_encoders
from supervisors.foreign import OnLanguage, mind_language
from supervisors.material import LOOP_CHARS, Call, Selection, count_chars, has_media, plan_calls
from supervisors.narrowing import Narrowing, Turns
from supervisors.parsers.reading import Side
from supervisors.rendering import Wording
from supervisors.scores import Part, combine_parts
from supervisors.secret import Secret
from supervisors.types import (
    Capability,
    Cause,
    Context,
    Endpoint,
    Exchange,
    Kind,
    Label,
    Role,
    Scope,
    Stage,
    Supervisor,
    Verdict,
    unknown,
)

EMBEDDED = "embedded"
"""Name of the card of the guard that is part of the package."""

_SIDE_OF: Mapping[Stage, Side] = {"input": "prompt", "output": "response"}


class Guard:
    """Build the guard that a config entry describes: the embedded one, or one behind a server."""

    @classmethod
    def model_validate(cls, entry: object) -> Supervisor:
        """Return the supervisor for an entry with `use: guard`.

        Raises:
            ValidationError: shaped by pydantic, with the path of what is wrong.
        """
        options: Mapping[str, object] = cast("Mapping[str, object]", entry) if isinstance(entry, Mapping) else {}
        if options.get("card") in list_encoders():
            return cls._build_classifier(options)
        here = _find_in_process(options.get("card"))
        if here is not None:
            return cast("Supervisor", here.model_validate({**options, "use": here.model_fields["use"].default}))
        if options.get("card") != EMBEDDED:
            return ModelGuard.model_validate(entry)
        kind = _embedded()
        own = {key: value for key, value in options.items() if key in kind.model_fields or key not in ("use", "card")}
        return cast("Supervisor", kind.model_validate(own))

    @classmethod
    def _build_classifier(cls, options: Mapping[str, object]) -> Supervisor:
        """Build the classifier that an encoder's card stands for; `use: classifier` has the same options."""
        return cast("Supervisor", _classifier().model_validate({**options, "use": "classifier"}))

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """Describe the forms of an entry."""
        kinds: list[type[BaseModel]] = [_embedded(), ModelGuard, _classifier()]
        return {"anyOf": [kind.model_json_schema() for kind in kinds]}


def _classifier() -> type[BaseModel]:
    # On first use: most configs have none.
    kind: type[BaseModel] = import_module("supervisors.classifier").Classifier
    return kind


def _find_in_process(card: object) -> type[BaseModel] | None:
    """Return the kind that a card of a model with a library of its own stands for."""
    # On first use: most configs have none.
    cards = import_module("supervisors.in_process.cards")
    if not isinstance(card, str) or card not in cards.list_in_process():
        return None
    stream = cards.load_in_process(card).family == "qwen_stream"
    module = import_module(f"supervisors.in_process.{'stream' if stream else 'guard'}")
    kind: type[BaseModel] = module.QwenStream if stream else module.InProcess
    return kind


def _resolve(entry: object) -> object:
    """Resolve a card; where there is none, guess among the names of all kinds that `card:` takes."""
    try:
        return resolve_card(entry)
    except UnknownCard as error:
        here = import_module("supervisors.in_process.cards").list_in_process()
        raise UnknownCard(error.name, [*error.known, *list_encoders(), *here]) from None


def _embedded() -> type[BaseModel]:
    # On first use: the module reads its weights.
    kind: type[BaseModel] = import_module("supervisors.embedded.guard").EmbeddedGuard
    return kind


class ModelGuard(BaseModel):
    """Ask a guard model for its verdict.

    Args:
        card: name of a card, or a mapping with `base:` and what differs from it.
        url: base URL up to and including ``/v1``; without it `model` is an alias of the config's `models`.
        model: served model id; None takes the card's hub id.
        api_key: ``{env: NAME}`` or ``{file: PATH}``.
        server: flavour of the server, where it is not the card's.
        judge: side that is judged, instead of the one the stage stands for.
        controversial: what the middle grade of guards with three means.
        caution: what a finding of nothing but "needs caution" means.
        threshold: risk from which a score means unsafe.
        decide_by: whether the words or the score decide; None takes the card's.
        logprobs: ask for log-probabilities; off for servers that refuse the parameter.
        criteria: questions asked, each in its own call; None takes the card's.
        criteria_mode: ``joined`` asks all in one call, which is cheaper and names no category.
        policy: your policy, for guards that follow one.
        policy_file: file with that policy.
        accept_licence: names of cards whose restricted licence you accept.
        scopes: scopes judged, each in calls of its own.
        roles: narrows what of a request is judged.
        kinds: narrows what is judged.
        turns: narrows what of a request is judged.
        max_chars: most characters in one call, instead of the card's.
        overlap: characters two chunks share, instead of the card's.
        on_language: what becomes of text clearly in a language that the card does not list: ``judge`` judges it and
            says so, ``abstain`` makes it ``unknown/abstained``.
        max_chunks: a text that needs more calls is ``unknown/over_limit``; each criterion has this many.
        parallel: most calls at the same time.
        timeout_s: time for all calls together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    capability: ClassVar[Capability] = "growth"

    use: Literal["guard"] = "guard"
    card: Annotated[Card, BeforeValidator(_resolve, json_schema_input_type=str | dict[str, Any])]
    url: str | None = None
    model: str | None = Field(default=None, min_length=1)
    api_key: Secret | None = None
    server: Server | None = None
    judge: Side | None = None
    controversial: Grade | None = None
    caution: Caution | None = None
    threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    decide_by: Literal["label", "score"] | None = None
    logprobs: bool = True
    criteria: tuple[str, ...] | None = Field(default=None, min_length=1)
    criteria_mode: Literal["separate", "joined"] = "separate"
    policy: str = ""
    policy_file: str | None = None
    accept_licence: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = Field(default=("conversation",), min_length=1)
    roles: frozenset[Role] | None = None
    kinds: frozenset[Kind] | None = None
    turns: Turns = "all"
    max_chars: int | None = Field(default=None, ge=300)
    overlap: int | None = Field(default=None, ge=0)
    max_chunks: int = Field(default=64, ge=1)
    parallel: int = Field(default=4, ge=1, le=64)
    on_language: OnLanguage = "judge"
    timeout_s: float | None = Field(default=None, gt=0.0)

    @model_validator(mode="before")
    @classmethod
    def _read_policy(cls, data: object) -> object:
        fields: Mapping[str, object] = cast("Mapping[str, object]", data) if isinstance(data, Mapping) else {}
        name = fields.get("policy_file")
        if not isinstance(name, str):
            return data  # pyright: ignore[reportUnknownVariableType] # whatever it is, pydantic refuses it
        if fields.get("policy"):
            msg = "give policy or policy_file, not both"
            raise ValueError(msg)
        return {**fields, "policy": read_policy_file(name), "policy_file": None}

    @model_validator(mode="after")
    def _check(self) -> Self:
        for find_problems in (self._find_card_problems, self._find_option_problems, self._find_score_problems):
            for wrong, message in find_problems():
                if wrong:
                    raise ValueError(message)
        return self

    def _find_card_problems(self) -> Sequence[tuple[bool, str]]:
        card = self.card
        args = card.template_args and card.template == "model"
        strange = [name for name in self.criteria or () if name not in card.criteria]
        known = ", ".join(card.criteria) or "none"
        return (
            (bool(strange), f"unknown criteria {', '.join(strange)}; card {card.name!r} has {known}"),
            (not (self.model or card.hub_id), f"card {card.name!r} names no model: set `model`"),
            (
                bool(args) and self._server == "tgi",
                f"server 'tgi' takes no template arguments, which card {card.name!r} needs; use vllm or sglang",
            ),
            (
                card.restricted and card.name not in self.accept_licence,
                f"card {card.name!r} has a restricted licence ({card.licence}): name it in accept_licence",
            ),
        )

    def _find_option_problems(self) -> Sequence[tuple[bool, str]]:
        card = self.card
        template = card.find_template()
        takes_policy = template is not None and template.has_slot("policy")
        return (
            (
                self.criteria_mode == "joined" and not (template or "{{criterion}}" in str(card.template_args)),
                f"criteria_mode 'joined' needs a card whose criteria are sent as text; {card.name!r} sends names",
            ),
            (self.criteria_mode == "joined" and len(self._names) < 2, "criteria_mode 'joined' needs two criteria"),
            (
                self.criteria_mode == "joined" and len({card.criteria[name].polarity for name in self._names}) > 1,
                "criteria_mode 'joined' needs criteria of one polarity",
            ),
            (bool(self.policy) and not takes_policy, f"card {card.name!r} takes no policy"),
            (card.needs_policy and not (self.policy or card.policy), f"card {card.name!r} needs policy or policy_file"),
            (not self.stages, f"none of the criteria {', '.join(self._names)} can be asked about the judged side"),
            (self._overlap * 2 > self._max_chars, f"overlap {self._overlap} is more than half of {self._max_chars}"),
        )

    def _find_score_problems(self) -> Sequence[tuple[bool, str]]:
        card = self.card
        grades = "controversial" in card.parser_args
        cautious = any("caution" in row.to for row in card.find_taxonomy().rows.values())
        return (
            (
                self.controversial is not None and not (grades or self._choices.caution == "controversial"),
                f"card {card.name!r} has no middle grade: controversial has no effect",
            ),
            (self.caution is not None and not cautious, f"card {card.name!r} knows no caution: it has no effect"),
            (
                self.threshold is not None and not self._choices.decide_by_score,
                "threshold has no effect unless decide_by is 'score'",
            ),
            (self.decide_by == "score" and card.score == "none", f"card {card.name!r} has no score to decide by"),
            (self.decide_by == "label" and card.parser == "float", f"card {card.name!r} answers with a number only"),
            (
                self._choices.decide_by_score and card.score in ("pair", "codes") and not self.logprobs,
                "decide_by 'score' needs logprobs: true",
            ),
        )

    @property
    def stages(self) -> frozenset[Stage]:
        """Return the stages this guard can serve: what its card judges, or both if `judge` is set."""
        found: list[Stage] = []
        for stage, side in _SIDE_OF.items():
            judged = self.judge or side
            able = self.judge is not None or self.card.judges in (side, "both")
            if able and (not self._names or self._questions(judged)):
                found.append(stage)
        return frozenset(found)

    @property
    def endpoint(self) -> Endpoint:
        """Return where the model answers."""
        return Endpoint(self.model or self.card.hub_id, self.url, self.api_key.value if self.api_key else None)

    @property
    def _server(self) -> Server:
        return self.server or self.card.server

    @property
    def _names(self) -> tuple[str, ...]:
        return self.criteria if self.criteria is not None else self.card.fanout

    @property
    def _max_chars(self) -> int:
        return self.max_chars or self.card.max_chars

    @property
    def _overlap(self) -> int:
        return self.card.overlap if self.overlap is None else self.overlap

    @property
    def _choices(self) -> Choices:
        return Choices(
            controversial=self.controversial or "unsafe",
            caution=self.caution or self.card.caution,
            threshold=self.card.threshold if self.threshold is None else self.threshold,
            decide_by_score=(self.decide_by or self.card.decide_by) == "score",
        )

    def _questions(self, side: Side) -> tuple[str, ...]:
        return tuple([name for name in self._names if side in self.card.criteria[name].sides])

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text under every criterion; one unsafe answer is enough (GP-14)."""
        if exchange.stage not in self.stages:
            return unknown(Cause.UNSUPPORTED, detail="stage")
        judge = partial(self._assess, exchange, context)
        return await mind_language(self.on_language, self.card.languages, exchange, judge)

    async def _assess(self, exchange: Exchange, context: Context) -> Verdict:
        side = self.judge or _SIDE_OF[exchange.stage]
        selection = self._select(side)
        chars = count_chars(exchange, selection)
        if chars > self.max_chunks * self._max_chars:
            return unknown(Cause.OVER_LIMIT, detail="max_chunks")
        plan = partial(self._plan, exchange, selection)
        calls = await asyncio.to_thread(plan) if chars > LOOP_CHARS else plan()
        media = [Part(unknown(Cause.UNSUPPORTED, detail="media"))] if has_media(exchange, selection) else []
        if len(calls) > self.max_chunks:
            return unknown(Cause.OVER_LIMIT, detail="max_chunks")
        if not calls:
            return media[0].verdict if media else unknown(Cause.SKIPPED, detail="no_text")
        asked = [(call, names) for call in calls for names in self._ask_groups(call.side)]
        parts = await self._ask_all(asked, context)
        return combine_parts([*parts, *media], len(asked) + len(media))

    def _plan(self, exchange: Exchange, selection: Selection) -> list[Call]:
        """Return the calls, and one more than allowed if there are too many."""
        return list(islice(plan_calls(exchange, selection), self.max_chunks + 1))

    def _select(self, side: Side) -> Selection:
        return Selection(
            side,
            self.card.turns == "whole",
            self._max_chars,
            self._overlap,
            self.scopes,
            Narrowing(self.roles, self.kinds, self.turns),
        )

    def _ask_groups(self, side: Side) -> Sequence[tuple[str, ...]]:
        """Return the criteria of each call: one, all joined, or none for guards that are asked nothing."""
        names = self._questions(side)
        if not names or self.criteria_mode == "joined":
            return [names]
        return [(name,) for name in names]

    async def _ask_all(self, asked: Sequence[tuple[Call, tuple[str, ...]]], context: Context) -> list[Part]:
        asker = Asker(
            self.card, self.endpoint, Wording(self._server, self.policy, self.logprobs), self._choices, self._overlap
        )
        verdicts = await ask_each(
            asked,
            lambda one: asker.ask(one[0], one[1], context),
            lambda _: unknown(Cause.TIMEOUT),
            seconds=min(context.remaining_s, self.timeout_s or context.remaining_s),
            parallel=self.parallel,
        )
        parts: list[Part] = []
        for (call, names), verdict in zip(asked, verdicts, strict=True):
            scope = call.scope if verdict.label is Label.UNSAFE else None
            parts.append(Part(replace(verdict, scope=scope), call.chunk, names[0] if len(names) == 1 else None))
        return parts
