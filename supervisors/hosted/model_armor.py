"""Google Model Armor: `use: model_armor` (guards §8.5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from pydantic import Field

from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Piece
from supervisors.hosted.replies import Broken, Json, canonical, to_object, to_text
from supervisors.secret import Secret
from supervisors.types import Cause, Context, Exchange, Label, Verdict, unknown

_FOUND, _NOT_FOUND = "MATCH_FOUND", "NO_MATCH_FOUND"
_CONFIDENCE: Mapping[str, float] = {"HIGH": 1.0, "MEDIUM_AND_ABOVE": 0.66, "LOW_AND_ABOVE": 0.33}
_NAMES: Mapping[str, str] = {
    "raifilterresult": "rai",
    "piandjailbreakfilterresult": "pi_and_jailbreak",
    "maliciousurifilterresult": "malicious_uris",
    "csamfilterfilterresult": "csam",
    "virusscanfilterresult": "virus_scan",
    "sdpfilterresult": "sdp",
}
_SIZES = ("size", "token", "too long", "too large", "limit")
_DEPTH = 8


class ModelArmor(JudgedTexts):
    """Ask Model Armor about every text, by a template of your project.

    Args:
        project: id of the project.
        location: e.g. ``europe-west4``.
        template: id of the template.
        token: OAuth access token; it lasts an hour, and a reload of the config reads a new one.
        url: address instead of the location's own, for a private endpoint.
        max_chars: longest text of a call; filters of a template skip what is too long for them.
    """

    use: Literal["model_armor"] = "model_armor"
    project: str = Field(pattern=r"^[a-z0-9:.-]+$")
    location: str = Field(pattern=r"^[a-z0-9-]+$")
    template: str = Field(pattern=r"^[A-Za-z0-9_-]+$")
    token: Secret
    url: str | None = Field(default=None, pattern=r"^https?://")
    max_chars: int = Field(default=6_000, ge=600)

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write one text as a prompt or as a model's response."""
        base = (self.url or f"https://modelarmor.{self.location}.rep.googleapis.com").rstrip("/")
        prompt = pieces[0].stage == "input"
        action, member = (
            ("sanitizeUserPrompt", "userPromptData") if prompt else ("sanitizeModelResponse", "modelResponseData")
        )
        name = f"projects/{self.project}/locations/{self.location}/templates/{self.template}"
        headers = {"authorization": f"Bearer {self.token.value}"}
        return Request(f"{base}/v1/{name}:{action}", {member: {"text": pieces[0].text}}, headers)

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read the match state of the whole and of every filter; what was not carried out is not safe."""
        result = to_object(to_object(answer).get("sanitizationResult"))
        whole = result.get("filterMatchState")
        if whole not in (_FOUND, _NOT_FOUND):
            raise Broken
        filters = list(_iterate(result.get("filterResults")))
        hits = [each for each in filters if each.matched]
        raw = list(dict.fromkeys(name for each in hits for name in each.names))
        extras: dict[str, object] = {"score_kind": "severity" if hits else "label"}
        masked = next((each.masked for each in filters if each.masked), "")
        if masked:
            extras["masked_text"] = masked
        if hits or whole == _FOUND:
            extras["raw_categories"] = raw
            score = max([each.score for each in hits], default=1.0)
            found = Verdict(Label.UNSAFE, score=score, categories=canonical("model-armor", raw), extras=extras)
            return [Finding(found)]
        doubt = _settle(result, filters)
        if doubt is None and not filters:
            raise Broken("missing_verdict")  # nothing says that anything was looked for
        return [Finding(doubt or Verdict(Label.SAFE, score=0.0, extras=extras))]


@dataclass(frozen=True, slots=True)
class _Filter:
    """The result of one filter.

    Args:
        names: of what matched, in the service's words.
        matched: whether anything in it matched.
        skipped: whether it, or a part of it, was not carried out.
        score: highest confidence.
        masked: text without what matched, empty when the template does not mask.
        messages: what the service says of it, casefolded.
    """

    names: tuple[str, ...]
    matched: bool
    skipped: bool
    score: float
    masked: str
    messages: str


def _settle(result: Json, filters: Sequence[_Filter]) -> Verdict | None:
    """Return why a text without a match is not safe, or None."""
    invocation = result.get("invocationResult", "SUCCESS")
    skipped = [each for each in filters if each.skipped]
    if invocation == "SUCCESS" and not skipped:
        return None
    sized = any(word in each.messages for each in skipped for word in _SIZES)
    detail = to_text(invocation).casefold() if invocation != "SUCCESS" else "skipped_filter"
    return unknown(Cause.OVER_LIMIT if sized else Cause.ERROR, detail=detail or "skipped_filter")


def _iterate(results: object) -> Iterator[_Filter]:
    """Yield the filters of a mapping by name, or of a list of such members."""
    if results is None:
        return
    if isinstance(results, list):
        for entry in cast("list[object]", results):
            yield from _iterate(to_object(entry))
        return
    for name, member in to_object(results, "missing_field").items():
        inner = to_object(member, "missing_field")
        if name.casefold() in _NAMES:  # the list form has the member itself
            yield _read_filter(name, inner)
            continue
        for key, value in inner.items():
            yield _read_filter(key, to_object(value, "missing_field"))


def _read_filter(key: str, member: Json) -> _Filter:
    nodes = list(_walk(member, "", 0))
    name = _NAMES.get(key.casefold(), key)
    matched = [(inner, node) for inner, node in nodes if node.get("matchState") == _FOUND]
    kinds = [to_text(node.get("filterType")) or inner for inner, node in matched if inner]
    types = [kind for kind in kinds if name == "rai" and kind != "raiFilterTypeResults"]
    if any(node.get("matchState") not in (None, _FOUND, _NOT_FOUND) for _, node in nodes):
        raise Broken
    levels = [_CONFIDENCE.get(to_text(node.get("confidenceLevel")), 1.0) for _, node in matched]
    states = [node.get("executionState", "EXECUTION_SUCCESS") for _, node in nodes]
    skipped = any(state != "EXECUTION_SUCCESS" for state in states)
    if not skipped and all(node.get("matchState") is None for _, node in nodes):
        raise Broken("missing_verdict")
    masked = [to_text(node.get("text")) for inner, node in nodes if inner == "data"]
    messages = " ".join([to_text(node.get("message")) for _, node in nodes]).casefold()
    return _Filter(
        tuple(types) or (name,),
        bool(matched),
        skipped,
        max(levels, default=0.0),
        next((text for text in masked if text), "") if matched else "",
        messages,
    )


def _walk(value: object, name: str, depth: int) -> Iterator[tuple[str, Json]]:
    """Yield every object inside a filter's result with the key it stands under."""
    if depth > _DEPTH:
        raise Broken
    if isinstance(value, list):
        for entry in cast("list[object]", value):
            yield from _walk(entry, name, depth + 1)
    elif isinstance(value, Mapping):
        members = cast("Json", value)
        yield name, members
        for key, member in members.items():
            yield from _walk(member, key, depth + 1)
