"""Prove that a run is complete and that nobody has changed it since (H-172)."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from evals.datasets.load import hash_file
from evals.folder import RunFolder
from evals.journal import Contents, JsonObject, find_break, read_journal
from evals.keys import Keys
from evals.lines import Counted
from evals.manifest import Manifest, read_manifest
from evals.plan import Plan, read_plan
from evals.records import read_record_ids
from evals.scoring import answer_key, answers_of, read_scores, scorer_id
from evals.seen import LABELS, Problems, Seen, look_at, number_of
from evals.state import counting_lines
from evals.summary import Loaded, summarise
from supervisors.errors import StoreError


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked.

    Args:
        name: what.
        broken: what is wrong, None when it holds.
        detail: how much was checked.
    """

    name: str
    broken: str | None
    detail: str = ""

    def __str__(self) -> str:
        return (
            f"ok      {self.name} {self.detail}".rstrip()
            if self.broken is None
            else f"BROKEN  {self.name}: {self.broken}"
        )


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the checks look at."""

    folder: RunFolder
    manifest: Manifest
    plan: Plan
    contents: Contents
    counted: Counted
    seen: Seen

    @property
    def lines(self) -> Sequence[JsonObject]:
        """Return the lines of the journal."""
        return self.contents.lines


_Check = Callable[[_Facts], Iterator[str]]


def verify(folder: RunFolder) -> tuple[Check, ...]:
    """Check everything that can be checked; a file that cannot be read ends the list."""
    try:
        manifest, plan, contents = read_manifest(folder), read_plan(folder.plan), read_journal(folder.journal)
        counted = counting_lines(contents.lines, plan.keys)
    except StoreError as error:
        return (Check("the files can be read", str(error)),)
    seen = look_at(contents.lines, plan, texts=not manifest.options.get("hash_only"))
    facts = _Facts(folder, manifest, plan, contents, counted, seen)
    checks: tuple[tuple[str, _Check], ...] = (
        ("manifest and plan are those the run was started with", _started_with),
        ("every item is planned once an arm, target and repeat", _planned_once),
        ("the journal's chain holds", _chain),
        ("every planned trial has a counting line, every line a planned trial", _covered),
        ("labels, causes, states and gates are from their closed sets", lambda facts: facts.seen.domains.told()),
        ("every trial has its own record in the proxy's journal", _records),
        ("stored texts are the hashed ones", _texts),
        ("scores cover the answers once and belong to their scorer", _scores),
        ("costs are numbers from 0 up", lambda facts: facts.seen.costs.told()),
        ("the summary is what the folder gives", _summary),
    )
    return tuple([_run(name, facts, check) for name, check in checks])


def _run(name: str, facts: _Facts, check: _Check) -> Check:
    found = Problems()
    try:
        for problem in check(facts):
            found.add(problem)
    except (StoreError, LookupError, TypeError, ValueError) as error:
        found = Problems(f"{type(error).__name__}: {error}", 1)
    more = f" (and {found.count - 1} more)" if found.count > 1 else ""
    return Check(name, None if found.first is None else f"{found.first}{more}")


def _started_with(facts: _Facts) -> Iterator[str]:
    if hash_file(facts.folder.plan) != facts.manifest.plan_sha256:
        yield "plan.jsonl is not the file whose hash the manifest holds"
    if len(facts.plan) != facts.manifest.planned:
        yield f"{len(facts.plan)} trials are planned, the manifest says {facts.manifest.planned}"
    manifest = hash_file(facts.folder.manifest)
    starts = facts.seen.starts
    if not starts or facts.lines[0].get("type") != "run_start":
        yield "the journal does not begin with run_start"
    for line in starts:
        if line.get("manifest_sha256") != manifest:
            yield f"line {number_of(line)}: the manifest is not the one the run was started with"


def _planned_once(facts: _Facts) -> Iterator[str]:
    times = array("I", bytes(4 * len(facts.plan.keys)))
    for place in range(len(facts.plan)):
        times[facts.plan.key_place(place)] += 1
    for place, count in enumerate(times):
        if count > 1:
            yield f"trial {facts.plan.keys.key(place)[:12]} is planned {count} times"
    shapes: dict[str, frozenset[tuple[str, str, int]]] = {}
    different: dict[frozenset[tuple[str, str, int]], frozenset[tuple[str, str, int]]] = {}
    for item, trials in groupby(facts.plan, key=lambda trial: trial.item_id):
        shape = shapes.get(item, frozenset()).union([(trial.target, trial.arm, trial.repeat) for trial in trials])
        shapes[item] = different.setdefault(shape, shape)  # nearly all items share one
    for item, shape in shapes.items() if "imported" not in facts.manifest.identity else ():
        if shape != next(iter(shapes.values())):
            yield f"{item} is not planned like the other items"
    if not facts.manifest.identity.get("selection"):
        yield "the manifest does not say how items were selected"


def _chain(facts: _Facts) -> Iterator[str]:
    problem = find_break(facts.lines)
    if problem is not None:
        yield problem
    torn = facts.contents.torn_bytes
    if torn:
        yield f"the last line is incomplete ({torn} bytes); `evals resume` cuts it off"


def _covered(facts: _Facts) -> Iterator[str]:
    for place, trial in enumerate(facts.plan):
        if facts.counted.at(facts.plan.key_place(place)) is None:
            yield f"{trial.item_id} ({trial.arm}, {trial.target}, repeat {trial.repeat}) has no line"
    yield from facts.seen.planned.told()
    for place, count in enumerate(facts.seen.done):
        if count > 1:
            yield f"trial {facts.plan.keys.key(place)[:12]} was done {count} times"


def _records(facts: _Facts) -> Iterator[str]:
    used, times = facts.seen.records, facts.seen.record_times
    yield from [f"record {used.key(p)} belongs to {count} trials" for p, count in enumerate(times) if count > 1]
    journals = sorted(facts.folder.path.glob("proxy-*.sqlite3"))
    if not journals:
        return  # the proxy was not ours; its journal is elsewhere
    stored = array("I", bytes(4 * len(used)))
    for path in journals:
        for record, count in read_record_ids(path):
            place = used.find(record)
            if place is not None:
                stored[place] += count
    for place, count in enumerate(stored):
        if count != 1:
            yield f"record {used.key(place)} stands {count} times in the proxy's journal"


def _texts(facts: _Facts) -> Iterator[str]:
    kept = Keys()
    for path in sorted((facts.folder.path / "text").glob("*/*.json")):
        kept.add(path.stem)
        if facts.folder.read_text(path.stem) is None:
            yield f"text {path.stem[:12]} is not the text of its hash"
    if facts.manifest.options.get("hash_only"):
        if len(kept):
            yield f"{len(kept)} texts are stored although the run keeps only hashes"
        return
    for sha256 in facts.seen.texts:
        if sha256 not in kept:
            yield f"text {sha256[:12]} is missing"


def _scores(facts: _Facts) -> Iterator[str]:
    expected = Keys()
    for one in answers_of(facts.plan, facts.counted):
        expected.add(answer_key(one.planned.trial_key, one.of))
    for path in sorted(facts.folder.scores.glob("*")):
        yield from _scorer(path, expected)


def _scorer(path: Path, expected: Keys) -> Iterator[str]:
    config: JsonObject = json.loads((path / "manifest.json").read_text("utf-8"))
    name = path.name.rpartition("-")[0]
    if scorer_id(name, config) != path.name:
        yield f"scores/{path.name}: the manifest is not the one of this scorer"
    lines = read_journal(path / "journal.jsonl").lines
    problem = find_break(lines)
    if problem is not None:
        yield f"scores/{path.name}: {problem}"
    for problem in _scored(lines, expected):
        yield f"scores/{path.name}{problem}"


def _scored(lines: Sequence[JsonObject], expected: Keys) -> Iterator[str]:
    times = array("I", bytes(4 * len(expected)))
    for line in lines:
        key = str(line.get("trial_key"))
        place = expected.find(answer_key(key, str(line.get("of"))))
        if place is None:
            yield f": trial {key[:12]} is scored, expected 0 times"
        else:
            times[place] += 1
        if line.get("label") not in LABELS or (line.get("label") == "unknown") != (line.get("cause") is not None):
            yield f" line {number_of(line)}: label {line.get('label')!r}, cause {line.get('cause')!r}"
    for place, count in enumerate(times):
        if count > 1:
            yield f": trial {expected.key(place)[:12]} is scored {count} times, expected 1"
    missing = sum(count == 0 for count in times)
    if missing:
        yield f": {missing} answers are not scored; `evals score` goes on"


def _summary(facts: _Facts) -> Iterator[str]:
    if not facts.folder.summary.exists():
        yield "there is no summary.json; `evals report` makes it"
        return
    scores = read_scores(facts.folder, facts.plan.keys)
    run = Loaded(facts.manifest, facts.plan, facts.lines, facts.counted, scores)
    made = json.dumps(summarise(facts.folder, run), ensure_ascii=True, sort_keys=True, indent=1) + "\n"
    if facts.folder.summary.read_bytes() != made.encode("ascii"):
        yield "summary.json differs from the summary made again from the folder"
