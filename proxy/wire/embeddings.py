"""`/v1/embeddings`: the input is judged, the vectors pass byte for byte. Pure.

There are no choices and no stream on this route. What the pipeline asks about those is answered truthfully: no reply
has a choice, no frame belongs here, and a notice has no place to stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from proxy.wire.adapter import EMBEDDINGS_ROUTE, Adapter, Head, Notice
from proxy.wire.errors import openai_reply
from proxy.wire.inputs import add_inputs
from proxy.wire.segments import SegmentList, escape, is_word
from supervisors.types import Segment, Span

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
            segments.add(f"/{escape(key)}", "other", value)
    return tuple(segments.found)


class EmbeddingsAdapter:
    """The embeddings family for the pipeline."""

    route = EMBEDDINGS_ROUTE
    upstream_path = "/embeddings"
    param = "input"
    terminator = b""
    request_segments = staticmethod(request_segments)
    error_reply = staticmethod(openai_reply)

    def choice_count(self, body: Mapping[str, Any]) -> int:
        """Return 1: there is one reply, however many inputs."""
        return 1

    def notice(self, body: Mapping[str, Any], text: str) -> Notice:
        """Return the notice; it is only ever shown in an error."""
        return Notice(text)

    def reply_segments(self, reply: Mapping[str, Any], turn: int) -> dict[int, tuple[Segment, ...]]:
        """Return nothing: vectors hold no text."""
        return {}

    def finish_reasons(self, reply: Mapping[str, Any]) -> tuple[str | None, ...]:
        """Return nothing: there are no choices."""
        return ()

    def block_choices(self, reply: dict[str, Any], blocked: Sequence[int], notice: Notice) -> None:
        """Leave the reply alone: there are no choices to block."""

    def mask_logprobs(self, reply: dict[str, Any], choice: int, spans: Sequence[Span]) -> None:
        """Leave the reply alone: there are no log-probabilities."""

    def refusal_reply(self, head: Head, count: int, notice: Notice) -> NoReturn:
        """Raise ValueError: a list of vectors has no place for a notice; a blocked input is an error here."""
        msg = f"{self.route} cannot hold a notice"
        raise ValueError(msg)

    def new_head(self, record_id: str, created: int, model: str) -> Head:
        """Return an empty head: there are no frames."""
        return Head()

    def open_frames(self, head: Head, body: Mapping[str, Any]) -> NoReturn:
        """Raise ValueError: this route never streams."""
        msg = f"{self.route} never streams"
        raise ValueError(msg)


EMBEDDINGS: Final[Adapter] = EmbeddingsAdapter()
