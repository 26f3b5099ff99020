"""Write the request to a guard model: a pure function of card, call and question (GU-08, GU-15 to GU-20)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from supervisors.card import Card, Server
from supervisors.material import Call, Turn, write_transcript
from supervisors.parsers.words import LastLine
from supervisors.templates.template import Template, compile_marks, fill, neutralise
from supervisors.types import ChatRequest

_OPENER = Turn("user", ".")
"""A conversation that starts with the assistant gets this first user turn (GU-15)."""


@dataclass(frozen=True, slots=True)
class Question:
    """The criterion of one call: its name, its wording, and whether the wording is the operator's own."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Wording:
    """The options of a supervisor that change the request.

    Args:
        server: flavour of the server.
        policy: the operator's policy, empty for the card's own.
        logprobs: whether log-probabilities may be asked for.
    """

    server: Server
    policy: str = ""
    logprobs: bool = True


@dataclass(frozen=True, slots=True)
class Rendered:
    """A request and what was done to the judged text.

    Args:
        request: ready to send.
        text: the judged text as sent, to recognise a server that continues it (GU-12).
        neutralised: marks broken inside judged text and context.
    """

    request: ChatRequest
    text: str
    neutralised: int


def render(card: Card, call: Call, question: Question | None, wording: Wording) -> Rendered:
    """Render one call.

    Args:
        card: whose request.
        call: what is judged.
        question: criterion, for guards that are asked one.
        wording: options of the supervisor.
    """
    template = card.find_template()
    pattern = template.mark_pattern if template else compile_marks()
    text, count = neutralise(call.text, pattern)
    context: list[Turn] = []
    for turn in call.context:
        broken, more = neutralise(turn.text, pattern)
        context.append(replace(turn, text=broken))
        count += more
    clean = replace(call, text=text, context=tuple(context))
    request = ChatRequest(
        max_tokens=card.max_tokens,
        top_logprobs=card.top_logprobs if wording.logprobs and card.score in ("pair", "codes") else None,
        extra=_extra(card, question, wording.server),
    )
    if template is None:
        request = replace(request, messages=_to_messages(card, clean, _system(question, card, wording.server)))
    else:
        request = _fill_template(card, template, clean, _values(card, template, clean, question, wording), request)
    return Rendered(request, text, count)


def _extra(card: Card, question: Question | None, server: Server) -> Mapping[str, Any]:
    """Return further members of the body; nothing in it is shared with the card (GU-04)."""
    extra: dict[str, Any] = {**card.server_args.get(server, {})}
    own = bool(question and question.text and card.custom_template_args and _is_own(card, question))
    args = card.custom_template_args if own else card.template_args
    if args and server != "ollama":
        values = {"criterion": question.text, "criterion_name": question.name} if question else {}
        extra["chat_template_kwargs"] = _fill_args(args, values)
    if card.reasoning_effort is not None:
        extra["reasoning_effort"] = card.reasoning_effort
    return extra


def _is_own(card: Card, question: Question) -> bool:
    """Say whether a criterion carries a text although the model knows its criteria by name."""
    criterion = card.criteria.get(question.name)
    return criterion is not None and bool(criterion.text or criterion.prompt or criterion.response)


def _fill_args(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return fill(value, values)
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return {key: _fill_args(member, values) for key, member in members.items()}
    if isinstance(value, list | tuple):
        return [_fill_args(member, values) for member in cast("Sequence[Any]", value)]
    return value


def _system(question: Question | None, card: Card, server: Server) -> str:
    """Return the system message: only Ollama takes the criterion there (GU-11)."""
    if server != "ollama" or question is None or not card.template_args:
        return ""
    return question.text or question.name


def _to_messages(card: Card, call: Call, system: str = "", closing: str = "") -> tuple[Mapping[str, Any], ...]:
    turns = [*call.context, Turn("user" if call.side == "prompt" else "assistant", call.text)]
    if turns[0].speaker == "assistant":
        turns.insert(0, _OPENER)
    if card.alternate:
        turns = _merge(turns)
    if closing:
        turns.append(Turn("user", closing))
    messages = [{"role": turn.speaker, "content": _content(card, turn.text)} for turn in turns]
    return tuple([{"role": "system", "content": _content(card, system)}, *messages] if system else messages)


def _merge(turns: Sequence[Turn]) -> list[Turn]:
    merged: list[Turn] = []
    for turn in turns:
        if merged and merged[-1].speaker == turn.speaker:
            merged[-1] = replace(turn, text=f"{merged[-1].text}\n\n{turn.text}")
        else:
            merged.append(turn)
    return merged


def _content(card: Card, text: str) -> object:
    return [{"type": "text", "text": text}] if card.content == "parts" else text


def _values(
    card: Card, template: Template, call: Call, question: Question | None, wording: Wording
) -> Mapping[str, str]:
    judged = Turn("user" if call.side == "prompt" else "assistant", call.text)
    parser = card.build_parser()
    last = parser if isinstance(parser, LastLine) else None
    return {
        "prompt": call.text if call.side == "prompt" else write_transcript(call.context),
        "response": call.text if call.side == "response" else template.empty_response,
        "text": call.text,
        "conversation": _write_conversation(template, [*call.context, judged]),
        "categories": "" if wording.policy else _list_categories(card),
        "policy": wording.policy or card.policy,
        "criterion": question.text or question.name if question else "",
        "criterion_name": question.name if question else "",
        "mode": card.mode,
        "side": template.user_name if call.side == "prompt" else template.assistant_name,
        "unsafe_word": last.unsafe[0] if last else "1",
        "safe_word": last.safe[0] if last else "0",
    }


def _write_conversation(template: Template, turns: Sequence[Turn]) -> str:
    if len(turns) == 1 and turns[0].speaker == "user" and not template.label_single:
        return turns[0].text
    names = {"user": template.user_name, "assistant": template.assistant_name}
    return "\n\n".join([f"{names[turn.speaker]}: {turn.text}" for turn in turns])


def _list_categories(card: Card) -> str:
    """Return the categories as the guard shall see them: code, name, and description if the card has one."""
    rows = card.find_taxonomy().rows
    lines: list[str] = []
    for key in rows or card.category_texts:
        names = rows[key].name if key in rows else ()
        head = f"{key}: {names[0]}." if names else f"{key}."
        lines.append(f"{head} {card.category_texts[key]}" if key in card.category_texts else head)
    return "\n".join(lines)


def _fill_template(
    card: Card, template: Template, call: Call, values: Mapping[str, str], request: ChatRequest
) -> ChatRequest:
    shape = template.shape(call.side)
    if shape.text:
        return replace(request, prompt=fill(shape.text, values))
    if template.layout == "conversation":
        return replace(request, messages=_to_messages(card, call, fill(shape.system, values), fill(shape.user, values)))
    system = [{"role": "system", "content": fill(shape.system, values)}] if shape.system else []
    return replace(request, messages=(*system, {"role": "user", "content": fill(shape.user, values)}))
