"""`/v1/embeddings`: the input is judged, the vectors pass byte for byte. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from proxy.wire.adapter import EMBEDDINGS_ROUTE, Adapter
from proxy.wire.input_only import InputOnlyAdapter
from proxy.wire.inputs import add_inputs
from proxy.wire.segments import SegmentList, is_word
from supervisors.types import Segment

_STRUCTURAL: Final = frozenset({"model", "user", "input", "service_tier", "safety_identifier", "metadata"})
_FORMATS: Final = frozenset({"float", "base64"})


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


EMBEDDINGS: Final[Adapter] = InputOnlyAdapter(EMBEDDINGS_ROUTE, request_segments)
