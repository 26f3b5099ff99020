"""The five streamed ways through the proxy, side by side: what to ask and what a model server answers on each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.fake_messages import message_events, message_reply, text_events
from tests.e2e.fake_replies import chat_chunks, chat_reply, sse
from tests.e2e.fake_responses import frames, message, response, stream
from tests.e2e.fake_responses import text_events as response_text_events
from tests.e2e.fake_upstream import Answer, FakeUpstream, Received
from tests.e2e.serving import guarded


@dataclass(frozen=True, slots=True)
class Family:
    """One way through.

    Args:
        name: of the test case.
        route: of the proxy.
        model: to ask for; ``claude`` is behind a server that speaks Anthropic Messages.
        upstream: path the model server is asked at.
    """

    name: str
    route: str
    model: str
    upstream: str

    def body(self, text: str = "hello", **fields: Any) -> dict[str, Any]:
        """Return a request with this text."""
        said: Mapping[str, dict[str, Any]] = {
            "/v1/completions": {"prompt": text},
            "/v1/responses": {"input": text},
            "/v1/embeddings": {"input": text},
        }
        messages = {"messages": [{"role": "user", "content": text}], "max_tokens": 64}
        return {"model": self.model, **said.get(self.route, messages), **fields}


FAMILIES: Sequence[Family] = (
    Family("chat", "/v1/chat/completions", "gpt", "/v1/chat/completions"),
    Family("completions", "/v1/completions", "gpt", "/v1/completions"),
    Family("responses", "/v1/responses", "gpt", "/v1/responses"),
    Family("messages", "/v1/messages", "claude", "/v1/messages"),
    Family("translated", "/v1/messages", "gpt", "/v1/chat/completions"),
)
NAMES = [family.name for family in FAMILIES]


def families_tree(up: FakeUpstream, folder: Path, **parts: Any) -> dict[str, Any]:
    """Return a guarded config with a server of each protocol."""
    upstreams = {"main": {"base_url": up.url}, "claude": {"base_url": up.url, "vendor": "anthropic"}}
    models = {"gpt": {"upstream": "main"}, "claude": {"upstream": "claude"}}
    return guarded(up, folder, **{"upstreams": upstreams, "models": models, **parts})


def legacy_frames(*texts: str) -> list[bytes]:
    """Return the chunks of a streamed legacy completion."""
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m"}
    choices = [{"index": 0, "text": text, "logprobs": None, "finish_reason": None} for text in texts]
    choices.append({"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"})
    return sse(*[{**head, "choices": [choice]} for choice in choices])


def frames_for(path: str, *texts: str) -> list[bytes]:
    """Return the stream a model server sends at this path."""
    match path.removeprefix("/v1"):
        case "/completions":
            return legacy_frames(*texts)
        case "/responses":
            return frames(stream(*response_text_events(texts)))
        case "/messages":
            return message_events(text_events(0, *texts))
        case _:
            return sse(*chat_chunks(*texts))


def reply_for(path: str, text: str) -> dict[str, Any]:
    """Return the whole reply a model server sends at this path."""
    match path.removeprefix("/v1"):
        case "/completions":
            choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "stop"}
            return {**chat_reply(), "object": "text_completion", "choices": [choice]}
        case "/responses":
            return response(message(text))
        case "/messages":
            return message_reply(text)
        case _:
            return chat_reply(text)


def answer_to(received: Received, *texts: str, **options: Any) -> Answer:
    """Return the answer to a request, whole or streamed as it asks."""
    path = received.path.split("?", maxsplit=1)[0]
    if received.json.get("stream"):
        return Answer(frames=frames_for(path, *texts), **options)
    body = json.dumps(reply_for(path, "".join(texts))).encode()
    options["headers"] = {"content-type": "application/json"}
    return Answer(frames=[body[:20], body[20:]], framing="chunked", **options)
