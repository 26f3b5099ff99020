"""A run made of what a proxy's journal says was decided, so that another policy can be compared with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evals.client import objects
from evals.folder import RunFolder
from evals.journal import Entry, JournalFile, JsonObject, sha256_json
from evals.plan import Plan, PlannedTrial
from evals.prepare import Prepared
from evals.session import create, opening
from evals.statistics.jsonable import to_json
from evals.traffic import Traffic
from evals.trials import gate_fields, outline, read_gate, verdict_row

AS_RECORDED = "as recorded"


def make_recorded_run(prepared: Prepared, traffic: Traffic, path: Path, argv: Sequence[str]) -> RunFolder:
    """Write the run of what was decided at the time; nothing is asked.

    Args:
        prepared: the run of the new policy over the same traffic.
        traffic: what was read.
        path: folder to make.
        argv: command line, for the manifest.

    Raises:
        StoreError: the disk does not take it.
    """
    recorded = _as_recorded(prepared, traffic)
    folder = create(recorded, path, argv)
    journal = JournalFile(folder.journal)
    try:
        journal.append(opening(folder, journal, None))
        journal.append([Entry("trial", fields) for fields in _lines(recorded.plan, traffic)])
        done = len(traffic.items)
        journal.append([Entry("run_end", {"ending": "done", "done": done, "errors": 0})])
    finally:
        journal.close()
    return folder


def _as_recorded(prepared: Prepared, traffic: Traffic) -> Prepared:
    """Return the same plan under the policies of the time; their text is not in a journal, their versions are."""
    versions = sorted({str(_policy(record).get("version")) for record in traffic.records.values()})
    guard = replace(prepared.guard, name=AS_RECORDED, text="", sha256=sha256_json(to_json(versions)))
    identity: JsonObject = {**prepared.identity, "guard": guard.sha256}
    return replace(prepared, guard=guard, plan=_plan(prepared, guard.sha256), identity=identity)


def _policy(record: JsonObject) -> JsonObject:
    policy = record.get("policy")
    return policy if isinstance(policy, dict) else {}


def _plan(prepared: Prepared, guard_sha256: str) -> Plan:
    keys = ((trial, sha256_json([trial.trial_key, guard_sha256])) for trial in prepared.plan)
    return Plan(replace(trial, guard=guard_sha256[:12], trial_key=key) for trial, key in keys)


def _lines(plan: Sequence[PlannedTrial], traffic: Traffic) -> list[JsonObject]:
    return [_line(trial, traffic.records[trial.item_id]) for trial in plan]


def _line(trial: PlannedTrial, record: JsonObject) -> JsonObject:
    if trial.skip is not None:
        return outline(trial, "skipped", "unsupported", trial.skip)
    made = read_gate(record)
    return {
        **outline(trial, "ok", None, None),
        **gate_fields(made),
        "record_id": record.get("id"),
        "verdicts": [verdict_row(row) for row in objects(record.get("verdicts"))],
        "latency": {"guard_s": round(made.seconds, 6), "overhead_s": record.get("overhead_s")},
        "cost_usd": 0.0,
    }
