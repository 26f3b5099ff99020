"""Bodies and frames of every family with everything in them that the documents know, and some that they do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxy.wire.adapter import Adapter
from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.embeddings import EMBEDDINGS
from proxy.wire.messages import MESSAGES
from proxy.wire.responses import RESPONSES

Json = dict[str, Any]

SCHEMA: Json = {"type": "object", "properties": {"q": {"type": "string", "enum": ["a"]}}, "required": ["q"]}
FUNCTION: Json = {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}
CALL: Json = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"q": "x"}'}}
ODD: Json = {"future": {"deep": [{"er": "x"}], "n": 1}}
COMMON: Json = {
    "model": "gpt",
    "metadata": {"a": "b"},
    "user": "u",
    "service_tier": "auto",
    "temperature": 1,
    "documents": [{"title": "t", "contents": "c"}],
    "chat_template_kwargs": {"enable_thinking": True},
    "guided_json": SCHEMA,
    **ODD,
}
PARTS: list[Json] = [
    {"type": "text", "text": "x"},
    {"type": "image_url", "image_url": {"url": "https://host.example/a.png", "detail": "low"}},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    {"type": "file", "file": {"filename": "a", "file_id": "file-1"}},
]
REQUESTS: Sequence[tuple[Adapter, Json]] = (
    (
        CHAT,
        {
            **COMMON,
            "logit_bias": {"50256": -100},
            "stop": ["x"],
            "stream_options": {"include_usage": True},
            "messages": [
                {"role": "system", "content": "x"},
                {"role": "user", "content": PARTS, "name": "n"},
                {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None, "audio": {"id": "a"}},
                {"role": "assistant", "content": "x", "function_call": {"name": "f", "arguments": {"q": "x"}}},
                {"role": "tool", "tool_call_id": "call_1", "content": "x"},
            ],
            "tools": [{"type": "function", "function": FUNCTION}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}},
            "prediction": {"type": "content", "content": "x"},
            "audio": {"voice": "v", "format": "mp3"},
            "modalities": ["text"],
            "web_search_options": {"user_location": {"type": "approximate", "approximate": {"city": "c"}}},
        },
    ),
    (COMPLETIONS, {**COMMON, "prompt": ["a", "b"], "suffix": "s", "logit_bias": {"5": 1}, "stop": "x"}),
    (EMBEDDINGS, {**COMMON, "input": ["a"], "encoding_format": "float"}),
    (
        RESPONSES,
        {
            **COMMON,
            "instructions": "x",
            "include": ["file_search_call.results"],
            "previous_response_id": "resp_1",
            "input": [
                {
                    "role": "user",
                    "content": [{"type": "input_text", "text": "x"}, {"type": "input_file", "file_id": "f"}],
                },
                {
                    "type": "function_call",
                    "id": "fc",
                    "call_id": "c",
                    "name": "f",
                    "arguments": "{}",
                    "status": "completed",
                },
                {"type": "function_call_output", "call_id": "c", "output": "x"},
                {
                    "type": "web_search_call",
                    "id": "w",
                    "status": "completed",
                    "action": {"type": "search", "query": "q"},
                },
                {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "x"}]},
                {"type": "of_the_future", "id": "o", "deep": [{"er": "x"}]},
            ],
            "tools": [{"type": "function", **FUNCTION}],
            "reasoning": {"effort": "low"},
            "truncation": "auto",
            "text": {"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}, "verbosity": "low"},
            "prompt": {"id": "p", "version": "1", "variables": {"city": "c"}},
            "conversation": {"id": "conv_1"},
        },
    ),
    (
        MESSAGES,
        {
            **COMMON,
            "max_tokens": 5,
            "system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}],
            "stop_sequences": ["x"],
            "tools": [{"name": "f", "description": "d", "input_schema": SCHEMA}],
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "x"},
                        {"type": "image", "source": {"type": "url", "url": "u"}},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "x", "signature": "AAAA"},
                        {"type": "tool_use", "id": "t", "name": "f", "input": {"q": {"r": "x"}}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}]}
                    ],
                },
                {"role": "user", "content": [{"type": "of_the_future", "a": {"b": "c"}}]},
            ],
            "tool_choice": {"type": "tool", "name": "f"},
            "thinking": {"type": "enabled", "budget_tokens": 5},
        },
    ),
)

ENTRY: Json = {
    "token": "x",
    "bytes": [120],
    "logprob": -1,
    "top_logprobs": [{"token": "x", "logprob": -1}, {"token": "y", "logprob": -2}],
}
USAGE: Json = {
    "prompt_tokens": 1,
    "completion_tokens": 1,
    "total_tokens": 2,
    "prompt_tokens_details": {"cached_tokens": 0},
}
TOP: Json = {
    "id": "c-1",
    "object": "o",
    "created": 1,
    "model": "gpt",
    "system_fingerprint": "fp_1",
    "service_tier": "default",
}
NOTED: Json = {"citations": ["https://host.example/1"], "note": {"a": [{"b": "c"}]}, "null": None}
FILTERS: Json = {"content_filter_results": {"hate": {"filtered": False, "severity": "safe"}}}
OUTPUT: list[Json] = [
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "x"}]},
    {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"},
    {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "content": [
            {
                "type": "output_text",
                "text": "x",
                "annotations": [{"type": "url_citation", "url": "u", "title": "t"}],
                "logprobs": [ENTRY],
            },
            {"type": "refusal", "refusal": "x"},
        ],
    },
    {"type": "of_the_future", "id": "o", "deep": [{"er": "x"}]},
]
RESPONSE: Json = {
    "id": "r-1",
    "object": "response",
    "created_at": 1,
    "model": "gpt",
    "status": "completed",
    "output": OUTPUT,
    "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "tools": [],
    "tool_choice": "auto",
    "text": {"format": {"type": "text"}},
    **NOTED,
}
BLOCKS: list[Json] = [
    {"type": "thinking", "thinking": "x", "signature": "AAAA"},
    {"type": "text", "text": "x", "citations": [{"type": "char_location", "cited_text": "x", "document_title": "t"}]},
    {"type": "tool_use", "id": "t", "name": "f", "input": {"q": {"r": "x"}}},
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
    {"type": "of_the_future", "a": {"b": "c"}},
]
MESSAGE: Json = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "gpt",
    "content": BLOCKS,
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1, "service_tier": "standard"},
    **NOTED,
}
REPLIES: Sequence[tuple[Adapter, Json]] = (
    (
        CHAT,
        {
            **TOP,
            **NOTED,
            "usage": USAGE,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls",
                    "logprobs": {"content": [ENTRY], "refusal": None},
                    **FILTERS,
                    "message": {
                        "role": "assistant",
                        "content": "x",
                        "refusal": None,
                        "tool_calls": [CALL],
                        "reasoning_content": "x",
                        **NOTED,
                        "annotations": [{"type": "url_citation", "url_citation": {"title": "t", "url": "u"}}],
                        "audio": {"id": "a", "transcript": "x"},
                    },
                },
                {"index": 1, "finish_reason": "stop", "message": {"role": "assistant", "content": "y"}},
            ],
        },
    ),
    (
        COMPLETIONS,
        {
            **TOP,
            **NOTED,
            "usage": USAGE,
            "choices": [
                {
                    "index": 0,
                    "text": "x",
                    "finish_reason": "stop",
                    **ODD,
                    "logprobs": {
                        "tokens": ["x"],
                        "token_logprobs": [-1],
                        "top_logprobs": [{"x": -1, "y": -2}],
                        "text_offset": [0],
                    },
                }
            ],
        },
    ),
    (RESPONSES, RESPONSE),
    (MESSAGES, MESSAGE),
)


def chunk(delta: Json, finish: str | None = None, **more: Any) -> Json:
    return {**TOP, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}


def text_chunk(text: str, finish: str | None = None, **more: Any) -> Json:
    return {**TOP, "choices": [{"index": 0, "text": text, "finish_reason": finish, **more}]}


AT: Json = {"item_id": "m", "output_index": 2, "content_index": 0, "sequence_number": 1}
STREAMS: Sequence[tuple[Adapter, list[Json]]] = (
    (
        CHAT,
        [
            chunk(
                {"role": "assistant", "content": "a ", "refusal": None},
                logprobs={"content": [{**ENTRY, "token": "a "}], "refusal": None},
            ),
            chunk({"content": "b "}, **FILTERS),
            chunk(
                {"reasoning_content": "c ", "reasoning_details": [{"type": "reasoning.text", "text": "c ", "index": 0}]}
            ),
            chunk({"tool_calls": [{**CALL, "index": 0}], **NOTED}),
            chunk(
                {
                    "annotations": [{"type": "url_citation", "url_citation": {"title": "t"}}],
                    "audio": {"id": "a", "transcript": "x"},
                }
            ),
            {**chunk({"content": "d "}), **NOTED},
            chunk({}, "stop"),
            {**TOP, "choices": [], "usage": USAGE},
        ],
    ),
    (
        COMPLETIONS,
        [
            text_chunk(
                "a ", logprobs={"tokens": ["a "], "token_logprobs": [-1], "top_logprobs": [{"a ": -1, "y": -2}]}
            ),
            {**text_chunk("b ", **ODD), **NOTED},
            text_chunk("", "stop"),
        ],
    ),
    (
        RESPONSES,
        [
            {
                "type": "response.created",
                "sequence_number": 0,
                "response": {**RESPONSE, "status": "in_progress", "output": [], "usage": None},
            },
            {
                "type": "response.output_item.added",
                "output_index": 2,
                "item": {**OUTPUT[2], "status": "in_progress", "content": []},
            },
            {
                "type": "response.content_part.added",
                **AT,
                "part": {"type": "output_text", "text": "", "annotations": []},
            },
            {"type": "response.output_text.delta", **AT, "delta": "x", "logprobs": [ENTRY], "obfuscation": "aX3"},
            {
                "type": "response.output_text.annotation.added",
                **AT,
                "annotation_index": 0,
                "annotation": {"type": "url_citation", "url": "u"},
            },
            {"type": "response.note", **AT, **NOTED},
            {"type": "response.output_text.done", **AT, "text": "x", "logprobs": [ENTRY]},
            {
                "type": "response.content_part.done",
                **AT,
                "part": {"type": "output_text", "text": "x", "annotations": []},
            },
            {"type": "response.output_item.done", "output_index": 2, "item": OUTPUT[2]},
            {"type": "response.completed", "sequence_number": 9, "response": RESPONSE},
        ],
    ),
    (
        MESSAGES,
        [
            {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "thinking", "thinking": "", "signature": ""},
            },
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "x"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "AAAA"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "x"}},
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "citations_delta", "citation": {"type": "page_location", "cited_text": "x"}},
            },
            {"type": "content_block_stop", "index": 1},
            {
                "type": "content_block_start",
                "index": 2,
                "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 2,
                "delta": {"type": "input_json_delta", "partial_json": '{"q": "x"}'},
            },
            {"type": "content_block_stop", "index": 2},
            {"type": "note", **NOTED},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 1},
            },
            {"type": "message_stop"},
        ],
    ),
)
