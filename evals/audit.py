"""Whether what was flagged was acted on, and whether every verdict has its record: flag against enforce (H-171)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.attempts import as_object
from evals.client import Guard, decide_again, objects, parse_guard
from evals.folder import RunFolder
from evals.journal import JsonObject
from evals.plan import PlannedTrial
from evals.records import prove, read_records
from evals.statistics.jsonable import Json
from evals.summary import Loaded, load_run
from evals.trials import enforced_verdicts, gate_fields
from supervisors.errors import ConfigError

_ACTIONS = ("block", "redact")
MEANINGS: Mapping[str, str] = {
    "flagged_not_blocked": "a blocking policy flagged it and let it through",
    "blocked_without_flag": "blocked although no verdict is unsafe or unknown",
    "opened_on_unknown": "let through although a verdict was unknown",
    "supervisor_missing": "a supervisor the policy prescribes has no verdict in the record",
    "verdict_without_record": "a trial has verdicts and no record in the proxy's journal",
    "record_without_trial": "the proxy judged something that no planned trial sent",
    "shadow_in_header": "what only a shadow supervisor said reached a response header",
    "gate_differs": "the gate of a trial is not what its policy makes of the recorded verdicts",
    "journal_broken": "the proxy's journal does not prove: chain, verdicts or decisions",
}
"""Classes of findings in the order they are printed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One class of findings.

    Args:
        name: class.
        meaning: in words.
        count: how many.
        ids: items or records, all of them.
    """

    name: str
    meaning: str
    count: int
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found.

    Args:
        trials: counting lines looked at.
        records: records of the proxy looked at; None when its journal is elsewhere.
        superseded: records of trials that were sent again after an error or a crash; no alarm.
        decided_again: the policy could be read again, so that every gate was decided again from the records.
        findings: every class, those without a finding too.
    """

    trials: int
    records: int | None
    superseded: int
    decided_again: bool
    findings: tuple[Finding, ...]

    @property
    def alarms(self) -> int:
        """Count the findings of all classes."""
        return sum([finding.count for finding in self.findings])


def audit(folder: RunFolder, environ: Mapping[str, str]) -> AuditReport:
    """Audit a run.

    Args:
        folder: the run.
        environ: where the policy's `{env: NAME}` is looked up; without it gates are not decided again.

    Raises:
        StoreError: the run or the proxy's journal cannot be read.
    """
    run = load_run(folder)
    guard = _guard_of(run, environ)
    found: list[tuple[str, str]] = []
    journals = sorted(folder.path.glob("proxy-*.sqlite3"))
    records = {stored.id: stored.body for path in journals for stored in read_records(path)}
    planned = {trial.trial_key: trial for trial in run.plan}
    items = {key: trial.item_id for key, trial in planned.items()}
    for key, line in run.counted.items():
        record = records.get(str(line.get("record_id")))
        name = items.get(key, key)
        found += [(kind, name) for kind in _of_line(line)]
        if journals:
            found += [(kind, name) for kind in _of_record(line, record)]
        if guard is not None and record is not None and key in planned:
            found += [(kind, name) for kind in _of_gate(guard, planned[key], line, record)]
    superseded = 0
    if journals:
        unused = _unused(run, records)
        found += [("record_without_trial", record) for record in unused if not _is_planned(records[record], items)]
        superseded = sum([_is_planned(records[record], items) for record in unused])
        found += [("journal_broken", line) for path in journals for line in prove(path)]
    seen = len(records) if journals else None
    return AuditReport(len(run.counted), seen, superseded, guard is not None, _group(found))


def _guard_of(run: Loaded, environ: Mapping[str, str]) -> Guard | None:
    if not run.manifest.policy:
        return None
    try:
        return parse_guard(Path(run.manifest.labels["guard"]), run.manifest.policy, environ)
    except ConfigError:
        return None  # its secrets or files are not here; the report says that gates were not decided again


def _of_gate(guard: Guard, planned: PlannedTrial, line: JsonObject, record: JsonObject) -> Iterator[str]:
    """Yield what is wrong with the gate of an observed or checked trial: it is decided again from the record."""
    if planned.arm not in ("observed", "check") or line.get("status") != "ok":
        return
    made = gate_fields(decide_again(guard.plan(planned.target), record))
    if made["blocked"] is True and line.get("blocked") is False and line.get("redacted") is False:
        yield "flagged_not_blocked"
    elif any(line.get(name) != value for name, value in made.items()):
        yield "gate_differs"


def _group(found: Sequence[tuple[str, str]]) -> tuple[Finding, ...]:
    counts = Counter([kind for kind, _ in found])
    return tuple(
        [
            Finding(name, meaning, counts[name], tuple([one for kind, one in found if kind == name]))
            for name, meaning in MEANINGS.items()
        ]
    )


def _of_line(line: JsonObject) -> Iterator[str]:
    """Yield what is wrong with a trial line by itself."""
    labels = [verdict.get("label") for verdict in enforced_verdicts(line)]
    if line.get("blocked") is True and "unsafe" not in labels and line.get("gate") != "closed_on_unknown":
        yield "blocked_without_flag"
    if line.get("gate") == "open_on_unknown":
        yield "opened_on_unknown"


def _of_record(line: JsonObject, record: JsonObject | None) -> Iterator[str]:
    if record is None:
        if objects(line.get("verdicts")) and line.get("cached") is not True:
            yield "verdict_without_record"
        return
    if _lets_through(record):
        yield "flagged_not_blocked"
    if _missing(record):
        yield "supervisor_missing"
    if _shadow_shows(line, record):
        yield "shadow_in_header"


def _lets_through(record: JsonObject) -> bool:
    """Say whether an enforced decision means to block or redact and the answer left all the same."""
    decided = [row for row in objects(record.get("decisions")) if row.get("mode") == "enforce"]
    acts = [row for row in decided if row.get("blocked") is True or row.get("action") == "block"]
    return bool(acts) and record.get("outcome") == "answered" and record.get("kind") == "exchange"


def _missing(record: JsonObject) -> bool:
    given = {(str(v.get("supervisor")), str(v.get("stage"))) for v in objects(record.get("verdicts"))}
    prescribed = as_object(record.get("prescribed"))
    ended_early = {str(row.get("stage")) for row in objects(record.get("decisions")) if row.get("action") == "block"}
    stages = ["input"] if "input" in ended_early or record.get("outcome") == "unavailable" else ["input", "output"]
    wanted = [(name, stage) for stage in stages for name in _names(prescribed.get(stage))]
    return any(pair not in given for pair in wanted)


def _names(value: Json) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else []


def _shadow_shows(line: JsonObject, record: JsonObject) -> bool:
    """Say whether a response header tells more than the enforced decisions and verdicts do."""
    headers = as_object(line.get("headers"))
    enforced = {str(row.get("action")) for row in objects(record.get("decisions")) if row.get("mode") == "enforce"}
    labels = {str(v.get("label")) for v in objects(record.get("verdicts")) if v.get("mode") == "enforce"}
    acts = headers.get("x-guardrail-decision") not in (None, "pass", *enforced)
    return acts or (headers.get("x-guardrail-verdict") == "unsafe" and "unsafe" not in labels)


def _unused(run: Loaded, records: Mapping[str, JsonObject]) -> list[str]:
    used = {str(line.get("record_id")) for line in run.counted.values()}
    return [record for record in records if record not in used]


def _is_planned(record: JsonObject, items: Mapping[str, str]) -> bool:
    return str(record.get("request_id")) in items
