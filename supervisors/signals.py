"""What the provider of a model says of its own filters, read from its reply (guards §9). Pure.

That a provider filtered, that a model declined, and that a supervisor of ours flagged are three facts (GU-25): nothing
here is a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

Json = Mapping[str, object]
SignalSource = Literal["azure", "openai", "anthropic", "gemini", "bedrock"]
SignalSide = Literal["prompt", "response"]
SignalEffect = Literal["none", "detected", "filtered", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class Signal:
    """What a provider says of one category of its filters.

    Args:
        source: whose form it has.
        side: what it speaks of.
        name: category in the provider's words.
        effect: nothing found, found and passed, found and cut out, declined by the model itself, or not carried out.
        choice: reply choice, None when it holds for all.
        score: risk in 0..1 where the provider grades it.
    """

    source: SignalSource
    side: SignalSide
    name: str
    effect: SignalEffect
    choice: int | None = None
    score: float | None = None


_SEVERITIES: Final = {"safe": 0.0, "low": 0.33, "medium": 0.66, "high": 1.0}
_PROBABILITIES: Final = {"negligible": 0.0, "low": 0.33, "medium": 0.66, "high": 1.0}
BLOCKING_REASONS: Final = frozenset(
    {
        "content_filter",
        "content_filtered",
        "guardrail_intervened",
        "safety",
        "prohibited_content",
        "blocklist",
        "spii",
        "recitation",
        "image_safety",
    }
)
"""Finish reasons, casefolded, of a reply that a provider's filter ended."""

_XAI: Final = "content violates usage guidelines"
_CLOUDFLARE: Final = (2016, 2017)
_AZURE_POLICY: Final = "ResponsibleAIPolicyViolation"


def is_filtered(error: object) -> bool:
    """Say whether the body of a refused request says that a provider's filter refused it."""
    body = _object(error)
    inner = _object(body.get("error"))
    codes = [inner.get("code"), _object(inner.get("innererror")).get("code")]
    codes += [_object(row).get("code") for row in (*_list(body.get("errors")), *_list(body.get("error")))]
    if "content_filter" in codes or _AZURE_POLICY in codes or any(code in _CLOUDFLARE for code in codes):
        return True
    message = inner.get("message", body.get("error"))
    return isinstance(message, str) and _XAI in message.casefold()


def read_signals(reply: Json) -> tuple[Signal, ...]:
    """Return every signal of a whole reply, or of one frame of a stream.

    Args:
        reply: as the provider sent it, in any of the forms of OpenAI, Azure, Anthropic, Gemini and Bedrock.
    """
    found = [*_read_azure(reply), *_read_openai(reply), *_read_gemini(reply), *_read_bedrock(reply)]
    if reply.get("stop_reason") == "refusal":
        found.append(Signal("anthropic", "response", "refusal", "refused"))
    return tuple(found)


def _read_azure(reply: Json) -> Iterator[Signal]:
    for row in _list(reply.get("prompt_filter_results")):
        yield from _read_results(_object(row).get("content_filter_results"), "prompt", None)
    for choice in _choices(reply):
        index = _index(choice)
        yield from _read_results(choice.get("content_filter_results"), "response", index)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason.casefold() in BLOCKING_REASONS:
            source: SignalSource = "azure" if reason == "content_filter" else "gemini"
            yield Signal(source, "response", reason.upper() if source == "gemini" else "filtered", "filtered", index)
        message = _object(choice.get("message", choice.get("delta")))
        if message.get("refusal"):
            yield Signal("openai", "response", "refusal", "refused", index)


def _read_results(results: object, side: SignalSide, choice: int | None) -> Iterator[Signal]:
    """Yield one signal a category; a filter that failed says so in a member `error`."""
    for name, value in _object(results).items():
        row = _object(value)
        if name == "error":
            yield Signal("azure", side, name, "failed", choice)
            continue
        effect: SignalEffect = "none"
        if row.get("filtered") is True:
            effect = "filtered"
        elif row.get("detected") is True:
            effect = "detected"
        elif not isinstance(row.get("filtered"), bool) and not isinstance(row.get("detected"), bool):
            effect = "failed"
        severity = row.get("severity")
        yield Signal(
            "azure", side, name, effect, choice, _SEVERITIES.get(severity) if isinstance(severity, str) else None
        )


def _read_openai(reply: Json) -> Iterator[Signal]:
    """Yield what the inline `moderation` member says of the prompt and of each choice."""
    member = _object(reply.get("moderation"))
    sides: tuple[tuple[SignalSide, str], ...] = (("prompt", "input"), ("response", "output"))
    for side, name in sides:
        answer = _object(member.get(name))
        if not answer:
            continue
        rows = _list(answer.get("results"))
        if answer.get("type") == "error" or not rows:
            yield Signal("openai", side, "error", "failed")
        for position, row in enumerate(rows):
            yield from _read_moderation(_object(row), side, position if side == "response" else None)


def _read_moderation(row: Json, side: SignalSide, choice: int | None) -> Iterator[Signal]:
    flagged = row.get("flagged")
    scores = [score for score in _object(row.get("category_scores")).values() if isinstance(score, float)]
    names = [name for name, hit in _object(row.get("categories")).items() if hit is True]
    effect: SignalEffect = "failed" if not isinstance(flagged, bool) else "detected" if flagged else "none"
    risk = max([score for score in scores if 0.0 <= score <= 1.0], default=None)
    for name in names if effect == "detected" and names else ["moderation"]:
        yield Signal("openai", side, name, effect, choice, risk)


def _read_gemini(reply: Json) -> Iterator[Signal]:
    feedback = _object(reply.get("promptFeedback"))
    yield from _read_ratings(feedback, "prompt", None)
    reason = feedback.get("blockReason")
    if isinstance(reason, str) and reason:
        yield Signal("gemini", "prompt", reason, "filtered")
    for position, row in enumerate(_list(reply.get("candidates"))):
        candidate = _object(row)
        yield from _read_ratings(candidate, "response", position)
        ending = candidate.get("finishReason")
        if isinstance(ending, str) and ending.casefold() in BLOCKING_REASONS:
            yield Signal("gemini", "response", ending, "filtered", position)


def _read_ratings(holder: Json, side: SignalSide, choice: int | None) -> Iterator[Signal]:
    for row in _list(holder.get("safetyRatings")):
        rating = _object(row)
        name, probability = rating.get("category"), rating.get("probability")
        risk = _PROBABILITIES.get(probability.casefold()) if isinstance(probability, str) else None
        effect: SignalEffect = "filtered" if rating.get("blocked") is True else "none"
        yield Signal("gemini", side, name if isinstance(name, str) else "other", effect, choice, risk)


def _read_bedrock(reply: Json) -> Iterator[Signal]:
    if reply.get("stopReason") == "guardrail_intervened":
        yield Signal("bedrock", "response", "guardrail", "filtered")
    trace = _object(_object(reply.get("trace")).get("guardrail"))
    for assessment in _object(trace.get("inputAssessment")).values():
        yield from _read_assessment(assessment, "prompt")
    for rows in _object(trace.get("outputAssessments")).values():
        for assessment in _list(rows):
            yield from _read_assessment(assessment, "response")


_POLICIES: Final[Mapping[str, str]] = {
    "topicPolicy": "topics",
    "contentPolicy": "",
    "wordPolicy": "words",
    "sensitiveInformationPolicy": "PII",
    "contextualGroundingPolicy": "grounding",
}


def _read_assessment(value: object, side: SignalSide) -> Iterator[Signal]:
    """Yield one signal an entry that blocked or masked something."""
    assessment = _object(value)
    for policy, name in _POLICIES.items():
        for entries in _object(assessment.get(policy)).values():
            for entry in map(_object, _list(entries)):
                if entry.get("action") in ("BLOCKED", "ANONYMIZED"):
                    kind = entry.get("type")
                    yield Signal("bedrock", side, name or (kind if isinstance(kind, str) else "other"), "filtered")


def _choices(reply: Json) -> Sequence[Json]:
    return [_object(choice) for choice in _list(reply.get("choices"))]


def _index(choice: Json) -> int:
    index = choice.get("index", 0)
    return index if isinstance(index, int) else 0


def _object(value: object) -> Json:
    """Return a JSON object, an empty one for anything else: a signal that cannot be read is no signal."""
    return cast("Json", value) if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[object]:
    return cast("list[object]", value) if isinstance(value, list) else ()
