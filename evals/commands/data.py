"""`evals data`: fetch, verify, show, lock and compare data sets (see docs/datasets.md)."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import httpx

from evals.commands.arguments import add_common, data_dir
from evals.commands.output import Output, Subparsers
from evals.datasets import Card, list_cards, load_card, read_dataset, state, verify
from evals.datasets.fetch import Fetched, FetchOptions, fetch
from evals.datasets.load import constant_columns, count_labels, describe_pin, how_to_obtain
from evals.datasets.lock import LOCK_NAME, LockEntry, lock, read_lock, verify_lock, write_lock
from evals.datasets.overlap import count_origins, overlap, overlap_many
from evals.exits import Exit
from evals.nouns import count_of
from evals.report.overlap import overlap_rows, write_overlap
from evals.report.table import layout
from evals.statistics.jsonable import Json, to_json
from supervisors.errors import ConfigError

_CANARY = "they ask to stay out of training data: publish no run folder and no export that holds them"
_SENSITIVE = "sensitive: `evals show --with-text` keeps answers back"


def add_parsers(commands: Subparsers) -> None:
    """Declare the verb with its actions."""
    parser = commands.add_parser(
        "data",
        help="fetch, verify, show, lock, overlap",
        description="Handle the files of data sets.",
        epilog="example: evals data verify bells xstest --data-dir data",
    )
    add_common(parser)
    parser.add_argument("action", choices=("fetch", "verify", "show", "lock", "overlap"))
    parser.add_argument(
        "sets", nargs="*", metavar="SET", help="data sets; verify and overlap without any take all there are"
    )
    parser.add_argument("--offline", action="store_true", help="fetch: open no connection")
    parser.add_argument("--accept-licence", action="append", default=[], metavar="SET", help="fetch: read and accepted")
    parser.add_argument(
        "--accept-drift", action="store_true", help="lock, show, overlap: files that differ from the card"
    )
    parser.add_argument(
        "--lock-file", type=Path, default=Path(LOCK_NAME), help=f"lock and verify (default {LOCK_NAME})"
    )
    parser.add_argument("--locked", action="store_true", help="verify: against the lock file instead of the cards")
    parser.add_argument("--near", action="store_true", help="overlap: also near texts (always for up to 12 sets)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="overlap: also write a page, a table and the ids")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Run one action."""
    if not args.sets and args.action not in ("verify", "overlap"):
        msg = f"evals data {args.action}: name at least one data set; `evals list datasets` shows all"
        raise ConfigError(msg)
    return _ACTIONS[args.action](args, out)


def _cards(args: argparse.Namespace) -> list[Card]:
    if args.sets:
        return [load_card(name) for name in args.sets]
    return [listed.card for listed in list_cards() if listed.card is not None]


def _fetch(args: argparse.Namespace, out: Output) -> int:
    options = FetchOptions(offline=args.offline, accepted_licences=tuple(args.accept_licence))
    found = asyncio.run(_fetch_all(_cards(args), data_dir(args, out), options))
    rows = [(one.name, one.how) for one in found]
    out.result([{"name": one.name, "how": one.how} for one in found], layout(("file", "how"), rows))
    return Exit.DONE


async def _fetch_all(cards: Sequence[Card], folder: Path, options: FetchOptions) -> list[Fetched]:
    async with httpx.AsyncClient() as client:
        return [one for card in cards for one in await fetch(card, folder, client, options)]


def _verify(args: argparse.Namespace, out: Output) -> int:
    folder = data_dir(args, out)
    if args.locked:
        drifts = verify_lock(_locked(args), folder)
        out.result(to_json(drifts), [str(drift) for drift in drifts] or ["as locked"])
        return Exit.DRIFT if drifts else Exit.DONE
    found = [verify(card, folder) for card in _cards(args)]
    rows = [(one.dataset, one.state, one.reason) for one in found]
    out.result(
        [{"dataset": d, "state": s, "reason": r} for d, s, r in rows], layout(("data set", "state", "why"), rows)
    )
    if any(one.state == "drifted" for one in found):
        return Exit.DRIFT
    missing = bool(args.sets) and any(one.state != "present" for one in found)
    return Exit.USAGE if missing else Exit.DONE


def _locked(args: argparse.Namespace) -> Mapping[str, LockEntry]:
    """Return what is locked of the sets named, or of all."""
    entries = read_lock(args.lock_file)
    wanted = [card.id for card in _cards(args)] if args.sets else list(entries)
    absent = [name for name in wanted if name not in entries]
    if absent:
        msg = f"evals data verify: {', '.join(absent)} not in {args.lock_file}; `evals data lock` puts sets there"
        raise ConfigError(msg)
    return {name: entries[name] for name in wanted}


def _show(args: argparse.Namespace, out: Output) -> int:
    folder = data_dir(args, out)
    values: list[Json] = []
    lines: list[str] = []
    for card in _cards(args):
        facts = _facts(card, folder, accept_drift=args.accept_drift)
        values.append(facts)
        lines += [f"{name}: {value}" for name, value in facts.items()] + [""]
    out.result(values, lines[:-1])
    return Exit.DONE


def _facts(card: Card, folder: Path, *, accept_drift: bool) -> dict[str, Json]:
    known: dict[str, Json] = {
        "id": card.id,
        "title": card.title,
        "aliases": ", ".join(card.aliases),
        "state": state(card, folder),
        "licence": f"{card.licence} (class {card.licence_class})",
        "source": " ".join(part for part in (card.source.kind, card.source.repo, card.source.revision) if part),
        "files": "; ".join([describe_pin(card, pin, folder) for pin in card.files]),
        "labels": card.label.meaning,
        "criterion": card.criterion,
        "texts": "; ".join([said for said, holds in ((_CANARY, card.canary), (_SENSITIVE, card.sensitive)) if holds]),
        "notes": card.notes,
        "how": how_to_obtain(card, folder),
    }
    if known["state"] != "present" and not accept_drift:
        return known
    loaded = read_dataset(card, folder, accept_drift=accept_drift)
    counts = count_labels(loaded.items)
    categories = {name for item in loaded.items for name in item.category}
    return known | {
        "items": len(loaded.items),
        "harmful": counts.harmful,
        "benign": counts.benign,
        "unknown": counts.unknown,
        "clusters": len({item.cluster_id for item in loaded.items}),
        "categories": len(categories),
        "constant columns": ", ".join(constant_columns(loaded.items)),
        "drifts": "; ".join(map(str, loaded.drifts)),
    }


def _lock(args: argparse.Namespace, out: Output) -> int:
    entries = lock(_cards(args), data_dir(args, out), accept_drift=args.accept_drift)
    path: Path = args.lock_file
    write_lock(entries, path)
    value: Json = {name: to_json(asdict(entry)) for name, entry in entries.items()}
    out.result(
        value, [f"{name}: {count_of(entry.items, 'item')}" for name, entry in entries.items()] + [f"written to {path}"]
    )
    return Exit.DONE


_NEAR_SETS = 12
"""Up to so many sets near texts are looked for without being asked; it takes a pass over each pair."""


def _overlap(args: argparse.Namespace, out: Output) -> int:
    folder = data_dir(args, out)
    cards = _cards(args) if args.sets else [card for card in _cards(args) if state(card, folder) == "present"]
    loaded = {card.id: read_dataset(card, folder, accept_drift=args.accept_drift).items for card in cards}
    if len(loaded) < 2:
        msg = f"evals data overlap: needs at least two data sets, {len(loaded)} named or present in {folder}"
        raise ConfigError(msg)
    near = args.near or len(loaded) <= _NEAR_SETS
    found = overlap(loaded) if near else overlap_many(loaded)
    header, rows = overlap_rows(found)
    origins = {name: count_origins(items) for name, items in loaded.items()}
    compiled = {name: counts for name, counts in origins.items() if len(counts) > 1}
    value: Json = {"sets": len(loaded), "near": near, "pairs": to_json(found), "origins": to_json(compiled)}
    sharing = [one for one in found if one.norm or one.near]
    said = f"{len(sharing)} of {len(loaded) * (len(loaded) - 1) // 2} pairs of {len(loaded)} sets share a text"
    out.result(value, [*layout(header, rows), "", said + ("" if near else "; near texts were not looked for: --near")])
    if args.out is not None:
        out.note(f"report: {write_overlap(found, loaded, compiled, args.out)}")
    return Exit.DONE


_ACTIONS = {"fetch": _fetch, "verify": _verify, "show": _show, "lock": _lock, "overlap": _overlap}
