"""Azure AI Content Safety, analyze text: `use: azure_text` (guards §8.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from supervisors.hosted.azure import API_VERSION, MAX_CHARS, authorise, check_credentials, to_url
from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Match, Piece
from supervisors.hosted.replies import (
    Broken,
    Json,
    canonical,
    to_list,
    to_number,
    to_object,
    to_objects,
    to_text,
)
from supervisors.secret import Secret
from supervisors.types import Context, Exchange, Label, Verdict

AzureCategory = Literal["Hate", "SelfHarm", "Sexual", "Violence"]
_ALL: tuple[AzureCategory, ...] = ("Hate", "SelfHarm", "Sexual", "Violence")


class AzureText(JudgedTexts):
    """Ask Azure for the severity of every text.

    Args:
        url: endpoint of the resource, ``https://NAME.cognitiveservices.azure.com``.
        api_key: subscription key.
        token: Entra access token instead of it; a reload of the config reads a new one.
        api_version: version of the API.
        categories: categories asked for.
        levels: severities 0, 2, 4, 6 (four) or 0 to 7 (eight).
        severity_threshold: severity from which a text is unsafe.
        severity_thresholds: the same for single categories.
        blocklists: names of blocklists of the resource; a match is unsafe.
        halt_on_blocklist_hit: the service stops at a blocklist match and gives no severities.
        max_chars: longest text of a call.
    """

    use: Literal["azure_text"] = "azure_text"
    url: str = Field(pattern=r"^https?://")
    api_key: Secret | None = None
    token: Secret | None = None
    api_version: str = Field(default=API_VERSION, pattern=r"^[0-9a-z-]+$")
    categories: tuple[AzureCategory, ...] = Field(default=_ALL, min_length=1)
    levels: Literal[4, 8] = 4
    severity_threshold: int = Field(default=2, ge=1, le=7)
    severity_thresholds: Mapping[AzureCategory, Annotated[int, Field(ge=1, le=7)]] = Field(
        default_factory=dict[AzureCategory, int]
    )
    blocklists: tuple[str, ...] = ()
    halt_on_blocklist_hit: bool = False
    max_chars: int = Field(default=MAX_CHARS, ge=600, le=10_000)

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_credentials(self.api_key, self.token)
        over = [name for name, limit in self._limits.items() if limit > self._top]
        if over:
            msg = f"the threshold of {', '.join(over)} is above {self._top}, the highest of {self.levels} levels"
            raise ValueError(msg)
        strange = [name for name in self.severity_thresholds if name not in self.categories]
        if strange:
            msg = f"severity_thresholds names {', '.join(strange)}, which categories does not ask for"
            raise ValueError(msg)
        if self.halt_on_blocklist_hit and not self.blocklists:
            msg = "halt_on_blocklist_hit has no effect without blocklists"
            raise ValueError(msg)
        return self

    @property
    def _top(self) -> int:
        return 6 if self.levels == 4 else 7

    @property
    def _limits(self) -> Mapping[str, int]:
        return {name: self.severity_thresholds.get(name, self.severity_threshold) for name in self.categories}

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write one text."""
        body: dict[str, object] = {
            "text": pieces[0].text,
            "categories": list(self.categories),
            "haltOnBlocklistHit": self.halt_on_blocklist_hit,
            "outputType": "FourSeverityLevels" if self.levels == 4 else "EightSeverityLevels",
        }
        if self.blocklists:
            body["blocklistNames"] = list(self.blocklists)
        return Request(to_url(self.url, "analyze", self.api_version), body, authorise(self.api_key, self.token))

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read the severities; one that was asked for and is missing makes the reply unreadable."""
        members = to_object(answer)
        listed = to_objects(members.get("blocklistsMatch"))
        halted = bool(listed) and self.halt_on_blocklist_hit
        found = _read_severities(members, self._top, optional=halted)
        missing = [name for name in self.categories if name not in found]
        if missing and not halted:
            raise Broken
        over = [name for name, severity in found.items() if severity >= self._limits.get(name, self.severity_threshold)]
        worst = max(found.values(), default=0.0)
        raw = [*over, *(["blocklist"] if listed else [])]
        extras: dict[str, object] = {"score_kind": "severity", "severity": worst, "severities": found}
        if not raw:
            return [Finding(Verdict(Label.SAFE, score=worst / self._top, extras=extras))]
        score = 1.0 if listed else worst / self._top
        extras["raw_categories"] = raw
        verdict = Verdict(Label.UNSAFE, score=score, categories=canonical("azure", raw), extras=extras)
        return [Finding(verdict, _matches(listed) if not over and not halted else None)]


def _read_severities(members: Json, top: int, *, optional: bool) -> dict[str, float]:
    rows = members.get("categoriesAnalysis")
    found: dict[str, float] = {}
    if rows is None and optional:
        return found
    for row in to_list(rows, "missing_verdict"):
        fields = to_object(row)
        name = to_text(fields.get("category"))
        if not name or name in found:
            raise Broken
        found[name] = to_number(fields.get("severity"), top, "missing_verdict")
    return found


def _matches(listed: Sequence[Json]) -> tuple[Match, ...]:
    """Return what the blocklists found."""
    return tuple([Match(to_text(row.get("blocklistItemText")), "other") for row in listed])
