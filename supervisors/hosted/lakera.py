"""Lakera Guard v2: `use: lakera` (guards §8.2). Detectors and thresholds are those of the project's policy there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Match, Piece, text_between
from supervisors.hosted.replies import Json, canonical, to_bool, to_object, to_objects, to_text
from supervisors.secret import Secret
from supervisors.types import Context, Exchange, Label, Verdict

_LEVELS: Mapping[str, float] = {"1": 1.0, "2": 0.8, "3": 0.6, "4": 0.4, "5": 0.2}
_LEVEL = re.compile(r"l([1-5])(?:_.*)?", re.IGNORECASE)


class Lakera(JudgedTexts):
    """Ask Lakera Guard about every message after the turns before it; it screens the last interaction only.

    Args:
        url: base URL up to and including ``/v2``; regional and self-hosted ones have their own.
        api_key: ``{env: NAME}`` or ``{file: PATH}``; required at lakera.ai.
        project_id: project whose policy applies; None takes the account's default.
        end_inclusive: the service gives the last character of a match instead of the one after it.
    """

    use: Literal["lakera"] = "lakera"
    url: str = Field(default="https://api.lakera.ai/v2", pattern=r"^https?://")
    api_key: Secret | None = None
    project_id: str | None = Field(default=None, min_length=1)
    end_inclusive: bool = False

    in_context: ClassVar[bool] = True

    @model_validator(mode="after")
    def _check(self) -> Self:
        host = urlsplit(self.url).hostname or ""
        if self.api_key is None and (host == "lakera.ai" or host.endswith(".lakera.ai")):
            msg = "api_key is required at lakera.ai"
            raise ValueError(msg)
        return self

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected message."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write a conversation that ends with the piece."""
        piece = pieces[0]
        last = "system" if piece.scope == "system" else piece.speaker
        messages = [{"role": turn.speaker, "content": turn.text} for turn in piece.before]
        body: dict[str, object] = {
            "messages": [*messages, {"role": last, "content": piece.text}],
            "breakdown": True,
            "payload": True,
        }
        if self.project_id is not None:
            body["project_id"] = self.project_id
        headers = {"authorization": f"Bearer {self.api_key.value}"} if self.api_key else {}
        return Request(f"{self.url.rstrip('/')}/guard", body, headers)

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read the flag; a detector that fired while the policy let the text pass is a fact beside a safe verdict."""
        members = to_object(answer)
        flagged = to_bool(members.get("flagged"))
        fired = [entry for entry in to_objects(members.get("breakdown")) if entry.get("detected") is True]
        raw = list(dict.fromkeys(to_text(entry.get("detector_type")) for entry in fired))
        levels = [level for level in map(_level, fired) if level is not None]
        extras: dict[str, object] = {"score_kind": "severity" if levels else "label"}
        if raw:
            extras["raw_categories"] = raw
        if not flagged:
            return [Finding(Verdict(Label.SAFE, score=0.0, extras=extras))]
        score = max(levels, default=1.0)
        found = Verdict(Label.UNSAFE, score=score, categories=canonical("lakera", map(_name, raw)), extras=extras)
        return [Finding(found, self._matches(members, raw, pieces[0]))]

    def _matches(self, members: Json, raw: Sequence[str], piece: Piece) -> tuple[Match, ...] | None:
        """Return the matched texts, if every detector that fired gave its own."""
        rows = to_objects(members.get("payload"))
        matches = [
            Match(self._text(row, piece), canonical("lakera", [_name(to_text(row.get("detector_type")))])[0])
            for row in rows
        ]
        located = {to_text(row.get("detector_type")) for row in rows}
        return tuple(matches) if raw and set(raw) <= located else None

    def _text(self, row: Json, piece: Piece) -> str:
        """Return the match verbatim, or by its offsets in the judged message."""
        if isinstance(row.get("text"), str):
            return to_text(row.get("text"))
        end = row.get("end")
        return text_between(piece, row.get("start"), end + self.end_inclusive if type(end) is int else end)


def _level(entry: Json) -> float | None:
    """Return the confidence of an entry: ``l2_very_likely`` in `result`, or ``L2`` in `confidence`."""
    for word in (entry.get("result"), entry.get("confidence")):
        match = _LEVEL.fullmatch(to_text(word))
        if match is not None:
            return _LEVELS[match.group(1)]
    return 0.0 if to_text(entry.get("result")) == "no_level" else None


def _name(detector: str) -> str:
    """Return the part of a detector's type that names the category."""
    head, _, tail = detector.partition("/")
    return tail if head == "moderated_content" and tail else head
