"""Choices as chat and legacy completions share them: how many are asked for, and the list in a reply. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from proxy.wire.chat_reply import index_of
from proxy.wire.errors import invalid
from proxy.wire.forms import FORMS, is_plain, is_usage
from proxy.wire.segments import SegmentList, as_list, is_index
from supervisors.types import Segment

ReadChoice = Callable[[object, str, int, int], tuple[Segment, ...]]
"""From a choice, its pointer, its index and the turn of the reply to its segments."""


def read_n(body: Mapping[str, Any]) -> int:
    """Return `n`, 1 when absent.

    Raises:
        RequestError: 400 for anything but a positive integer.
    """
    n = body.get("n")
    if n is None:
        return 1
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise invalid("'n' must be an integer of at least 1.", "n")
    return n


def segment_choices(reply: Mapping[str, Any], turn: int, read_choice: ReadChoice) -> dict[int, tuple[Segment, ...]]:
    """Return the segments of each choice of a whole reply, by choice index.

    Args:
        reply: the upstream's reply.
        turn: turn number of the reply, last of the request + 1.
        read_choice: reads one choice.

    Raises:
        ValueError: the reply has no choices, or a choice has no distinct integer index.
    """
    choices = as_list(reply.get("choices"))
    if not choices:
        msg = "the reply has no list of choices"
        raise ValueError(msg)
    found: dict[int, tuple[Segment, ...]] = {}
    for position, value in enumerate(choices):
        index = index_of(value, position)
        if not is_index(index) or index in found:
            msg = "a choice of the reply has no index of its own"
            raise ValueError(msg)
        found[index] = read_choice(value, f"/choices/{position}", index, turn)
    if not is_plain(reply):
        first = min(found)
        found[first] += _reply_level_segments(reply, first, turn)
    return found


def _reply_level_segments(body: Mapping[str, Any], index: int, turn: int) -> tuple[Segment, ...]:
    segments = SegmentList("assistant", turn, index)
    for key, value in body.items():
        if key in FORMS:
            segments.add_formed("", key, value)
        elif key == "usage":
            if not is_usage(value):
                segments.add("/usage", "other", value)
        elif key != "choices":
            segments.add_member("", key, "other", value)
    return tuple(segments.found)
