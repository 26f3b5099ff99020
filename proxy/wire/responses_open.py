"""What has left of a streamed response: its items as the caller knows them, and the events that close them. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from proxy.wire.responses_texts import TEXTS
from proxy.wire.segments import as_list, as_object, is_word

Event = tuple[str, dict[str, Any]]
"""Type and members of an event that is still to be numbered."""
Holder = Literal["content", "summary"]

_LEAF: Final[Mapping[str, str]] = {"refusal": "refusal"}
_DONE: Final[Mapping[str, str]] = {
    "output_text": "response.output_text.done",
    "refusal": "response.refusal.done",
    "reasoning_text": "response.reasoning_text.done",
    "summary_text": "response.reasoning_summary_text.done",
}
_IMPLIED: Final[Mapping[str, str]] = {
    "response.output_text.delta": "output_text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning_text",
    "response.reasoning_summary_text.delta": "summary_text",
}
_NEVER_INCOMPLETE: Final = frozenset({"web_search_call", "image_generation_call"})


@dataclass(slots=True)
class OpenPart:
    """One part of an item, as far as it has left.

    Args:
        part: the part's object.
        texts: deltas that have left, on top of the text in `part`.
        announced: its `added` event has left.
        closed: its `done` event has left.
    """

    part: dict[str, Any]
    texts: list[str] = field(default_factory=list[str])
    announced: bool = True
    closed: bool = False

    @property
    def leaf(self) -> str:
        """Return the member that holds the text."""
        return _LEAF.get(str(self.part.get("type")), "text")

    def settle(self) -> dict[str, Any]:
        """Put the deltas into the part and return it."""
        if self.texts:
            self.part[self.leaf] = f"{self.part.get(self.leaf) or ''}{''.join(self.texts)}"
            self.texts = []
        return self.part


@dataclass(slots=True)
class OpenItem:
    """One output item, as far as it has left."""

    index: int
    item: dict[str, Any]
    parts: dict[tuple[Holder, int], OpenPart] = field(default_factory=dict[tuple[Holder, int], OpenPart])
    fields: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    done: bool = False

    @property
    def is_message(self) -> bool:
        """Say whether the item can take a notice."""
        return self.item.get("type") == "message"

    @property
    def spoke(self) -> bool:
        """Say whether any text of the item has left."""
        return any(part.texts or part.part.get(part.leaf) for part in self.parts.values())

    def open_part(self) -> tuple[tuple[Holder, int], OpenPart] | None:
        """Return the last part that is still open."""
        parts = [(place, part) for place, part in self.parts.items() if not part.closed]
        return parts[-1] if parts else None

    def settle(self) -> dict[str, Any]:
        """Return the item with everything that has left in it."""
        holders: tuple[Holder, ...] = ("content", "summary")
        for holder in holders:
            parts = [part.settle() for place, part in sorted(self.parts.items()) if place[0] == holder]
            if parts:
                self.item[holder] = parts
        for leaf, texts in self.fields.items():
            self.item[leaf] = f"{self.item.get(leaf) or ''}{''.join(texts)}"
        self.fields = {}
        return self.item

    def close_part(self, place: tuple[Holder, int], *, as_json: bool = False) -> Iterator[Event]:
        """Yield the events that end a part validly.

        Args:
            place: where it stands in the item.
            as_json: the caller parses a text that is said to be done, so a cut one is not (W-22).
        """
        part = self.parts[place]
        part.closed = True
        settled = part.settle()
        kind = str(settled.get("type"))
        at = {"item_id": self.item.get("id"), "output_index": self.index, _index_of(place[0]): place[1]}
        if kind in _DONE and not (as_json and kind == "output_text"):
            said: dict[str, Any] = {part.leaf: settled.get(part.leaf) or ""}
            yield _DONE[kind], {**at, **said, **({"logprobs": []} if kind == "output_text" else {})}
        if part.announced:
            name = "response.content_part.done" if place[0] == "content" else "response.reasoning_summary_part.done"
            yield name, {**at, "part": settled}

    def close(self) -> Iterator[Event]:
        """Yield the events that end the item validly, as incomplete."""
        for place, part in list(self.parts.items()):
            if not part.closed:
                yield from self.close_part(place)
        self.done = True
        status = "failed" if is_word(self.item.get("type"), _NEVER_INCOMPLETE) else "incomplete"
        self.item["status"] = status
        yield "response.output_item.done", {"output_index": self.index, "item": self.settle()}

    def add_part(self, part: dict[str, Any]) -> Iterator[Event]:
        """Yield the events of one whole part of the proxy's own: added, delta, done."""
        index = 1 + max([number for holder, number in self.parts if holder == "content"], default=-1)
        kind = str(part["type"])
        own = OpenPart({**part, _LEAF.get(kind, "text"): ""})
        self.parts["content", index] = own
        at = {"item_id": self.item.get("id"), "output_index": self.index, "content_index": index}
        yield "response.content_part.added", {**at, "part": dict(own.part)}
        yield self.say(own, index, part[own.leaf])
        yield from self.close_part(("content", index))

    def say(self, part: OpenPart, index: int, text: str) -> Event:
        """Return the delta that adds a text of the proxy's own to an open part."""
        part.texts.append(text)
        at = {"item_id": self.item.get("id"), "output_index": self.index, "content_index": index, "delta": text}
        if part.part.get("type") == "refusal":
            return "response.refusal.delta", at
        return "response.output_text.delta", {**at, "logprobs": []}


class Sent:
    """The items of a response as the caller knows them."""

    def __init__(self) -> None:
        self.items: dict[int, OpenItem] = {}

    def note(self, event: Mapping[str, Any]) -> None:
        """Note one event that leaves now."""
        name = event.get("type")
        if not isinstance(name, str):
            return
        text = TEXTS.get(name)
        if text is not None:
            if not text.done:
                self._note_delta(name, event)
        elif name in ("response.output_item.added", "response.output_item.done"):
            self._note_item(event, done=name.endswith("done"))
        elif name.startswith(("response.content_part.", "response.reasoning_summary_part.")):
            self._note_part(name, event)

    def _note_item(self, event: Mapping[str, Any], *, done: bool) -> None:
        item = as_object(event.get("item"))
        if item is None:
            return
        index = _number(event, "output_index")
        made = self.items[index] = OpenItem(index, dict(item), done=done)
        holders: tuple[Holder, ...] = ("content", "summary")
        for holder in holders:
            for number, value in enumerate(as_list(item.get(holder)) or []):
                part = as_object(value)
                if part is not None:
                    made.parts[holder, number] = OpenPart(dict(part), closed=done)

    def _note_part(self, name: str, event: Mapping[str, Any]) -> None:
        item = self.items.get(_number(event, "output_index"))
        part = as_object(event.get("part"))
        if item is None or part is None:
            return
        holder: Holder = "content" if name.startswith("response.content_part.") else "summary"
        place = (holder, _number(event, _index_of(holder)))
        item.parts[place] = OpenPart(dict(part), closed=name.endswith(".done"))

    def _note_delta(self, name: str, event: Mapping[str, Any]) -> None:
        item = self.items.get(_number(event, "output_index"))
        delta = event.get("delta")
        if item is None or not isinstance(delta, str):
            return
        kind = _IMPLIED.get(name)
        if kind is None:
            item.fields.setdefault(TEXTS[name].leaf, []).append(delta)
            return
        holder: Holder = "summary" if kind == "summary_text" else "content"
        place = (holder, _number(event, _index_of(holder)))
        part = item.parts.get(place)
        if part is None:  # some servers announce no parts
            part = item.parts[place] = OpenPart({"type": kind}, announced=False)
        part.texts.append(delta)

    def open_items(self) -> list[OpenItem]:
        """Return the items that have begun and not ended, in order."""
        return [item for _, item in sorted(self.items.items()) if not item.done]

    def begin(self, item: dict[str, Any]) -> tuple[OpenItem, Event]:
        """Add an item of the proxy's own behind all others, and return it with the event that announces it."""
        index = 1 + max(self.items, default=-1)
        made = self.items[index] = OpenItem(index, item)
        return made, ("response.output_item.added", {"output_index": index, "item": dict(item)})

    def output(self) -> list[dict[str, Any]]:
        """Return the output list of a response object that ends now."""
        return [item.settle() for _, item in sorted(self.items.items())]


def _index_of(holder: Holder) -> str:
    return "content_index" if holder == "content" else "summary_index"


def _number(event: Mapping[str, Any], key: str) -> int:
    value = event.get(key)
    return value if isinstance(value, int) else 0
