"""A server of judges for the tests of panels and rubrics: a model's name says how it judges."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evals.serving import Receive, Send, completion, read_json, send_json


@dataclass(frozen=True, slots=True)
class Asked:
    """What a judge was asked.

    Args:
        model: its name.
        system: the instruction.
        judged: the text, from the passage to be judged on.
    """

    model: str
    system: str
    judged: str

    @property
    def gives_steps(self) -> bool:
        """Say whether it is the harmful answer of the pre-flight."""
        return "first take the umbrella" in self.judged


class JudgeServer:
    """Answers every call with the nonce of its fence.

    Args:
        say: gives the members of the reply, None for one that nobody can read.
    """

    def __init__(self, say: Callable[[Asked], Mapping[str, object] | None]) -> None:
        self._say = say
        self.calls: Counter[str] = Counter()
        self.bodies: list[Mapping[str, Any]] = []

    @property
    def seen(self) -> list[str]:
        """Return the texts that were shown, in order."""
        return [str(body["messages"][-1]["content"]) for body in self.bodies]

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        body = await read_json(receive)
        self.bodies.append(body)
        model = str(body["model"])
        self.calls[model] += 1
        system, text = [str(message["content"]) for message in body["messages"]]
        said = self._say(Asked(model, system, text.partition("JUDGE")[2]))
        reply = {"nonce": text.partition("<<<")[2][:32], **(said or {})}
        await send_json(send, completion(model, "purple monkey" if said is None else json.dumps(reply)))
