"""X-10: what is taken out of somebody else's sentence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.scrub import scrub
from tests.timing import assert_linear


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max_tokens is too large: 99999. This model supports at most 4096.",) * 2,
        ("Invalid value for 'temperature': expected 0 to 2.",) * 2,
        ("The model gpt-4.1-mini does not exist.",) * 2,
        ("Rate limit reached: 3 requests per 1.5 s.",) * 2,
        ("see https://platform.example.com/docs?a=b for help", "see [url] for help"),
        ("Incorrect API key provided: sk-proj-abc***wxyz.", "Incorrect API key provided: [key]"),
        ("key sk-1234567890abcdef is bad", "key [key] is bad"),
        ("header Authorization: Bearer abc.def", "header Authorization: [key]"),
        ("in organization org-a1B2c3D4 on tokens", "in organization [id] on tokens"),
        ("request 123e4567-e89b-12d3-a456-426614174000 failed", "request [id] failed"),
        ("cannot open /srv/models/llama.gguf", "cannot open [path]"),
        ("cannot open ~/models/llama.gguf", "cannot open [path]"),
        (r"cannot open C:\models\llama.gguf now", "cannot open [path] now"),
        ("connect to 10.1.2.3:8000 failed", "connect to [host] failed"),
        ("connect to localhost:8000 failed", "connect to [host] failed"),
        ("connect to judge.svc.local failed", "connect to [host] failed"),
        ("connect to judge-0:8000 failed", "connect to [host] failed"),
        ("connect to [::1]:8000 failed", "connect to [host] failed"),
        ("ask admin@corp.example for help", "ask [address] for help"),
        ("two\nlines\x00and\ttabs", "two lines and tabs"),
        ("token abcdefghijklmnopqrstuvwxyz0123 was refused", "token [id] was refused"),
    ],
)
def test_sentences_keep_their_sense_and_lose_their_secrets(text: str, expected: str) -> None:
    assert scrub(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{'error': 'no'}",
        '["a"]',
        "<html><body>",
        "Traceback (most recent call last):",
        'File "x.py", line 3',
        "ValueError('no')",
        "<Foo object at 0x7f00>",
        "",
        "  ",
    ],
)
def test_what_is_no_prose_is_nothing(text: str) -> None:  # E-01
    assert scrub(text) is None


def test_known_secrets_are_removed_wherever_they_stand() -> None:
    assert scrub("xvioletx violet", ("violet", "")) == "x[key]x [key]"


def test_long_texts_are_cut() -> None:
    assert len(scrub("a b " * 1000) or "") == 500


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300), st.sampled_from(["sk-proj-Abcdef123456", "https://host/x", "10.0.0.1", "/srv/x/y"]))
def test_a_secret_between_any_words_is_removed(around: str, secret: str) -> None:
    assert secret not in (scrub(f"{around} {secret} {around}") or "")


@pytest.mark.parametrize("piece", ["a.", "1.", "/a", "a-1", "[:", "sk-", "x@", "a:", "http:"])
def test_no_pattern_is_slow_on_what_almost_matches(piece: str) -> None:
    assert_linear(lambda size: scrub(piece * size), 500)
