"""Amazon Bedrock, InvokeGuardrailChecks: `use: bedrock_checks`, scores without a guardrail resource (guards §8.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from supervisors.hosted.aws import REGION, to_credentials, to_request
from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Match, Piece, text_between
from supervisors.hosted.replies import Broken, Json, canonical, to_list, to_number, to_object, to_objects, to_text
from supervisors.secret import Secret
from supervisors.types import Cause, Context, Exchange, Label, Verdict, unknown

Check = Literal["contentFilter", "promptAttack", "sensitiveInformation"]
Threshold = Annotated[float, Field(gt=0.0, le=1.0)]

_CONTENT: Final = ("VIOLENCE", "HATE", "SEXUAL", "MISCONDUCT", "INSULTS")
_ATTACK: Final = ("JAILBREAK", "PROMPT_INJECTION", "PROMPT_LEAKAGE")
_PII: Final = "sensitiveInformation"


class BedrockChecks(JudgedTexts):
    """Ask Bedrock for the scores of checks that are part of the request.

    Args:
        region: region asked.
        access_key_id: of an identity that may ``bedrock:InvokeGuardrailChecks``.
        secret_access_key: its secret.
        session_token: of temporary credentials; a reload of the config reads new ones.
        url: address instead of the region's own, for a private endpoint.
        checks: checks asked for.
        entities: kinds of personal data looked for by ``sensitiveInformation``.
        threshold: score from which a text is unsafe.
        thresholds: the same for single checks.
    """

    use: Literal["bedrock_checks"] = "bedrock_checks"
    region: str = Field(pattern=REGION)
    access_key_id: Secret
    secret_access_key: Secret
    session_token: Secret | None = None
    url: str | None = Field(default=None, pattern=r"^https?://")
    checks: tuple[Check, ...] = Field(default=("contentFilter", "promptAttack"), min_length=1)
    entities: tuple[str, ...] = ()
    threshold: Threshold = 0.5
    thresholds: Mapping[Check, Threshold] = Field(default_factory=dict[Check, float])

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (_PII in self.checks) != bool(self.entities):
            msg = "the check sensitiveInformation and entities belong together, e.g. entities: [EMAIL, PHONE]"
            raise ValueError(msg)
        strange = [name for name in self.thresholds if name not in self.checks]
        if strange:
            msg = f"thresholds names {', '.join(strange)}, which checks does not ask for"
            raise ValueError(msg)
        return self

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write one message with the checks, signed."""
        wanted: dict[str, object] = {
            "contentFilter": {"categories": [{"category": name} for name in _CONTENT]},
            "promptAttack": {"categories": [{"category": name} for name in _ATTACK]},
            _PII: {"entities": [{"type": name} for name in self.entities]},
        }
        role = "system" if pieces[0].scope == "system" else pieces[0].speaker
        body = {
            "messages": [{"role": role, "content": [{"text": pieces[0].text}]}],
            "checks": {name: wanted[name] for name in self.checks},
        }
        credentials = to_credentials(self.access_key_id, self.secret_access_key, self.session_token)
        return to_request(self.url, "/guardrail-checks/invoke", body, self.region, credentials)

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read the scores; a check that was asked for and has no result makes the reply unreadable."""
        results = to_object(to_object(answer).get("results"))
        scores: dict[str, float] = {}
        over: list[str] = []
        private: list[Json] = []
        cut = False
        for check in self.checks:
            section = to_object(results.get(check))
            rows = to_objects(to_list(section.get("results"), "missing_verdict"), "missing_verdict")
            if not rows and check != _PII:
                raise Broken
            cut = cut or section.get("truncated") is True
            limit = self.thresholds.get(check, self.threshold)
            for row in rows:
                name = to_text(row.get("type" if check == _PII else "category"))
                if not name:
                    raise Broken("missing_field")
                score = to_number(row.get("confidenceScore" if check == _PII else "severityScore"))
                scores[name] = max(score, scores.get(name, 0.0))
                if score >= limit:
                    over.append("PII" if check == _PII else name)
                    private.extend([row] if check == _PII else [])
        return [_to_finding(scores, over, private, pieces[0], cut=cut)]


def _to_finding(
    scores: Mapping[str, float], over: Sequence[str], private: Sequence[Json], piece: Piece, *, cut: bool
) -> Finding:
    raw = list(dict.fromkeys(over))
    extras: dict[str, object] = {"score_kind": "severity", "scores": scores}
    top = max(scores.values(), default=0.0)
    if not raw:
        if cut:
            return Finding(unknown(Cause.OVER_LIMIT, detail="truncated"))
        return Finding(Verdict(Label.SAFE, score=top, extras=extras))
    extras["raw_categories"] = raw
    verdict = Verdict(Label.UNSAFE, score=top, categories=canonical("bedrock", raw), extras=extras)
    if cut or raw != ["PII"]:
        return Finding(verdict)
    return Finding(verdict, tuple([Match(_text(row, piece), "privacy") for row in private]))


def _text(row: Json, piece: Piece) -> str:
    """Return the match by its offsets in the judged text; it was the only content of the only message."""
    return text_between(piece, row.get("beginOffset"), row.get("endOffset"))
