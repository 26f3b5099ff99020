"""A proxy's own journal as a data set: recorded exchanges become items without a truth (content mode ``full``).

Only text the journal kept is read, and it was redacted before it was kept. Nothing is written to the journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.attempts import as_object
from evals.client import objects
from evals.composition import JOURNAL_RULE
from evals.datasets.load import FileFacts
from evals.datasets.lock import LockEntry
from evals.journal import JsonObject, sha256_json
from evals.records import Stored, read_records
from evals.types import ROLES, Item, Message, Truth
from supervisors.errors import ConfigError, DatasetError

DATASET = "journal"
PREFIX = "journal:"
_DROPPED = frozenset({"tool_def"})
"""Kinds that are no message: tool definitions are not asked about again."""


@dataclass(frozen=True, slots=True)
class Span:
    """Which part of a journal: times in RFC 3339 UTC, the first included, the last not; None is open."""

    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """What was read from a journal.

    Args:
        items: one an exchange, in the order of the journal; those that cannot be asked again say why.
        records: item id → record.
        left_out: records that are no exchange, or were never judged, by reason.
    """

    items: tuple[Item, ...]
    records: Mapping[str, JsonObject]
    left_out: Mapping[str, int]


def read_traffic(path: Path, span: Span) -> Traffic:
    """Read the exchanges of a journal.

    Raises:
        StoreError: it is missing or no journal.
        DatasetError: it holds no exchange in this span.
        ConfigError: it keeps no text of any of them.
    """
    items: list[Item] = []
    records: dict[str, JsonObject] = {}
    left_out: dict[str, int] = {}
    for stored in read_records(path):
        if not _is_in(str(stored.body.get("time")), span):
            continue
        reason = _no_exchange(stored.body)
        if reason is not None:
            left_out[reason] = left_out.get(reason, 0) + 1
            continue
        item = to_item(stored, len(items))
        items.append(item)
        records[item.item_id] = stored.body
    _check(path, items)
    return Traffic(tuple(items), records, left_out)


def _is_in(time: str, span: Span) -> bool:
    return (span.since is None or time >= span.since) and (span.until is None or time < span.until)


def _no_exchange(body: JsonObject) -> str | None:
    if body.get("kind") != "exchange":
        return f"kind {body.get('kind')}"
    return None if objects(body.get("verdicts")) else "never judged"


def _check(path: Path, items: Sequence[Item]) -> None:
    if not items:
        msg = f"{path}: no judged exchange in this span"
        raise DatasetError(msg)
    if all(item.skip is not None for item in items):
        reasons = sorted({str(item.skip) for item in items})
        msg = (
            f"{path}: none of its {len(items)} exchanges can be judged again: {'; '.join(reasons)}. A journal keeps "
            "text only with 'journal: {input: full}' (and output: full for replies) in the proxy's configuration, "
            "from then on"
        )
        raise ConfigError(msg)


def to_item(stored: Stored, index: int) -> Item:
    """Return the item of a record; its id comes from the record, not from its text."""
    body = stored.body
    item_id = f"{DATASET}/records/{index:06d}-{stored.id}"
    content = stored.content or {}
    request, reply = objects(content.get("input")), objects(content.get("output"))
    problem = _problem(body, stored, request)
    messages = () if problem else tuple(to_messages(request))
    if problem is None and not messages:
        problem = "holds no message"
    kept_reply = "\n".join([str(row["text"]) for row in reply if "text" in row and row.get("choice") in (None, 0)])
    return Item(
        dataset=DATASET,
        split="records",
        index=index,
        item_id=item_id,
        cluster_id=item_id,
        level="pair",
        prompt="" if problem else _last_user(messages),
        truth=Truth.UNKNOWN,
        messages=() if problem else messages,
        response=kept_reply or None,
        category=(str(body.get("model")),),
        source=str(body.get("route")),
        published_at=str(body.get("time"))[:10],
        composition=JOURNAL_RULE,
        skip=problem,
        meta={"model": str(body.get("model")), "record_id": stored.id},
    )


def _last_user(messages: Sequence[Message]) -> str:
    users = [message.content for message in messages if message.role == "user"]
    return users[-1] if users else messages[-1].content


def _problem(body: JsonObject, stored: Stored, request: Sequence[JsonObject]) -> str | None:
    if stored.content is None or not request:
        hashed = as_object(body.get("view")).get("input_hmac") is not None
        return f"no text was kept (content mode {'hashed' if hashed else 'off, or it has expired'})"
    if any("media" in row for row in request):
        return "has parts that are no text, which a journal does not keep"
    if any("text" not in row for row in request):
        return "no text was kept (content mode hashed)"
    return None


def to_messages(rows: Sequence[JsonObject]) -> Iterator[Message]:
    """Yield the messages of a request: the texts of one turn together, under the role they were sent with."""
    turn, role, texts = "", "", list[str]()
    for row in rows:
        if row.get("kind") in _DROPPED:
            continue
        here = "/".join(str(row.get("path")).split("/")[:3])
        if texts and (here, row.get("role")) != (turn, role):
            yield Message(ROLES[role], "\n".join(texts))
            texts = []
        turn, role = here, str(row.get("role"))
        texts.append(str(row["text"]))
    if texts:
        yield Message(ROLES[role], "\n".join(texts))


def lock_traffic(path: Path, traffic: Traffic) -> Mapping[str, LockEntry]:
    """Return what was read, for the manifest: the hashes of the records, no text."""
    digest = sha256_json([record.get("id") for record in traffic.records.values()])
    count = len(traffic.items)
    return {
        DATASET: LockEntry(
            id=DATASET,
            aliases=(),
            revision=f"journal {path.name}",
            licence="your own traffic",
            licence_class="D",
            label_rule="none: nobody has labelled it",
            higher_is="safer",
            items=count,
            harmful=0,
            benign=0,
            unknown=count,
            files=(FileFacts(path.name, digest, 0, count, ()),),
        )
    }


def path_of(sets: Sequence[str]) -> Path | None:
    """Return the journal that is named among the data sets, None without one.

    Raises:
        ConfigError: a journal and something else.
    """
    named = [name for name in sets if name.startswith(PREFIX)]
    if not named:
        return None
    if len(sets) > 1:
        msg = f"{named[0]} is replayed alone: leave out {', '.join([name for name in sets if name != named[0]])}"
        raise ConfigError(msg)
    return Path(named[0].removeprefix(PREFIX))
