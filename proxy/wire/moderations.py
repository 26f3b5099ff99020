"""`/v1/moderations` as a façade over our own supervisors: what is asked, and verdicts in OpenAI's words. Pure.

Source of names and shapes: OpenAI's API reference, "Moderations". How the names stand to ours is the ``openai`` table
of `supervisors/taxonomies.toml`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, NoReturn

from proxy.wire.adapter import MODERATIONS_ROUTE, Adapter
from proxy.wire.errors import RequestError, invalid
from proxy.wire.input_only import InputOnlyAdapter
from proxy.wire.segments import SegmentList, as_list, as_object
from supervisors.taxonomy import load_taxonomies
from supervisors.types import Assessment, Label, Segment, Verdict

DEFAULT_ALIAS: Final = "omni-moderation-latest"
InputType = Literal["text", "image"]

_FIELDS: Final = frozenset({"input", "model"})
_PART_FIELDS: Final[Mapping[str, str]] = {"text": "text", "image_url": "image_url"}


def read_inputs(body: Mapping[str, Any]) -> list[tuple[Segment, ...]]:
    """Return the segments of everything that gets a result of its own: each string, or all parts together.

    Raises:
        RequestError: 400 with the JSON path for another shape, or for a field this route does not have.
    """
    for key in body:
        if key not in _FIELDS:
            raise invalid(f"Unknown field {key[:64]!r}; known are: {', '.join(sorted(_FIELDS))}.", key[:64])
    value = body.get("input")
    if isinstance(value, str):
        return [_text(value, "/input", 0)]
    items = as_list(value)
    if not items:
        raise _wrong_input("input")
    if all(isinstance(item, dict) for item in items):
        return [_parts(items)]
    found: list[tuple[Segment, ...]] = []
    for turn, item in enumerate(items):
        if not isinstance(item, str):
            raise _wrong_input(f"input[{turn}]")
        found.append(_text(item, f"/input/{turn}", turn))
    return found


def request_segments(body: Mapping[str, Any]) -> tuple[Segment, ...]:
    """Return the segments of the whole request, for its record."""
    return tuple([segment for one in read_inputs(body) for segment in one])


def _text(text: str, path: str, turn: int) -> tuple[Segment, ...]:
    segments = SegmentList("user", turn)
    segments.add(path, "text", text)
    return tuple(segments.found)


def _parts(parts: Sequence[object]) -> tuple[Segment, ...]:
    segments = SegmentList("user")
    for index, value in enumerate(parts):
        part = as_object(value) or {}
        name = part.get("type")
        field = _PART_FIELDS.get(name) if isinstance(name, str) else None
        if field is None or field not in part:
            raise invalid(
                "A part must be {type: text, text} or {type: image_url, image_url: {url}}.", f"input[{index}]"
            )
        for key, child in part.items():
            if key == "image_url":
                _add_image(segments, child, f"/input/{index}/image_url", index)
            elif key != "type":
                segments.add_member(f"/input/{index}", key, "text" if key == "text" else "other", child)
    return tuple(segments.found)


def _add_image(segments: SegmentList, value: object, path: str, index: int) -> None:
    """Add an image; behind a link there is a picture too, which nobody has seen if only the link is judged."""
    image = as_object(value) or {}
    url = image.get("url")
    if not isinstance(url, str):
        raise invalid("'image_url' must be an object with a 'url'.", f"input[{index}].image_url")
    for key, child in image.items():
        if key != "url":
            segments.add_member(path, key, "other", child)
    segments.add_url(f"{path}/url", url)
    if url[:5].lower() != "data:":
        segments.add_media(f"{path}/url", "image/unknown", None)


def _wrong_input(param: str) -> RequestError:
    return invalid("'input' must be a string, a list of strings, or a list of text and image_url parts.", param)


def input_types(segments: Collection[Segment]) -> list[InputType]:
    """Return what kinds of input these segments are, text when there is none."""
    pictures = any(segment.kind == "media" for segment in segments)
    texts = any(segment.kind != "media" for segment in segments)
    return ["text", "image"] if pictures and texts else ["image"] if pictures else ["text"]


def to_result(assessments: Sequence[Assessment], types: Sequence[InputType] = ("text",)) -> dict[str, Any]:
    """Return one result: the 13 names of OpenAI, then the categories our supervisors named (W-33).

    Args:
        assessments: of one text; the caller has made sure that its verdict is known.
        types: kinds of input that were judged.
    """
    unsafe = [found.verdict for found in assessments if found.verdict.label is Label.UNSAFE]
    scores: dict[str, float] = {}
    for verdict in unsafe:
        score = 1.0 if verdict.score is None else verdict.score
        for name in (*_openai_names(verdict), *verdict.categories):
            scores[name] = max(score, scores.get(name, 0.0))
    names = dict.fromkeys((*openai_rows(), *scores))
    return {
        "flagged": bool(unsafe),
        "categories": {name: name in scores for name in names},
        "category_scores": {name: scores.get(name, 0.0) for name in names},
        "category_applied_input_types": {name: list(types) if name in scores else ["text"] for name in names},
    }


@cache
def openai_rows() -> Mapping[str, frozenset[str]]:
    """Return OpenAI's names, each with the canonical categories that it stands for."""
    return {name: frozenset(row.to) for name, row in load_taxonomies()["openai"].rows.items()}


def _openai_names(verdict: Verdict) -> list[str]:
    """Return the names that fit a verdict: those a service gave itself, otherwise the broadest that say the same."""
    rows = openai_rows()
    given = verdict.extras.get("raw_categories")
    raw = [name for name in as_list(given) or () if name in rows]
    if raw:
        return raw
    found = set(verdict.categories)
    names: dict[frozenset[str], str] = {}
    for name, stands_for in rows.items():
        if stands_for <= found:
            names.setdefault(stands_for, name)
    return list(names.values())


def refuse_reply(reply: Mapping[str, Any]) -> NoReturn:
    """Raise ValueError: no model is asked on this route."""
    msg = "a moderation has no reply of a model"
    raise ValueError(msg)


MODERATIONS: Final[Adapter] = InputOnlyAdapter(MODERATIONS_ROUTE, request_segments, refuse_reply)
