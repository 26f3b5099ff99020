"""A SystemOne server, asked one question a category: `use: systemone` (guards GU-13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Piece
from supervisors.hosted.replies import to_number, to_object
from supervisors.secret import Secret
from supervisors.taxonomy import load_taxonomies
from supervisors.types import Context, Exchange, Label, Verdict


class SystemOne(JudgedTexts):
    """Ask for the probability that each of your statements is true of a text.

    Args:
        url: address of the server, without a path.
        api_key: where the server asks for one.
        questions: statement by category; a true one makes the text unsafe.
        threshold: probability from which a statement counts as true.
    """

    use: Literal["systemone"] = "systemone"
    url: str = Field(pattern=r"^https?://")
    api_key: Secret | None = None
    questions: Mapping[str, str] = Field(min_length=1, max_length=32)
    threshold: float = Field(default=0.5, ge=0.0, le=1.0)

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write one text with all questions."""
        asked = {name: {"type": "noul", "instructions": text} for name, text in self.questions.items()}
        headers = {"authorization": f"Bearer {self.api_key.value}"} if self.api_key else {}
        body = {"state": pieces[0].text, "questions": asked}
        return Request(f"{self.url.rstrip('/')}/v1/systemone", body, headers)

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read every probability; one that is missing makes the reply unreadable."""
        answers = to_object(to_object(answer).get("answers"))
        scores = {
            name: to_number(to_object(answers.get(name)).get("noul"), detail="missing_verdict")
            for name in self.questions
        }
        top = max(scores.values())
        raw = [name for name, score in scores.items() if score >= self.threshold]
        extras: dict[str, object] = {"score_kind": "probability", "scores": scores}
        if not raw:
            return [Finding(Verdict(Label.SAFE, score=top, extras=extras))]
        extras["raw_categories"] = raw
        found = load_taxonomies()["own"].to_canonical(raw)
        return [Finding(Verdict(Label.UNSAFE, score=top, categories=found, extras=extras))]
