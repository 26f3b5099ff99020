"""`/v1/completions`, the legacy route: between wire bodies and canonical segments. Pure.

Clients reach it by default settings of their libraries (M-18), so it is judged like chat. Each prompt of a list is a
turn of its own. Prompts that are no text (token arrays, embeddings) become ``media`` segments: a supervisor of text
answers ``unknown/unsupported`` to them, and the policy decides (G-05). An echoed prompt is reply text like any other,
and it is the prompt the model received, redactions included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from proxy.wire import chat_reply, chat_stream, completions_reply, completions_stream
from proxy.wire.adapter import Adapter, Frames, Head, Notice
from proxy.wire.choices import read_n, segment_choices
from proxy.wire.errors import openai_reply
from proxy.wire.inputs import add_inputs, add_unreadable, are_tokens
from proxy.wire.logprobs import add_tokens
from proxy.wire.segments import SegmentList, as_list, as_object
from proxy.wire.sse import DONE
from supervisors.types import Kind, Segment

TENSORS: Final = "application/x-tensors"
"""Media type of prompts given as embeddings."""

_STRUCTURAL: Final = frozenset(
    {
        "model",
        "service_tier",
        "stream_options",
        "stop",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "metadata",
    }
)
_KINDS: Final[Mapping[str, Kind]] = {"suffix": "suffix", "response_format": "tool_def"}
_UNREADABLE: Final[Mapping[str, str]] = {"prompt_embeds": TENSORS, "image_data": "image/unknown"}
"""Fields of vLLM and llama.cpp that put something other than text before the model."""
_CHOICE_STRUCTURE: Final = frozenset({"index", "logprobs"})


def request_segments(body: Mapping[str, Any]) -> tuple[Segment, ...]:
    """Return the segments of a request: the prompts, then everything else that is text.

    Raises:
        RequestError: 400 with the JSON path when the prompt has none of its documented shapes.
    """
    segments = SegmentList("user")
    prompts = add_inputs(segments, body.get("prompt"), "prompt")
    segments.speak("user", max(0, prompts - 1))
    for key, value in body.items():
        if key in _UNREADABLE and value is not None:
            add_unreadable(segments, f"/{key}", _UNREADABLE[key], value)
        elif key not in _STRUCTURAL and key != "prompt":
            segments.add_member("", key, _KINDS.get(key, "other"), value)
    segments.add_formed("", "service_tier", body.get("service_tier"))
    return tuple(segments.found)


def reply_segments(
    reply: Mapping[str, Any], turn: int, body: Mapping[str, Any] | None = None
) -> dict[int, tuple[Segment, ...]]:
    """Return the segments of each choice of a whole reply, by choice index.

    Raises:
        ValueError: the reply has no list of choices, or a choice has no distinct integer index.
    """
    return segment_choices(reply, turn, _choice_segments)


def _choice_segments(value: object, path: str, index: int, turn: int) -> tuple[Segment, ...]:
    segments = SegmentList("assistant", turn, index)
    choice = as_object(value)
    if choice is None:
        segments.add(path, "other", value)
        return tuple(segments.found)
    for key, child in choice.items():
        if key == "finish_reason":
            segments.add_formed(path, key, child)
        elif key not in _CHOICE_STRUCTURE:
            segments.add_member(path, key, completions_stream.KINDS.get(key, "other"), child)
    if choice.get("logprobs") is not None:
        add_tokens(segments, choice["logprobs"], f"{path}/logprobs", choice)
    return tuple(segments.found)


class CompletionsAdapter:
    """The legacy completions family for the pipeline."""

    route = "/v1/completions"
    upstream_path = "/completions"
    param = "prompt"
    terminator = DONE
    judges_numbers = False
    request_segments = staticmethod(request_segments)
    reply_segments = staticmethod(reply_segments)
    finish_reasons = staticmethod(chat_reply.finish_reasons)
    block_choices = staticmethod(completions_reply.block_choices)
    mask_logprobs = staticmethod(completions_reply.mask_logprobs)
    refusal_reply = staticmethod(completions_reply.refusal_reply)
    error_reply = staticmethod(openai_reply)

    def unseen_history(self, body: Mapping[str, Any]) -> bool:
        """Return false: a completion request carries its whole prompt."""
        return False

    def choice_count(self, body: Mapping[str, Any]) -> int:
        """Return the number of prompts times `n`: choice k of prompt p is number p * n + k."""
        n = read_n(body)
        prompts = as_list(body.get("prompt"))
        return n if prompts is None or are_tokens(prompts) else n * len(prompts)

    def notice(self, body: Mapping[str, Any], text: str) -> Notice:
        """Return the notice; this route has one place for text."""
        return Notice(text)

    def new_head(self, record_id: str, created: int, model: str) -> Head:
        """Return a head for a reply that the upstream did not begin."""
        return Head({"id": f"cmpl-{record_id}", "created": created, "model": model})

    def open_frames(self, head: Head, body: Mapping[str, Any]) -> Frames:
        """Return the frames of one streamed reply."""
        return chat_stream.ChatFrames(head, completions_stream.STYLE)


COMPLETIONS: Final[Adapter] = CompletionsAdapter()
