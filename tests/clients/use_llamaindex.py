"""Use LlamaIndex's `OpenAILike` against a proxy: run by its own Python, prints one JSON object a case.

Usage: ``use_llamaindex.py BASE_URL CASE ...`` where a case is the name of a function of `CASES`. Without
`is_chat_model` the class calls the legacy route.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

like: Any = import_module("llama_index.llms.openai_like")  # not installed where this file is type-checked
core: Any = import_module("llama_index.core.llms")
openai: Any = import_module("openai")
Shown = dict[str, Any]


def model(url: str, **options: Any) -> Any:
    return like.OpenAILike(model="gpt", api_base=url, api_key="k" * 40, max_retries=0, timeout=20, **options)


def said(url: str, *, chat: bool) -> Any:
    return model(url, is_chat_model=True) if chat else model(url)


def complete(url: str) -> Shown:
    return {"text": said(url, chat=False).complete("hello").text}


def stream_complete(url: str) -> Shown:
    return {"text": "".join([part.delta or "" for part in said(url, chat=False).stream_complete("hello")])}


def chat(url: str) -> Shown:
    return {"text": said(url, chat=True).chat([core.ChatMessage(role="user", content="hello")]).message.content}


def stream_chat(url: str) -> Shown:
    parts = said(url, chat=True).stream_chat([core.ChatMessage(role="user", content="hello")])
    return {"text": "".join([part.delta or "" for part in parts])}


CASES: Mapping[str, Callable[[str], Shown]] = {
    case.__name__: case for case in (complete, stream_complete, chat, stream_chat)
}


def run(url: str, name: str) -> Shown:
    try:
        return CASES[name](url)
    except openai.OpenAIError as error:
        return {"error": type(error).__name__, "status": getattr(error, "status_code", None), "code": error.code}


if __name__ == "__main__":
    base, *cases = sys.argv[1:]
    sys.stdout.write(json.dumps([run(base, case) for case in cases]))
