"""When every supervisor passes, the caller gets the model server's bytes, whole and streamed (S-11, W-07, W-08).

The replies are shaped as the vendors' servers shape them: parallel tool calls, log-probabilities, reasoning, refusals,
an audio transcript, a usage chunk, obfuscation, odd spacing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fake_messages import (
    message_events,
    message_reply,
    text_block,
    text_events,
    thinking_block,
    thinking_events,
    tool_block,
    tool_events,
)
from tests.e2e.fake_replies import sse
from tests.e2e.fake_responses import call_events, frames, message, reasoning_events, response, stream
from tests.e2e.fake_responses import text_events as response_events
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.families import FAMILIES, Family, families_tree, legacy_frames
from tests.e2e.serving import policy, serving

WINDOW = {"window_chars": 12, "overlap_chars": 20}
CHAT, COMPLETIONS, RESPONSES, MESSAGES, _ = FAMILIES
HEAD = {
    "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
    "object": "chat.completion.chunk",
    "created": 1741569952,
    "model": "gpt-4.1-2025-04-14",
    "service_tier": "default",
    "system_fingerprint": "fp_b3f1157249",
}
USAGE = {
    "prompt_tokens": 19,
    "completion_tokens": 10,
    "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0, "accepted_prediction_tokens": 0},
}


def chunk(delta: Mapping[str, Any], finish: str | None = None, index: int = 0, **extra: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "logprobs": extra.pop("logprobs", None), "finish_reason": finish}
    return {**HEAD, "choices": [choice], "usage": None, **extra}


def token(text: str) -> dict[str, Any]:
    entry = {"token": text, "logprob": -0.31725305, "bytes": list(text.encode())}
    return {"content": [{**entry, "top_logprobs": [entry]}], "refusal": None}


def calls(*fragments: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [chunk({"tool_calls": [fragment]}) for fragment in fragments]


def opened(index: int, name: str) -> dict[str, Any]:
    called = {"name": name, "arguments": ""}
    return {"index": index, "id": f"call_{name}", "type": "function", "function": called}


def more(index: int, arguments: str) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": arguments}}


BEGIN = chunk({"role": "assistant", "content": "", "refusal": None})
LAST: dict[str, Any] = {**HEAD, "choices": [], "usage": USAGE}
WORDS = ("Hello", " there", ",", " how", " can", " I", " help", "?", " 😀", "\n\n", "Thé")
CHAT_STREAMS: Mapping[str, Sequence[dict[str, Any]]] = {
    "text, log-probabilities, usage": [
        BEGIN,
        *[chunk({"content": word}, logprobs=token(word), obfuscation="x" * 7) for word in WORDS],
        chunk({}, "stop"),
        LAST,
    ],
    "parallel tool calls, taking turns": [
        chunk({"role": "assistant", "content": None}),
        *calls(opened(0, "look_up"), opened(1, "read"), more(0, '{"ci'), more(1, '{"a": 1'), more(0, 'ty": "Oslo"}')),
        *calls(more(1, "}")),
        chunk({}, "tool_calls"),
        LAST,
    ],
    "reasoning, then an answer": [
        chunk({"role": "assistant", "content": None, "reasoning_content": ""}),
        *[chunk({"reasoning_content": word}) for word in WORDS],
        *[chunk({"content": word, "reasoning_content": None}) for word in WORDS],
        chunk({}, "stop"),
    ],
    "a refusal of the model": [
        BEGIN,
        *[chunk({"refusal": word}) for word in ("I'm", " sorry", ", ", "I can't.")],
        chunk({}, "stop"),
    ],
    "sound with its transcript": [
        chunk({"role": "assistant", "audio": {"id": "audio_1", "transcript": "Hello"}}),
        chunk({"audio": {"data": "UklGRiQAAABXQVZF" * 4}}),
        chunk({"audio": {"transcript": " there."}}),
        chunk({"audio": {"data": "ZGF0YQAAAAA=", "expires_at": 1741573552}}),
        chunk({}, "stop"),
    ],
    "two choices, taking turns": [
        BEGIN,
        chunk({"role": "assistant", "content": ""}, index=1),
        *[chunk({"content": word}, index=number % 2) for number, word in enumerate(WORDS)],
        chunk({}, "stop"),
        chunk({}, "length", index=1),
        LAST,
    ],
}
STREAMS: Sequence[tuple[Family, str, Sequence[bytes]]] = (
    *[(CHAT, name, sse(*chunks)) for name, chunks in CHAT_STREAMS.items()],
    (COMPLETIONS, "text", legacy_frames(*WORDS)),
    (
        RESPONSES,
        "reasoning, text, a call",
        frames(stream(*reasoning_events(WORDS), *response_events(WORDS, 1), *call_events(['{"a":', "1}"], 2))),
    ),
    (
        MESSAGES,
        "thinking, text, two calls",
        message_events(
            thinking_events(0, *WORDS),
            text_events(1, *WORDS),
            tool_events(2, '{"city": ', '"Oslo"}'),
            tool_events(3, "{}"),
            stop_reason="tool_use",
        ),
    ),
)


def by_choice(content: bytes) -> dict[int | None, list[bytes]]:
    """Return the frames of each choice in order: what is held of one choice does not hold up the others (W-10)."""
    found: dict[int | None, list[bytes]] = {}
    for frame in content.split(b"\n\n")[:-2]:
        choices = json.loads(frame.removeprefix(b"data: "))["choices"]
        found.setdefault(choices[0]["index"] if choices else None, []).append(frame)
    return found


@pytest.mark.parametrize("mode", ["window", "hold", "sentence"])
async def test_streams_that_pass(tmp_path: Path, mode: str) -> None:  # S-11, W-03, W-04, W-08, W-10
    rules = policy({"forced": ["words"]}, {"forced": ["words"], "stream": {**WINDOW, "mode": mode}})
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path, policies=rules)) as proxy:
        for family, name, sent in STREAMS:
            asked = {**family.body(stream=True), **({"n": 2} if "two choices" in name else {})}
            if b'"usage": {' in b"".join(sent) and family is CHAT:
                asked["stream_options"] = {"include_usage": True}
            up.script(Answer(frames=sent, split=13), Answer(frames=sent))
            for _ in range(2):
                reply = await proxy.client.post(family.route, json=asked)
                if "two choices" in name:
                    assert by_choice(reply.content) == by_choice(b"".join(sent))
                    assert reply.content.endswith(b"data: [DONE]\n\n")
                else:
                    assert reply.content == b"".join(sent), (name, reply.text)


CHAT_MESSAGES: Mapping[str, Mapping[str, Any]] = {
    "text": {"content": "Hello there. 😀", "refusal": None, "annotations": []},
    "calls": {
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}}],
    },
    "reasoning": {"content": "So.", "reasoning_content": "Hm.", "reasoning": "Hm."},
    "refusal": {"content": None, "refusal": "I'm sorry."},
}
WHOLE: Sequence[tuple[Family, str, dict[str, Any]]] = (
    *[
        (
            CHAT,
            name,
            {
                **HEAD,
                "object": "chat.completion",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", **members},
                        "logprobs": token(members["content"]) if name == "text" else None,
                        "finish_reason": "stop",
                    }
                ],
                "usage": USAGE,
            },
        )
        for name, members in CHAT_MESSAGES.items()
    ],
    (
        COMPLETIONS,
        "text",
        {**HEAD, "object": "text_completion", "choices": [{"index": 0, "text": "Thé", "finish_reason": "stop"}]},
    ),
    (RESPONSES, "text", response(message("Thé 😀"))),
    (
        MESSAGES,
        "blocks",
        message_reply(thinking_block("hm"), text_block("Thé"), tool_block({"a": 1}), stop_reason="tool_use"),
    ),
    (
        Family("embeddings", "/v1/embeddings", "gpt", "/v1/embeddings"),
        "vectors",
        {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.1, -2e-5]}], "model": "e"},
    ),
)


async def test_whole_replies_that_pass(tmp_path: Path) -> None:  # W-07, W-08
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path)) as proxy:
        for family, name, body in WHOLE:
            raw = json.dumps(body, indent=1, ensure_ascii=True).encode() + b"\n"
            up.script(Answer(body=raw, headers={"content-type": "application/json"}))
            reply = await proxy.client.post(family.route, json=family.body())
            assert (reply.status_code, reply.content) == (200, raw), name
