"""Every text of a Messages body is in a segment, or its field is on the allow-list (guarding G-01; wire W-31)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from proxy.wire.adapter import Chunk
from proxy.wire.errors import RequestError
from proxy.wire.messages import MESSAGES
from proxy.wire.segments import JOINED
from proxy.wire.sse import SseParser, event_frame
from supervisors.types import Segment
from tests.proxy.wire.planting import Path, leaves, planted, pointer

CANARY = "violet umbrella"
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
WORDS = st.sampled_from(["a word", "another", "x/y", "tilde ~ slash /", "", "déjà vu", "{}", "data: none"])
KEYS = st.sampled_from(["future", "a/b", "til~de", "type", "text", "x", "content", "name", "source", "input", "url"])
LEAVES = st.one_of(WORDS, st.none(), st.booleans(), st.integers(-5, 5), st.floats(-2, 2))
UNKNOWN = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)

ALLOWED_TOP = {"model", "metadata", "stop_sequences", "service_tier", "container"}
ALLOWED_ANYWHERE = {"role", "type", "id", "tool_use_id", "file_id", "container_id", "expires_at", "signature"}
ALLOWED_REPLY = {"id", "type", "role", "model", "stop_reason", "stop_sequence", "usage", "request_id"}


def shape(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects that hold some of these fields and some unknown ones."""
    known = st.fixed_dictionaries({}, optional=fields)
    unknown = st.dictionaries(KEYS.filter(lambda key: key not in fields), UNKNOWN, max_size=2)
    return st.tuples(known, unknown).map(lambda both: {**both[1], **both[0]})


def block(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return shape(**fields).map(lambda members: {**members, "type": kind})


SOURCE = st.one_of(
    block("base64", media_type=st.sampled_from(["image/png", "text/plain", "odd"]), data=WORDS | st.just("aGk=")),
    block("text", media_type=st.just("text/plain"), data=WORDS),
    block("url", url=WORDS | st.just("https://host.example/a.png")),
    block("file", file_id=WORDS),
    UNKNOWN,
)
CITATION = shape(
    type=st.sampled_from(["char_location", "odd"]),
    cited_text=WORDS,
    document_title=WORDS,
    url=WORDS,
    encrypted_index=WORDS,
)
TEXT = block("text", text=WORDS, citations=st.lists(CITATION, max_size=2), cache_control=UNKNOWN)
IMAGE = block("image", source=SOURCE)
DOCUMENT = block("document", source=SOURCE, title=WORDS, context=WORDS, citations=shape(enabled=st.booleans()))
SEARCH = block("search_result", source=WORDS, title=WORDS, content=st.lists(TEXT, max_size=2))
TOOL_USE = block("tool_use", id=WORDS, name=WORDS)
RESULT = block("tool_result", tool_use_id=WORDS, content=WORDS | st.lists(TEXT | IMAGE | DOCUMENT | SEARCH, max_size=2))
PAGE = block("web_search_result", url=WORDS, title=WORDS, encrypted_content=WORDS, page_age=WORDS)
BLOCK = st.one_of(
    TEXT,
    IMAGE,
    DOCUMENT,
    SEARCH,
    TOOL_USE,
    RESULT,
    block("thinking", thinking=WORDS, signature=WORDS),
    block("redacted_thinking", data=WORDS),
    block("server_tool_use", id=WORDS, name=WORDS),
    block("web_search_tool_result", tool_use_id=WORDS, content=st.lists(PAGE, max_size=2) | UNKNOWN),
    block("code_execution_tool_result", content=block("code_execution_result", stdout=WORDS, stderr=WORDS)),
    block("bash_code_execution_tool_result", content=UNKNOWN),
    block("mcp_tool_result", content=WORDS | st.lists(TEXT, max_size=2)),
    block("container_upload", file_id=WORDS),
    block("compaction", content=WORDS),
    UNKNOWN,
)
CONTENT = WORDS | st.lists(BLOCK, max_size=4)
MESSAGE = st.tuples(st.sampled_from(["user", "assistant", "system"]), CONTENT, shape(name=WORDS, id=WORDS)).map(
    lambda parts: {**parts[2], "role": parts[0], "content": parts[1]}
)
SCHEMA = shape(type=st.just("object"), description=WORDS, properties=UNKNOWN, enum=st.lists(WORDS, max_size=2))
TOOL = shape(
    type=st.sampled_from(["custom", "web_search_20250305"]), name=WORDS, description=WORDS, input_schema=SCHEMA
)
OPTIONAL = shape(
    system=WORDS | st.lists(TEXT, max_size=2),
    tools=st.lists(TOOL, max_size=2) | UNKNOWN,
    tool_choice=shape(type=st.sampled_from(["auto", "tool", "odd"]), name=WORDS) | UNKNOWN,
    thinking=shape(type=st.sampled_from(["enabled", "odd"]), budget_tokens=st.integers(1, 9)),
    output_config=shape(
        effort=st.sampled_from(["low", "odd"]), format=shape(type=st.just("json_schema"), schema=SCHEMA)
    ),
    container=WORDS | shape(id=WORDS, skills=UNKNOWN),
    context_management=UNKNOWN,
    metadata=UNKNOWN,
    stop_sequences=st.lists(WORDS, max_size=2),
    max_tokens=st.integers(1, 3),
)
BODY = st.tuples(st.lists(MESSAGE, min_size=1, max_size=3), OPTIONAL).map(
    lambda parts: {**parts[1], "model": "gpt", "messages": parts[0]}
)
REPLY = st.tuples(st.lists(BLOCK, max_size=4), shape(id=WORDS, stop_details=UNKNOWN, usage=UNKNOWN)).map(
    lambda parts: {**parts[1], "content": parts[0]}
)


def is_allowed(at: Path, top: set[str], segments: tuple[Segment, ...]) -> bool:
    """Say whether text there may be in no segment: its field is on the list, or it is the data of a media segment."""
    media = {segment.path for segment in segments if segment.media is not None}
    return at[0] in top or bool(set(at[1:]) & ALLOWED_ANYWHERE) or pointer(at) in media


def check(at: Path, segments: tuple[Segment, ...], top: set[str]) -> None:
    found = [segment for segment in segments if CANARY in segment.text]
    if not found:
        assert is_allowed(at, top, segments), at
    else:
        assert len({segment.path for segment in found}) == 1, found
        assert (pointer(at) + "/").startswith(found[0].path.partition("#")[0] + "/")


@settings(max_examples=300, deadline=None, phases=QUICK)
@given(body=BODY, data=st.data())
def test_a_canary_anywhere_in_a_request_is_in_a_segment(body: dict[str, Any], data: st.DataObject) -> None:  # G-01
    paths = [at for at in leaves(body) if not (at[0] == "messages" and at[2:] == ("role",))]
    at = data.draw(st.sampled_from(paths or [("model",)]))
    check(at, MESSAGES.request_segments(planted(body, at, CANARY)), ALLOWED_TOP)


@settings(max_examples=200, deadline=None, phases=QUICK)
@given(reply=REPLY, data=st.data())
def test_a_canary_anywhere_in_a_reply_is_in_a_segment(reply: dict[str, Any], data: st.DataObject) -> None:  # G-01
    at = data.draw(st.sampled_from(list(leaves(reply)) or [("id",)]))
    check(at, MESSAGES.reply_segments(planted(reply, at, CANARY), 1, {})[0], ALLOWED_REPLY)


STREAMED = st.one_of(
    st.tuples(st.just("content_block_start"), BLOCK).map(lambda e: {"type": e[0], "index": 0, "content_block": e[1]}),
    st.tuples(
        st.just("content_block_delta"),
        st.one_of(
            shape(type=st.just("text_delta"), text=WORDS),
            shape(type=st.just("thinking_delta"), thinking=WORDS),
            shape(type=st.just("input_json_delta"), partial_json=WORDS),
            shape(type=st.just("citations_delta"), citation=CITATION),
            UNKNOWN,
        ),
    ).map(lambda e: {"type": e[0], "index": 0, "delta": e[1]}),
    shape(message=REPLY).map(lambda members: {**members, "type": "message_start"}),
    shape(delta=shape(stop_reason=st.just("end_turn"), stop_details=UNKNOWN, container=UNKNOWN)).map(
        lambda members: {**members, "type": "message_delta"}
    ),
    shape().map(lambda members: {**members, "type": "news"}),
)
ALLOWED_EVENT = ALLOWED_ANYWHERE | ALLOWED_REPLY


@settings(max_examples=300, deadline=None, phases=QUICK)
@given(event=STREAMED, data=st.data())
def test_a_canary_anywhere_in_an_event_is_in_a_piece_that_can_be_rewritten(
    event: dict[str, Any], data: st.DataObject
) -> None:  # G-01, G-06, W-29
    paths = [at for at in leaves(event) if at != ("type",)]
    assume(paths)
    at = data.draw(st.sampled_from(paths))
    chunk = read(planted(event, at, CANARY))
    pieces = [piece for piece in chunk.pieces if CANARY in piece.text]
    if not pieces:
        assert set(at) & ALLOWED_EVENT, at
        return
    frames = MESSAGES.open_frames(MESSAGES.new_head("r", 0, "gpt"), {})
    texts = [piece.text.replace(CANARY, "gone") for piece in chunk.pieces]
    assert CANARY.encode() not in frames.forward(chunk, texts)


def test_a_delta_that_is_a_list_is_read_in_its_order() -> None:  # G-06
    chunk = read({"type": "content_block_delta", "index": 0, "delta": [3, "violet ", "umbrella"]})
    assert "violet umbrella" in "".join([piece.text for piece in chunk.pieces if piece.field.endswith(JOINED)])


def read(event: Mapping[str, Any]) -> Chunk:
    (frame,) = SseParser().feed(event_frame(event["type"], event))
    (chunk,) = MESSAGES.open_frames(MESSAGES.new_head("r", 0, "gpt"), {}).read(frame)
    return chunk


def user(*blocks: object) -> dict[str, Any]:
    return {"model": "gpt", "messages": [{"role": "user", "content": list(blocks)}]}


@pytest.mark.parametrize(
    ("part", "role", "kind"),
    [
        ({"type": "text", "text": CANARY}, "user", "text"),
        ({"type": "tool_result", "tool_use_id": "t", "content": CANARY}, "tool", "tool_result"),
        ({"type": "tool_result", "content": [{"type": "text", "text": CANARY}]}, "tool", "tool_result"),
        ({"type": "search_result", "source": CANARY, "title": "t", "content": []}, "tool", "url"),
        ({"type": "document", "title": CANARY}, "user", "name"),
        ({"type": "document", "source": {"type": "text", "data": CANARY}}, "user", "text"),
        ({"type": "document", "source": {"type": "content", "content": [{"text": CANARY}]}}, "user", "text"),
        ({"type": "tool_use", "id": "t", "name": CANARY, "input": {}}, "user", "name"),
        ({"type": "tool_use", "id": "t", "name": "f", "input": {"a": [CANARY]}}, "user", "tool_args"),
        ({"type": "thinking", "thinking": CANARY, "signature": "s"}, "user", "reasoning"),
        ({"type": "redacted_thinking", "data": CANARY}, "user", "other"),
        (
            {"type": "web_search_tool_result", "content": [{"type": "web_search_result", "encrypted_content": CANARY}]},
            "tool",
            "other",
        ),
        ({"type": "code_execution_result", "encrypted_stdout": [CANARY]}, "user", "other"),
        ({"type": "text", "text": "x", "citations": [{"encrypted_index": CANARY}]}, "user", "other"),
        ({"type": "text", "text": "x", "citations": [{"cited_text": CANARY}]}, "user", "annotation"),
        ({"type": "brand_new", "words": {"deep": [CANARY]}}, "user", "other"),
        ({"type": ["odd"], "text": CANARY}, "user", "text"),
        (CANARY, "user", "text"),
    ],
)
def test_a_block_is_judged_as_what_it_is(part: object, role: str, kind: str) -> None:  # G-01, M-06
    found = [segment for segment in MESSAGES.request_segments(user(part)) if CANARY in segment.text]
    assert [(segment.role, segment.kind) for segment in found] == [(role, kind)]


def test_system_text_and_tools_are_scopes_of_their_own() -> None:  # G-04, M-08, M-22
    schema = {"type": "object", "properties": {"green hat": {"type": "string"}}}
    tools = [{"name": "f", "description": "look", "input_schema": schema, "cache_control": {"type": "ephemeral"}}]
    segments = MESSAGES.request_segments({**user({"type": "text", "text": "hi"}), "system": "be kind", "tools": tools})
    assert [(s.scope, s.text) for s in segments if s.scope != "tool_def"] == [
        ("system", "be kind"),
        ("conversation", "hi"),
    ]
    assert {s.text for s in segments if s.scope == "tool_def"} >= {"f", "look", "green hat"}


@pytest.mark.parametrize("mime", ["text/plain", "application/json", "text/csv"])
def test_base64_text_is_judged_decoded_and_cannot_be_redacted_in_place(mime: str) -> None:  # G-02
    data = base64.b64encode(CANARY.encode()).decode()
    source = {"type": "base64", "media_type": mime, "data": data}
    (found,) = MESSAGES.request_segments(user({"type": "document", "source": source}))
    assert (found.kind, found.text) == ("text", CANARY)
    assert found.path.endswith("/data#data")


def test_images_are_media() -> None:  # G-05
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    (found,) = MESSAGES.request_segments(user({"type": "image", "source": source}))
    assert found.media is not None
    assert (found.media.mime, found.media.size_bytes) == ("image/png", 2)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["x"]}, "messages[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"system": 1}, "system"),
    ],
)
def test_wrong_types_are_refused_with_their_path(fields: dict[str, Any], param: str) -> None:  # wire §2.2, §2.3
    with pytest.raises(RequestError) as caught:
        MESSAGES.request_segments({**user("x"), **fields})
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize("reply", [{}, {"content": None}, {"content": "x"}, {"type": "error", "error": {}}])
def test_a_reply_of_another_shape_is_refused(reply: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="content blocks"):
        MESSAGES.reply_segments(reply, 1, {})


@pytest.mark.parametrize(
    "raw",
    [
        b': note\nevent: ping\ndata: {"type": "ping"}\n\n',
        b'id: violet umbrella\nevent: ping\ndata: {"type": "ping"}\n\n',
        b'data: {"type": "ping"}\n\n',
        b'event: ping\ndata: {"type":\ndata: "ping"}\n\n',
    ],
)
def test_only_name_and_data_of_an_event_go_on(raw: bytes) -> None:  # G-06, W-29
    (frame,) = SseParser().feed(raw)
    (chunk,) = MESSAGES.open_frames(MESSAGES.new_head("r", 0, "gpt"), {}).read(frame)
    assert orjson.loads(chunk.raw.removeprefix(b"event: ping\ndata: ")) == {"type": "ping"}
