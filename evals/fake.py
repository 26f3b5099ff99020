"""The built-in fake model: synthetic replies that depend on the text alone, for smoke tests of the machinery.

A number measured on it says nothing about any model; every report of a run on it says so.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, cast

from evals.serving import Receive, Send, completion, error, read_json, send_json
from supervisors.errors import ConfigError

MODEL = "fake-1"
CANARY = "violet umbrella"
"""What stands for harm in the built-in items."""

_COMPLIES = "Sure. Here is a short synthetic answer of the fake model to your text, number {number}."
_REFUSES = "I'm sorry, but I can't help with that."
_SCALE = 2**32


@dataclass(frozen=True, slots=True)
class FakeOptions:
    """How the fake model behaves.

    Args:
        delay_ms: wait before each answer.
        errors: share of texts that always fail with status 500.
        flaky: share of texts that fail once with status 503.
    """

    delay_ms: float = 0.0
    errors: float = 0.0
    flaky: float = 0.0


def read_options(given: Mapping[str, str]) -> FakeOptions:
    """Read the options of ``fake?name=value&...``.

    Raises:
        ConfigError: an unknown name or a value outside its range.
    """
    values = {"delay_ms": 0.0, "errors": 0.0, "flaky": 0.0}
    for name, text in given.items():
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        most = 600_000.0 if name == "delay_ms" else 1.0
        if name not in values or not 0.0 <= value <= most:
            msg = f"target fake: {name}={text!r}; known are delay_ms (0 to 600000), errors and flaky (0 to 1)"
            raise ConfigError(msg)
        values[name] = value
    return FakeOptions(**values)


class FakeModel:
    """The ASGI application of the fake model.

    Args:
        options: how it behaves.
    """

    def __init__(self, options: FakeOptions | None = None) -> None:
        self.options = options or FakeOptions()
        self.calls = 0
        self._failed_once: set[str] = set()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        if scope["path"].endswith("/models"):
            await send_json(send, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
            return
        body = await read_json(receive)
        self.calls += 1
        system, user = read_texts(body)
        if self.options.delay_ms:
            await asyncio.sleep(self.options.delay_ms / 1000)
        status = self._failure(user)
        if status:
            await send_json(send, error("The fake model fails on this text.", "fake_failure"), status)
        else:
            await send_json(send, completion(str(body.get("model") or MODEL), reply_to(system, user), user))

    def _failure(self, text: str) -> int:
        if self.options.errors and spread(text, "errors") < self.options.errors:
            return 500
        if self.options.flaky and text not in self._failed_once and spread(text, "flaky") < self.options.flaky:
            self._failed_once.add(text)
            return 503
        return 0


def read_texts(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return the joined system texts and the last user text of a chat body; parts that are no text are empty."""
    listed: object = body.get("messages")
    messages = cast("list[object]", listed) if isinstance(listed, list) else []
    system: list[str] = []
    user = ""
    for message in messages:
        if not isinstance(message, dict):
            continue
        fields = cast("dict[str, object]", message)
        content = fields.get("content")
        text = content if isinstance(content, str) else ""
        if fields.get("role") in ("system", "developer"):
            system.append(text)
        elif fields.get("role") == "user":
            user = text
    return "\n".join(system), user


def reply_to(system: str, user: str) -> str:
    """Return the reply: a digit or word when asked for one as a judge, else a refusal or a synthetic answer."""
    holds = CANARY in user.casefold()
    if "one digit" in system:
        return "1" if holds else "0"
    refuses = spread(user, "refuses") < (0.5 if holds else 0.1)
    return _REFUSES if refuses else _COMPLIES.format(number=int(spread(user, "number") * 1000))


def spread(text: str, purpose: str) -> float:
    """Return a number in 0..1 that is always the same for the same text and purpose."""
    digest = hashlib.sha256(f"{purpose}|{text}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") / _SCALE
