"""Every text of a Responses body is in a segment, or its field is on the allow-list (guarding G-01, wire W-20)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from proxy.wire.adapter import Notice
from proxy.wire.errors import RequestError
from proxy.wire.responses import RESPONSES
from proxy.wire.responses_items import IDS
from supervisors.types import Segment, Span
from tests.proxy.wire.planting import Path, leaves, planted, pointer

SEALED = "grcO7n8aUDm+8H7CNH8GbtCPXcdRJEfjQEMAAmtuVFWUoGVoXWTEmAu41FRKhyGpmgGtIZ61nPahXvbx"
CANARY = "violet umbrella"
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
"""Without shrinking: the generated bodies are small, and shrinking them takes minutes."""
WORDS = st.sampled_from(["a word", "another", "x/y", "tilde ~ slash /", "", "déjà vu", "{}", "auto", "completed"])
KEYS = st.sampled_from(["future", "a/b", "til~de", "type", "text", "detail", "x", "content", "name", "status", "id"])
LEAVES = st.one_of(WORDS, st.none(), st.booleans(), st.integers(-5, 5), st.floats(-2, 2))
UNKNOWN = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)

ALLOWED_TOP = {
    "model",
    "service_tier",
    "stream_options",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "metadata",
    "previous_response_id",
}
"""Fields of a request whose text reaches the provider but not the model (the allow-list of guarding §1)."""
ALLOWED_REPLY = {
    "id",
    "object",
    "created_at",
    "completed_at",
    "model",
    "status",
    "usage",
    "service_tier",
    "previous_response_id",
}
ALLOWED_ANYWHERE = {"role", "type", "version", *IDS}


def shape(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects that hold some of these fields and some unknown ones."""
    known = st.fixed_dictionaries({}, optional=fields)
    unknown = st.dictionaries(KEYS.filter(lambda key: key not in fields), UNKNOWN, max_size=2)
    return st.tuples(known, unknown).map(lambda both: {**both[1], **both[0]})


def item(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return items of one type."""
    return shape(id=WORDS, status=WORDS, **fields).map(lambda made: {**made, "type": kind})


ANNOTATION = shape(type=WORDS, title=WORDS, url=WORDS, file_id=WORDS, filename=WORDS)
PART = st.one_of(
    shape(type=st.sampled_from(["input_text", "output_text"]), text=WORDS, annotations=st.lists(ANNOTATION)),
    shape(type=st.just("refusal"), refusal=WORDS),
    shape(type=st.just("input_image"), image_url=WORDS, detail=st.sampled_from(["low", "odd"]), file_id=WORDS),
    shape(type=st.just("input_file"), filename=WORDS, file_data=WORDS, file_url=WORDS, file_id=WORDS),
    shape(type=st.just("input_audio"), input_audio=shape(data=WORDS, format=WORDS)),
    shape(type=st.just("reasoning_text"), text=WORDS),
    UNKNOWN,
)
PARTS = WORDS | st.lists(PART, max_size=3)
ARGUMENTS = WORDS | st.just('{"q": "line\\nbreak"}') | UNKNOWN
TOOL = shape(
    type=st.sampled_from(["function", "web_search", "odd"]),
    name=WORDS,
    description=WORDS,
    parameters=shape(type=st.just("object"), properties=UNKNOWN, enum=st.lists(WORDS, max_size=2)),
)
MESSAGE = st.sampled_from(["system", "developer", "user", "assistant"]).flatmap(
    lambda role: item("message", content=PARTS, phase=WORDS).map(lambda made: {**made, "role": role})
)
ACTION = shape(type=WORDS, query=WORDS, command=st.lists(WORDS, max_size=2), env=st.dictionaries(KEYS, WORDS))
OTHERS: list[st.SearchStrategy[dict[str, Any]]] = [
    item("reasoning", summary=st.lists(PART, max_size=2), content=PARTS, encrypted_content=WORDS),
    item("compaction", encrypted_content=WORDS),
    item("function_call", name=WORDS, arguments=ARGUMENTS, call_id=WORDS, namespace=WORDS, caller=UNKNOWN),
    item("function_call_output", output=PARTS, call_id=WORDS),
    item("custom_tool_call", name=WORDS, input=WORDS),
    item("custom_tool_call_output", output=PARTS),
    item("computer_call", action=ACTION, pending_safety_checks=st.lists(UNKNOWN, max_size=2)),
    item("computer_call_output", output=PART, acknowledged_safety_checks=UNKNOWN),
    item("file_search_call", queries=st.lists(WORDS, max_size=2), results=st.lists(UNKNOWN, max_size=2)),
    item("web_search_call", action=ACTION),
    item("code_interpreter_call", code=WORDS, outputs=st.lists(UNKNOWN, max_size=2), container_id=WORDS),
    item("image_generation_call", revised_prompt=WORDS, size=WORDS, quality=WORDS),
    item("local_shell_call", action=ACTION),
    item("local_shell_call_output", output=WORDS),
    item("shell_call", action=ACTION, environment=UNKNOWN),
    item("shell_call_output", output=st.lists(UNKNOWN, max_size=2)),
    item("apply_patch_call", operation=shape(type=WORDS, path=WORDS, diff=WORDS)),
    item("apply_patch_call_output", output=WORDS),
    item("mcp_call", name=WORDS, server_label=WORDS, arguments=ARGUMENTS, output=WORDS, error=UNKNOWN),
    item("mcp_list_tools", server_label=WORDS, tools=st.lists(TOOL, max_size=2), error=WORDS),
    item("mcp_approval_request", name=WORDS, server_label=WORDS, arguments=ARGUMENTS),
    item("mcp_approval_response", reason=WORDS, approval_request_id=WORDS),
    item("additional_tools", tools=st.lists(TOOL, max_size=2)),
    item("tool_search_call", arguments=ARGUMENTS, execution=WORDS),
    item("tool_search_output", tools=st.lists(TOOL, max_size=2)),
    item("program", code=WORDS, fingerprint=WORDS),
    item("program_output", result=WORDS),
    item("item_reference"),
    item("compaction_trigger"),
    item("of_the_future", text=WORDS, parts=UNKNOWN),
    shape(text=WORDS),
]
ITEM = st.one_of(MESSAGE, *OTHERS)
OPTIONAL = shape(
    instructions=WORDS,
    tools=st.lists(TOOL, max_size=2) | UNKNOWN,
    tool_choice=st.sampled_from(["auto", "odd"]) | shape(type=st.just("function"), name=WORDS, mode=WORDS),
    text=shape(format=shape(type=st.just("json_schema"), name=WORDS, schema=UNKNOWN), verbosity=WORDS) | UNKNOWN,
    reasoning=shape(effort=WORDS, summary=WORDS) | UNKNOWN,
    include=st.lists(WORDS, max_size=2) | UNKNOWN,
    truncation=WORDS,
    conversation=WORDS | shape(id=WORDS),
    prompt=shape(id=WORDS, version=WORDS, variables=st.dictionaries(KEYS, WORDS | PART, max_size=2)) | UNKNOWN,
    context_management=UNKNOWN,
    metadata=UNKNOWN,
    user=WORDS,
)
BODY = st.tuples(WORDS | st.lists(ITEM, max_size=3), OPTIONAL).map(
    lambda parts: {**parts[1], "model": "gpt", "input": parts[0]}
)
REPLY = st.tuples(
    st.lists(ITEM | UNKNOWN, max_size=3), shape(instructions=WORDS, tools=UNKNOWN, error=UNKNOWN, text=UNKNOWN)
).map(lambda parts: {"id": "resp_1", **parts[1], "output": parts[0]})


def check(at: Path, top: set[str], segments: tuple[Segment, ...]) -> None:
    """Check that the text planted there is in one segment, or may be in none."""
    found = [segment for segment in segments if CANARY in segment.text and "#" not in segment.path]
    media = {segment.path for segment in segments if segment.media is not None}
    if len(found) != 1:
        assert not found
        assert at[0] in top or at[-1] in ALLOWED_ANYWHERE or at == ("conversation",) or pointer(at) in media, at
    else:
        assert found[0].path == pointer(at)


@settings(max_examples=300, deadline=None, phases=QUICK)
@given(body=BODY, data=st.data())
def test_a_canary_anywhere_in_a_request_is_in_one_segment(body: dict[str, Any], data: st.DataObject) -> None:  # G-01
    paths = [at for at in leaves(body) if at[-1] != "role" and not (at[0] == "input" and at[-1] == "type")]
    at = data.draw(st.sampled_from(paths or [("model",)]))
    check(at, ALLOWED_TOP, RESPONSES.request_segments(planted(body, at, CANARY)))


@settings(max_examples=300, deadline=None, phases=QUICK)
@given(reply=REPLY, body=OPTIONAL, data=st.data())
def test_a_canary_anywhere_in_a_reply_is_in_one_segment(
    reply: dict[str, Any], body: dict[str, Any], data: st.DataObject
) -> None:  # G-01
    paths = [at for at in leaves(reply) if at[-1] not in ("role", "type")]
    at = data.draw(st.sampled_from(paths or [("id",)]))
    choices = RESPONSES.reply_segments(planted(reply, at, CANARY), 1, body)
    assert list(choices) == [0]
    check(at, ALLOWED_REPLY, choices[0])


@settings(max_examples=60, deadline=None, phases=QUICK)
@given(reply=REPLY)
def test_nothing_of_a_blocked_reply_stays(reply: dict[str, Any]) -> None:  # wire §5.1
    marked = orjson.loads(orjson.dumps(reply))
    for number, at in enumerate([at for at in leaves(reply) if at[0] not in ALLOWED_REPLY]):
        marked = planted(marked, at, f"mark-{number}")
    RESPONSES.block_choices(marked, [0], Notice("no"))
    assert "mark-" not in str(marked)
    assert marked["output"][0]["content"][0]["text"] == "no"


def body_of(*items: object, **fields: Any) -> dict[str, Any]:
    return {"model": "gpt", "input": list(items), **fields}


@pytest.mark.parametrize(
    ("item", "kinds"),
    [
        ({"role": "user", "content": CANARY}, ["user text"]),
        ({"role": "developer", "content": [{"type": "input_text", "text": CANARY}]}, ["developer text"]),
        ({"type": "function_call", "name": "f", "arguments": CANARY}, ["assistant name", "assistant tool_args"]),
        ({"type": "function_call_output", "output": CANARY}, ["tool tool_result"]),
        ({"type": "custom_tool_call_output", "output": [{"type": "input_text", "text": CANARY}]}, ["tool tool_result"]),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": CANARY}]}, ["assistant reasoning"]),
        ({"type": "reasoning", "summary": [], "encrypted_content": CANARY}, ["assistant other"]),
        ({"type": "compaction", "encrypted_content": CANARY}, ["assistant other"]),
        ({"type": "compaction", "encrypted_content": [CANARY]}, ["assistant other"]),
        ({"type": "program", "fingerprint": CANARY}, ["assistant other"]),
        ({"role": "user", "content": [{"type": "encrypted_content", "encrypted_content": CANARY}]}, ["user other"]),
        ({"type": "mcp_list_tools", "tools": [{"name": CANARY}]}, ["assistant tool_def"]),
        ({"type": "web_search_call", "action": {"type": "search", "query": CANARY}}, ["assistant tool_args"]),
        ({"type": "of_the_future", "deep": [{"er": CANARY}]}, ["user other"] * 3),
        ({"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": CANARY}]}, ["user url"]),
    ],
)
def test_items_have_the_role_and_kind_of_what_they_are(item: dict[str, Any], kinds: list[str]) -> None:  # wire §8
    segments = RESPONSES.request_segments(body_of(item))
    assert [f"{segment.role} {segment.kind}" for segment in segments] == kinds
    assert segments[-1].text == CANARY
    assert {segment.turn for segment in segments} == {0}


@pytest.mark.parametrize("kind", ["reasoning", "compaction"])
def test_what_is_encrypted_is_opaque(kind: str) -> None:  # G-05
    (found,) = RESPONSES.request_segments(body_of({"type": kind, "encrypted_content": f"gAAAAABo_x-2Zw{SEALED}"}))
    assert found.kind == "opaque"


def test_instructions_are_system_text_and_definitions_a_scope_of_their_own() -> None:  # G-04, M-08
    body = body_of({"role": "user", "content": "x"}, instructions="be kind", tools=[{"type": "function", "name": "f"}])
    assert [(s.text, s.scope) for s in RESPONSES.request_segments(body)] == [
        ("be kind", "system"),
        ("x", "conversation"),
        ("f", "tool_def"),
    ]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": 3}, "input"),
        ({"input": ["x"]}, "input[0]"),
        ({"input": [{"role": "villain", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "message", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": {"text": "x"}}]}, "input[0].content"),
        ({"input": "x", "background": True}, "background"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_path(body: dict[str, Any], param: str) -> None:  # W-21
    with pytest.raises(RequestError) as caught:
        RESPONSES.request_segments(body)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_a_request_without_input_is_judged_by_what_it_has() -> None:  # W-20
    assert RESPONSES.request_segments({"model": "gpt", "input": None, "prompt": {"id": "p"}}) == ()
    variables = {"city": CANARY, "photo": {"type": "input_image", "image_url": "https://host.example/x"}}
    found = RESPONSES.request_segments({"prompt": {"id": "p", "version": "2", "variables": variables}})
    assert [(segment.kind, segment.path) for segment in found] == [
        ("other", "/prompt/variables#keys"),
        ("text", "/prompt/variables/city"),
        ("url", "/prompt/variables/photo/image_url"),
    ]


@pytest.mark.parametrize(
    ("body", "unseen"),
    [
        ({"input": "x"}, False),
        ({"input": "x", "previous_response_id": None, "conversation": None}, False),
        ({"input": "x", "previous_response_id": "resp_1"}, True),
        ({"input": [{"id": "msg_1"}]}, True),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, True),
        ({"input": 7, "prompt": {"id": "p"}}, True),
    ],
)
def test_history_at_the_provider_is_out_of_sight(body: dict[str, Any], unseen: bool) -> None:  # W-20
    assert RESPONSES.unseen_history(body) is unseen


def test_tokens_that_spell_another_text_are_judged() -> None:  # W-09, G-06
    part = {"type": "output_text", "text": "fine", "logprobs": [{"token": "violet "}, {"token": "umbrella"}]}
    reply = {"output": [{"type": "message", "role": "assistant", "content": [part]}]}
    glued_and_alone = f"{CANARY}\nviolet \numbrella"
    assert [s.text for s in RESPONSES.reply_segments(reply, 1, {})[0]] == ["fine", glued_and_alone]


def test_masked_text_takes_its_tokens_with_it() -> None:  # W-09
    tokens = [{"token": "a "}, {"token": "violet umb"}, {"token": "rella"}, {"token": "!"}]
    part: dict[str, Any] = {"type": "output_text", "text": "a violet umbrella!", "logprobs": tokens}
    reply: dict[str, Any] = {"output": [{"type": "message", "content": [part]}]}
    RESPONSES.mask_logprobs(reply, 0, [Span("/output/0/content/0/text", 2, 17, "canary")])
    assert [entry["token"] for entry in part["logprobs"]] == ["a ", "!"]
