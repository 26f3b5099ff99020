"""Azure AI Content Safety, Prompt Shields: `use: azure_shields` (guards §8.3). Tool results are its documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from supervisors.hosted.azure import API_VERSION, MAX_CHARS, authorise, check_credentials, to_url
from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Piece
from supervisors.hosted.replies import Broken, to_bool, to_list, to_object
from supervisors.secret import Secret
from supervisors.types import Context, Exchange, Label, Stage, Verdict


class AzureShields(JudgedTexts):
    """Ask Azure whether a prompt or a document tries to take over the model.

    Args:
        url: endpoint of the resource, ``https://NAME.cognitiveservices.azure.com``.
        api_key: subscription key.
        token: Entra access token instead of it; a reload of the config reads a new one.
        api_version: version of the API.
        max_chars: longest text of a call; documents of one call share it.
    """

    use: Literal["azure_shields"] = "azure_shields"
    url: str = Field(pattern=r"^https?://")
    api_key: Secret | None = None
    token: Secret | None = None
    api_version: str = Field(default=API_VERSION, pattern=r"^[0-9a-z-]+$")
    max_chars: int = Field(default=MAX_CHARS, ge=600, le=10_000)

    stages: ClassVar[frozenset[Stage]] = frozenset({"input"})
    documents_per_call: ClassVar[int] = 5

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_credentials(self.api_key, self.token)
        return self

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write one prompt or up to five documents."""
        texts = [piece.text for piece in pieces]
        body: dict[str, object] = {"documents": texts} if pieces[0].document else {"userPrompt": texts[0]}
        return Request(to_url(self.url, "shieldPrompt", self.api_version), body, authorise(self.api_key, self.token))

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read only what was sent: the prompt, or as many documents as there were."""
        members = to_object(answer)
        if not pieces[0].document:
            attacked = to_bool(to_object(members.get("userPromptAnalysis")).get("attackDetected"))
            return [_to_finding("jailbreak", attacked=attacked)]
        rows = to_list(members.get("documentsAnalysis"), "missing_verdict")
        if len(rows) != len(pieces):
            raise Broken
        return [_to_finding("injection", attacked=to_bool(to_object(row).get("attackDetected"))) for row in rows]


def _to_finding(category: str, *, attacked: bool) -> Finding:
    extras = {"score_kind": "label"}
    if attacked:
        return Finding(Verdict(Label.UNSAFE, score=1.0, categories=(category,), extras=extras))
    return Finding(Verdict(Label.SAFE, score=0.0, extras=extras))
