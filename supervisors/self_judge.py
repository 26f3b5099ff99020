"""The answering model judges its own input or output: one half of the coherence measure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field, PrivateAttr, model_validator

from supervisors.chunks import Plan, attempt, judge_view
from supervisors.judge import Judge, fill, read_prompt
from supervisors.narrowing import Narrowing
from supervisors.nesting import is_exhaustive
from supervisors.refusal import opens_with_refusal
from supervisors.structured import Structured
from supervisors.transcript import Cutting, Window, render
from supervisors.types import (
    Capability,
    Cause,
    ChatReply,
    ChatRequest,
    Context,
    Endpoint,
    Exchange,
    Label,
    Verdict,
    unknown,
)

Style = Literal["structured", "digit", "word"]
_PROMPTS: Mapping[str, str] = {"digit": "self_digit", "word": "self_word"}
_WORDS: Mapping[str, Mapping[str, Label]] = {
    "digit": {"1": Label.UNSAFE, "0": Label.SAFE},
    "word": {"yes": Label.UNSAFE, "no": Label.SAFE},
}
_REPLY_CHARS = 4_000
_SHORT_BUDGET = 8
"""Tokens for one digit or word and its end mark."""


@dataclass(slots=True)
class _Loaded:
    """What is read once at load: a judge to copy for each model, or the prompt of a short style."""

    judge: Judge | None = None
    prompt: str = ""


def is_sampled(exchange_id: str, share: float) -> bool:
    """Say whether an exchange is among the share that is asked about; both of its stages are, or neither."""
    return int(hashlib.sha256(exchange_id.encode()).hexdigest()[:8], 16) < share * 2**32


class SelfJudge(BaseModel, frozen=True, extra="forbid"):
    """Ask the model of the exchange what it thinks of the request, or of its own reply.

    The question is a call of its own with its own system message, so that neither a default system prompt of the
    server nor the application's is in force.

    Args:
        style: ``structured`` asks as a judge does and gives the nonce back; ``digit`` asks for 1 or 0, ``word`` for yes
            or no. Small models may answer the styles differently: the style is part of the measurement.
        constrain: for ``digit`` and ``word``, restrict the reply at the server: ``choice`` (vLLM, SGLang) or
            ``grammar`` (llama.cpp).
        structured: output mode of ``structured``.
        reasoning: the model reasons before it answers.
        max_output_tokens: None takes 8 for one digit or word, else as a judge.
        sample: share of exchanges that are asked about, chosen by their id; the others are ``unknown/skipped``. Only a
            shadow stage may sample: what enforces judges everything.
    """

    capability: ClassVar[Capability] = "growth"
    judges_itself: ClassVar[bool] = True

    use: Literal["self_judge"] = "self_judge"
    style: Style = "structured"
    constrain: Literal["none", "choice", "grammar"] = "none"
    structured: Structured = "json_schema"
    reasoning: bool = False
    max_output_tokens: int | None = Field(default=None, ge=1)
    timeout_s: float | None = Field(default=None, gt=0)
    max_chars: int = Field(default=24_000, ge=1_000)
    overlap: int = Field(default=256, ge=256)
    max_chunks: int = Field(default=64, ge=1)
    context_chars: int = Field(default=24_000, ge=0)
    parallel: int = Field(default=4, ge=1, le=64)
    sample: float = Field(default=1.0, gt=0, le=1)

    _loaded: _Loaded = PrivateAttr(default_factory=_Loaded)

    @model_validator(mode="after")
    def _load(self) -> SelfJudge:
        if self.style == "structured" and self.constrain != "none":
            msg = "'constrain' is for the styles digit and word; 'structured' has an output mode of its own"
            raise ValueError(msg)
        if self.style != "structured" and self.structured != "json_schema":
            msg = f"'structured' has no effect with style {self.style!r}"
            raise ValueError(msg)
        if self.overlap * 2 > self.max_chars:
            msg = f"overlap {self.overlap} must be at most half of max_chars {self.max_chars}"
            raise ValueError(msg)
        if self.style == "structured":
            shared = self.model_dump(include=set(Judge.model_fields) - {"use"})
            self._loaded.judge = Judge.model_validate({**shared, "model": "the model of the exchange"})
        else:
            self._loaded.prompt = read_prompt(_PROMPTS[self.style])
        return self

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Ask the exchange's own model, in as many calls as the length needs."""
        if self.sample < 1 and not is_sampled(exchange.id, self.sample):
            return unknown(Cause.SKIPPED, detail="not_sampled")
        judge = self._loaded.judge
        if judge is not None:
            verdict = await judge.model_copy(update={"model": exchange.model}).assess(exchange, context)
        else:
            verdict = await self._ask_briefly(exchange, context)
        return replace(verdict, extras={**verdict.extras, "self_judge": self.style})

    async def _ask_briefly(self, exchange: Exchange, context: Context) -> Verdict:
        cutting = Cutting(self.max_chars, self.overlap)
        plan = Plan(("conversation",), Narrowing(), cutting, self.max_chunks, self.parallel)
        facts = {"model_requested": exchange.model, "prompt_sha256": self.prompt_sha256}

        async def judge(window: Window) -> Verdict:
            verdict = await attempt(self._call(exchange, window, context))
            return replace(verdict, extras={**facts, **verdict.extras})

        return await judge_view(exchange, plan, judge, exhaustive=is_exhaustive(self, context))

    async def _call(self, exchange: Exchange, window: Window, context: Context) -> Verdict:
        nonce = token_hex(16)
        shown = render(exchange, window, nonce, self.context_chars)
        request = ChatRequest(
            messages=(
                {"role": "system", "content": fill(self._loaded.prompt, {"nonce": nonce})},
                {"role": "user", "content": shown.text},
            ),
            max_tokens=self.max_output_tokens or (8_192 if self.reasoning else _SHORT_BUDGET),
            temperature=None if self.reasoning else 0.0,
            extra=self._constraint(),
        )
        reply = await context.chat(Endpoint(exchange.model), request)
        verdict = self.read(reply)
        extras = {"model_served": reply.model, "reply": (reply.text or "")[:_REPLY_CHARS], **verdict.extras}
        return replace(verdict, tokens=reply.tokens, cost=reply.cost, extras=extras)

    def _constraint(self) -> Mapping[str, Any]:
        words = list(_WORDS[self.style])
        match self.constrain:
            case "none":
                return {}
            case "choice":
                return {"guided_choice": words}
            case "grammar":
                return {"grammar": "root ::= " + " | ".join([f'"{word}"' for word in words])}

    def read(self, reply: ChatReply) -> Verdict:
        """Read a one-word reply: the whole text is the word, with at most a final full stop."""
        text = (reply.text or "").strip()
        label = _WORDS[self.style].get(text.removesuffix(".").lower())
        if reply.finish_reason == "content_filter" or reply.refusal:
            return unknown(Cause.REFUSED)
        if reply.finish_reason == "length":
            return unknown(Cause.UNPARSABLE, detail="truncated")
        if label is None:
            refused = opens_with_refusal(text)
            return unknown(Cause.REFUSED if refused else Cause.UNPARSABLE, detail=None if refused else "unknown_label")
        return Verdict(label)

    @property
    def prompt_sha256(self) -> str:
        """Return the hash of the instruction as loaded."""
        judge = self._loaded.judge
        return judge.prompt_sha256 if judge is not None else hashlib.sha256(self._loaded.prompt.encode()).hexdigest()
