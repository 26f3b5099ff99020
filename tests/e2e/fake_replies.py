"""Bodies of an OpenAI-compatible server: for scripts of tests, and the fake upstream's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def sse(*events: object, done: bool = True) -> list[bytes]:
    """Frame JSON values as server-sent events, with the final ``[DONE]``."""
    frames = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    return [*frames, b"data: [DONE]\n\n"] if done else frames


def chat_reply(text: str = "Hello there.", **changes: object) -> dict[str, Any]:
    """Return a whole chat completion; `changes` replace members of its one choice."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "logprobs": None, "finish_reason": "stop"}
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "fake-model",
        "choices": [choice | changes],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


def chat_chunks(*texts: str, usage: bool = False, finish: str = "stop") -> list[dict[str, Any]]:
    """Return the chunks of a streamed chat completion: role, one a text, finish, and the usage chunk if asked."""

    def chunk(delta: object, finish_reason: str | None = None) -> dict[str, Any]:
        return _chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}], usage=usage)

    chunks = [chunk({"role": "assistant", "content": ""}), *[chunk({"content": text}) for text in texts]]
    chunks.append(chunk({}, finish))
    if usage:
        counts = {"prompt_tokens": 7, "completion_tokens": len(texts), "total_tokens": 7 + len(texts)}
        chunks.append(_chunk([], usage=True) | {"usage": counts})
    return chunks


def _chunk(choices: Sequence[object], *, usage: bool) -> dict[str, Any]:
    base = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1700000000, "model": "fake-model"}
    return base | {"choices": list(choices)} | ({"usage": None} if usage else {})


def default_reply(target: str, body: bytes) -> tuple[int, object]:
    """Answer like a small model: status and JSON value, or a list of frames for a stream."""
    path = target.split("?", maxsplit=1)[0].removeprefix("/v1")
    if path == "/health":
        return 200, {"status": "ok"}
    if path == "/models":
        model = {"id": "fake-model", "object": "model", "created": 1700000000, "owned_by": "fake"}
        return 200, {"object": "list", "data": [model]}
    try:
        asked: dict[str, Any] = json.loads(body)
    except ValueError:
        return 400, {"error": {"message": "not JSON", "type": "invalid_request_error", "param": None, "code": 400}}
    if path == "/chat/completions":
        return 200, _default_chat(asked)
    if path == "/completions":
        choice = {"index": 0, "text": " there.", "logprobs": None, "finish_reason": "stop"}
        return 200, chat_reply() | {"object": "text_completion", "choices": [choice]}
    if path == "/embeddings":
        entry = {"object": "embedding", "index": 0, "embedding": [0.25, -0.5]}
        usage = {"prompt_tokens": 2, "total_tokens": 2}
        return 200, {"object": "list", "data": [entry], "model": "fake-model", "usage": usage}
    return 404, {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}


def _default_chat(body: dict[str, Any]) -> object:
    if not body.get("stream"):
        return chat_reply()
    options: dict[str, bool] = body.get("stream_options") or {}
    return sse(*chat_chunks("Hello", " there", ".", usage=options.get("include_usage", False)))
