"""Shards of a run become one run again, with proof: one plan, every part once, nothing missing, nothing doubled."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from pathlib import Path

from evals.attempts import as_object
from evals.calibrating import merge_calibrations
from evals.client import number
from evals.datasets.load import hash_file
from evals.folder import RunFolder, make_folder, write_lines
from evals.journal import Chain, Entry, JournalFile, JsonObject, LineType, read_journal
from evals.manifest import Manifest, differences, read_manifest, write_manifest
from evals.plan import Plan, read_plan, to_rows
from evals.preflight import merge_tried
from evals.scoring import open_scores, read_scores, store_scores
from evals.shards import interleave, plan_sha256
from evals.statistics.jsonable import Json
from supervisors.errors import ConfigError, StoreError

_KEPT: Mapping[str, LineType] = {
    "trial": "trial",
    "attempt": "attempt",
    "limit_change": "limit_change",
    "interrupt": "interrupt",
    "budget_stop": "budget_stop",
    "note": "note",
}
_BATCH = 1000
_CHAIN = frozenset({"seq", "ts", "type", "prev_sha256", "sha256"})


@dataclass(frozen=True, slots=True)
class Part:
    """One shard as read and proved."""

    folder: RunFolder
    manifest: Manifest
    plan: Plan
    lines: Sequence[JsonObject]

    @property
    def shard(self) -> JsonObject:
        """Return what the manifest says about the shard."""
        return as_object(self.manifest.identity.get("shard"))

    @property
    def index(self) -> int:
        """Return which part it is, from 1."""
        return int(number(self.shard.get("index")) or 0)


@dataclass(frozen=True, slots=True)
class Merged:
    """What was put together.

    Args:
        trials: planned in all.
        lines: of the journals.
        scorers: merged scorers.
        left: scorers that not every shard has.
        uncalibrated: merged scorers whose calibration was left, because it is not the same in every shard.
    """

    trials: int
    lines: int
    scorers: tuple[str, ...]
    left: tuple[str, ...]
    uncalibrated: tuple[str, ...]


def read_parts(folders: Sequence[RunFolder]) -> tuple[Part, ...]:
    """Read shards and prove each of them.

    Raises:
        ConfigError: they are not the shards of one run, or one is given twice.
        StoreError: a file is corrupt or was changed.
    """
    parts = tuple(sorted([_read(folder) for folder in folders], key=lambda part: part.index))
    first = parts[0]
    for other in parts[1:]:
        _check_same(first, other)
    count = int(number(first.shard.get("count")) or 0)
    given = [part.index for part in parts]
    twice = sorted({index for index in given if given.count(index) > 1})
    if twice:
        msg = f"shard {twice[0]}/{count} is given {given.count(twice[0])} times; each is needed once"
        raise ConfigError(msg)
    return parts


def find_missing(parts: Sequence[Part]) -> list[str]:
    """Return the shards that are not there."""
    count = int(number(parts[0].shard.get("count")) or 0)
    given = {part.index for part in parts}
    return [f"{index}/{count}" for index in range(1, count + 1) if index not in given]


def _read(folder: RunFolder) -> Part:
    manifest = read_manifest(folder)
    if not as_object(manifest.identity.get("shard")):
        msg = f"{folder.path} is a whole run, not a shard: runs made with --shard i/n can be merged"
        raise ConfigError(msg)
    if hash_file(folder.plan) != manifest.plan_sha256:
        msg = f"{folder.plan} is not the plan the shard was started with"
        raise StoreError(msg)
    chain = Chain()
    lines = read_journal(folder.journal, chain.take).lines
    if chain.problem is not None:
        msg = f"{folder.journal} {chain.problem}"
        raise StoreError(msg)
    return Part(folder, manifest, read_plan(folder.plan), lines)


def _check_same(first: Part, other: Part) -> None:
    found = list(differences(_shared(first.manifest), _shared(other.manifest)))
    if found:
        listed = "\n  ".join(found)
        msg = f"{first.folder.path} and {other.folder.path} are shards of different runs:\n  {listed}"
        raise ConfigError(msg)


def _shared(manifest: Manifest) -> Mapping[str, object]:
    shard = {name: value for name, value in as_object(manifest.identity.get("shard")).items() if name != "index"}
    return {**manifest.identity, "shard": shard, "origin": manifest.origin, "policy": manifest.policy}


def merge_parts(parts: Sequence[Part], folder: RunFolder, argv: Sequence[str]) -> Merged:
    """Write the whole run: its plan, journal, texts, proxy journals and scores.

    Raises:
        ConfigError: the folder holds a run already.
        StoreError: the disk does not take it.
    """
    if folder.manifest.exists():
        msg = f"{folder.path} holds a run already; give another --run-name"
        raise ConfigError(msg)
    plan = Plan(interleave([part.plan for part in parts]))
    if plan_sha256(plan) != parts[0].shard.get("plan_sha256"):
        msg = "the plans of the shards do not give the plan that was cut: one is missing or was changed"
        raise StoreError(msg)
    folder.make()
    write_lines(folder.plan, to_rows(plan))
    for part in parts:
        _copy_texts(part.folder, folder)
        _copy_proxy_journals(part, folder)
    write_manifest(folder, _manifest(parts, folder, argv, len(plan)))
    written = _write_journal(parts, folder)
    merged, left = _merge_scores(parts, folder)
    uncalibrated = [name for name in merged if not _merge_beside(parts, folder, name)]
    return Merged(len(plan), written, merged, left, tuple(uncalibrated))


def _manifest(parts: Sequence[Part], folder: RunFolder, argv: Sequence[str], planned: int) -> Manifest:
    first = parts[0].manifest
    return replace(
        first,
        started=min([part.manifest.started for part in parts]),
        argv=argv,
        identity={name: value for name, value in first.identity.items() if name != "shard"},
        options={**first.options, "shard": None},
        plan_sha256=hash_file(folder.plan),
        planned=planned,
    )


def _write_journal(parts: Sequence[Part], folder: RunFolder) -> int:
    """Write the lines of all shards in the order of their times, each with the time it had."""
    proof: JsonObject = {"manifest_sha256": hash_file(folder.manifest), "plan_sha256": hash_file(folder.plan)}
    clock = _Clock(min([str(part.lines[0]["ts"]) for part in parts if part.lines], default=""))
    journal = JournalFile(folder.journal, clock)
    count = 0
    try:
        journal.append([Entry("run_start", proof), *[Entry("note", _note(part)) for part in parts]])
        entries = _in_time(parts, clock)
        while written := journal.append(islice(entries, _BATCH)):
            count += written
        journal.append([Entry("run_end", {"ending": "done", "merged": len(parts)})])
    finally:
        journal.close()
    return count


class _Clock:
    """Gives the time of the line that is being copied."""

    def __init__(self, now: str) -> None:
        self.now = now

    def __call__(self) -> str:
        return self.now


def _in_time(parts: Sequence[Part], clock: _Clock) -> Iterator[Entry]:
    """Yield the kept lines of all shards by time; the clock shows the time of the one just yielded."""
    kept = [(line for line in part.lines if line.get("type") in _KEPT) for part in parts]
    for line in merge(*kept, key=lambda line: str(line["ts"])):
        clock.now = str(line["ts"])
        body = {name: value for name, value in line.items() if name not in _CHAIN}
        yield Entry(_KEPT[str(line["type"])], body)


def _note(part: Part) -> JsonObject:
    head: Json = part.lines[-1]["sha256"] if part.lines else None
    return {
        "text": f"shard {part.index} of {part.shard.get('count')}",
        "run_id": part.manifest.run_id,
        "manifest_sha256": hash_file(part.folder.manifest),
        "plan_sha256": part.manifest.plan_sha256,
        "journal_head": head,
        "lines": len(part.lines),
    }


def _copy_texts(source: RunFolder, target: RunFolder) -> None:
    for path in source.path.glob("text/*/*.json"):
        copy = target.text_path(path.stem)
        if not copy.exists():
            make_folder(copy.parent)
            _copy(path, copy)


def _copy_proxy_journals(part: Part, target: RunFolder) -> None:
    for path in part.folder.path.glob("proxy-*.sqlite3*"):
        name, dot, rest = path.name.partition(".sqlite3")
        _copy(path, target.path / f"{name}-{part.index}{dot}{rest}")


def _copy(path: Path, target: Path) -> None:
    try:
        shutil.copyfile(path, target)
        target.chmod(0o600)
    except OSError as error:
        msg = f"{target}: cannot be written: {error.strerror}"
        raise StoreError(msg) from error


def _merge_scores(parts: Sequence[Part], folder: RunFolder) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Put scores together that every shard with answers has."""
    found = [{scores.scorer_id: scores for scores in read_scores(part.folder, part.plan.keys)} for part in parts]
    names = sorted({name for scores in found for name in scores})
    merged: list[str] = []
    for name in names:
        if any(name not in scores for scores in found):
            continue
        config = found[0][name].config
        verdicts = (one for scores in found for one in scores[name].by_key.values())
        path, _ = open_scores(folder, name.rpartition("-")[0], config)
        store_scores(path, verdicts)
        merged.append(name)
    return tuple(merged), tuple([name for name in names if name not in merged])


def _merge_beside(parts: Sequence[Part], folder: RunFolder, scorer: str) -> bool:
    """Put together what lies beside the verdicts of a scorer: pre-flight and calibration; False leaves the latter."""
    places = {part.index: part.folder.scores / scorer for part in parts}
    merge_tried(places, folder.scores / scorer)
    return merge_calibrations([*places.values()], folder.scores / scorer)
