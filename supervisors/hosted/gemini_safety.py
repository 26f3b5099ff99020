"""Gemini's own safety filters as a guard: `use: gemini_safety` (guards §9). A text that they block is unsafe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import Field

from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Piece
from supervisors.hosted.replies import Broken, Json, canonical, to_object, to_objects, to_text
from supervisors.secret import Secret
from supervisors.types import Context, Exchange, Label, Verdict

_SETTINGS: Final = (
    "HARM_CATEGORY_HATE_SPEECH",
    "HARM_CATEGORY_HARASSMENT",
    "HARM_CATEGORY_SEXUALLY_EXPLICIT",
    "HARM_CATEGORY_DANGEROUS_CONTENT",
)
_BLOCKING: Final = ("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "RECITATION", "IMAGE_SAFETY")
_SIGNALLESS: Final = ("STOP", "MAX_TOKENS")
_RISK: Final = {"NEGLIGIBLE": 0.0, "LOW": 0.33, "MEDIUM": 0.66, "HIGH": 1.0}


class GeminiSafety(JudgedTexts):
    """Send every text to Gemini with its filters at their strictest; nothing of its answer but the filters is read.

    Args:
        model: model that is asked.
        api_key: key of the Gemini API.
        url: base URL up to and including the version.
        threshold: from which probability the filters block.
    """

    use: Literal["gemini_safety"] = "gemini_safety"
    model: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    api_key: Secret
    url: str = Field(default="https://generativelanguage.googleapis.com/v1beta", pattern=r"^https?://")
    threshold: Literal["BLOCK_LOW_AND_ABOVE", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_ONLY_HIGH"] = "BLOCK_LOW_AND_ABOVE"

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write one text as a user's turn; one token of an answer is enough."""
        body = {
            "contents": [{"role": "user", "parts": [{"text": pieces[0].text}]}],
            "safetySettings": [{"category": name, "threshold": self.threshold} for name in _SETTINGS],
            "generationConfig": {"maxOutputTokens": 1, "temperature": 0},
        }
        headers = {"x-goog-api-key": self.api_key.value}
        return Request(f"{self.url.rstrip('/')}/models/{self.model}:generateContent", body, headers)

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read whether the prompt or the answer to it was blocked."""
        return [Finding(read_signals(to_object(answer)))]


def read_signals(answer: Json) -> Verdict:
    """Map the block reason of a prompt, or the finish reason of every candidate.

    Raises:
        Broken: neither candidates nor a block reason, or a reason that is not known.
    """
    feedback = to_object({} if answer.get("promptFeedback") is None else answer.get("promptFeedback"))
    candidates = to_objects(answer.get("candidates"), "missing_verdict")
    ratings = [row for part in (feedback, *candidates) for row in to_objects(part.get("safetyRatings"))]
    risks = {to_text(row.get("category")): _RISK.get(to_text(row.get("probability")), 0.0) for row in ratings}
    reason = to_text(feedback.get("blockReason"))
    endings = [to_text(candidate.get("finishReason")) for candidate in candidates]
    stopped = [word for word in endings if word in _BLOCKING]
    if not reason and not candidates:
        raise Broken
    blocked = [to_text(row.get("category")) for row in ratings if row.get("blocked") is True]
    if not reason and not stopped and not blocked:
        if any(word not in _SIGNALLESS for word in endings):
            raise Broken("unknown_label")
        extras = {"score_kind": "severity" if risks else "label", "scores": risks}
        return Verdict(Label.SAFE, score=max(risks.values(), default=0.0), extras=extras)
    stop = reason or next(iter(stopped), "rating")
    named = [*blocked, *[word for word in stopped if word in ("RECITATION", "SPII")]] or [stop]
    raw = list(dict.fromkeys(named))
    facts: dict[str, object] = {"score_kind": "label", "raw_categories": raw, "severity": stop, "scores": risks}
    return Verdict(Label.UNSAFE, score=1.0, categories=canonical("gemini", raw), extras=facts)
