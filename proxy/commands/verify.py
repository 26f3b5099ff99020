"""`guardrail-proxy verify`: prove a journal, and that the metrics of the running proxy equal it."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import httpx
import orjson

from proxy.arguments import Subparsers
from proxy.journals import open_named
from proxy.metrics import Exposition, read_exposition
from proxy.store.audit import Head
from proxy.store.retention import timestamp
from proxy.verify import Difference, Request, Summary, Verification
from supervisors.errors import MissingError, StoreError

_TIMEOUT_S = 10.0
_KEPT = 1000
"""Differences kept for ``--json``; the rest is counted."""

HOLDS, DIFFERS, UNPROVEN = 0, 1, 2


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser(
        "verify",
        help="prove the journal: chain, exactly-once, decisions, equality with the metrics",
        description="Exit 0: everything holds. 1: differences, one line each. 2: it could not be checked.",
    )
    parser.add_argument(
        "--journal",
        type=Path,
        required=True,
        metavar="PATH",
        help="journal file; or env:NAME, secret:PATH: the variable or file with the address of a Postgres database",
    )
    parser.add_argument("--metrics", metavar="URL", help="address of /metrics of the running proxy")
    parser.add_argument("--since", type=read_time, metavar="T", help="RFC 3339; decide again only records from here on")
    parser.add_argument("--until", type=read_time, metavar="T", help="RFC 3339; and only records before this")
    parser.add_argument(
        "--head",
        action="append",
        default=[],
        type=read_head,
        metavar="BOOT:SEQ:HASH",
        help="a head that an earlier run printed and you noted: it must still be there; repeat it for all of them",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.set_defaults(run=run)


def read_time(text: str) -> str:
    """Return a time given by the user in the form that records hold; without an offset it is UTC.

    Raises:
        argparse.ArgumentTypeError: it is no RFC 3339 time.
    """
    try:
        given = datetime.fromisoformat(text)
        return timestamp((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError) as error:
        msg = f"{text!r} is not a time such as 2026-01-31T12:00:00Z"
        raise argparse.ArgumentTypeError(msg) from error


def read_head(text: str) -> Head:
    """Return a head as this command prints it.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    found = _HEAD.fullmatch(text)
    if found is None:
        msg = f"{text!r} is not a head such as 01a22c9f409c9742f552e907:42:, followed by 64 hex digits"
        raise argparse.ArgumentTypeError(msg)
    return Head(found[1], int(found[2]), found[3])


_HEAD = re.compile(r"([0-9A-Za-z_-]{1,64}):([0-9]{1,18}):([0-9a-f]{64})")


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    try:
        # First the scrape, then the snapshot: every record that is counted is on disk.
        metrics = fetch_metrics(args.metrics) if args.metrics else None
        with open_named(args.journal) as audit:
            now = timestamp(time.time())
            verification = Verification(audit, Request(args.since, args.until, metrics, now, tuple(args.head)))
            found = verification.differences()
            return _print_json(found, verification.summary) if args.json else _print(found, verification.summary)
    except (StoreError, MissingError) as error:
        print(f"not proven: {error}", file=sys.stderr)  # noqa: T201 - the command's own output
        return UNPROVEN


def fetch_metrics(url: str) -> Exposition:
    """Read the metrics of a running proxy.

    Raises:
        StoreError: it cannot be reached, or does not answer with metrics.
    """
    try:
        # No proxy and no netrc from the environment: it is read in proxy/config.py only.
        reply = httpx.get(url, timeout=_TIMEOUT_S, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        msg = f"cannot read the metrics at {_shown(url)}: {type(error).__name__}: {error}"
        raise StoreError(msg) from error
    if reply.status_code != 200:
        said = f"the answer has status {reply.status_code}, must be 200{_hint(reply.url)}"
        msg = f"cannot read the metrics at {_shown(url)}: {said}"
        raise StoreError(msg)
    exposition = read_exposition(reply.text)
    if not exposition.boots:
        msg = "the metrics name no boot: the address is not /metrics of a guardrail-proxy with a journal"
        raise StoreError(msg)
    return exposition


def _shown(url: str) -> str:
    """Return an address without what a query or a password of it holds."""
    with suppress(httpx.InvalidURL):
        return str(httpx.URL(url).copy_with(query=None, userinfo=b""))
    return "the address given"


def _hint(asked: httpx.URL) -> str:
    """Say which address was probably meant, without what a query or a password of it holds."""
    path = asked.path.rstrip("/")
    if path.endswith("/metrics"):
        return ""
    return f"; the metrics are probably at {asked.copy_with(path=f'{path}/metrics', query=None, userinfo=b'')}"


def _print(found: Iterator[Difference], summary: Summary) -> int:
    total = 0
    for difference in found:
        total += 1
        print(difference.line())  # noqa: T201 - the command's own output
    for boot, name in summary.unrecorded:
        line = "a stream without a record: it is under way, or a crash cut it off"
        print(f"boot={boot} id={name}: {line}")  # noqa: T201 - the command's own output
    for gone in summary.removed:
        whole = f"records {gone.first} to {gone.last} were" if gone.first != gone.last else f"record {gone.first} was"
        line = f"{whole} removed by retention, last at {gone.time}: not provable"
        print(f"boot={gone.boot}: {line}")  # noqa: T201 - the command's own output
    for head in summary.heads if not total else ():
        print(f"head={head.boot}:{head.seq}:{head.hash}")  # noqa: T201 - the command's own output
    compared = "; the metrics equal the journal" if summary.compared and not total else ""
    verdict = _counted(total, "difference") if total else "everything holds"
    counts = f"{_counted(summary.records, 'record')} of {_counted(summary.boots, 'start')}"
    counts += f", {summary.rechecked} decided again"
    counts += f", {summary.removed_records} removed by retention"
    if summary.interrupted:
        counts += f", {_counted(summary.interrupted, 'stream')} interrupted by a crash"
    if summary.unrecorded:
        counts += f", {_counted(len(summary.unrecorded), 'stream')} without a record"
    print(f"{verdict}: {counts}{compared}")  # noqa: T201 - the command's own output
    return DIFFERS if total else HOLDS


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _print_json(found: Iterator[Difference], summary: Summary) -> int:
    kept: list[Difference] = []
    total = 0
    for difference in found:
        total += 1
        if len(kept) < _KEPT:
            kept.append(difference)
    text = orjson.dumps(
        {
            "holds": total == 0,
            "boots": summary.boots,
            "records": summary.records,
            "rechecked": summary.rechecked,
            "metrics_compared": summary.compared,
            "interrupted": summary.interrupted,
            "removed_by_retention": summary.removed_records,
            "removed": summary.removed,
            "heads": summary.heads,
            "unrecorded": [{"boot": boot, "id": name} for boot, name in summary.unrecorded],
            "differences_total": total,
            "differences": kept,
        }
    )
    print(text.decode())  # noqa: T201 - the command's own output
    return DIFFERS if total else HOLDS
