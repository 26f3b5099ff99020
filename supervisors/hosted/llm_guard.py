"""The API server of LLM Guard: `use: llm_guard` (guards §8.7). Its scanners are those of its own configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Piece
from supervisors.hosted.replies import Broken, to_bool, to_number, to_object
from supervisors.material import write_transcript
from supervisors.secret import Secret
from supervisors.types import Context, Exchange, Label, Verdict


class LLMGuard(JudgedTexts):
    """Ask LLM Guard's scanners about every text; a reply is sent with the conversation before it.

    Args:
        url: address of the server, without a path.
        api_key: its token.
    """

    use: Literal["llm_guard"] = "llm_guard"
    url: str = Field(pattern=r"^https?://")
    api_key: Secret | None = None

    in_context: ClassVar[bool] = True

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write a prompt, or an output with the prompt before it."""
        piece, base = pieces[0], self.url.rstrip("/")
        headers = {"authorization": f"Bearer {self.api_key.value}"} if self.api_key else {}
        if piece.stage == "input":
            return Request(f"{base}/analyze/prompt", {"prompt": piece.text}, headers)
        body = {"prompt": write_transcript(piece.before), "output": piece.text}
        return Request(f"{base}/analyze/output", body, headers)

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read the flag; the score is the highest of the scanners, of which some give -1 for "nothing found"."""
        members = to_object(answer)
        valid = to_bool(members.get("is_valid"))
        scanners = members.get("scanners")
        found = {} if scanners is None else dict(to_object(scanners, "missing_field"))
        scores = {
            name: max(0.0, to_number(score, detail="missing_field") if score != -1 else 0.0)
            for name, score in found.items()
        }
        extras: dict[str, object] = {"score_kind": "probability" if scores else "label", "scores": scores}
        score = max(scores.values(), default=float(not valid))
        if valid:
            if not scores or score >= 1.0:  # no scanner has found it valid
                raise Broken("contradiction" if scores else "missing_verdict")
            return [Finding(Verdict(Label.SAFE, score=score, extras=extras))]
        extras["raw_categories"] = [name for name, risk in scores.items() if risk > 0]
        return [Finding(Verdict(Label.UNSAFE, score=score, extras=extras))]
