"""`/v1/embeddings`: the input is judged, the vectors pass byte for byte. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from proxy.wire.adapter import EMBEDDINGS_ROUTE, Adapter
from proxy.wire.input_only import InputOnlyAdapter
from proxy.wire.inputs import add_inputs
from proxy.wire.segments import SegmentList, is_word
from supervisors.types import Segment

_STRUCTURAL: Final = frozenset({"model", "user", "input", "service_tier", "safety_identifier", "metadata"})
_FORMATS: Final = frozenset({"float", "base64"})
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def request_segments(body: Mapping[str, Any]) -> tuple[Segment, ...]:
    """Return the segments of a request: the inputs, then everything else that is text.

    Raises:
        RequestError: 400 with the JSON path when the input has none of its documented shapes (M-11).
    """
    segments = SegmentList("user")
    add_inputs(segments, body.get("input"), "input")
    segments.speak("user", 0)
    for key, value in body.items():
        if key not in _STRUCTURAL and not (key == "encoding_format" and is_word(value, _FORMATS)):
            segments.add_member("", key, "other", value)
    segments.add_formed("", "service_tier", body.get("service_tier"))
    return tuple(segments.found)


def check_reply(reply: Mapping[str, Any]) -> None:
    """Refuse a reply of another shape, an error or an answer in words: nobody would judge it.

    Raises:
        ValueError: `data` is no list of objects with an `embedding`, a list or base64.
    """
    data: object = reply.get("data")
    if not isinstance(data, list) or not all(_has_vector(item) for item in cast("list[object]", data)):
        msg = "the reply is no list of embeddings"
        raise ValueError(msg)


def _has_vector(item: object) -> bool:
    found = cast("dict[str, object]", item).get("embedding") if isinstance(item, dict) else None
    return isinstance(found, list) or (isinstance(found, str) and _BASE64.fullmatch(found) is not None)


EMBEDDINGS: Final[Adapter] = InputOnlyAdapter(EMBEDDINGS_ROUTE, request_segments, check_reply)
