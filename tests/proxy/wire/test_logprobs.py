"""What log-probabilities spell beyond the text beside them is judged, on every route (G-06, W-09)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire.adapter import Adapter
from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.logprobs import entry_texts, is_of_tokens, token_texts
from proxy.wire.responses import RESPONSES
from supervisors.types import Span


def entry(token: str, *others: str, **more: Any) -> dict[str, Any]:
    return {
        "token": token,
        "logprob": -1,
        "top_logprobs": [{"token": other, "logprob": -2} for other in others],
        **more,
    }


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([entry("o", "o"), entry("k", "k")], []),
        ([entry("vio"), entry("let")], ["violet\nvio\nlet"]),
        ([entry("ok"), entry("violet umbrella")], ["okviolet umbrella\nok\nviolet umbrella"]),
        ([entry("o", "o", "vio"), entry("k", "let", "k")], ["vio\nlet\nviolet"]),
        ([entry("o", bytes=[118]), entry("k", bytes=[105])], ["vi\nv\ni"]),
        ([entry("o", bytes=[111, 107]), entry("k")], []),
        ([entry("ok", bytes=[226]), entry("", bytes=[130, 172])], ["€\n\ufffd\n\ufffd\ufffd"]),
        ([entry("o", bytes=[111]), entry("k", bytes=[107])], []),
        ([entry("o", note="violet"), entry("k")], ["note", "violet"]),
        ([entry("o"), entry("k"), "violet"], ["violet"]),
        ([entry("o", top_logprobs=[{"token": "o", "umbrella": "violet"}]), entry("k")], ["umbrella", "violet"]),
        ("violet", ["violet"]),
        ([entry("o"), entry("k", bytes=[118, 105.0, 300])], ["vi,", "vi", "viĬ"]),
        ([entry("ok", bytes=["118", [105], {"x": -1}, None, 1e400])], ["vi\ufffd", "vi", "vi", "118", "x"]),
        ([{**entry("ok"), "top_logprobs": [{"token": "ok", "bytes": [111, 107]}]}], []),
    ],
)
def test_entries_beyond_their_text(entries: Any, found: list[str]) -> None:
    assert [text for _, text in entry_texts(entries, "ok")] == found


def test_the_bytes_of_tokens_that_might_have_been_taken_are_read_alone_and_along_their_ranks() -> None:
    def row(*others: Any) -> Any:
        return {"token": "o", "top_logprobs": [{"token": text, "bytes": numbers} for text, numbers in others]}

    rows = [row(("o", [111]), ("x", [118, 105])), row(("k", [107]), ("let", None))]
    assert "vi\nk\nlet\nok\nvilet" in "\n".join([text for _, text in entry_texts(rows, "oo")])
    found = [text for _, text in entry_texts([row(("x", [118.0, 105.0])), row(("y", [44, 300]))], "oo")]
    assert any("vi,," in text and "vi," in text for text in found)


@pytest.mark.parametrize(
    ("logprobs", "found"),
    [
        ({"tokens": ["o", "k"], "token_logprobs": [-1, -2], "text_offset": [0, 1]}, []),
        ({"tokens": ["vio", "let"]}, ["violet\nvio\nlet"]),
        ({"tokens": ["ok", "violet umbrella"]}, ["okviolet umbrella\nok\nviolet umbrella"]),
        ({"tokens": ["violet umbrella", "s"]}, ["violet umbrellas\nviolet umbrella\ns"]),
        ({"tokens": ["o", "k"], "top_logprobs": [{"o": -1, "vio": -2}, {"let": -1, "k": -3}]}, ["vio\nlet\nviolet"]),
        ({"tokens": ["o", "k"], "top_logprobs": [None, {"k": "violet"}]}, ["violet"]),
        ({"tokens": ["o", "k", 5], "text_offset": "violet"}, ["violet"]),
    ],
)
def test_parallel_lists_beyond_their_text(logprobs: Any, found: list[str]) -> None:
    assert [text for _, text in token_texts(logprobs, {"text": "ok"})] == found


@pytest.mark.parametrize(
    ("tokens", "found"),
    [
        (["a", " violet", " umbrella", "s\n "], []),
        (["a", " violet umbrella", "s\n "], [" violet umbrella"]),
        (["a violet umbrellas\n "], []),
    ],
)
def test_a_token_of_several_words_is_judged_alone_even_where_the_tokens_are_the_text(
    tokens: list[str], found: list[str]
) -> None:
    said = "".join(tokens)
    entries = [entry(token, bytes=list(token.encode())) for token in tokens]
    assert [text for _, text in entry_texts(entries, said)] == found
    assert [text for _, text in token_texts({"tokens": tokens}, {"text": said})] == found


PART: dict[str, Any] = {
    "type": "output_text",
    "text": "ok",
    "annotations": [],
    "logprobs": [entry("o", "violet"), entry("k")],
}
WHOLE: list[tuple[Adapter, dict[str, Any], str]] = [
    (
        CHAT,
        {
            "choices": [
                {"index": 0, "message": {"content": "ok"}, "logprobs": {"content": [entry("o", "violet"), entry("k")]}}
            ]
        },
        "/choices/0/logprobs/content/top_logprobs",
    ),
    (
        COMPLETIONS,
        {"choices": [{"index": 0, "text": "ok", "logprobs": {"tokens": ["o", "k"], "top_logprobs": [{"violet": -1}]}}]},
        "/choices/0/logprobs/top_logprobs",
    ),
    (
        RESPONSES,
        {"output": [{"type": "message", "role": "assistant", "content": [PART]}]},
        "/output/0/content/0/logprobs/top_logprobs",
    ),
]


@pytest.mark.parametrize(("adapter", "reply", "path"), WHOLE)
def test_a_redaction_of_tokens_drops_them_and_leaves_the_text(adapter: Adapter, reply: Any, path: str) -> None:
    assert (path, "violet") in [(one.path, one.text) for one in adapter.reply_segments(reply, 1, {})[0]]
    assert is_of_tokens(path)
    adapter.mask_logprobs(reply, 0, [Span(path, 0, 6, "canary")])
    assert "violet" not in str(reply)
    assert "ok" in str(reply)


@pytest.mark.parametrize(
    "path", ["/choices/0/message/logprobs/x", "/note/logprobs", "/choices/0/logprobsx", "/choices/0"]
)
def test_other_paths_are_no_tokens(path: str) -> None:
    assert not is_of_tokens(path)
