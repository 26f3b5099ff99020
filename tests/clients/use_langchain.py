"""Use LangChain's `ChatOpenAI` against a proxy: run by its own Python, prints one JSON object a case.

Usage: ``use_langchain.py BASE_URL CASE ...`` where a case is the name of a function of `CASES`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

langchain: Any = import_module("langchain_openai")  # not installed where this file is type-checked
openai: Any = import_module("openai")
Shown = dict[str, Any]


def model(url: str, **options: Any) -> Any:
    return langchain.ChatOpenAI(base_url=url, api_key="k" * 40, model="gpt", max_retries=0, timeout=20, **options)


def show(message: Any) -> Shown:
    finish = message.response_metadata.get("finish_reason") or message.response_metadata.get("status")
    calls = [{"name": call["name"], "args": call["args"]} for call in message.tool_calls]
    return {
        "content": message.text if isinstance(message.text, str) else message.text(),
        "finish": finish,
        "calls": calls,
    }


def join(chunks: Any) -> Any:
    whole = None
    for chunk in chunks:
        whole = chunk if whole is None else whole + chunk
    return whole


def invoke(url: str) -> Shown:
    return show(model(url).invoke("hello"))


def stream(url: str) -> Shown:
    return show(join(model(url).stream("hello")))


def astream(url: str) -> Shown:
    return asyncio.run(_astream(model(url, stream_chunk_timeout=1.0)))


async def _astream(chat: Any) -> Shown:
    return show(join([chunk async for chunk in chat.astream("hello")]))


def tools(url: str) -> Shown:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "look_up", "description": "Look up.", "parameters": schema}}
    return show(model(url).bind_tools([tool]).invoke("hello"))


def stream_tools(url: str) -> Shown:
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    tool: dict[str, Any] = {"type": "function", "function": {"name": "look_up", "parameters": parameters}}
    return show(join(model(url).bind_tools([tool]).stream("hello")))


def switched(url: str) -> Shown:
    return show(model(url, reasoning={"effort": "low"}).invoke("hello"))


def switched_stream(url: str) -> Shown:
    return show(join(model(url, reasoning={"effort": "low"}).stream("hello")))


CASES: Mapping[str, Callable[[str], Shown]] = {
    case.__name__: case for case in (invoke, stream, astream, tools, stream_tools, switched, switched_stream)
}


def run(url: str, name: str) -> Shown:
    try:
        return CASES[name](url)
    except openai.OpenAIError as error:
        names = ("status_code", "code", "type", "param")
        return {"error": type(error).__name__, **{key: getattr(error, key, None) for key in names}}
    except (ValueError, TypeError, TimeoutError) as error:
        return {"error": type(error).__name__}


if __name__ == "__main__":
    base, *cases = sys.argv[1:]
    sys.stdout.write(json.dumps([run(base, case) for case in cases]))
