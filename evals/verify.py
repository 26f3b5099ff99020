"""Prove that a run is complete and that nobody has changed it since (H-172)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path

from evals.datasets.load import hash_file
from evals.effort import Spent
from evals.folder import RunFolder
from evals.journal import Chain, Contents, JsonObject, read_journal
from evals.lines import Counted
from evals.manifest import Manifest, read_manifest
from evals.nouns import count_of
from evals.packed import Codes
from evals.plan import Plan, read_plan
from evals.preflight import was_only_tried
from evals.records import read_record_ids
from evals.scoring import Answers, is_failed, read_scores, scorer_id
from evals.seen import LABELS, Problems, Seen, number_of
from evals.state import read_counted
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
    chain: Chain
    spent: Spent


_Check = Callable[[_Facts], Iterator[str]]


def verify(folder: RunFolder) -> tuple[Check, ...]:
    """Check everything that can be checked; a file that cannot be read ends the list."""
    try:
        manifest, plan = read_manifest(folder), read_plan(folder.plan)
        seen, chain, spent = Seen(plan, None if manifest.options.get("hash_only") else folder), Chain(), Spent()
        contents, counted = read_counted(folder.journal, plan.keys, chain.take, seen.take, spent.take)
    except StoreError as error:
        return (Check("the files can be read", str(error)),)
    facts = _Facts(folder, manifest, plan, contents, counted, seen, chain, spent)
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
        planned = count_of(len(facts.plan), "trial is", "trials are")
        yield f"{planned} planned, the manifest says {facts.manifest.planned}"
    manifest = hash_file(facts.folder.manifest)
    starts = facts.seen.starts
    if facts.seen.first != "run_start":
        yield "the journal does not begin with run_start"
    for line in starts:
        if line.get("manifest_sha256") != manifest:
            yield f"line {number_of(line)}: the manifest is not the one the run was started with"


def _planned_once(facts: _Facts) -> Iterator[str]:
    for key, count in facts.plan.keys.doubled():
        yield f"trial {key[:12]} is planned {count} times"
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
    if facts.chain.problem is not None:
        yield facts.chain.problem
    torn = facts.contents.torn_bytes
    if torn:
        yield f"the last line is incomplete ({torn} bytes); `evals resume` cuts it off"


def _covered(facts: _Facts) -> Iterator[str]:
    for place in range(len(facts.plan)):
        if not facts.counted.has(place):
            trial = facts.plan[place]
            yield f"{trial.item_id} ({trial.arm}, {trial.target}, repeat {trial.repeat}) has no line"
    yield from facts.seen.planned.told()
    for place, count in enumerate(facts.seen.done):
        if count > 1:
            yield f"trial {facts.plan.keys.key(place)[:12]} was done {count} times"


def _records(facts: _Facts) -> Iterator[str]:
    used = facts.seen.records
    yield from [f"record {record} belongs to {count} trials" for record, count in used.doubled()]
    journals = sorted(facts.folder.path.glob("proxy-*.sqlite3"))
    if not journals:
        return  # the proxy was not ours; its journal is elsewhere
    stored = Codes()
    for path in journals:
        for record, count in read_record_ids(path):
            place = used.find(record)
            if place is not None:
                stored[place] = stored[place] + count
    for place in range(len(used)):
        if stored[place] != 1:
            yield f"record {used.key(place)} stands {stored[place]} times in the proxy's journal"


def _texts(facts: _Facts) -> Iterator[str]:
    count = 0
    for folder in sorted((facts.folder.path / "text").glob("*")):
        for path in sorted(folder.glob("*.json")):
            count += 1
            if facts.folder.read_text(path.stem) is None:
                yield f"text {path.stem[:12]} is not the text of its hash"
    if facts.manifest.options.get("hash_only") and count:
        yield f"{count_of(count, 'text is', 'texts are')} stored although the run keeps only hashes"
    yield from facts.seen.texts.told()


def _scores(facts: _Facts) -> Iterator[str]:
    for path in sorted(facts.folder.scores.glob("*")):
        yield from _scorer(path, facts)


def _scorer(path: Path, facts: _Facts) -> Iterator[str]:
    if was_only_tried(path):
        return
    config: JsonObject = json.loads((path / "manifest.json").read_text("utf-8"))
    name = path.name.rpartition("-")[0]
    if scorer_id(name, config) != path.name:
        yield f"scores/{path.name}: the manifest is not the one of this scorer"
    chain, scored = Chain(), _Scored(facts)
    read_journal(path / "journal.jsonl", chain.take, scored.take)
    if chain.problem is not None:
        yield f"scores/{path.name}: {chain.problem}"
    for problem in scored.told():
        yield f"scores/{path.name}{problem}"


_LEAST = {"answer": 1, "behind": 2}


class _Scored:
    """The lines of a scorer held against the answers of the run.

    An answer has one line, after as many as say that the scorer failed on it.
    """

    def __init__(self, facts: _Facts) -> None:
        self._answers = facts.seen.answers
        self._scored = Answers(facts.plan.keys)
        self._failed = Answers(facts.plan.keys)
        self._found = Problems()

    def take(self, _number: int, line: JsonObject, _data: bytes) -> None:
        """Take the next line."""
        answer = (str(line.get("trial_key")), str(line.get("of")))
        if not is_failed(line) or answer in self._scored:
            self._scored.add(*answer)
        elif answer not in self._failed:
            self._failed.add(*answer)
        if line.get("label") not in LABELS or (line.get("label") == "unknown") != (line.get("cause") is not None):
            said = f"label {line.get('label')!r}, cause {line.get('cause')!r}"
            self._found.add(f" line {number_of(line)}: {said}")

    def told(self) -> Iterator[str]:
        """Yield what is wrong."""
        yield from self._found.told()
        met = 0
        only_failed = (one for one in self._failed.counts() if one[1:3] not in self._scored)
        for place, key, of, count in chain(self._scored.counts(), only_failed):
            expected = int(of in _LEAST and self._answers[place] >= _LEAST[of])
            if count > 1 or not expected:
                yield f": trial {key[:12]} is scored {count} times, expected {expected}"
            met += expected
        missing = sum(self._answers) - met
        if missing:
            yield f": {count_of(missing, 'answer is', 'answers are')} not scored; `evals score` goes on"


def _summary(facts: _Facts) -> Iterator[str]:
    if not facts.folder.summary.exists():
        yield "there is no summary.json; `evals report` makes it"
        return
    scores = read_scores(facts.folder, facts.plan.keys)
    run = Loaded(facts.manifest, facts.plan, facts.contents.lines, facts.counted, scores, facts.spent)
    made = json.dumps(summarise(facts.folder, run), ensure_ascii=True, sort_keys=True, indent=1) + "\n"
    if facts.folder.summary.read_bytes() != made.encode("ascii"):
        yield "summary.json differs from the summary made again from the folder"
