"""Scripted models of supervisors: they say unsafe exactly when the canary is in what they are to judge. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

from proxy.matrix.cells import CANARY, Body
from proxy.wire.moderations import openai_rows
from supervisors.judge import Judge

_NONCE: Final = re.compile(r"whose nonce is ([0-9a-f]+)")
_SPACE: Final = re.compile(r"\s+")


def holds_canary(texts: Iterator[str] | list[str]) -> bool:
    """Say whether the canary stands in the texts, or across two of them."""
    found = list(texts)
    return any(CANARY in joined or CANARY in _SPACE.sub(" ", joined) for joined in ("".join(found), " ".join(found)))


def texts_of(value: object) -> Iterator[str]:
    """Yield every string of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for child in cast("Mapping[str, object]", value).values():
            yield from texts_of(child)
    elif isinstance(value, list):
        for child in cast("list[object]", value):
            yield from texts_of(child)


def judge_model(judge: Judge) -> Callable[[Body], Body]:
    """Return the model of a judge: it reads the passages marked as judged, and knows the words it may use."""
    words = {meaning: word for word, meaning in reversed(judge.labels.items())}

    def answer(body: Body) -> Body:
        asked: str = body["messages"][-1]["content"]
        nonce = _NONCE.findall(asked)[-1]
        blocks = re.findall(rf"<<<{nonce} JUDGE [^>]*>>>\n(.*?)\n<<<{nonce} END>>>", asked, re.DOTALL)
        unsafe = holds_canary(blocks)
        verdict = {"nonce": nonce, "label": words["unsafe" if unsafe else "safe"], "score": float(unsafe)}
        return _completion(json.dumps({**verdict, "categories": [], "reason": ""}))

    return answer


def guard_model(body: Body) -> Body:
    """Answer as guards of the Llama Guard family do."""
    return _completion("unsafe\nS1" if holds_canary(_joined(body)) else "safe")


def _joined(body: Body) -> list[str]:
    texts = [text for message in body["messages"] for text in texts_of(message["content"])]
    return ["".join([text.replace("\n", "") for text in texts]), *texts]


def moderation_model(body: Body) -> Body:
    """Answer as OpenAI's moderation service does: each string on its own."""
    results: list[Body] = []
    for text in body["input"]:
        flagged = CANARY in text
        rows = openai_rows()
        results.append(
            {
                "flagged": flagged,
                "categories": dict.fromkeys(rows, flagged),
                "category_scores": dict.fromkeys(rows, float(flagged)),
            }
        )
    return {"id": "modr-1", "model": "scripted", "results": results}


def _completion(text: str) -> Body:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [choice],
        "usage": usage,
    }
