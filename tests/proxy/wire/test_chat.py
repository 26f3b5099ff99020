"""Every text of a chat body is in a segment, or its field is on the allow-list (guarding G-01, G-02, wire W-13)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from proxy.wire.chat import CHAT
from proxy.wire.errors import RequestError
from proxy.wire.segments import DATA
from supervisors.types import Segment
from tests.proxy.wire.planting import Path, leaves, planted, pointer

CANARY = "violet umbrella"
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
"""Without shrinking: the generated bodies are small, and shrinking them takes minutes."""
WORDS = st.sampled_from(["a word", "another", "x/y", "tilde ~ slash /", "", "déjà vu", "{}", "data: none"])
KEYS = st.sampled_from(["future", "a/b", "til~de", "type", "text", "detail", "x", "content", "name", "value"])
LEAVES = st.one_of(WORDS, st.none(), st.booleans(), st.integers(-5, 5), st.floats(-2, 2))
UNKNOWN = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)

ALLOWED_TOP = {
    "model",
    "service_tier",
    "stop",
    "stream_options",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "metadata",
}
"""Fields of a request whose text reaches the provider but not the model (the allow-list of guarding §1)."""
ALLOWED_ANYWHERE = {"role", "type", "id", "tool_call_id", "file_id", "index", "object", "expires_at"}
ALLOWED_REPLY = {"id", "object", "created", "model", "usage", "system_fingerprint", "service_tier", "obfuscation"}


def shape(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects that hold some of these fields and some unknown ones."""
    known = st.fixed_dictionaries({}, optional=fields)
    unknown = st.dictionaries(KEYS.filter(lambda key: key not in fields), UNKNOWN, max_size=2)
    return st.tuples(known, unknown).map(lambda both: {**both[1], **both[0]})


IMAGE = shape(url=WORDS | st.just("https://host.example/a.png"), detail=st.sampled_from(["low", "odd"]))
AUDIO = shape(id=WORDS, data=WORDS, format=st.sampled_from(["mp3", "odd"]), transcript=WORDS)
FILE = shape(filename=WORDS, file_data=WORDS, file_id=WORDS)
PART = st.one_of(
    shape(type=st.just("text"), text=WORDS),
    shape(type=st.just("image_url"), image_url=IMAGE | WORDS),
    shape(type=st.just("input_audio"), input_audio=AUDIO),
    shape(type=st.just("file"), file=FILE),
    shape(type=st.just("refusal"), refusal=WORDS),
    UNKNOWN,
)
FUNCTION = shape(name=WORDS, arguments=WORDS | st.just('{"q": "line\\nbreak"}') | UNKNOWN)
CALL = shape(
    id=WORDS, type=st.sampled_from(["function", "custom"]), function=FUNCTION, custom=shape(name=WORDS, input=WORDS)
)
MESSAGE_FIELDS: Mapping[str, st.SearchStrategy[Any]] = {
    "name": WORDS,
    "refusal": WORDS | st.none(),
    "tool_call_id": WORDS,
    "tool_calls": st.lists(CALL, max_size=3),
    "function_call": FUNCTION,
    "audio": AUDIO,
    "reasoning_content": WORDS,
    "reasoning": UNKNOWN,
    "annotations": st.lists(UNKNOWN, max_size=2),
}
CONTENT = WORDS | st.none() | st.lists(PART, max_size=4)


def message(role: str) -> st.SearchStrategy[dict[str, Any]]:
    return shape(content=CONTENT, **MESSAGE_FIELDS).map(lambda fields: {**fields, "role": role})


MESSAGE = st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"]).flatmap(message)
SCHEMA = shape(type=st.just("object"), description=WORDS, properties=UNKNOWN, enum=st.lists(WORDS, max_size=2))
TOOL = shape(
    type=st.sampled_from(["function", "custom", "odd"]),
    function=shape(name=WORDS, description=WORDS, parameters=SCHEMA, strict=st.booleans()),
)
OPTIONAL = shape(
    tools=st.lists(TOOL, max_size=2) | UNKNOWN,
    functions=st.lists(SCHEMA, max_size=2),
    tool_choice=st.sampled_from(["auto", "odd"]) | shape(type=st.just("function"), function=shape(name=WORDS)),
    response_format=shape(type=st.just("json_schema"), json_schema=shape(name=WORDS, schema=SCHEMA)),
    prediction=shape(type=st.just("content"), content=CONTENT) | WORDS,
    audio=shape(voice=WORDS, format=st.just("mp3")),
    modalities=st.lists(st.sampled_from(["text", "audio", "odd"]) | UNKNOWN, max_size=2),
    reasoning_effort=st.sampled_from(["low", "odd"]) | UNKNOWN,
    web_search_options=UNKNOWN,
    logit_bias=UNKNOWN,
    metadata=UNKNOWN,
    stop=st.lists(WORDS, max_size=2),
    user=WORDS,
    n=st.integers(1, 3),
)
BODY = st.tuples(st.lists(MESSAGE, min_size=1, max_size=3), OPTIONAL).map(
    lambda parts: {**parts[1], "model": "gpt", "messages": parts[0]}
)
REPLY_MESSAGE = message("assistant")
CHOICE = shape(message=REPLY_MESSAGE | UNKNOWN, finish_reason=st.just("stop"), delta=UNKNOWN, text=WORDS)
REPLY = st.tuples(st.lists(CHOICE, min_size=1, max_size=3), shape(id=WORDS, usage=UNKNOWN)).map(
    lambda parts: {
        "id": "a",
        **parts[1],
        "choices": [{**choice, "index": index} for index, choice in enumerate(parts[0])],
    }
)


def text_at(value: Any, at: Path) -> str:
    for part in at:
        value = value[part]
    return str(value)


def is_allowed(at: Path, top: set[str], segments: Iterable[Segment]) -> bool:
    """Say whether text there may be in no segment: its field is on the list, or it is media, or sound that reads."""
    paths = {segment.path for segment in segments if segment.media is not None}
    paths |= {segment.path.removesuffix(DATA) for segment in segments if CANARY in segment.text}  # W-12
    return at[0] in top or bool(set(at[1:]) & ALLOWED_ANYWHERE) or pointer(at) in paths


@settings(max_examples=200, deadline=None, phases=QUICK)
@given(body=BODY, data=st.data())
def test_a_canary_anywhere_in_a_request_is_in_one_segment(body: dict[str, Any], data: st.DataObject) -> None:  # G-01
    paths = [at for at in leaves(body) if at[-1] != "role"]
    at = data.draw(st.sampled_from(paths or [("model",)]))
    segments = CHAT.request_segments(planted(body, at, CANARY))
    found = [segment for segment in segments if CANARY in segment.text and "#" not in segment.path]
    if len(found) != 1:
        assert is_allowed(at, ALLOWED_TOP, segments), at
    elif found[0].kind != "tool_def" or found[0].path == pointer(at):
        assert found[0].path == pointer(at)


@settings(max_examples=200, deadline=None, phases=QUICK)
@given(reply=REPLY, data=st.data())
def test_a_canary_anywhere_in_a_reply_is_in_one_segment_of_one_choice(
    reply: dict[str, Any], data: st.DataObject
) -> None:  # G-01, M-05
    paths = [at for at in leaves(reply) if at[-1] != "role" and not (at[0] == "choices" and at[-1] == "finish_reason")]
    at = data.draw(st.sampled_from(paths or [("id",)]))
    choices = CHAT.reply_segments(planted(reply, at, CANARY), 1, {})
    found = [
        (choice, segment)
        for choice, segments in choices.items()
        for segment in segments
        if CANARY in segment.text and "#" not in segment.path
    ]
    if len(found) != 1:
        assert is_allowed(at, ALLOWED_REPLY, [one for each in choices.values() for one in each]), at
    else:
        assert found[0][1].path == pointer(at)
        assert at[0] != "choices" or found[0][0] == at[1]


@settings(max_examples=60, deadline=None, phases=QUICK)
@given(body=BODY)
def test_paths_of_segments_are_unique_and_lead_to_their_text(body: dict[str, Any]) -> None:  # G-07
    keys = ("tool_def", "tool_args")  # the keys of an object are a segment at the object's path
    segments = [s for s in CHAT.request_segments(body) if "#" not in s.path and s.media is None and s.kind not in keys]
    assert len({segment.path for segment in segments}) == len(segments)
    for segment in segments:
        assert (segment.path, segment.text) in [(pointer(at), text_at(body, at)) for at in leaves(body)]


def user(*parts: object) -> dict[str, Any]:
    return {"model": "gpt", "messages": [{"role": "user", "content": list(parts)}]}


def encode(text: str, encoding: str = "utf-8") -> str:
    return base64.b64encode(text.encode(encoding)).decode()


@pytest.mark.parametrize(
    "url",
    [
        f"data:text/plain;base64,{encode(CANARY)}",
        f"data:text/plain;charset=utf-8;base64,{encode(CANARY)}",
        f"DATA:text/plain;base64,{encode(CANARY)}",
        f"data:Text/CSV;BASE64,{encode(CANARY)}",
        f"data:application/json;base64,{encode(CANARY)}",
        f"data:application/ld+json;base64,{encode(CANARY)}",
        "data:,violet%20umbrella",
        "data:text/html,violet%20umbrella",
        f"data:text/plain;charset=utf-16;base64,{encode(CANARY, 'utf-16')}",
        f'data:text/plain;charset="utf-16le";base64,{encode(CANARY, "utf-16-le")}',
        f"data:text/plain;charset=latin1;base64,{encode(CANARY, 'latin-1')}",
    ],
)
def test_text_of_a_data_url_is_judged_as_text(url: str) -> None:  # G-02
    for part in (
        {"type": "file", "file": {"file_data": url}},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "image_url", "image_url": url},
    ):
        assert [(s.kind, s.text) for s in CHAT.request_segments(user(part))] == [("text", CANARY)]


@pytest.mark.parametrize(
    "url",
    [
        f"data:text/plain;base64,{encode(CANARY, 'utf-16')}",  # not what it says
        f"data:text/plain;base64,{encode(CANARY, 'utf-16-le')}",  # valid UTF-8 full of NULs
        f"data:text/plain;charset=klingon;base64,{encode(CANARY)}",
        "data:text/plain;base64,not base64!",
        f"data:image/png;base64,{encode('png')}",
        f"data:image/svg+xml;base64,{encode(CANARY)}",
    ],
)
def test_a_data_url_that_cannot_be_read_as_text_is_media_and_so_never_silently_safe(url: str) -> None:  # G-05
    segments = CHAT.request_segments(user({"type": "file", "file": {"file_data": url}}))
    assert [segment.kind for segment in segments] == ["media"]
    assert segments[0].media is not None


def test_keys_of_tool_definitions_and_schemas_are_judged() -> None:  # G-01: the model reads them
    parameters = {"type": "object", "properties": {CANARY: {"type": "string"}}}
    for fields in (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": parameters}}]},
        {"functions": [{"name": "f", "parameters": parameters}]},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "f", "schema": parameters}}},
    ):
        segments = CHAT.request_segments({**user("x"), **fields})
        assert [s.scope for s in segments if CANARY in s.text] == ["tool_def"]


def test_keys_of_arguments_that_are_no_text_are_judged() -> None:  # M-06
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {CANARY: 1}}}
    body = {"model": "gpt", "messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}
    assert [s.kind for s in CHAT.request_segments(body) if CANARY in s.text] == ["tool_args"]


def test_an_escape_inside_arguments_is_judged_decoded() -> None:  # G-01
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"q": "violet\\u0020umbrella"}'}}
    body = {"model": "gpt", "messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}
    assert [s.path for s in CHAT.request_segments(body) if CANARY in s.text] == [
        "/messages/0/tool_calls/0/function/arguments#/q"
    ]


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"role": "user", "content": [{"type": ["x"], "text": CANARY}]}, "/messages/0/content/0/text"),
        ({"role": "user", "content": [{"type": {"a": CANARY}}]}, "/messages/0/content/0/type/a"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"detail": [CANARY]}}]}, None),
        ({"role": "assistant", "audio": {"format": [CANARY]}}, "/messages/0/audio/format/0"),
        ({"role": "user", "content": [[CANARY]]}, "/messages/0/content/0/0"),
        ({"role": "assistant", "tool_calls": CANARY}, "/messages/0/tool_calls"),
        ({"role": "assistant", "tool_calls": {"function": {"name": CANARY}}}, "/messages/0/tool_calls/function/name"),
    ],
)
def test_odd_shapes_are_judged_and_break_nothing(message: dict[str, Any], path: str | None) -> None:  # W-13, M-19
    segments = CHAT.request_segments({"model": "gpt", "messages": [message]})
    found = [segment.path for segment in segments if CANARY in segment.text]
    assert found == [path or "/messages/0/content/0/image_url/detail/0"]


@pytest.mark.parametrize(
    "field", ["modalities", "reasoning_effort", "tool_choice", "logit_bias", "tools", "moderation"]
)
@pytest.mark.parametrize("value", [CANARY, [CANARY], {"x": CANARY}, [{"x": CANARY}], [[CANARY]], {"mode": CANARY}])
def test_enumerations_with_another_value_are_judged(field: str, value: object) -> None:  # G-01
    segments = CHAT.request_segments({**user("x"), field: value})
    assert [segment.text for segment in segments if CANARY in segment.text] == [CANARY]


@pytest.mark.parametrize(
    "reply",
    [
        {"choices": [{"index": 0, "message": CANARY}]},
        {"choices": [CANARY]},
        {"choices": [{"index": 0, "text": CANARY}]},
        {"choices": [{"index": 0, "message": {"content": "x"}, "delta": {"content": CANARY}}]},
        {"choices": [{"index": 0, "message": {"content": "x"}}], "note": {"a": [CANARY]}},
    ],
)
def test_odd_replies_are_judged(reply: dict[str, Any]) -> None:  # G-06
    texts = [segment.text for segments in CHAT.reply_segments(reply, 1, {}).values() for segment in segments]
    assert CANARY in texts


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"choices": None},
        {"choices": {}},
        {"choices": []},
        {"choices": [], "note": CANARY},
        {"choices": [{"index": "0"}]},
        {"choices": [{"index": 0}, {"index": 0}]},
    ],
)
def test_a_reply_without_choices_of_their_own_is_refused(reply: dict[str, Any]) -> None:  # G-06
    with pytest.raises(ValueError, match="choice"):
        CHAT.reply_segments(reply, 1, {})


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["x"]}, "messages[0]"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "wizard"}]}, "messages[0].role"),
        ({"messages": [{"role": ["user"]}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": {"text": "x"}}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
    ],
)
def test_wrong_types_are_a_400_with_the_path(body: dict[str, Any], param: str) -> None:  # §2.2
    with pytest.raises(RequestError) as caught:
        CHAT.request_segments(body)
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize("n", [0, -1, True, "2", 1.5, [], {}])
def test_n_must_be_a_positive_integer(n: object) -> None:
    with pytest.raises(RequestError) as caught:
        CHAT.choice_count({"n": n})
    assert caught.value.param == "n"
