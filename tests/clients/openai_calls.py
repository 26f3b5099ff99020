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


def responded(client: Any) -> Shown:
    """Ask for a whole response."""
    reply = client.responses.create(model="gpt", input="hello")
    reason = reply.incomplete_details.reason if reply.incomplete_details else None
    return {"content": reply.output_text, "status": reply.status, "reason": reason, "request_id": reply._request_id}  # noqa: SLF001


def responding(client: Any) -> Shown:
    """Use the SDK's helper for streamed responses; the last event holds the response."""
    with client.responses.stream(model="gpt", input="hello") as stream:
        events = list(stream)
    text = "".join([event.delta for event in events if event.type == "response.output_text.delta"])
    last = events[-1]
    if last.type == "error":
        return {"content": text, "last": last.type, "code": last.code}
    return {"content": text, "last": last.type, "final": last.response.output_text}


def completed(client: Any) -> Shown:
    """Ask for a whole legacy completion."""
    choice = client.completions.create(model="gpt", prompt="hello").choices[0]
    return {"content": choice.text, "finish": choice.finish_reason}


def completing(client: Any) -> Shown:
    """Ask for a streamed legacy completion."""
    text, finish = "", None
    for chunk in client.completions.create(model="gpt", prompt="hello", stream=True):
        for choice in chunk.choices:
            text += choice.text
            finish = choice.finish_reason or finish
    return {"content": text, "finish": finish}


def embedded(client: Any) -> Shown:
    """Ask for embeddings, which the SDK asks for in base64 and decodes itself."""
    reply = client.embeddings.create(model="gpt", input=["hello"], encoding_format="float")
    return {"content": str(reply.data[0].embedding)}


def moderated(client: Any) -> Shown:
    """Ask the moderation route."""
    result = client.moderations.create(input="hello").results[0]
    return {"flagged": result.flagged, "violence": result.categories.violence}


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
    "responded": responded,
    "responding": responding,
    "completed": completed,
    "completing": completing,
    "embedded": embedded,
    "moderated": moderated,
    "leaving": leaving,
    "listed": listed,
}


def describe(error: Exception) -> Shown:
    """Return what an application reads off an error."""
    names = ("status_code", "code", "type", "param", "request_id")
    shown = {name: getattr(error, name, None) for name in names}
    return {"error": type(error).__name__, "message": str(error), **shown}


def main(url: str, *calls: str) -> list[Shown]:
    """Make the calls one after another, without the SDK's retries."""
    client = openai.OpenAI(base_url=url, api_key="k" * 40, max_retries=0, timeout=20)
    results: list[Shown] = []
    for call in calls:
        try:
            shown = CALLS[call](client)
        except openai.OpenAIError as error:
            shown = describe(error)
        results.append({"version": openai.__version__, **shown})
    return results


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
