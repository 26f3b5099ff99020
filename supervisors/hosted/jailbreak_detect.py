"""NVIDIA's NemoGuard JailbreakDetect, as a NIM or the heuristics server: `use: jailbreak_detect` (guards §6.9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Piece
from supervisors.hosted.replies import Broken, to_bool, to_number, to_object
from supervisors.secret import Secret
from supervisors.types import Context, Exchange, Label, Stage, Verdict


class JailbreakDetect(JudgedTexts):
    """Ask whether a prompt is a jailbreak.

    Args:
        url: address of the server, without a path.
        route: ``classify`` for the model, ``heuristics`` for the perplexity server.
        api_key: where the server asks for one.
        threshold: risk from which a prompt is unsafe, instead of the server's own answer; for ``classify``.
    """

    use: Literal["jailbreak_detect"] = "jailbreak_detect"
    url: str = Field(pattern=r"^https?://")
    route: Literal["classify", "heuristics"] = "classify"
    api_key: Secret | None = None
    threshold: float | None = Field(default=None, ge=0.0, le=1.0)
    max_chars: int = Field(default=2_000, ge=600)

    stages: ClassVar[frozenset[Stage]] = frozenset({"input"})

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write one text."""
        base = self.url.rstrip("/")
        headers = {"authorization": f"Bearer {self.api_key.value}"} if self.api_key else {}
        if self.route == "heuristics":
            return Request(f"{base}/heuristics", {"prompt": pieces[0].text}, headers)
        return Request(f"{base}/v1/classify", {"input": pieces[0].text}, headers)

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read the answer; the score is that of the winning class and negative when that is "no jailbreak"."""
        members = to_object(answer)
        found = to_bool(members.get("jailbreak"))
        score = members.get("score")
        if self.route == "heuristics" or (score is None and self.threshold is None):
            return [_to_finding(float(found), found=found, kind="label")]
        risk = _to_risk(score)
        if self.threshold is not None:
            found = risk >= self.threshold
        elif not found and risk > 0.5:
            raise Broken("contradiction")  # the sign says the winning class, and it is the other one
        return [_to_finding(risk, found=found, kind="probability")]


def _to_risk(score: object) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float) or not -1.0 <= score <= 1.0:
        raise Broken("missing_field")
    return to_number(score if score > 0 else 1.0 + score)


def _to_finding(risk: float, *, found: bool, kind: str) -> Finding:
    extras = {"score_kind": kind}
    if found:
        return Finding(Verdict(Label.UNSAFE, score=risk, categories=("jailbreak",), extras=extras))
    return Finding(Verdict(Label.SAFE, score=risk, extras=extras))
