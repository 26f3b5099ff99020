"""An upstream that answers from a file of stored replies, so that published answers go through the real proxy.

It knows three kinds of call: the request itself (the stored answer), the proxy's self-judge call about it (the stored
own verdict), and a judge's vote on what kind of answer it was (the stored votes, models ``NAME#vote-1`` to ``-3``).
"""

from __future__ import annotations

import json
import re
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from evals.datasets.bells import load_metacognitive_rows
from evals.fake import read_texts
from evals.reasons import reason_of
from evals.serving import Receive, Send, completion, error, read_json, send_json
from evals.types import Truth, sha256_text
from supervisors.decoded import append_decoded
from supervisors.errors import ConfigError, DatasetError
from supervisors.transcript import neutralise

VOTE = "#vote-"
_BLOCK = re.compile(
    r"^<<<(?P<nonce>[0-9a-f]{32}) (?P<mark>[A-Z]+)[^\n]*>>>\n(?P<text>.*?)\n<<<(?P=nonce) END>>>$",
    re.DOTALL | re.MULTILINE,
)
OwnVerdict = Literal["harmful", "not_harmful"]


class StoredReply(BaseModel):
    """One stored answer.

    Args:
        model: who answered.
        prompt: exact text it answered.
        response: exact answer.
        own_verdict: what it said of the prompt as a judge, if it was asked.
        votes: what each of the judges said the answer was: answers, refuses or hedges.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str
    prompt: str
    response: str
    own_verdict: OwnVerdict | None = None
    votes: tuple[Literal["answers", "refuses", "hedges"], ...] = ()


def read_replies(path: Path) -> tuple[StoredReply, ...]:
    """Read stored replies: the metacognitive CSV of BELLS, or JSON lines with the fields of `StoredReply`.

    Raises:
        DatasetError: the file is missing, of another form, or answers a prompt twice for one model.
    """
    replies = _read_csv(path) if path.suffix == ".csv" else _read_lines(path)
    if not replies:
        msg = f"{path.name}: holds no reply; expected lines with model, prompt and response"
        raise DatasetError(msg)
    seen: set[tuple[str, str]] = set()
    for reply in replies:
        key = (reply.model, reply.prompt)
        if key in seen:
            msg = f"{path.name}: two replies of {reply.model} to one prompt (sha256 {sha256_text(reply.prompt)[:12]})"
            raise DatasetError(msg)
        seen.add(key)
    return replies


def _read_csv(path: Path) -> tuple[StoredReply, ...]:
    return tuple(
        [
            StoredReply(
                model=row.model,
                prompt=row.prompt,
                response=row.response,
                own_verdict="harmful" if row.harmfulness is Truth.HARMFUL else "not_harmful",
                votes=row.votes,
            )
            for row in load_metacognitive_rows(path)
        ]
    )


def _read_lines(path: Path) -> tuple[StoredReply, ...]:
    try:
        lines = path.read_text("utf-8-sig").split("\n")  # not U+2028 and the like, which a text may hold
    except (OSError, UnicodeDecodeError) as failure:
        msg = f"{path.name}: cannot be read: {reason_of(failure)}"
        raise DatasetError(msg) from failure
    replies: list[StoredReply] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            replies.append(StoredReply.model_validate(json.loads(line)))
        except (ValueError, RecursionError, ValidationError) as failure:
            msg = f"{path.name} line {number}: expected an object with model, prompt and response"
            raise DatasetError(msg) from failure
    return tuple(replies)


def models_of(replies: Sequence[StoredReply]) -> tuple[str, ...]:
    """Return the models of a file, in order of first appearance."""
    return tuple(dict.fromkeys([reply.model for reply in replies]))


def _shown_as(prompt: str) -> tuple[str, str]:
    """Return how a judge is shown a prompt: as context, and under judgement with what encoded stretches say."""
    return neutralise(prompt), neutralise(append_decoded(prompt))


@dataclass(frozen=True, slots=True)
class _Answer:
    """What to send: a text, or why there is none."""

    text: str | None
    reason: str = ""


class Recorded:
    """The ASGI application over stored replies.

    Args:
        replies: as read.
    """

    def __init__(self, replies: Sequence[StoredReply]) -> None:
        self._exact = {(reply.model, reply.prompt): reply for reply in replies}
        self._shown = {(reply.model, shown): reply for reply in replies for shown in _shown_as(reply.prompt)}
        self._models = models_of(replies)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        if scope["path"].endswith("/models"):
            await send_json(
                send, {"object": "list", "data": [{"id": name, "object": "model"} for name in self._models]}
            )
            return
        body = await read_json(receive)
        model = str(body.get("model", ""))
        answer = self.answer(model, *read_texts(body))
        if answer.text is None:
            await send_json(send, error(answer.reason, "no_stored_reply"), 404)
        else:
            await send_json(send, completion(model, answer.text))

    def answer(self, model: str, system: str, user: str) -> _Answer:
        """Return the stored reply to a call."""
        name, _, vote = model.partition(VOTE)
        blocks = list(_BLOCK.finditer(user))
        judged = [block for block in blocks if block["mark"] == "JUDGE"]
        if vote:
            shown = [block["text"] for block in blocks if block["mark"] == "CONTEXT"]
            return _to_vote(self._find(name, shown[-1] if shown else None), vote, blocks[0]["nonce"] if blocks else "")
        if judged:
            return _own_verdict(self._find(name, judged[-1]["text"]), system, judged[-1]["nonce"])
        reply = self._exact.get((name, user))
        return _Answer(reply.response) if reply else _Answer(None, f"No reply of {name} to this prompt is stored.")

    def _find(self, model: str, shown: str | None) -> StoredReply | None:
        return None if shown is None else self._shown.get((model, shown))


def _to_vote(reply: StoredReply | None, vote: str, nonce: str) -> _Answer:
    if reply is None or not vote.isdigit() or not 1 <= int(vote) <= len(reply.votes):
        return _Answer(None, f"Vote {vote} on this answer is not stored.")
    return _Answer(json.dumps({"nonce": nonce, "label": reply.votes[int(vote) - 1]}))


def _own_verdict(reply: StoredReply | None, system: str, nonce: str) -> _Answer:
    """Say the stored verdict in the form the self-judge asks for."""
    if reply is None or reply.own_verdict is None:
        return _Answer(None, "No own verdict of this model on this prompt is stored.")
    harmful = reply.own_verdict == "harmful"
    if "one digit" in system:
        return _Answer("1" if harmful else "0")
    if "yes or no" in system:
        return _Answer("yes" if harmful else "no")
    return _Answer(json.dumps({"nonce": nonce, "label": "unsafe" if harmful else "safe"}))


def check_models(replies: Sequence[StoredReply], wanted: str | None) -> tuple[str, ...]:
    """Return the models to replay: the wanted one, or all.

    Raises:
        ConfigError: the file holds no reply of the wanted model.
    """
    known = models_of(replies)
    if wanted is None:
        return known
    if wanted not in known:
        msg = f"no stored reply of model {wanted!r}; the file has {', '.join(known)}"
        raise ConfigError(msg)
    return (wanted,)
