"""Prove a journal (operations §4.3): the chain, the sequence, exactly-once, the decisions, and the metrics.

Reads one row at a time; what is kept is one place in the chain for each process start, the archived configs, and the
totals of one process.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from proxy.metrics import Exposition
from proxy.reattach import check_interrupted
from proxy.recheck import Problem, check_record, not_a_record
from proxy.recount import ACCEPTED, RECORDS, Series, compare, find_unwritten, recount
from proxy.rows import complete
from proxy.store.audit import Anchor, Audit, Boot, Head, StoredRow
from proxy.store.chain import Link, canonical, digest, link_hash, storable
from proxy.store.retention import find_forged
from proxy.store.rules import Archive, Labels, Plans
from proxy.store.schema import found_bits
from proxy.store.sealing import judged_names
from supervisors.errors import StoreError


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that does not hold, and where.

    Args:
        boot: id of the process start, None when it concerns the file.
        seq: place in its chain, None when it concerns a whole chain.
        id: id of the record, None when there is none.
        field: which part of the record or file.
        message: what it is and what it should be.
    """

    boot: str | None
    seq: int | None
    id: str | None
    field: str
    message: str

    def line(self) -> str:
        """Return it as one line; whatever a damaged file held is escaped (L-09)."""
        named = (("boot", self.boot), ("seq", self.seq), ("id", self.id), ("field", self.field))
        place = " ".join([f"{name}={value}" for name, value in named if value is not None])
        return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", f"{place}: {self.message}")


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Request:
    """What to prove.

    Args:
        since: RFC 3339 UTC; earlier records are chained and counted, but not decided again.
        until: the same for later ones; exclusive.
        metrics: a scrape of the running proxy, None to leave the metrics out.
        now: RFC 3339 UTC; no deletion can be later, None leaves that out.
        noted: heads noted before, which must still be there.
    """

    since: str | None = None
    until: str | None = None
    metrics: Exposition | None = None
    now: str | None = None
    noted: tuple[Head, ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    """The beginning of a chain that retention has deleted: nothing in it can be proven any more.

    Args:
        boot: id of the process start.
        first: seq of the first record deleted.
        last: seq of the last one.
        time: of the last deletion, as its anchor says.
    """

    boot: str
    first: int
    last: int
    time: str


@dataclass(slots=True)
class Summary:
    """What was looked at.

    Args:
        boots: process starts.
        records: records whose place in the chain was proven or refuted.
        rechecked: records whose verdicts and decisions were checked.
        compared: J counters equal the journal, or were reported as different.
        interrupted: records of streams that a crash cut off: what left of them was judged, its verdicts are lost.
        unrecorded: process start and id of streams without a record: under way, or cut off by a crash after which
            the proxy was not started again.
        removed: what retention deleted, as the anchors say; `removed_records` counts it.
        heads: where each chain ends, the newest start last: all of them are what to note elsewhere.
    """

    boots: int = 0
    records: int = 0
    rechecked: int = 0
    compared: bool = False
    interrupted: int = 0
    unrecorded: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    removed: list[Removed] = field(default_factory=list[Removed])
    heads: list[Head] = field(default_factory=list[Head])

    @property
    def removed_records(self) -> int:
        """Return the number of records that retention deleted."""
        return sum(one.last - one.first + 1 for one in self.removed)


@dataclass(slots=True)
class _Chain:
    """How far the chain of one process start has been followed.

    Args:
        boot: its genesis line and head.
        cut: where it begins: at the genesis value, or where retention has cut it.
        seq: last place seen.
        hashes: what the next record may name as `prev`: one value, or two where hash and text of a record disagree.
        begun: when the process started, empty if its genesis line does not say.
        serving: a record was seen that is none of a stream cut off before.
    """

    boot: Boot
    cut: Link
    seq: int
    hashes: tuple[str, ...]
    begun: str = ""
    serving: bool = False


class Verification:
    """One pass over a journal. Iterate over `differences`, then read `summary`."""

    def __init__(self, audit: Audit, request: Request | None = None) -> None:
        self._audit = audit
        self._request = request or Request()
        self._chains: dict[str, _Chain] = {}
        self._archives: dict[str, tuple[str, Plans] | None] = {}
        self._totals: Counter[Series] = Counter()
        self.summary = Summary()

    def differences(self) -> Iterator[Difference]:
        """Yield everything that does not hold, in the order of the file.

        Raises:
            StoreError: the metrics cannot be compared (unknown boot, or records deleted by retention).
            sqlite3.Error: the file cannot be read any further.
        """
        for line in self._audit.damage():
            yield Difference(None, None, None, "file", line)
        boots, anchors = self._audit.boots(), self._audit.anchors()
        self.summary.boots = len(boots)
        self.summary.heads = [Head(boot.boot, boot.seq, boot.hash) for _, boot in sorted(boots.items())]
        for boot in boots.values():
            yield from self._begin(boot, anchors.get(boot.boot))
        self._check_comparable()
        for row in self._audit.rows():
            yield from self._row(row)
        self.summary.unrecorded = [(boot, name) for name, boot in self._audit.unrecorded()]
        for chain in self._chains.values():
            yield from self._end(chain)
        yield from self._check_anchors(anchors)
        yield from self._check_noted()
        yield from self._compare()

    def _begin(self, boot: Boot, anchor: Anchor | None) -> Iterator[Difference]:
        start = Link(anchor.seq, anchor.hash) if anchor is not None else Link(0, digest(boot.genesis))
        self._chains[boot.boot] = _Chain(boot, start, start.seq, (start.hash,))
        try:
            line: dict[str, Any] = orjson.loads(boot.genesis)
            previous: dict[str, Any] | None = line["previous"]
            self._chains[boot.boot].begun = str(line["time"])
            if line["boot"] != boot.boot:
                yield Difference(boot.boot, 0, None, "genesis", f"names the boot {line['boot']}")
            if previous is not None:
                yield from self._check_previous(boot.boot, previous)
        except (ValueError, KeyError, TypeError):
            yield Difference(boot.boot, 0, None, "genesis", "is not a genesis line")

    def _check_anchors(self, anchors: Mapping[str, Anchor]) -> Iterator[Difference]:
        """Yield the anchors that no retention can have left: an anchor needs no hashing, whoever deletes can write it.

        Only configs that a record vouches for count: the table of configs is not under the chain.
        """
        known = [found[1].archive.reach.retention_days for found in self._archives.values() if found is not None]
        days = min([one for one in known if one is not None], default=None)
        for boot, anchor in anchors.items():
            self.summary.removed.append(Removed(boot, 1, anchor.seq, anchor.time))
            begun = self._chains[boot].boot.genesis if boot in self._chains else None
            for message in find_forged(anchor.time, begun, days, self._request.now):
                yield Difference(boot, anchor.seq, None, "anchor", message)

    def _check_noted(self) -> Iterator[Difference]:
        for noted in self._request.noted:
            chain = self._chains.get(noted.boot)
            if chain is None:
                message = "the start that was noted is not in this journal"
            elif noted.seq < chain.cut.seq:
                message = "the record that was noted is said to be removed by retention: note a newer one"
            elif self._hash_at(chain, noted.seq) != noted.hash:
                message = "the record that was noted is missing, or has another hash: it, or one before it, was changed"
            else:
                continue
            yield Difference(noted.boot, noted.seq, None, "noted", message)

    def _hash_at(self, chain: _Chain, seq: int) -> str | None:
        return chain.cut.hash if seq == chain.cut.seq else self._audit.hash_at(chain.boot.boot, seq)

    def _check_previous(self, boot: str, previous: Mapping[str, Any]) -> Iterator[Difference]:
        anchor = self._audit.anchors().get(previous["boot"])
        if anchor is not None and anchor.seq >= previous["seq"]:
            return
        found = self._audit.hash_at(previous["boot"], previous["seq"])
        if found != previous["hash"]:
            what = "is missing" if found is None else "has another hash"
            message = f"the last record before this start (boot {previous['boot']}, seq {previous['seq']}) {what}"
            yield Difference(boot, 0, None, "genesis.previous", message)

    def _row(self, row: StoredRow) -> Iterator[Difference]:
        self.summary.records += 1
        body = _parse(row.body)
        # Where it stands is asked of the columns; where they were changed, the body still knows.
        boot = row.boot if row.boot in self._chains else (body or {}).get("boot")
        chain = self._chains.get(boot) if isinstance(boot, str) else None
        seq = row.seq if isinstance(row.seq, int) else None
        if chain is None:
            yield Difference(str(row.boot), seq, str(row.id), "boot", "belongs to no process start of this journal")
            return
        computed = link_hash(str((body or {}).get("prev")), row.body) if isinstance(row.body, bytes) else ""
        sealed = body is not None and computed == row.hash
        place = body.get("seq") if body is not None and sealed else row.seq
        problems = list(_check_place(place, body, chain))
        if body is None:
            problems.append(Problem("body", "is not JSON"))
        elif sealed:
            problems += _check_columns(row, body)
            if canonical(orjson.loads(str(row.body) if not isinstance(row.body, bytes) else row.body)) != row.body:
                problems.append(Problem("body", "is not the canonical JSON of what it says: keys doubled or rewritten"))
        else:
            problems.append(Problem("hash", "is not the hash of its record: one of the two was changed"))
        for problem in problems:
            yield Difference(chain.boot.boot, _integer(place, None), str(row.id), problem.field, problem.message)
        chain.seq = _integer(place, None) or chain.seq + 1
        chain.hashes = (str(row.hash),) if sealed else (str(row.hash), computed)
        if body is not None and sealed:
            yield from self._inside(body, chain)

    def _inside(self, body: Mapping[str, Any], chain: _Chain) -> Iterator[Difference]:
        """Look into a record whose text is the one that was hashed."""
        try:
            for found in self._examine(body):
                yield Difference(chain.boot.boot, body["seq"], body["id"], found.field, found.message)
            for field_, message in check_interrupted(body, chain.begun, later=chain.serving):
                yield Difference(chain.boot.boot, body["seq"], body["id"], field_, message)
            chain.serving = chain.serving or body["outcome"] != "interrupted"
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problem = not_a_record(error)
            yield Difference(chain.boot.boot, chain.seq, str(body.get("id")), problem.field, problem.message)

    def _examine(self, body: Mapping[str, Any]) -> Iterator[Problem]:
        self.summary.interrupted += body["outcome"] == "interrupted"
        plans, problem = self._archived(body)
        if problem is not None:
            yield problem
        if self._wanted(body["time"]):
            self.summary.rechecked += 1
            yield from check_record(body, plans)
        metrics = self._request.metrics
        if metrics is not None and body["seq"] <= metrics.boots.get(body["boot"], 0):
            recount(body, plans.archive.labels if plans else Labels(), self._totals)

    def _wanted(self, time: str) -> bool:
        since, until = self._request.since, self._request.until
        return (since is None or time >= since) and (until is None or time < until)

    def _archived(self, body: Mapping[str, Any]) -> tuple[Plans | None, Problem | None]:
        version = str(body["policy"]["version"])
        if version not in self._archives:
            text = self._audit.config(version)
            try:
                known = None if text is None else (digest(text.encode()), Plans(Archive.from_text(text)))
            except StoreError as error:
                return None, Problem("config", f"version {version[:12]}: {error}")
            self._archives[version] = known
        archived = self._archives[version]
        if archived is None:
            return None, None if body["config"] is None else Problem("config", f"version {version[:12]} is missing")
        if body["config"] != archived[0]:
            return archived[1], Problem("config", f"the archived text of version {version[:12]} was changed")
        return archived[1], None

    def _end(self, chain: _Chain) -> Iterator[Difference]:
        boot = chain.boot
        if boot.seq != chain.seq:
            message = f"the chain ends at seq {chain.seq}, its head says {boot.seq}"
            yield Difference(boot.boot, chain.seq, None, "head", message)
        elif boot.hash not in chain.hashes:
            yield Difference(boot.boot, chain.seq, None, "head", "is not the last hash of the chain")

    def _check_comparable(self) -> None:
        for boot in self._request.metrics.boots if self._request.metrics is not None else ():
            if boot not in self._chains:
                msg = f"the metrics are of boot {boot}, which has no chain in this journal"
                raise StoreError(msg)
            if self._chains[boot].cut.seq > 0:
                msg = f"the metrics of boot {boot} cannot be compared: retention has deleted records of it"
                raise StoreError(msg)

    def _compare(self) -> Iterator[Difference]:
        metrics = self._request.metrics
        if metrics is None:
            return
        self.summary.compared = True
        shown, counted = metrics.samples.get(RECORDS, 0), self._totals[RECORDS]
        if shown != counted:
            message = f"shows {shown:g}, the journal has {counted} provable records up to there"
            yield Difference(metrics.boot, None, None, RECORDS[0], message)
        for sentence in find_unwritten(metrics.samples):
            yield Difference(metrics.boot, None, None, ACCEPTED[0], sentence)
        for sentence in compare(self._totals, metrics.samples):
            yield Difference(metrics.boot, None, None, "metrics", sentence)


def _integer(value: object, default: int | None) -> int | None:
    return value if isinstance(value, int) else default


def _parse(text: object) -> dict[str, Any] | None:
    """Return the stored JSON object, whole if it is a record; None when it is not even that."""
    try:
        body = orjson.loads(text) if isinstance(text, bytes) else None
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    row = cast("dict[str, Any]", body)  # JSON has no other keys than strings
    try:
        return complete(row)
    except (KeyError, TypeError):
        return row


def _check_place(place: object, body: Mapping[str, Any] | None, chain: _Chain) -> Iterator[Problem]:
    expected = chain.seq + 1
    if isinstance(place, int) and place > expected:
        missing = f"seq {expected} is" if place == expected + 1 else f"seq {expected} to {place - 1} are"
        yield Problem("seq", f"{missing} missing before it")
    elif place != expected:
        yield Problem("seq", f"is {place!r}, must be {expected}: out of order or repeated")
    elif body is not None and body.get("prev") not in chain.hashes:
        yield Problem("prev", "is not the hash of the record before it: that one or this one was changed")


def _check_columns(row: StoredRow, body: Mapping[str, Any]) -> Iterator[Problem]:
    """Compare what is stored beside a record with the record itself."""
    try:
        for name in ("boot", "seq", "id", "request_id", "time", "model"):
            stored, told = getattr(row, name), body[name]
            if stored != (storable(told) if isinstance(told, str) else told):
                yield Problem(name, f"the column says {stored!r}, the record {told!r}")
        if row.judged is not None and row.judged != judged_names(body):
            yield Problem("judged", "the column says something else than the record")
        if row.found != found_bits(body):
            yield Problem("found", f"the column says {row.found!r}, the record {found_bits(body)}")
        yield from _check_content(row, body["content"])
    except (KeyError, TypeError, AttributeError) as error:
        yield not_a_record(error)


def _check_content(row: StoredRow, kept: Mapping[str, Any] | None) -> Iterator[Problem]:
    if kept is None:
        if row.content is not None or row.mode is not None:
            yield Problem("content", "the record has none")
    elif row.mode != kept["mode"]:
        yield Problem("mode", f"the column says {row.mode!r}, the record {kept['mode']!r}")
    elif row.content is not None and (not isinstance(row.content, bytes) or digest(row.content) != kept["digest"]):
        yield Problem("content", "is not the content whose digest the record holds: it was changed")
