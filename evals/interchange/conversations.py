"""Conversations out of a proxy's own records, as traces of BELLS 2024 (BT-03); no client has to be patched.

A record holds one exchange. A caller of a chat route sends the whole conversation each time, so an exchange belongs to
the one whose request and reply its own request begins with, if the same key sent both. A conversation has the id of
any of its records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from evals.attempts import as_object
from evals.bells.traces import Call, Trace, to_line
from evals.client import objects
from evals.journal import JsonObject
from evals.traffic import Span, Traffic, read_traffic
from evals.types import Item, Message
from supervisors.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Exchange:
    """One exchange of a conversation, and its record."""

    item: Item
    record: JsonObject

    @property
    def id(self) -> str:
        """Return the id of the record."""
        return str(self.record.get("id"))


def conversation_lines(path: Path, wanted: str | None) -> Iterator[JsonObject]:
    """Return the conversations of a journal as lines of a file of traces, each made when it is asked for.

    Args:
        path: of the journal.
        wanted: id of a record of the one that is wanted; None takes all.

    Raises:
        StoreError, DatasetError: it is no journal, or holds no exchange.
        ConfigError: it keeps no text, or no conversation has this record.
    """
    traffic = read_traffic(path, Span())
    found = link(traffic)
    if wanted is not None:
        found = [one for one in found if any(exchange.id == wanted for exchange in one)]
        if not found:
            msg = (
                f"--conversation {wanted}: no exchange of {path} that kept its text has this record id; the reply "
                "header x-guardrail-id holds one"
            )
            raise ConfigError(msg)
    return (to_line(_to_trace(one)) for one in found)


def link(traffic: Traffic) -> list[list[Exchange]]:
    """Put the exchanges that kept their text together, in the order of the journal."""
    conversations: list[list[Exchange]] = []
    ends: dict[tuple[str, str], int] = {}
    for item in traffic.items:
        if item.skip is not None:
            continue
        exchange = Exchange(item, traffic.records[item.item_id])
        caller = str(exchange.record.get("key_id"))
        digests = list(_digests(item.messages))
        known = [ends[caller, digest] for digest in reversed(digests) if (caller, digest) in ends]
        place = known[0] if known else len(conversations)
        if not known:
            conversations.append([])
        conversations[place].append(exchange)
        reply = () if item.response is None else (Message("assistant", item.response),)
        ends[caller, list(_digests((*item.messages, *reply)))[-1]] = place
    return conversations


def _digests(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the hash of every beginning of a conversation, the shortest first."""
    running = sha256()
    for message in messages:
        text = message.content.encode("utf-8", "surrogatepass")
        running.update(f"{message.role} {len(text)} ".encode())
        running.update(text)
        yield running.copy().hexdigest()


def _to_trace(exchanges: Sequence[Exchange]) -> Trace:
    times = [_seconds(one.record) for one in exchanges]
    calls = [_to_call(one, round(time - times[0], 6)) for one, time in zip(exchanges, times, strict=True)]
    extra: JsonObject = {"conversation": exchanges[0].id, "truth": "unknown"}
    return Trace("journal", (), tuple(calls), extra)


def _to_call(one: Exchange, time: float) -> Call:
    """Return an exchange as a call: its last message is the model's output, empty when none was kept or given."""
    said = [(str(message.role), message.content) for message in one.item.messages]
    record = one.record
    extra: JsonObject = {"record_id": one.id, "model": str(record.get("model")), "outcome": record.get("outcome")}
    decided: Mapping[str, object] = {
        str(row.get("stage")): row.get("action") for row in objects(record.get("decisions"))
    }
    extra["decisions"] = as_object(decided)
    return Call(time, (*said, ("assistant", one.item.response or "")), extra)


def _seconds(record: JsonObject) -> float:
    return datetime.fromisoformat(str(record.get("time"))).timestamp()
