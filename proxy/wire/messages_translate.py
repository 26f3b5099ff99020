"""Anthropic Messages for models behind chat completions: requests there, whole replies back. Pure.

A block or tool that has no counterpart is refused by name, never dropped in silence. Left out are thinking of other
models, which is signed, and the hints in `_LEFT_OUT`. Replies are judged after they have been translated (S-11c).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from proxy.wire.body import load_exactly
from proxy.wire.errors import invalid
from proxy.wire.nested import TEXTS, walk_parts
from proxy.wire.segments import as_list, as_object
from supervisors.types import Kind

_LEFT_OUT: Final = frozenset(
    {
        "messages",
        "system",
        "thinking",
        "service_tier",
        "cache_control",
        "context_management",
        "container",
        "inference_geo",
        "mcp_servers",
    }
)
_UNSIGNED: Final = ("thinking", "redacted_thinking")
_STOPS: Final[Mapping[str, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_CHOICES: Final[Mapping[str, str]] = {"auto": "auto", "any": "required", "none": "none"}

Json = dict[str, Any]


def to_chat(body: Mapping[str, Any]) -> Json:
    """Return the chat request that asks for the same.

    Raises:
        RequestError: 400 with the path of what chat completions cannot express.
    """
    messages = _system(body.get("system"))
    for turn, message in enumerate(body["messages"]):
        messages += _message(message, f"messages[{turn}]")
    chat: Json = {"messages": messages}
    for key, value in body.items():
        translate = _FIELDS.get(key)
        if translate is not None:
            chat |= translate(value) if value is not None else {}
        elif key not in _LEFT_OUT:  # fields of both APIs, and those that nobody here knows (W-07)
            chat[key] = value
    if body.get("stream"):
        chat["stream_options"] = {"include_usage": True}
    return chat


def _system(system: object) -> list[Json]:
    if not system:
        return []
    content = system if isinstance(system, str) else _plain([_text_part(part) for part in as_list(system) or []])
    return [{"role": "system", "content": content}]


def _text_part(block: object) -> Json:
    return {"type": "text", "text": str((as_object(block) or {}).get("text", ""))}


def _plain(parts: Sequence[Json]) -> Any:
    """Return one text as a string, which every server takes, and anything else as parts."""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else list(parts)


def _message(message: Mapping[str, Any], path: str) -> Iterator[Json]:
    role, content = message["role"], message["content"]
    if isinstance(content, str):
        yield {"role": role, "content": content}
    elif role == "assistant":
        yield _assistant(content, path)
    else:
        yield from _user(role, content, path)


def _assistant(blocks: Sequence[object], path: str) -> Json:
    parts: list[Json] = []
    calls: list[Json] = []
    for index, value in enumerate(blocks):
        block = as_object(value) or {}
        match block.get("type"):
            case "text":
                parts.append(_text_part(block))
            case "tool_use":
                called = {"name": block.get("name"), "arguments": orjson.dumps(block.get("input") or {}).decode()}
                calls.append({"id": block.get("id"), "type": "function", "function": called})
            case kind if kind in _UNSIGNED:
                pass  # written for another model, and signed
            case kind:
                raise _no_counterpart(kind, f"{path}.content[{index}]")
    message: Json = {"role": "assistant", "content": _plain(parts) if parts else None}
    return message | ({"tool_calls": calls} if calls else {})


def _user(role: str, blocks: Sequence[object], path: str) -> Iterator[Json]:
    """Yield the tool results as messages of their own, then the rest of the turn."""
    parts: list[Json] = []
    for index, value in enumerate(blocks):
        block = as_object(value) or {}
        at = f"{path}.content[{index}]"
        if block.get("type") == "tool_result":
            results = _parts(block.get("content"), at)
            texts = [part for part in results if part["type"] == "text"]
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": _plain(texts) if texts else ""}
            parts += [part for part in results if part["type"] != "text"]  # tool messages hold text only
        else:
            parts += _parts([block], at)
    if parts:
        yield {"role": role, "content": _plain(parts)}


def _parts(content: object, path: str) -> list[Json]:
    if content is None or isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [part for value in as_list(content) or [] for part in _part(as_object(value) or {}, path)]


def _part(block: Mapping[str, Any], path: str) -> list[Json]:
    match block.get("type"):
        case "text":
            return [_text_part(block)]
        case "image":
            return [{"type": "image_url", "image_url": {"url": _url(block.get("source"), path)}}]
        case "document":
            return _document(block, path)
        case "search_result":
            found = [{"type": "text", "text": str(block[key])} for key in ("title", "source") if block.get(key)]
            return [*found, *_parts(block.get("content"), path)]
        case kind:
            raise _no_counterpart(kind, path)


def _document(block: Mapping[str, Any], path: str) -> list[Json]:
    source = as_object(block.get("source")) or {}
    heads = [{"type": "text", "text": str(block[key])} for key in ("title", "context") if block.get(key)]
    match source.get("type"):
        case "text":
            return [*heads, {"type": "text", "text": str(source.get("data", ""))}]
        case "content":
            return [*heads, *_parts(source.get("content"), path)]
        case "base64":
            name = str(block.get("title") or "document.pdf")
            return [*heads, {"type": "file", "file": {"filename": name, "file_data": _url(source, path)}}]
        case kind:
            raise _no_counterpart(f"document of {kind}", path)


def _url(value: object, path: str) -> str:
    source = as_object(value) or {}
    match source.get("type"):
        case "url":
            return str(source.get("url", ""))
        case "base64":
            return f"data:{source.get('media_type')};base64,{source.get('data')}"
        case kind:
            raise _no_counterpart(f"source of {kind}", path)


def _no_counterpart(kind: object, path: str) -> Exception:
    return invalid(f"The model behind this name cannot take {str(kind)[:64]!r} here.", path)


def _tools(value: object) -> Json:
    found: list[Json] = []
    for index, entry in enumerate(as_list(value) or []):
        tool = as_object(entry) or {}
        if tool.get("type") not in (None, "custom"):
            raise _no_counterpart(tool.get("type"), f"tools[{index}]")
        function = {key: tool[key] for key in ("name", "description", "strict") if key in tool}
        found.append({"type": "function", "function": {**function, "parameters": tool.get("input_schema")}})
    return {"tools": found} if found else {}


def _tool_choice(value: object) -> Json:
    choice = as_object(value) or {}
    parallel = {"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") else {}
    if choice.get("type") == "tool":
        return {"tool_choice": {"type": "function", "function": {"name": choice.get("name")}}, **parallel}
    word = _CHOICES.get(str(choice.get("type")))
    if word is None:
        raise _no_counterpart(choice.get("type"), "tool_choice.type")
    return {"tool_choice": word, **parallel}


def _output_config(value: object) -> Json:
    options = as_object(value) or {}
    effort = {"reasoning_effort": options["effort"]} if options.get("effort") else {}
    return effort | (_output_format(options["format"]) if options.get("format") else {})


def _output_format(value: object) -> Json:
    wanted = as_object(value) or {}
    schema = {"name": "output", "schema": wanted.get("schema"), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _metadata(value: object) -> Json:
    user = (as_object(value) or {}).get("user_id")
    return {"user": user} if isinstance(user, str) else {}


def _stop(value: object) -> Json:
    return {"stop": value}


_FIELDS: Final = {
    "tools": _tools,
    "tool_choice": _tool_choice,
    "output_config": _output_config,
    "output_format": _output_format,
    "metadata": _metadata,
    "stop_sequences": _stop,
}


def to_message(reply: Mapping[str, Any]) -> Json:
    """Return the message that a chat completion says.

    Raises:
        ValueError: the reply is no chat completion, or holds something that a message cannot say.
    """
    choices = as_list(reply.get("choices")) or [None]
    choice = as_object(choices[0])
    message = as_object((choice or {}).get("message"))
    if choice is None or message is None:
        msg = "the reply has no choice with a message"
        raise ValueError(msg)
    blocks = [new_block(kind) | {kind: text} for kind, text in texts_of(message)]
    blocks += [tool_block(call, number) for number, call in enumerate(calls_of(message))]
    return {
        **message_start(reply),
        "content": blocks,
        "stop_reason": stop_reason(choice.get("finish_reason")),
        "usage": to_usage(as_object(reply.get("usage")) or {}),
    }


def message_start(reply: Mapping[str, Any]) -> Json:
    """Return the message as it begins: no content, not stopped, nothing spent yet."""
    return {
        "id": reply.get("id") or "msg_0",
        "type": "message",
        "role": "assistant",
        "model": reply.get("model") or "",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def texts_of(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts of a chat message or delta with the kind of block they belong in, those of parts one by one.

    Raises:
        ValueError: the content is neither text nor parts, or a part holds no text: nothing is left out in silence.
    """
    for key in _THOUGHTS:
        thoughts = [leaf for leaf in walk_parts(message.get(key), "reasoning") if leaf.kind is not None]
        yield from [("thinking", str(leaf.value)) for leaf in thoughts]
        if thoughts:
            break  # some servers send the same under several names
    yield from _read_parts(message.get("content"), "text")
    yield from _read_parts(message.get("refusal"), "refusal")


def calls_of(message: Mapping[str, Any]) -> list[Json]:
    """Return the tool calls of a chat message, or the fragments of a delta, those in the old `function_call` too.

    Raises:
        ValueError: one that is no call of a function, or sound: nothing is left out in silence.
    """
    if message.get("audio") is not None:
        msg = "the reply has sound, which a message cannot hold"
        raise ValueError(msg)
    calls = [as_object(call) or {} for call in as_list(message.get("tool_calls")) or []]
    if any((call.get("type") or "function") != "function" for call in calls):
        msg = "the reply has a tool call that is no call of a function"
        raise ValueError(msg)
    legacy = as_object(message.get("function_call")) or {}
    if any(legacy.values()):  # some servers send an empty one beside every text
        calls.append({"index": _LEGACY, "function": legacy})
    return calls


_LEGACY: Final = -1
"""Index of the call in `function_call`, which has none of its own."""
_THOUGHTS: Final = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_BLOCK: Final[Mapping[str, str]] = {"text": "text", "refusal": "text", "reasoning": "thinking"}


def _read_parts(value: object, kind: Kind) -> Iterator[tuple[str, str]]:
    parts = as_list(value)
    for part in [value] if parts is None else parts:
        inner = as_object(part)
        if not (part is None or isinstance(part, str) or (inner is not None and not TEXTS.keys().isdisjoint(inner))):
            msg = "the reply has content that is no text"
            raise ValueError(msg)
    yield from [(_BLOCK[leaf.kind], str(leaf.value)) for leaf in walk_parts(value, kind) if leaf.kind is not None]


def new_block(kind: str) -> Json:
    """Return an empty block; thinking that nobody signed has an empty signature."""
    return {"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {})


def tool_block(call: Mapping[str, Any], number: int) -> Json:
    """Return a tool call as a block.

    Args:
        call: of a chat message.
        number: its place among the calls, which is its id when it has none: results go by ids.

    Raises:
        ValueError: it names no function, or the arguments are no JSON object.
    """
    called = as_object(call.get("function")) or {}
    name = called.get("name")
    if not isinstance(name, str) or not name:
        msg = "a tool call names no function"
        raise ValueError(msg)
    written = called.get("arguments") or "{}"
    arguments = load_exactly(written) if isinstance(written, str) else written
    if not isinstance(arguments, dict):
        msg = "the arguments of a tool call are no JSON object"
        raise ValueError(msg)  # noqa: TRY004 - one error for a reply that cannot be translated
    return {"type": "tool_use", "id": call.get("id") or f"toolu_{number}", "name": name, "input": arguments}


def stop_reason(finish: object) -> str | None:
    """Return Anthropic's word for a finish reason; None when the model server gave none."""
    return _STOPS.get(finish, "end_turn") if isinstance(finish, str) else None


def to_usage(usage: Mapping[str, Any]) -> Json:
    """Return the token counts; Anthropic counts cached input apart."""
    cached = _count((as_object(usage.get("prompt_tokens_details")) or {}).get("cached_tokens"))
    counts = {
        "input_tokens": max(0, _count(usage.get("prompt_tokens")) - cached),
        "output_tokens": _count(usage.get("completion_tokens")),
    }
    return counts | ({"cache_read_input_tokens": cached} if cached else {})


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
