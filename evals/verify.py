"""Prove that a run is complete and that nobody has changed it since (H-172)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.attempts import as_object
from evals.client import number, objects
from evals.datasets.load import hash_file
from evals.folder import RunFolder
from evals.journal import JsonObject, find_break, read_journal
from evals.manifest import Manifest, read_manifest
from evals.plan import PlannedTrial, read_plan
from evals.records import read_record_ids
from evals.scoring import answers_of, scorer_id
from evals.state import counting_lines
from evals.summary import load_run, summarise
from supervisors.errors import StoreError
from supervisors.types import Cause, Label

_STATES = frozenset({"ok", "error", "skipped"})
_GATES = frozenset(
    {"pass", "flag", "redact", "block_input", "block_output", "open_on_unknown", "closed_on_unknown", None}
)
_LABELS = frozenset([label.value for label in Label])
_CAUSES = frozenset([cause.value for cause in Cause])


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
    plan: tuple[PlannedTrial, ...]
    lines: Sequence[JsonObject]


def verify(folder: RunFolder) -> tuple[Check, ...]:
    """Check everything that can be checked; a file that cannot be read ends the list."""
    try:
        facts = _Facts(folder, read_manifest(folder), read_plan(folder.plan), read_journal(folder.journal).lines)
    except StoreError as error:
        return (Check("the files can be read", str(error)),)
    checks: tuple[tuple[str, Callable[[_Facts], Iterator[str]]], ...] = (
        ("manifest and plan are those the run was started with", _started_with),
        ("every item is planned once an arm, target and repeat", _planned_once),
        ("the journal's chain holds", _chain),
        ("every planned trial has a counting line, every line a planned trial", _covered),
        ("labels, causes, states and gates are from their closed sets", _domains),
        ("every trial has its own record in the proxy's journal", _records),
        ("stored texts are the hashed ones", _texts),
        ("scores cover the answers once and belong to their scorer", _scores),
        ("costs are numbers from 0 up", _costs),
        ("the summary is what the folder gives", _summary),
    )
    return tuple([_run(name, facts, check) for name, check in checks])


def _run(name: str, facts: _Facts, check: Callable[[_Facts], Iterator[str]]) -> Check:
    try:
        found = list(check(facts))
    except (StoreError, LookupError, TypeError, ValueError) as error:
        found = [f"{type(error).__name__}: {error}"]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return Check(name, f"{found[0]}{more}" if found else None)


def _started_with(facts: _Facts) -> Iterator[str]:
    if hash_file(facts.folder.plan) != facts.manifest.plan_sha256:
        yield "plan.jsonl is not the file whose hash the manifest holds"
    if len(facts.plan) != facts.manifest.planned:
        yield f"{len(facts.plan)} trials are planned, the manifest says {facts.manifest.planned}"
    manifest = hash_file(facts.folder.manifest)
    starts = [line for line in facts.lines if line.get("type") in ("run_start", "resume")]
    if not starts or facts.lines[0].get("type") != "run_start":
        yield "the journal does not begin with run_start"
    for line in starts:
        if line.get("manifest_sha256") != manifest:
            yield f"line {_number(line)}: the manifest is not the one the run was started with"


def _planned_once(facts: _Facts) -> Iterator[str]:
    keys = Counter([trial.trial_key for trial in facts.plan])
    for key, count in keys.items():
        if count > 1:
            yield f"trial {key[:12]} is planned {count} times"
    shapes: dict[str, set[tuple[str, str, int]]] = {}
    for trial in facts.plan:
        shapes.setdefault(trial.item_id, set()).add((trial.target, trial.arm, trial.repeat))
    for item, shape in shapes.items() if "imported" not in facts.manifest.identity else ():
        if shape != next(iter(shapes.values())):
            yield f"{item} is not planned like the other items"
    if not facts.manifest.identity.get("selection"):
        yield "the manifest does not say how items were selected"


def _chain(facts: _Facts) -> Iterator[str]:
    problem = find_break(facts.lines)
    if problem is not None:
        yield problem
    torn = read_journal(facts.folder.journal).torn_bytes
    if torn:
        yield f"the last line is incomplete ({torn} bytes); `evals resume` cuts it off"


def _trials(facts: _Facts) -> Iterator[JsonObject]:
    return (line for line in facts.lines if line.get("type") == "trial")


def _covered(facts: _Facts) -> Iterator[str]:
    counted = counting_lines(facts.lines)
    for trial in facts.plan:
        if trial.trial_key not in counted:
            yield f"{trial.item_id} ({trial.arm}, {trial.target}, repeat {trial.repeat}) has no line"
    planned = {trial.trial_key: trial for trial in facts.plan}
    for line in _trials(facts):
        known = planned.get(str(line.get("trial_key")))
        if known is None:
            yield f"line {_number(line)}: trial {str(line.get('trial_key'))[:12]} is not planned"
        elif line.get("rendered_prompt_sha256") != (known.prompt_sha256 or None):
            yield f"line {_number(line)}: another prompt was sent than planned"
    done = Counter([str(line.get("trial_key")) for line in _trials(facts) if line.get("status") in ("ok", "skipped")])
    yield from [f"trial {key[:12]} was done {count} times" for key, count in done.items() if count > 1]


def _domains(facts: _Facts) -> Iterator[str]:
    for line in _trials(facts):
        if line.get("status") not in _STATES or line.get("gate") not in _GATES:
            yield f"line {_number(line)}: status {line.get('status')!r} or gate {line.get('gate')!r}"
        for verdict in objects(line.get("verdicts")):
            known = verdict.get("label") in _LABELS and (verdict.get("cause") is None or verdict["cause"] in _CAUSES)
            if not known or (verdict.get("label") == "unknown") != (verdict.get("cause") is not None):
                yield f"line {_number(line)}: {verdict.get('label')!r} with cause {verdict.get('cause')!r}"


def _records(facts: _Facts) -> Iterator[str]:
    ids = [str(line["record_id"]) for line in _trials(facts) if line.get("record_id") is not None]
    used = Counter(ids)
    yield from [f"record {record} belongs to {count} trials" for record, count in used.items() if count > 1]
    journals = sorted(facts.folder.path.glob("proxy-*.sqlite3"))
    if not journals:
        return  # the proxy was not ours; its journal is elsewhere
    known: Counter[str] = Counter()
    for path in journals:
        known.update(read_record_ids(path))
    for record in used:
        if known[record] != 1:
            yield f"record {record} stands {known[record]} times in the proxy's journal"


def _texts(facts: _Facts) -> Iterator[str]:
    wanted: set[str] = set()
    for line in _trials(facts):
        if line.get("status") == "ok":
            parts = [as_object(line.get(name)) for name in ("answer", "reasoning", "behind")]
            wanted |= {str(part["sha256"]) for part in parts if part.get("sha256")}
    hashed_only = bool(facts.manifest.options.get("hash_only"))
    folder = facts.folder.path / "text"
    kept = {path.stem for path in folder.glob("*/*.json")}
    for sha256 in sorted(kept):
        if facts.folder.read_text(sha256) is None:
            yield f"text {sha256[:12]} is not the text of its hash"
    if hashed_only and kept:
        yield f"{len(kept)} texts are stored although the run keeps only hashes"
    if not hashed_only:
        for sha256 in sorted(wanted - kept):
            yield f"text {sha256[:12]} is missing"


def _scores(facts: _Facts) -> Iterator[str]:
    expected = {(one.planned.trial_key, one.of) for one in answers_of(facts.plan, counting_lines(facts.lines))}
    for path in sorted(facts.folder.scores.glob("*")):
        yield from _scorer(path, expected)


def _scorer(path: Path, expected: set[tuple[str, str]]) -> Iterator[str]:
    config: JsonObject = json.loads((path / "manifest.json").read_text("utf-8"))
    name = path.name.rpartition("-")[0]
    if scorer_id(name, config) != path.name:
        yield f"scores/{path.name}: the manifest is not the one of this scorer"
    lines = read_journal(path / "journal.jsonl").lines
    problem = find_break(lines)
    if problem is not None:
        yield f"scores/{path.name}: {problem}"
    found = Counter([(str(line.get("trial_key")), str(line.get("of"))) for line in lines])
    for key, count in found.items():
        if count > 1 or key not in expected:
            yield f"scores/{path.name}: trial {key[0][:12]} is scored {count} times, expected {int(key in expected)}"
    missing = expected - found.keys()
    if missing:
        yield f"scores/{path.name}: {len(missing)} answers are not scored; `evals score` goes on"
    for line in lines:
        if line.get("label") not in _LABELS or (line.get("label") == "unknown") != (line.get("cause") is not None):
            yield f"scores/{path.name} line {_number(line)}: label {line.get('label')!r}, cause {line.get('cause')!r}"


def _costs(facts: _Facts) -> Iterator[str]:
    for line in _trials(facts):
        cost = line.get("cost_usd")
        if cost is not None and (number(cost) is None or (number(cost) or 0) < 0):
            yield f"line {_number(line)}: cost {cost!r}"


def _summary(facts: _Facts) -> Iterator[str]:
    if not facts.folder.summary.exists():
        yield "there is no summary.json; `evals report` makes it"
        return
    made = (
        json.dumps(summarise(facts.folder, load_run(facts.folder)), ensure_ascii=True, sort_keys=True, indent=1) + "\n"
    )
    if facts.folder.summary.read_bytes() != made.encode("ascii"):
        yield "summary.json differs from the summary made again from the folder"


def _number(line: JsonObject) -> str:
    return str(int(number(line.get("seq")) or 0) + 1)
