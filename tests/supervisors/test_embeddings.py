from __future__ import annotations

import math
from typing import Any

import pytest

from supervisors.embeddings import Embedder, cosine, embed, read_vectors
from supervisors.errors import ChatRefused, ReplyError
from supervisors.testing import FakeContext

EMBEDDER = Embedder("http://127.0.0.1:1/v1/", "m")


def body(*vectors: object) -> dict[str, Any]:
    return {
        "data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)],
        "usage": {"prompt_tokens": 7},
    }


def test_vectors_come_in_the_order_of_the_texts_with_length_one() -> None:
    shuffled = {"data": [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 4]}]}
    assert read_vectors(shuffled, 2) == [(0.6, 0.8), (0.0, 1.0)]
    assert math.isclose(cosine((0.6, 0.8), (0.6, 0.8)), 1.0)  # LX-02


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"data": {}},
        body([1.0, 0.0]),
        body([1.0], [1.0], [1.0]),
        body([1.0], []),
        body([1.0], [0.0]),
        body([1.0], ["1"]),
        body([1.0], [True]),
        body([1.0], [float("nan")]),
        body([1.0], [float("inf")]),
        body([1.0], "AAAA"),
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 5, "embedding": [1.0]}]},
    ],
)
def test_a_reply_without_one_vector_a_text_is_unreadable(answer: object) -> None:
    with pytest.raises(ReplyError, match="usable vectors for 2 texts"):
        read_vectors(answer, 2)


async def test_many_texts_go_in_several_calls() -> None:
    fake = FakeContext(posts=[(200, body(*[[1.0, 0.0]] * 32)), (200, body(*[[0.0, 1.0]] * 8))])
    found = await embed(EMBEDDER, [f"text {i}" for i in range(40)], fake)
    assert [len(call[1]["input"]) for call in fake.posted if isinstance(call[1], dict)] == [32, 8]  # pyright: ignore[reportUnknownArgumentType]
    assert (len(found.vectors), found.tokens, fake.posted[0][0]) == (40, 14, "http://127.0.0.1:1/v1/embeddings")


async def test_another_length_or_a_refusal_is_an_error() -> None:
    with pytest.raises(ReplyError, match="different lengths"):
        await embed(EMBEDDER, ["a", "b"], FakeContext(posts=[(200, body([1.0], [1.0, 2.0]))]))
    with pytest.raises(ChatRefused, match="answered 404"):
        await embed(EMBEDDER, ["a"], FakeContext(posts=[(404, {"error": {}})]))
