"""NeuralTrust TrustGate: `use: trustgate` (guards §8.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Piece
from supervisors.hosted.replies import Broken, to_bool, to_object, to_objects
from supervisors.secret import Secret
from supervisors.taxonomy import load_taxonomies
from supervisors.types import Context, Exchange, Label, Verdict


class TrustGate(JudgedTexts):
    """Ask one plugin of a TrustGate policy about every text.

    Args:
        policy_id: policy that is applied.
        api_key: key of the service.
        url: base URL up to and including ``/v1``.
        plugin: plugin whose verdict counts.
        category: what a hit means.
    """

    use: Literal["trustgate"] = "trustgate"
    policy_id: str = Field(min_length=1)
    api_key: Secret
    url: str = Field(default="https://actions.neuraltrust.ai/v1", pattern=r"^https?://")
    plugin: str = Field(default="neuraltrust_jailbreak", min_length=1)
    category: str = Field(default="jailbreak", min_length=1)

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write one text."""
        body = {"policy_id": self.policy_id, "payload": {"content": pieces[0].text}}
        return Request(f"{self.url.rstrip('/')}/actions", body, {"x-tg-api-key": self.api_key.value})

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read what the plugin says; without it the text was not judged."""
        rows = to_objects(to_object(answer).get("metadata"), "missing_verdict")
        flags = [
            to_bool(to_object(row.get("data")).get("blocked")) for row in rows if row.get("plugin_name") == self.plugin
        ]
        if not flags:
            raise Broken
        extras = {"score_kind": "label"}
        if not any(flags):
            return [Finding(Verdict(Label.SAFE, score=0.0, extras=extras))]
        found = load_taxonomies()["own"].to_canonical([self.category])
        return [Finding(Verdict(Label.UNSAFE, score=1.0, categories=found, extras=extras))]
