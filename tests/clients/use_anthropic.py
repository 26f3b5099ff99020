"""Use the real Anthropic SDK against a proxy: run by its own Python, prints one JSON object a case.

Usage: ``use_anthropic.py BASE_URL CASE ...`` where a case is ``create:TEXT``, ``stream:TEXT``, ``events:TEXT`` or
``model:NAME``.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

sdk: Any = import_module("anthropic")  # not installed where this file is type-checked


def main(base_url: str, *cases: str) -> None:
    client = sdk.Anthropic(base_url=base_url, api_key="caller-key", max_retries=0, timeout=20)
    results = [run(client, *case.split(":", 1)) for case in cases]
    sys.stdout.write(json.dumps(results))


def run(client: Any, kind: str, text: str) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": text if kind == "model" else "gpt", "max_tokens": 64}
    asked["messages"] = [{"role": "user", "content": text}]
    try:
        match kind:
            case "stream":
                return run_stream(client, asked)
            case "events":
                return {"events": [event.type for event in client.messages.create(**asked, stream=True)]}
            case _:
                message = client.messages.create(**asked)
                return {**show(message), "request_id": message._request_id}  # noqa: SLF001 - the SDK's documented name
    except sdk.APIStatusError as error:
        return {
            "error": type(error).__name__,
            "status": error.status_code,
            "type": error.type,
            "code": error.error_code,
            "request_id": error.request_id,
        }


def run_stream(client: Any, asked: dict[str, Any]) -> dict[str, Any]:
    with client.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        return {**show(stream.get_final_message()), "said": text, "request_id": stream.request_id}


def show(message: Any) -> dict[str, Any]:
    content = [block.to_dict() for block in message.content]
    usage = {"input_tokens": message.usage.input_tokens, "output_tokens": message.usage.output_tokens}
    return {"content": content, "stop_reason": message.stop_reason, "usage": usage}


if __name__ == "__main__":
    main(*sys.argv[1:])
