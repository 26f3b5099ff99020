"""The strict parse and the fields no caller may send (wire W-21, §2.3, §2.4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import orjson
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from proxy.wire.body import parse_body, refuse_forbidden, take_bool, take_guardrails
from proxy.wire.errors import RequestError
from proxy.wire.segments import as_list

DEPTH = 64
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)


class Refused(ValueError):
    """The reference parser refuses."""


def reference(raw: bytes) -> Any:
    """Parse with the standard library, strictly: the specification in code."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise Refused
        return dict(pairs)

    def whole(digits: str) -> int:
        value = int(digits) if len(digits) < 4000 else 1 << 70
        if not -(1 << 63) <= value < 1 << 64:
            raise Refused
        return value

    def constant(word: str) -> float:
        raise Refused(word)

    try:
        text = raw.decode("utf-8")
        value: Any = json.loads(text, object_pairs_hook=unique, parse_int=whole, parse_constant=constant)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # lone surrogates
    except (ValueError, RecursionError) as error:
        raise Refused from error
    if not isinstance(value, dict) or depth(value) > DEPTH or any(infinite(value)):
        raise Refused
    return cast("dict[str, Any]", value)


def children(value: Any) -> list[Any] | None:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return as_list(value)


def depth(value: Any) -> int:
    inner = children(value)
    return 0 if inner is None else 1 + max([depth(child) for child in inner], default=0)


def infinite(value: Any) -> Iterator[bool]:
    if isinstance(value, float):
        yield value in (float("inf"), float("-inf"))
    for child in children(value) or ():
        yield from infinite(child)


def agree(raw: bytes) -> None:
    """Assert that the proxy accepts exactly what the reference accepts, and reads and re-serialises the same."""
    try:
        expected = reference(raw)
    except Refused:
        with pytest.raises(RequestError) as caught:
            parse_body(raw, DEPTH)
        assert (caught.value.status, caught.value.code) == (400, "invalid_json")
        return
    found = parse_body(raw, DEPTH)
    assert found == expected
    assert list(found) == list(expected)
    assert json.loads(orjson.dumps(found)) == expected


EXAMPLES = [
    b"{}",
    b'{"a":1}',
    b"[]",
    b'"x"',
    b"null",
    b"",
    b"   ",
    b"{",
    b'{"a":1}}',
    b'{"a":1} x',
    b'{"a":1}\n \t',
    b'{"a":1,}',
    b"{'a':1}",
    b"{a:1}",
    b'{"a":1/**/}',
    b"\xef\xbb\xbf{}",
    b'{"a":"\xff"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\\ud800"}',
    b'{"a":"\\udc00\\ud800"}',
    b'{"a":"\\ud83d\\ude00"}',
    b'{"\\ud800":1}',
    b'{"a":NaN}',
    b'{"a":Infinity}',
    b'{"a":-Infinity}',
    b'{"a":1e400}',
    b'{"a":-1e400}',
    b'{"a":1e-400}',
    b'{"a":01}',
    b'{"a":+1}',
    b'{"a":1.}',
    b'{"a":.5}',
    b'{"a":-0}',
    b'{"a":-0.0}',
    b'{"a":1.0}',
    b'{"a":1E5}',
    b'{"a":9223372036854775807}',
    b'{"a":18446744073709551615}',
    b'{"a":18446744073709551616}',
    b'{"a":-9223372036854775808}',
    b'{"a":-9223372036854775809}',
    b'{"a":' + b"9" * 5000 + b"}",
    b'{"a":0.1234567890123456789012345}',
    b'{"a":12345678901234567890.5}',
    b'{"a":1,"a":1}',
    b'{"a":1,"b":{"c":1,"c":2}}',
    b'{"b":[{"c":1,"c":2}]}',
    b'{"model":"x","\\u006dodel":"y"}',
    b'{"\\u006dodel":"x","model":"y"}',
    b'{"a":"::","a":"x"}',
    b'{"a":"x\\u003ay","a":":"}',
    b'{"a":"\\u003a","b":"\\u003A"}',
    b'{"a":"x\\u003a","a":1,"b":2}',
    b'{"a":{"x":":"},"a":{"y\\u003a":1}}',
    b'{"":1,"":2}',
    b'{"a":"tab\tinside"}',
    b'{"a":"\x00"}',
    b'{"a":"\\u0000"}',
    b'{"a":"\x7f"}',
    b'{"a":"\\x41"}',
    b'{"a":"\\/"}',
    b'{"a":' + b"[" * 63 + b"]" * 63 + b"}",
    b'{"a":' + b"[" * 64 + b"]" * 64 + b"}",
    b'{"a":' + b'{"a":' * 70 + b"1" + b"}" * 71,
    b'{"a":' + b"[" * 100_000,
    b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}",
    b'{"a":' + b"[[]," * 60 + b"1" + b"]" * 60 + b"}",
    '{"a":1}'.encode("utf-16"),
    '{"a":1}'.encode("utf-16-le"),
    '{"a":1}'.encode("utf-32"),
    b'{"a" :\r\n1 , "b":[ ] }',
]


@pytest.mark.parametrize("raw", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_parse_is_that_of_the_strict_reference(raw: bytes) -> None:  # W-21
    agree(raw)


TEXTS = st.text(st.sampled_from('ab:"\\{}[]\u00e9\U0001f600\n,'), max_size=6)
KEYS = st.sampled_from(["model", "messages", "a", ":", "a:b", "", "\u00e9", "x"])
SCALARS = TEXTS | st.none() | st.booleans() | st.integers(-(2**64), 2**65) | st.floats(allow_nan=False)


class Pairs(list[tuple[str, Any]]):
    """An object with possibly repeated keys."""


VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(KEYS, inner), max_size=4).map(Pairs),
    max_leaves=10,
)


def write(value: Any, escape: Iterator[bool]) -> str:
    """Serialise, with repeated keys kept and characters escaped at random."""
    if isinstance(value, Pairs):
        return "{" + ",".join([f"{write(key, escape)}:{write(child, escape)}" for key, child in value]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([write(child, escape) for child in children(value) or ()]) + "]"
    if isinstance(value, str) and next(escape):
        units = value.encode("utf-16-be")
        return '"' + "".join([f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)]) + '"'
    return json.dumps(value, ensure_ascii=False)


@settings(max_examples=500, deadline=None, phases=QUICK)
@given(pairs=st.lists(st.tuples(KEYS, VALUES), max_size=4).map(Pairs), random=st.randoms(use_true_random=False))
def test_any_json_with_repeats_and_escapes_is_read_as_the_reference_reads_it(pairs: Pairs, random: Any) -> None:
    escapes = iter(lambda: random.random() < 0.3, None)  # W-21
    agree(write(pairs, escapes).encode())


@settings(max_examples=500, deadline=None, phases=QUICK)
@given(
    pairs=st.lists(st.tuples(KEYS, VALUES), max_size=3).map(Pairs),
    at=st.integers(0, 200),
    junk=st.binary(max_size=3)
    | st.sampled_from([b'"', b",", b":", b"}", b"]", b"\\u003a", b"\\ud800", b"NaN", b"1e999"]),
)
def test_damaged_json_is_read_as_the_reference_reads_it(pairs: Pairs, at: int, junk: bytes) -> None:  # W-21
    raw = write(pairs, iter(lambda: False, None)).encode()
    agree(raw[:at] + junk + raw[at:])


def test_messages_show_no_more_than_a_piece_of_a_key() -> None:  # §4
    with pytest.raises(RequestError) as caught:
        parse_body(b'{"' + b"k" * 5000 + b'":1,"' + b"k" * 5000 + b'":2}', DEPTH)
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("body", "param"),
    [
        *[({name: "x"}, name) for name in ("api_base", "base_url", "api_key", "api_version", "custom_llm_provider")],
        *[({name: "x"}, name) for name in ("proxies", "extra_headers", "extra_query", "organization", "proxy")],
        *[({name: "x"}, name) for name in ("extra_body", "mock_response", "fallbacks", "deployment_id", "config")],
        *[({f"{prefix}_x": 1}, f"{prefix}_x") for prefix in ("vertex", "aws", "azure", "litellm")],
        ({"metadata": {"api_key": "x"}}, "metadata.api_key"),
        ({"metadata": {"a": [{"b": {"base_url": "x"}}]}}, "metadata.a[0].b.base_url"),
        ({"model_config": {"azure_ad": 1}}, "model_config.azure_ad"),
        ({"litellm_params": {}}, "litellm_params"),
        ({"API_BASE": "x"}, "API_BASE"),
        ({"metadata": {"Api_Key": "x"}}, "metadata.Api_Key"),
    ],
)
def test_addresses_and_credentials_are_refused(body: dict[str, Any], param: str) -> None:  # §2.3, X-02
    with pytest.raises(RequestError) as caught:
        refuse_forbidden(body)
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", param)


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "api_key"}]},
        {"metadata": {"organization": "x", "proxy": "y", "config": "z", "fallbacks": []}},
        {"tools": [{"function": {"parameters": {"properties": {"api_key": {"type": "string"}}}}}]},
        {"response_format": {"json_schema": {"schema": {"properties": {"base_url": {}}}}}},
        {"user": "azure_x"},
    ],
)
def test_legitimate_words_pass_where_the_callers_own_words_stand(body: dict[str, Any]) -> None:  # §2.3
    refuse_forbidden(body)
    with pytest.raises(RequestError):
        refuse_forbidden({**body, "api_key": "x"})


def test_a_long_path_is_cut() -> None:
    with pytest.raises(RequestError) as caught:
        refuse_forbidden({"metadata": {"k" * 10_000: {"api_key": 1}}})
    assert len(caught.value.param or "") <= 300
    assert len(caught.value.message) <= 400


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, None),
        ({"guardrails": []}, ()),
        ({"guardrails": ["a", "b", "a"]}, ("a", "b")),
        ({"metadata": {"guardrails": ["a"]}}, ("a",)),
        ({"guardrails": ["b"], "metadata": {"guardrails": ["a"], "x": 1}}, ("b", "a")),
        ({"metadata": "guardrails"}, None),
    ],
)
def test_names_are_taken_out_of_the_body(body: dict[str, Any], names: tuple[str, ...] | None) -> None:  # §2.4
    assert take_guardrails(body) == names
    assert "guardrails" not in body
    assert "guardrails" not in body.get("metadata", {}) or isinstance(body["metadata"], str)


@pytest.mark.parametrize(
    "value", [{}, {"disable": True}, {"options": {}}, "a", 1, True, None, [1], [["a"]], [{"name": "a"}]]
)
@pytest.mark.parametrize("where", ["top", "metadata"])
def test_anything_but_names_is_refused(value: object, where: str) -> None:  # §2.4: ignoring it would look like success
    body: dict[str, Any] = {"guardrails": value} if where == "top" else {"metadata": {"guardrails": value}}
    with pytest.raises(RequestError) as caught:
        take_guardrails(body)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "invalid_guardrails", "guardrails")


@pytest.mark.parametrize(("value", "expected"), [(None, False), (True, True), (False, False)])
def test_booleans(value: object, expected: bool) -> None:
    assert take_bool({"stream": value}, "stream") is expected
    assert take_bool({}, "stream") is False


@pytest.mark.parametrize("value", [0, 1, "true", [], {}])
def test_other_types_are_no_booleans(value: object) -> None:  # §2.2
    with pytest.raises(RequestError) as caught:
        take_bool({"stream": value}, "stream")
    assert caught.value.param == "stream"
