"""Routes that have no output stage: embeddings and moderations. Pure.

There are no choices and no stream there. What the pipeline asks about those is answered truthfully: no reply has a
choice, no frame belongs here, and a notice has no place to stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from proxy.wire.adapter import Head, Notice
from proxy.wire.errors import openai_reply
from supervisors.types import Segment, Span


class InputOnlyAdapter:
    """One family without an output stage.

    Args:
        route: its route.
        request_segments: reads a request.
        check_reply: raises ValueError on a reply that is none of this family.
    """

    param = "input"
    terminator = b""
    judges_numbers = False
    error_reply = staticmethod(openai_reply)

    def __init__(
        self,
        route: str,
        request_segments: Callable[[Mapping[str, Any]], tuple[Segment, ...]],
        check_reply: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.route = route
        self._check_reply = check_reply
        self.upstream_path = route.removeprefix("/v1")
        self._request_segments = request_segments

    def request_segments(self, body: Mapping[str, Any]) -> tuple[Segment, ...]:
        """Return the canonical view of a request."""
        return self._request_segments(body)

    def choice_count(self, body: Mapping[str, Any]) -> int:
        """Return 1: there is one reply, however many inputs."""
        return 1

    def notice(self, body: Mapping[str, Any], text: str) -> Notice:
        """Return the notice; it is only ever shown in an error."""
        return Notice(text)

    def unseen_history(self, body: Mapping[str, Any]) -> bool:
        """Return false: these routes have no history."""
        return False

    def reply_segments(
        self, reply: Mapping[str, Any], turn: int, body: Mapping[str, Any] | None = None
    ) -> dict[int, tuple[Segment, ...]]:
        """Return nothing: what leaves here holds no text of a model; raise `ValueError` on a reply that may."""
        self._check_reply(reply)
        return {}

    def finish_reasons(self, reply: Mapping[str, Any]) -> dict[int, str | None]:
        """Return nothing: there are no choices."""
        return {}

    def block_choices(self, reply: dict[str, Any], blocked: Sequence[int], notice: Notice) -> None:
        """Leave the reply alone: there are no choices to block."""

    def mask_logprobs(self, reply: dict[str, Any], choice: int, spans: Sequence[Span]) -> None:
        """Leave the reply alone: there are no log-probabilities."""

    def refusal_reply(self, head: Head, count: int, notice: Notice) -> NoReturn:
        """Raise ValueError: the reply has no place for a notice; a blocked input is an error here."""
        msg = f"{self.route} cannot hold a notice"
        raise ValueError(msg)

    def new_head(self, record_id: str, created: int, model: str) -> Head:
        """Return an empty head: there are no frames."""
        return Head()

    def open_frames(self, head: Head, body: Mapping[str, Any]) -> NoReturn:
        """Raise ValueError: this route never streams."""
        msg = f"{self.route} never streams"
        raise ValueError(msg)
