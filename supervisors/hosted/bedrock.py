"""Amazon Bedrock Guardrails, ApplyGuardrail: `use: bedrock` (guards §8.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import quote

from pydantic import Field

from supervisors.hosted.aws import REGION, to_credentials, to_request
from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Match, Piece
from supervisors.hosted.replies import Broken, Json, canonical, to_object, to_objects, to_text
from supervisors.secret import Secret
from supervisors.types import Cause, Context, Exchange, Label, Verdict, unknown

_LISTS: Mapping[str, tuple[str, ...]] = {
    "topicPolicy": ("topics",),
    "contentPolicy": ("filters",),
    "wordPolicy": ("customWords", "managedWordLists"),
    "sensitiveInformationPolicy": ("piiEntities", "regexes"),
    "contextualGroundingPolicy": ("filters",),
}
_RAW: Mapping[str, str] = {
    "topicPolicy": "topics",
    "wordPolicy": "words",
    "sensitiveInformationPolicy": "PII",
    "contextualGroundingPolicy": "grounding",
}
_CONFIDENCE: Mapping[str, float] = {"HIGH": 1.0, "MEDIUM": 0.66, "LOW": 0.33, "NONE": 0.0}
_INTERVENED = ("GUARDRAIL_INTERVENED", "INTERVENED")


class Bedrock(JudgedTexts):
    """Apply a guardrail of your account to every text.

    Args:
        guardrail_id: id or ARN of the guardrail.
        guardrail_version: ``DRAFT`` or a number.
        region: region of the guardrail.
        access_key_id: of an identity that may ``bedrock:ApplyGuardrail``.
        secret_access_key: its secret.
        session_token: of temporary credentials; a reload of the config reads new ones.
        url: address instead of the region's own, for a private endpoint.
        output_scope: ``FULL`` reports entries without an intervention too.
        max_chars: longest text of a call; what the account's quota does not take is halved.
    """

    use: Literal["bedrock"] = "bedrock"
    guardrail_id: str = Field(min_length=1, max_length=2048)
    guardrail_version: str = Field(default="DRAFT", pattern=r"^(DRAFT|[1-9][0-9]{0,7})$")
    region: str = Field(pattern=REGION)
    access_key_id: Secret
    secret_access_key: Secret
    session_token: Secret | None = None
    url: str | None = Field(default=None, pattern=r"^https?://")
    output_scope: Literal["INTERVENTIONS", "FULL"] = "INTERVENTIONS"

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write one text, signed."""
        body = {
            "source": "INPUT" if pieces[0].stage == "input" else "OUTPUT",
            "content": [{"text": {"text": pieces[0].text}}],
            "outputScope": self.output_scope,
        }
        path = f"/guardrail/{quote(self.guardrail_id, safe='')}/version/{self.guardrail_version}/apply"
        credentials = to_credentials(self.access_key_id, self.secret_access_key, self.session_token)
        return to_request(self.url, path, body, self.region, credentials)

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read the action, then the entries that explain it."""
        return [read_guardrail(to_object(answer))]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of an assessment: the policy it belongs to and its own members."""

    policy: str
    members: Json

    @property
    def action(self) -> str:
        return to_text(self.members.get("action"))

    @property
    def raw(self) -> str:
        """Return the name for `raw_categories`: the filter's type, or that of its policy."""
        kind = to_text(self.members.get("type"))
        return kind if self.policy == "contentPolicy" and kind else _RAW.get(self.policy, "other")


def read_guardrail(answer: Json) -> Finding:
    """Map the reply of a guardrail; a trace of the Converse API has the same assessments.

    Raises:
        Broken: the action is missing or unknown, or an assessment is not what it should be.
    """
    action = answer.get("action")
    if action != "NONE" and action not in _INTERVENED:
        raise Broken
    entries = list(_iterate(answer))
    fired = [entry for entry in entries if entry.action in ("BLOCKED", "ANONYMIZED")]
    raw = list(dict.fromkeys(entry.raw for entry in fired))
    extras: dict[str, object] = {"score_kind": "severity" if fired else "label"}
    if raw:
        extras["raw_categories"] = raw
    if action == "NONE":
        if fired:
            raise Broken("contradiction")
        if not _is_covered(answer):
            return Finding(unknown(Cause.OVER_LIMIT, detail="truncated"))
        return Finding(Verdict(Label.SAFE, score=0.0, extras=extras))
    if not fired:
        return Finding(Verdict(Label.UNSAFE, score=1.0, detail="missing_field", extras=extras))
    found = Verdict(Label.UNSAFE, score=max(map(_score, fired)), categories=canonical("bedrock", raw), extras=extras)
    masked = _masked(answer)
    if masked is not None:
        found = replace(found, extras={**extras, "masked_text": masked})
    return Finding(found, _matches(fired))


def _iterate(answer: Json) -> Iterator[_Entry]:
    """Yield every entry of every policy of every assessment."""
    for assessment in to_objects(answer.get("assessments")):
        for policy, lists in _LISTS.items():
            section = assessment.get(policy)
            members = to_object({} if section is None else section, "missing_field")
            for name in lists:
                for entry in to_objects(members.get(name)):
                    yield _Entry(policy, entry)


def _is_covered(answer: Json) -> bool:
    """Say whether every character was looked at, as far as the service tells."""
    for assessment in to_objects(answer.get("assessments")):
        where: Json = assessment
        for name in ("invocationMetrics", "guardrailCoverage", "textCharacters"):
            inner = where.get(name)
            where = to_object({} if inner is None else inner, "missing_field")
        guarded, total = where.get("guarded"), where.get("total")
        if isinstance(guarded, int) and isinstance(total, int) and guarded < total:
            return False
    return True


def _score(entry: _Entry) -> float:
    if entry.policy != "contentPolicy":
        return 1.0
    return _CONFIDENCE.get(to_text(entry.members.get("confidence")), 1.0)


def _matches(fired: Sequence[_Entry]) -> tuple[Match, ...] | None:
    """Return what is to be masked, if masking is all the guardrail asks for."""
    if any(entry.action != "ANONYMIZED" for entry in fired):
        return None
    return tuple([Match(to_text(entry.members.get("match")), "privacy") for entry in fired])


def _masked(answer: Json) -> str | None:
    """Return the text the service would send in place of the judged one; some versions spell the member `output`."""
    outputs = answer.get("outputs")
    rows = to_objects(answer.get("output") if outputs is None else outputs)
    return to_text(rows[0].get("text")) or None if rows else None
