"""What a guard model is shown of an exchange, and in how many calls (guards GU-15 to GU-17, guarding G-12, G-13).

Every selected text is in at least one call, whole; only context may be left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from supervisors.decoded import append_decoded
from supervisors.narrowing import EVERYTHING, Narrowing, select
from supervisors.parsers.reading import Side
from supervisors.types import Exchange, Scope, Segment

LOOP_CHARS = 10_000
"""Up to here a plan is made on the event loop; decoding a longer text takes more than a millisecond."""

Speaker = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn in the two roles guards know.

    Args:
        speaker: tool results count as user, tool calls as assistant.
        text: all its selected texts.
    """

    speaker: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """What one call judges.

    Args:
        side: as what it is judged.
        text: the judged text; a whole turn, or one chunk of it.
        context: turns before it, oldest first.
        scope: scope it belongs to.
        chunk: index of the chunk, None when the text is whole.
    """

    side: Side
    text: str
    context: tuple[Turn, ...] = ()
    scope: Scope = "conversation"
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which texts are judged, and how.

    Args:
        side: as what they are judged.
        whole: all turns as one text, instead of each turn after those before it.
        max_chars: most characters of judged text and context in one call.
        overlap: characters two neighbouring chunks share.
        scopes: each in calls of its own.
        narrowing: what of them.
    """

    side: Side
    whole: bool
    max_chars: int
    overlap: int
    scopes: tuple[Scope, ...] = ("conversation",)
    narrowing: Narrowing = EVERYTHING


def count_chars(exchange: Exchange, selection: Selection) -> int:
    """Count the selected characters: more than all calls can hold need no plan to be too many."""
    return sum([len(s.text) for scope in selection.scopes for s in select(exchange, scope, selection.narrowing)])


def has_media(exchange: Exchange, selection: Selection) -> bool:
    """Say whether something is selected that a text guard cannot read (G-05)."""
    return any(
        segment.kind == "media"
        for scope in selection.scopes
        for segment in select(exchange, scope, selection.narrowing)
    )


def plan_calls(exchange: Exchange, selection: Selection) -> Iterator[Call]:
    """Yield the calls that together judge every selected text."""
    for scope in selection.scopes:
        chosen = [segment for segment in select(exchange, scope, selection.narrowing) if segment.kind != "media"]
        if scope != "conversation":
            yield from _cut(Call(selection.side, write(chosen), scope=scope), (), selection)
        elif selection.whole:
            yield from _plan_whole(exchange, chosen, selection)
        elif exchange.stage == "output":
            context = to_turns(exchange.request) if selection.side == "response" else ()
            yield from _cut(Call(selection.side, write(chosen)), context, selection)
        else:
            yield from _plan_turns(exchange, chosen, selection)


def _plan_whole(exchange: Exchange, chosen: Sequence[Segment], selection: Selection) -> Iterator[Call]:
    """Judge all selected turns as one text; on output the request is its context."""
    context = to_turns(exchange.request) if exchange.stage == "output" and selection.side == "response" else ()
    turns = to_turns(chosen)
    text = turns[0].text if len(turns) == 1 else write_transcript(turns)
    yield from _cut(Call(selection.side, text), context, selection)


def _plan_turns(exchange: Exchange, chosen: Sequence[Segment], selection: Selection) -> Iterator[Call]:
    """Judge each turn of the judged role after the turns before it.

    The turns of the other role are seen as context. One that no call shows, because it comes last or did not fit,
    gets a call of its own: nothing is dropped to satisfy a template.
    """
    judged = {id(segment) for segment in chosen}
    turns = [
        (
            Turn(
                _speaker(group[0]), append_decoded(write(group))
            ),  # this is how the turns of the other role are judged
            write([segment for segment in group if id(segment) in judged]),
        )
        for group in _group(exchange.request)
    ]
    wanted: Speaker = "user" if selection.side == "prompt" else "assistant"
    asked = [i for i, (_, text) in enumerate(turns) if text.strip()]
    first = {i for i in asked if selection.narrowing.roles is not None or turns[i][0].speaker == wanted}
    shown: set[int] = set()
    for i in [*sorted(first), *[i for i in asked if i not in first]]:
        if i in shown and i not in first:
            continue
        before = [turn for turn, _ in turns[:i]]
        for call in _cut(Call(selection.side, turns[i][1]), before, selection):
            kept = len([turn for turn in call.context if turn.text.strip()])
            filled = [k for k in range(i) if turns[k][0].text.strip()]
            shown.update(filled[len(filled) - kept :])
            yield call
        shown.add(i)


def _cut(call: Call, before: Sequence[Turn], selection: Selection) -> Iterator[Call]:
    """Yield the call, or one call a chunk of its text, each with the newest context that fits (GU-17)."""
    if not call.text.strip():
        return
    text = append_decoded(call.text)
    if len(text) <= selection.max_chars:
        yield replace(call, text=text, context=_fit(before, selection.max_chars - len(text)))
        return
    for index, chunk in enumerate(cut_text(text, selection.max_chars, selection.overlap)):
        yield replace(call, text=chunk, context=_fit(before, selection.max_chars - len(chunk)), chunk=index)


def cut_text(text: str, max_chars: int, overlap: int) -> Iterator[str]:
    """Yield chunks of at most `max_chars` that together hold every character, neighbours sharing `overlap`."""
    step = max_chars - overlap
    for start in range(0, max(len(text) - overlap, 1), step):
        yield text[start : start + max_chars]


def _fit(turns: Sequence[Turn], budget: int) -> tuple[Turn, ...]:
    """Return the newest whole turns that fit, oldest first."""
    kept: list[Turn] = []
    for turn in reversed(turns):
        if not turn.text.strip():
            continue
        budget -= len(turn.text)
        if budget < 0:
            break
        kept.append(turn)
    return tuple(reversed(kept))


def _speaker(segment: Segment) -> Speaker:
    return "assistant" if segment.role == "assistant" else "user"


def _group(segments: Iterable[Segment]) -> Iterator[list[Segment]]:
    """Yield the readable conversation segments message by message."""
    readable = [s for s in segments if s.scope == "conversation" and s.kind not in ("media", "opaque")]
    for _, group in groupby(readable, key=lambda segment: (segment.turn, _speaker(segment))):
        yield list(group)


def to_turns(segments: Iterable[Segment]) -> tuple[Turn, ...]:
    """Return the conversation as turns of user and assistant; system text and tool definitions are left out."""
    turns = [Turn(_speaker(group[0]), write(group)) for group in _group(segments)]
    return tuple([turn for turn in turns if turn.text.strip()])


def write_transcript(turns: Sequence[Turn], user: str = "User", assistant: str = "Assistant") -> str:
    """Return the turns one after another, each with its speaker, or plain if all are of one."""
    if len({turn.speaker for turn in turns}) <= 1:
        return "\n\n".join([turn.text for turn in turns])
    names = {"user": user, "assistant": assistant}
    return "\n\n".join([f"{names[turn.speaker]}: {turn.text}" for turn in turns])


def write(segments: Sequence[Segment]) -> str:
    """Return the texts of one message; a tool call is written as JSON with its name and arguments (GU-15)."""
    parts: list[str] = []
    for _, group in groupby(segments, key=_place):
        members = list(group)
        if any(segment.kind == "tool_args" for segment in members):
            parts.append(_write_call(members))
        else:
            parts.extend([segment.text for segment in members])
    return "\n".join([part for part in parts if part])


def _place(segment: Segment) -> str:
    """Return what the parts of one tool call have in common: the object that holds its name and its arguments."""
    if segment.kind not in ("tool_args", "name"):
        return segment.path
    return segment.path.partition("#")[0].rpartition("/")[0]


def _write_call(members: Sequence[Segment]) -> str:
    arguments = {
        segment.path.partition("#")[2] or segment.path.rpartition("/")[2]: segment.text
        for segment in members
        if segment.kind == "tool_args"
    }
    names = [segment.text for segment in members if segment.kind == "name"]
    call: dict[str, object] = {"name": " ".join(names)} if names else {}
    return json.dumps({**call, "arguments": arguments}, ensure_ascii=False)
