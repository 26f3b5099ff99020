"""A general language model as a judge: its prompt, its call, and what each outcome of the call means."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, ClassVar, Final, Literal, cast

from pydantic import BaseModel, BeforeValidator, Field, PrivateAttr, StringConstraints, model_validator

from supervisors.chunks import Plan, attempt, judge_view
from supervisors.errors import ChatError, ReplyError, why_unread
from supervisors.narrowing import Narrowing, Turns
from supervisors.nearest import did_you_mean
from supervisors.nesting import is_exhaustive
from supervisors.refusal import opens_with_refusal
from supervisors.reply import JudgeReply, ReplyRules, parse_reply
from supervisors.secret import Secret
from supervisors.structured import Structured, reply_schema, to_response_format
from supervisors.transcript import Cutting, Granularity, Window, render
from supervisors.types import (
    Capability,
    Cause,
    ChatReply,
    ChatRequest,
    Context,
    Endpoint,
    Exchange,
    Kind,
    Label,
    Role,
    Scope,
    Tokens,
    Verdict,
    unknown,
)

Meaning = Literal["safe", "unsafe", "abstain"]
Word = Annotated[str, StringConstraints(max_length=64, pattern=r"^[^\"\\{}\[\]`\s]+$")]
Name = Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\"\\{}\[\]`\r\n]+$")]

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_REPLY_CHARS = 4_000
_EVEN: Final = 0.5
"""Above this the judge takes harm for likelier than not."""
_REPAIR_S = 0.2
"""With less time than this left, a second request could not be answered."""


_PROMPTS: Final = ("harm", "injection")
"""Built-in prompts that describe a task; the others are parts of our own calls."""


def read_prompt(name: str) -> str:
    """Read a built-in prompt by its bare name, or a file by its path.

    Raises:
        ValueError: there is none; says which built-in ones exist.
    """
    folder = files("supervisors") / "prompts"
    named = re.search(r"[./\\]", name) is not None
    source = Path(name) if named else folder / f"{name}.md"
    try:
        text = source.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        if named:
            msg = f"the prompt file {name!r} cannot be read: {why_unread(Path(name), error)}"
            raise ValueError(msg) from error
        hint = did_you_mean(name, _PROMPTS)
        msg = (
            f"unknown prompt {name!r}; built in are: {', '.join(_PROMPTS)}{hint or ';'} a file has a path, as ./mine.md"
        )
        raise ValueError(msg) from error
    if not text:
        msg = f"prompt {name!r} is empty"
        raise ValueError(msg)
    return text


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace ``{{name}}`` in one pass, so that a value is never searched for placeholders itself."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


def _name_categories(value: object) -> object:
    if not isinstance(value, list | tuple):
        return value
    return dict.fromkeys(cast("Sequence[object]", value), "")  # a plain list names them without descriptions


def _two_words() -> dict[Word, Meaning]:
    return {"safe": "safe", "unsafe": "unsafe"}


@dataclass(frozen=True, slots=True)
class Contract:
    """What a judge is told, and how its reply is read.

    Args:
        template: system message, with ``{{nonce}}``.
        schema: of the reply.
        read: text of a reply and the nonce of its call → verdict; raises ReplyError.
    """

    template: str
    schema: Mapping[str, Any]
    read: Callable[[str, str], Verdict]

    @property
    def sha256(self) -> str:
        """Return the hash of the whole instruction."""
        return hashlib.sha256(self.template.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Call:
    """One answer of the model, with what was asked."""

    reply: ChatReply
    nonce: str


@dataclass(slots=True)
class _Loaded:
    """What a judge holds beside its options: the instruction as read at load."""

    template: str = ""


class Judge(BaseModel, frozen=True, extra="forbid"):
    """Ask a general language model for a verdict.

    Args:
        model: model id, or an alias of the config's `models` when `url` is absent.
        url: base URL up to and including ``/v1``.
        api_key: ``{env: NAME}`` or ``{file: PATH}``.
        vendor: ``openai`` for any compatible server.
        prompt: built-in name or path of a text file that describes the task; read once, at load.
        criterion: one further sentence for the task.
        categories: names, with a description each if given as a mapping.
        labels: allowed words and what they mean.
        abstain: also allow the word ``abstain``.
        threshold: unsafe if and only if the score reaches it; the score is then required.
        refusal_is: what a refusal of the judge is; by default ``unknown/refused``.
        structured: output mode asked for; a server that refuses one gets the next weaker one, once.
        reasoning: the model reasons before it answers: larger output budget, no temperature.
        max_output_tokens: None takes 1,024, or 8,192 with `reasoning`.
        max_chars: most characters judged in one call; longer text is cut into overlapping windows.
        max_chunks: more windows than this are ``unknown/over_limit``.
        context_chars: budget for what is shown but not judged.
        parallel: most calls at the same time for one view.
        repair: send one further request, quoting only the schema, after an unreadable reply.
        scopes: which scopes are judged, each in calls of its own.
    """

    capability: ClassVar[Capability] = "growth"

    use: Literal["judge"] = "judge"
    model: str = Field(min_length=1)
    url: str | None = None
    api_key: Secret | None = None
    vendor: str = "openai"
    prompt: str = "harm"
    criterion: str = ""
    categories: Annotated[dict[Name, str], BeforeValidator(_name_categories)] = Field(default_factory=dict)
    labels: dict[Word, Meaning] = Field(default_factory=_two_words)
    abstain: bool = False
    threshold: float | None = Field(default=None, gt=0, le=1)
    refusal_is: Literal["unknown", "unsafe"] = "unknown"
    structured: Structured = "json_schema"
    reasoning: bool = False
    max_output_tokens: int | None = Field(default=None, ge=16)
    timeout_s: float | None = Field(default=None, gt=0)
    max_chars: int = Field(default=24_000, ge=1_000)
    overlap: int = Field(default=256, ge=256)
    max_chunks: int = Field(default=64, ge=1)
    context_chars: int = Field(default=24_000, ge=0)
    parallel: int = Field(default=4, ge=1, le=64)
    repair: bool = True
    scopes: tuple[Scope, ...] = Field(default=("conversation",), min_length=1)
    roles: frozenset[Role] | None = None
    kinds: frozenset[Kind] | None = None
    turns: Turns = "all"
    granularity: Granularity = "conversation"

    _loaded: _Loaded = PrivateAttr(default_factory=_Loaded)

    @model_validator(mode="after")
    def _load(self) -> Judge:
        meanings = set(self.labels.values())
        if not {"safe", "unsafe"} <= meanings:
            msg = f"labels need at least one word for safe and one for unsafe, got: {self.labels}"
            raise ValueError(msg)
        if len({word.casefold() for word in self.words}) < len(self.words):
            msg = f"labels compare without case, so these are not distinct: {', '.join(self.words)}"
            raise ValueError(msg)
        if self.overlap * 2 > self.max_chars:
            msg = f"overlap {self.overlap} must be at most half of max_chars {self.max_chars}"
            raise ValueError(msg)
        values = {
            "task": read_prompt(self.prompt),
            "criterion": self.criterion,
            "labels": ", ".join([f"`{word}`" for word in self.words]),
            "categories": self._describe_categories(),
        }
        self._loaded.template = re.sub(r"\n{3,}", "\n\n", fill(read_prompt("frame"), values))
        return self

    def _describe_categories(self) -> str:
        named = [f"`{name}` ({text})" if text else f"`{name}`" for name, text in self.categories.items()]
        return ", ".join(named) or "none"

    @property
    def words(self) -> tuple[str, ...]:
        """Return the allowed label words."""
        return (*self.labels, *(("abstain",) if self.abstain and "abstain" not in self.labels else ()))

    @property
    def prompt_sha256(self) -> str:
        """Return the hash of the whole instruction as loaded: frame, task, criterion, labels, categories."""
        return self._contract().sha256

    @property
    def endpoint(self) -> Endpoint:
        """Return where the model answers."""
        return Endpoint(self.model, self.url, self.api_key.value if self.api_key else None, self.vendor)

    def _contract(self) -> Contract:
        schema = reply_schema(self.words, tuple(self.categories), needs_score=self.threshold is not None)
        return Contract(self._loaded.template, schema, self._parse)

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every scope asked for, in as many calls as the length needs."""
        return await self.assess_by(self._contract(), exchange, context)

    async def assess_by(self, contract: Contract, exchange: Exchange, context: Context) -> Verdict:
        """Judge as `assess` does, told something else and read another way."""
        plan = Plan(
            self.scopes,
            Narrowing(self.roles, self.kinds, self.turns),
            Cutting(self.max_chars, self.overlap, self.granularity),
            self.max_chunks,
            self.parallel,
        )

        async def judge(window: Window) -> Verdict:
            verdict = await attempt(self._ask(contract, exchange, window, context))
            if verdict.cause is Cause.REFUSED and self.refusal_is == "unsafe":
                verdict = replace(verdict, label=Label.UNSAFE, cause=None, detail="refused")
            facts = {"model_requested": self.model, "prompt_sha256": contract.sha256, "repaired": False}
            return replace(verdict, extras={**facts, **verdict.extras})

        return await judge_view(exchange, plan, judge, exhaustive=is_exhaustive(self, context))

    async def _ask(self, contract: Contract, exchange: Exchange, window: Window, context: Context) -> Verdict:
        first = await self._call(contract, exchange, window, context, repair=False)
        verdict = _read(first, contract)
        if not (self.repair and _is_repairable(verdict) and context.remaining_s > _REPAIR_S):
            return verdict
        try:
            second = await self._call(contract, exchange, window, context, repair=True)
        except (ChatError, ReplyError):
            return verdict
        verdict = _read(second, contract)
        return replace(
            verdict,
            tokens=_add(first.reply.tokens, second.reply.tokens),
            cost=_add_costs(first.reply.cost, second.reply.cost),
            extras={**verdict.extras, "repaired": verdict.label is not Label.UNKNOWN, "calls": 2},
        )

    async def _call(
        self, contract: Contract, exchange: Exchange, window: Window, context: Context, *, repair: bool
    ) -> _Call:
        nonce = token_hex(16)
        shown = render(exchange, window, nonce, self.context_chars)
        closing = f"Judge the passages marked JUDGE. Reply with one JSON object whose nonce is {nonce}."
        if repair:
            closing += f" An earlier reply broke this schema; keep to it exactly: {json.dumps(contract.schema)}"
        request = ChatRequest(
            messages=(
                {"role": "system", "content": fill(contract.template, {"nonce": nonce})},
                {"role": "user", "content": f"{shown.text}\n\n{closing}"},
            ),
            max_tokens=self.max_output_tokens or (8_192 if self.reasoning else 1_024),
            temperature=None if self.reasoning else 0.0,
            response_format=to_response_format(self.structured, contract.schema),
        )
        return _Call(await context.chat(self.endpoint, request), nonce)

    def _parse(self, text: str, nonce: str) -> Verdict:
        rules = ReplyRules(nonce, self.words, tuple(self.categories), self.threshold is not None)
        return self._to_verdict(parse_reply(text, rules))

    def _to_verdict(self, parsed: JudgeReply) -> Verdict:
        meaning = self.labels.get(parsed.label, "abstain")
        extras = {"word": parsed.label}
        if meaning == "abstain":
            return Verdict(Label.UNKNOWN, Cause.ABSTAINED, reason=parsed.reason, extras=extras)
        label = Label(meaning)
        if self.threshold is not None and parsed.score is not None:
            label = Label.UNSAFE if parsed.score >= self.threshold else Label.SAFE
        elif label is Label.SAFE and (parsed.categories or (parsed.score or 0.0) > _EVEN):
            msg = "the label says safe, and the categories or the score say otherwise"
            raise ReplyError(msg, detail="contradiction")
        categories = parsed.categories if label is Label.UNSAFE else ()
        return Verdict(label, score=parsed.score, categories=categories, reason=parsed.reason, extras=extras)


def _read(call: _Call, contract: Contract) -> Verdict:
    verdict = _map(call, contract)
    facts: dict[str, Any] = {"model_served": call.reply.model, "reply": (call.reply.text or "")[:_REPLY_CHARS]}
    return replace(verdict, tokens=call.reply.tokens, cost=call.reply.cost, extras={**facts, **verdict.extras})


def _map(call: _Call, contract: Contract) -> Verdict:
    reply = call.reply
    if reply.finish_reason == "content_filter" or reply.refusal:
        return unknown(Cause.REFUSED)
    if reply.finish_reason == "length":
        return unknown(Cause.UNPARSABLE, detail="truncated")
    text = reply.text or ""
    try:
        return contract.read(text, call.nonce)
    except ReplyError as error:
        if error.detail == "missing_verdict" and opens_with_refusal(text):
            return unknown(Cause.REFUSED)
        return unknown(Cause.UNPARSABLE, detail=error.detail)


def _is_repairable(verdict: Verdict) -> bool:
    # A reply cut by the output budget would be cut again.
    return verdict.cause is Cause.UNPARSABLE and verdict.detail != "truncated"


def _add(one: Tokens | None, other: Tokens | None) -> Tokens | None:
    if one is None or other is None:
        return one or other
    return Tokens(one.input + other.input, one.output + other.output)


def _add_costs(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
