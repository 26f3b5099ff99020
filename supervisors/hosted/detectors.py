"""Detectors of the FMS guardrails orchestrator and TrustyAI: `use: detectors` (guards §8.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Match, Piece, text_between
from supervisors.hosted.replies import Broken, Json, to_list, to_number, to_objects, to_text
from supervisors.secret import Secret
from supervisors.taxonomy import load_taxonomies
from supervisors.types import Context, Exchange, Label, Verdict


class Detectors(JudgedTexts):
    """Ask a detector about many texts at once; what it finds has its place and can be redacted.

    Args:
        url: address of the server, without a path.
        detector: id of the detector, sent as a header.
        api_key: where the server asks for one.
        params: `detector_params` of the request.
        threshold: score from which a detection counts.
        redact: detections are things to mask, such as personal data; else the whole text is at fault.
    """

    use: Literal["detectors"] = "detectors"
    url: str = Field(pattern=r"^https?://")
    detector: str = Field(pattern=r"^[\x21-\x7e]+$")
    api_key: Secret | None = None
    params: Mapping[str, Any] = Field(default_factory=dict)
    threshold: float = Field(default=0.5, ge=0.0, le=1.0)
    redact: bool = True

    per_call: ClassVar[int] = 16
    documents_per_call: ClassVar[int] = 16

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write all texts of a batch."""
        body: dict[str, object] = {"contents": [piece.text for piece in pieces]}
        if self.params:
            body["detector_params"] = dict(self.params)
        key = {"authorization": f"Bearer {self.api_key.value}"} if self.api_key else {}
        return Request(f"{self.url.rstrip('/')}/api/v1/text/contents", body, {"detector-id": self.detector, **key})

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read one list of detections a text; fewer lists than texts make the reply unreadable."""
        lists = to_list(answer, "missing_verdict")
        if len(lists) != len(pieces):
            raise Broken
        return [
            self._judge(to_objects(to_list(rows, "missing_verdict")), piece)
            for rows, piece in zip(lists, pieces, strict=True)
        ]

    def _judge(self, rows: Sequence[Json], piece: Piece) -> Finding:
        scores = [to_number(row.get("score")) for row in rows]
        over = [row for row, score in zip(rows, scores, strict=True) if score >= self.threshold]
        extras: dict[str, object] = {"score_kind": "probability"}
        top = max(scores, default=0.0)
        if not over:
            return Finding(Verdict(Label.SAFE, score=top, extras=extras))
        raw = list(dict.fromkeys(_name(row) for row in over))
        extras["raw_categories"] = raw
        table = load_taxonomies()["own"]
        verdict = Verdict(Label.UNSAFE, score=top, categories=table.to_canonical(raw), extras=extras)
        matches = tuple([Match(_text(row, piece), table.to_canonical([_name(row)])[0]) for row in over])
        return Finding(verdict, matches if self.redact else None)


def _name(row: Json) -> str:
    return to_text(row.get("detection_type")) or to_text(row.get("detection"))


def _text(row: Json, piece: Piece) -> str:
    """Return what was found: the text the detector repeats, else that between its offsets."""
    return to_text(row.get("text")) or text_between(piece, row.get("start"), row.get("end"))
