"""Events of a streamed response that carry one text, and where each keeps it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proxy.wire.nested import walk_parts
from proxy.wire.turns import Place, word
from supervisors.types import Kind


@dataclass(frozen=True, slots=True)
class Text:
    """Where an event about one text field keeps it.

    Args:
        key: member with the text.
        kind: what the text is.
        leaf: last token of the field's pointer.
        holder: list of parts that the field is in, None when it stands in the item itself.
        index: member with the index in that list.
        done: the member holds the whole text, not a delta.
        waits: the field belongs to a call that the caller carries out, so it stays until the final verdict.
    """

    key: str
    kind: Kind
    leaf: str = "text"
    holder: str | None = None
    index: str = "content_index"
    done: bool = False
    waits: bool = False

    def field(self, event: Mapping[str, Any]) -> str:
        """Return the pointer of the field in the response."""
        item = f"/output/{event.get('output_index', 0)}"
        if self.holder is None:
            return f"{item}/{self.leaf}"
        return f"{item}/{self.holder}/{event.get(self.index, 0)}/{self.leaf}"

    def place(self, event: Mapping[str, Any]) -> Place:
        """Return where an event says that its text belongs."""
        return Place(event.get("item_id"), event.get("output_index"), event.get(self.index))

    def tell_apart(self, name: str, event: Mapping[str, Any]) -> tuple[object, ...]:
        """Return what two events of one name have in common that go on with one text."""
        item, output, part = event.get("item_id"), event.get("output_index"), event.get(self.index)
        if type(item) is str and type(output) is int and type(part) is int:
            return name, item, output, part
        return name, word(item), word(output), word(part)


TEXTS: Final[Mapping[str, Text]] = {
    "response.output_text.delta": Text("delta", "text", "text", "content"),
    "response.output_text.done": Text("text", "text", "text", "content", done=True),
    "response.refusal.delta": Text("delta", "refusal", "refusal", "content"),
    "response.refusal.done": Text("refusal", "refusal", "refusal", "content", done=True),
    "response.reasoning_text.delta": Text("delta", "reasoning", "text", "content"),
    "response.reasoning_text.done": Text("text", "reasoning", "text", "content", done=True),
    "response.reasoning_summary_text.delta": Text("delta", "reasoning", "text", "summary", "summary_index"),
    "response.reasoning_summary_text.done": Text("text", "reasoning", "text", "summary", "summary_index", done=True),
    "response.function_call_arguments.delta": Text("delta", "tool_args", "arguments", waits=True),
    "response.function_call_arguments.done": Text("arguments", "tool_args", "arguments", done=True, waits=True),
    "response.custom_tool_call_input.delta": Text("delta", "tool_args", "input", waits=True),
    "response.custom_tool_call_input.done": Text("input", "tool_args", "input", done=True, waits=True),
    "response.mcp_call_arguments.delta": Text("delta", "tool_args", "arguments"),
    "response.mcp_call_arguments.done": Text("arguments", "tool_args", "arguments", done=True),
    "response.code_interpreter_call_code.delta": Text("delta", "tool_args", "code"),
    "response.code_interpreter_call_code.done": Text("code", "tool_args", "code", done=True),
    "response.audio.delta": Text("delta", "media", "data", "audio"),
    "response.audio.transcript.delta": Text("delta", "transcript", "transcript", "audio"),
}


def place_of(event: Mapping[str, Any]) -> Place:
    """Return where an event that nobody knows says that it belongs."""
    parts = [str(event[key]) for key in _PARTS if key in event]
    return Place(event.get("item_id"), event.get("output_index"), "/".join(parts) if parts else None)


_PARTS: Final = ("content_index", "summary_index", "command_index")


def place_at(field: str) -> Place:
    """Return where a field stands in the response."""
    numbers = [int(token) if token.isascii() and token.isdecimal() else None for token in field.split("/")]
    inside = field.startswith("/output/")
    return Place(None, numbers[2] if inside else None, numbers[4] if inside and len(numbers) > _IN_PART else None)


_IN_PART: Final = 5
"""Tokens of a pointer that leads into a part: its leaf stands behind them."""


def running_texts(value: object, kind: Kind) -> Iterator[tuple[Kind, str]]:
    """Yield what a reader may join of a text that is given in parts, with what it is."""
    for leaf in walk_parts(value, kind):
        if leaf.kind is not None:
            yield leaf.kind, str(leaf.value)
