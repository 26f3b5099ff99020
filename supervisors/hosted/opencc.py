"""OpenCC, a constitutional classifier run locally: `use: opencc` (guards §8.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Piece
from supervisors.hosted.replies import Broken, to_object
from supervisors.secret import Secret
from supervisors.types import Context, Exchange, Label, Verdict


class OpenCC(JudgedTexts):
    """Ask OpenCC about every text.

    Args:
        url: address of the server, without a path.
        api_key: where the server asks for one.
        mode: mode of the service; None takes its own.
    """

    use: Literal["opencc"] = "opencc"
    url: str = Field(pattern=r"^https?://")
    api_key: Secret | None = None
    mode: str | None = Field(default=None, min_length=1)

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write one text."""
        body = {"text": pieces[0].text, **({"mode": self.mode} if self.mode is not None else {})}
        headers = {"authorization": f"Bearer {self.api_key.value}"} if self.api_key else {}
        return Request(f"{self.url.rstrip('/')}/check", body, headers)

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read the decision; a word that is not known is no decision."""
        decision = to_object(answer).get("decision")
        extras = {"score_kind": "label", "severity": decision}
        match decision:
            case "allow":
                return [Finding(Verdict(Label.SAFE, score=0.0, extras=extras))]
            case "block" | "annotate":
                return [Finding(Verdict(Label.UNSAFE, score=1.0, extras=extras))]
            case _:
                raise Broken("unknown_label" if isinstance(decision, str) else "missing_verdict")
