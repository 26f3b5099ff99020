"""One call of the OpenAI SDK against a proxy; prints what the application sees as JSON. Run by the SDK's own Python."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

openai: Any = importlib.import_module("openai")
MESSAGES = [{"role": "user", "content": "hello"}]
Shown = dict[str, Any]


def whole(client: Any) -> Shown:
    """Ask for a whole reply."""
    reply = client.chat.completions.create(model="gpt", messages=MESSAGES)
    choice = reply.choices[0]
    return {
        "content": choice.message.content,
        "refusal": choice.message.refusal,
        "finish": choice.finish_reason,
        "tokens": reply.usage.total_tokens,
        "request_id": reply._request_id,  # noqa: SLF001 - the SDK's documented name
    }


def streamed(client: Any) -> Shown:
    """Ask for a stream and join it."""
    text, finish, usage = "", None, None
    options = {"include_usage": True}
    for chunk in client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True, stream_options=options):
        usage = chunk.usage.total_tokens if chunk.usage else usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    return {"content": text, "finish": finish, "tokens": usage}


def helper(client: Any) -> Shown:
    """Use the SDK's streaming helper, which rebuilds the whole completion."""
    with client.chat.completions.stream(model="gpt", messages=MESSAGES) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    return {"content": final.choices[0].message.content, "finish": final.choices[0].finish_reason, "kinds": kinds}


def parsed(client: Any) -> Shown:
    """Ask for structured output."""
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    reply = client.chat.completions.parse(model="gpt", messages=MESSAGES, response_format=form)
    return {"content": reply.choices[0].message.content}


def modelled(client: Any) -> Shown:
    """Ask for structured output as a pydantic model."""
    pydantic: Any = importlib.import_module("pydantic")
    kind = pydantic.create_model("Answer", answer=(str, ...))
    reply = client.chat.completions.parse(model="gpt", messages=MESSAGES, response_format=kind)
    return {"content": reply.choices[0].message.parsed.answer}


def leaving(client: Any) -> Shown:
    """Leave in the middle of a stream."""
    stream = client.chat.completions.create(model="gpt", messages=MESSAGES, stream=True)
    first = next(iter(stream))
    stream.close()
    return {"first": first.choices[0].delta.content}


def listed(client: Any) -> Shown:
    """List models, and look one up whose name needs escaping."""
    names = [model.id for model in client.models.list()]
    return {"models": names, "one": client.models.retrieve("vendor/gpt").id}


CALLS: Mapping[str, Callable[[Any], Shown]] = {
    "whole": whole,
    "streamed": streamed,
    "helper": helper,
    "parsed": parsed,
    "modelled": modelled,
    "leaving": leaving,
    "listed": listed,
}


def describe(error: Exception) -> Shown:
    """Return what an application reads off an error."""
    names = ("status_code", "code", "type", "param", "request_id")
    shown = {name: getattr(error, name, None) for name in names}
    return {"error": type(error).__name__, "message": str(error), **shown}


def main(url: str, call: str) -> Shown:
    """Make one call, without the SDK's retries."""
    client = openai.OpenAI(base_url=url, api_key="k" * 40, max_retries=0, timeout=20)
    try:
        shown = CALLS[call](client)
    except openai.OpenAIError as error:
        shown = describe(error)
    return {"version": openai.__version__, **shown}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
