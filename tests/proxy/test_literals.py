"""G-37: where a redaction of JSON that is still coming leaves it valid, and where it cannot."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.literals import masks_strings
from proxy.redact import Mark, mask

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('a"\\é\n{[,: \U0001f600', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\:{', max_size=3), inner, max_size=3),
    max_leaves=8,
)
JSON = st.lists(VALUES, max_size=3) | st.dictionaries(st.text("ab", max_size=2), VALUES, max_size=3)


@settings(max_examples=400, deadline=None)
@given(value=JSON, spaced=st.booleans(), data=st.data())
def test_a_mask_that_is_allowed_leaves_valid_json_with_the_same_keys(
    value: Any, spaced: bool, data: st.DataObject
) -> None:
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 if spaced else 0).decode()
    start = data.draw(st.integers(0, len(text)))
    mark = Mark(start, data.draw(st.integers(start, len(text))), "x")
    if masks_strings(text, [mark]):
        assert skeleton(orjson.loads(mask(text, [mark]))) == skeleton(value)
        for end in range(mark.end, len(text)):  # whatever has come of it says the same
            assert masks_strings(text[:end], [mark])


def skeleton(value: Any) -> Any:
    if isinstance(value, str):
        return ""
    if isinstance(value, dict):
        return {key: skeleton(child) for key, child in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # JSON
    return [skeleton(child) for child in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType] # JSON


@pytest.mark.parametrize(
    ("text", "part", "allowed"),
    [
        ('{"a": "my umbrella"}', "umbrella", True),
        ('{"a": "my umbrella', "umbrella", True),
        ('{"a": ["x", "my umbrella"], "b": 1}', "umbrella", True),
        ('{"umbrella": 1}', "umbrella", False),
        ('{"a": {"umbrella": "x"}}', "umbrella", False),
        ('{"a": "um", "b": "x"}', 'um", "b', False),
        ('{"a": 12345}', "234", False),
        ('{"a": "\\u0075mbrella"}', "0075mbrella", False),
        ('{"a": "\\ud83d\\ude00 x"}', "\\ud83d", False),
        ('{"a": "\\" umbrella"}', "umbrella", True),
        ("Well, my umbrella", "umbrella", True),
    ],
)
def test_only_the_inside_of_one_string_can_be_masked(text: str, part: str, allowed: bool) -> None:
    start = text.index(part)
    assert masks_strings(text, [Mark(start, start + len(part), "x")]) is allowed


def test_a_category_that_would_break_the_string_is_not_written_into_it() -> None:
    assert not masks_strings('{"a": "umbrella"}', [Mark(7, 9, 'x"y')])
