"""Turn a foreign log into an ordinary run folder, so that report, compare, gate and verify work on it (harness §12)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evals.composition import messages_sha256
from evals.datasets.load import hash_file
from evals.folder import RunFolder, make_run_id, write_json, write_lines
from evals.interchange.foreign import ForeignLog, ForeignTrial, ForeignVerdict, ImportOptions
from evals.journal import Entry, JournalFile, JsonObject, now_text, sha256_json
from evals.manifest import Manifest, describe_environment, write_manifest
from evals.plan import FORMAT_VERSION, PlannedTrial, to_rows
from evals.scoring import AnswerVerdict, open_scores, store_scores
from evals.trials import describe_answer, outline
from evals.types import make_item_id
from supervisors.errors import ConfigError
from supervisors.types import Cause, Label

COMPOSITION = "foreign-1"
"""Rule of an imported trial: the messages are those of the log."""
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Imported:
    """What came of an import.

    Args:
        states: ok, error and missing trials.
        labels: scorer → label → count, over the answers.
        unmapped: scorer → raw value → count, of values nobody gave a label.
    """

    states: Mapping[str, int]
    labels: Mapping[str, Mapping[str, int]]
    unmapped: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """How an import is to be kept.

    Args:
        argv: command line.
        hash_only: no text is written.
        tags: kept in the manifest.
        options: what the user said about the log.
    """

    argv: Sequence[str]
    hash_only: bool
    tags: Mapping[str, str]
    options: ImportOptions


def store_log(folder: RunFolder, log: ForeignLog, wanted: Wanted) -> Imported:
    """Write manifest, plan, journal, texts and scores of a log.

    Raises:
        ConfigError: the folder holds a run already.
        StoreError: the disk does not take it.
    """
    if folder.manifest.exists():
        msg = f"{folder.path} holds a run already; give another --run-name"
        raise ConfigError(msg)
    folder.make()
    plan = _plan(log)
    write_lines(folder.plan, to_rows(plan))
    write_manifest(folder, _manifest(folder, log, wanted, plan))
    _write_journal(folder, log, plan, keep_texts=not wanted.hash_only)
    labels = {name: _write_scores(folder, log, plan, name) for name in log.scorers}
    return Imported(
        states=dict(sorted(Counter([trial.status for trial in log.trials]).items())),
        labels=labels,
        unmapped={name: found for name in log.scorers if (found := _unmapped(log, name))},
    )


def _plan(log: ForeignLog) -> tuple[PlannedTrial, ...]:
    texts = {_item(trial): _last_text(trial) for trial in log.trials if trial.messages}
    hashes = {_item(trial): messages_sha256(trial.messages) for trial in log.trials if trial.messages}
    lengths = {_item(trial): sum([len(one.content) for one in trial.messages]) for trial in log.trials}
    planned: list[PlannedTrial] = []
    for trial in log.trials:
        item = _item(trial)
        item_id = make_item_id(trial.dataset, trial.split, trial.index, texts.get(item, ""))
        planned.append(
            PlannedTrial(
                trial_key=_key(log, trial),
                dataset=trial.dataset,
                item_id=item_id,
                cluster_id=trial.cluster or item_id,
                truth=trial.truth,
                severity=trial.truth if trial.truth in ("harmful", "benign") else None,
                adversariality=None,
                family=None,
                source=f"{log.source}: {trial.foreign_id}",
                published_at=None,
                category=trial.category,
                transform=trial.transform,
                repeat=trial.repeat,
                target=trial.target,
                arm="imported",
                guard="foreign",
                composition=COMPOSITION,
                prompt_sha256=hashes.get(item, "") if trial.messages else "",
                chars=lengths.get(item, 0),
                contamination="unknown",
            )
        )
    return tuple(planned)


def _item(trial: ForeignTrial) -> tuple[str, str, int, str]:
    return trial.dataset, trial.split, trial.index, trial.foreign_id


def _last_text(trial: ForeignTrial) -> str:
    asked = [message.content for message in trial.messages if message.role == "user"]
    return asked[-1] if asked else trial.messages[-1].content


def _key(log: ForeignLog, trial: ForeignTrial) -> str:
    return sha256_json(
        {
            "source": log.source,
            "file_sha256": log.sha256,
            "dataset": trial.dataset,
            "split": trial.split,
            "index": trial.index,
            "id": trial.foreign_id,
            "repeat": trial.repeat,
            "target": trial.target,
            "format_version": FORMAT_VERSION,
        }
    )


def _manifest(folder: RunFolder, log: ForeignLog, wanted: Wanted, plan: Sequence[PlannedTrial]) -> Manifest:
    items = Counter([name for name, _ in {(trial.dataset, trial.item_id) for trial in plan}])
    said = wanted.options
    imported: JsonObject = {
        "source": log.source,
        "sha256": log.sha256,
        "facts": log.facts,
        "mapping": {f"{name}:{text}": label.value for (name, text), label in sorted(said.mapping.items())},
        "truth": said.truth if said.truth_field is None else f"field {said.truth_field}",
        "complete": log.complete,
        "mismatches": list(log.mismatches),
        "ignored": dict(log.ignored),
    }
    return Manifest(
        format_version=FORMAT_VERSION,
        run_id=make_run_id(),
        started=now_text(),
        origin=f"import:{log.source}",
        argv=wanted.argv,
        identity={"imported": imported, "selection": "every row of the log", "ledger": "imported", "composition": None},
        options={"hash_only": wanted.hash_only, "allow_contaminated": False},
        labels={
            "target": f"{', '.join(sorted({trial.target for trial in plan}))} (imported from {log.source})",
            "guard": "none of ours",
            "exhaustive": "yes",
            "self_judge": "",
        },
        policy="",
        lock={
            name: {
                "items": count,
                "revision": f"{log.source} log",
                "files": [{"name": f"{log.source} log", "sha256": log.sha256}],
            }
            for name, count in sorted(items.items())
        },
        plan_sha256=hash_file(folder.plan),
        planned=len(plan),
        environment=describe_environment(),
        tags=wanted.tags,
    )


def _write_journal(folder: RunFolder, log: ForeignLog, plan: Sequence[PlannedTrial], *, keep_texts: bool) -> None:
    proof: JsonObject = {"manifest_sha256": hash_file(folder.manifest), "plan_sha256": hash_file(folder.plan)}
    entries = [Entry("run_start", proof), Entry("note", {"text": f"imported from a log of {log.source}"})]
    errors = done = 0
    journal = JournalFile(folder.journal)
    try:
        for planned, trial in zip(plan, log.trials, strict=True):
            if trial.status == "missing":
                continue
            fields, texts = _line(planned, trial)
            for text in [*texts, *[message.content for message in trial.messages]] if keep_texts else ():
                folder.keep_text(text)
            entries.append(Entry("trial", fields))
            done, errors = done + 1, errors + (trial.status == "error")
            if len(entries) >= _BATCH:
                journal.append(entries)
                entries = []
        ending = "done" if log.complete else "interrupted"
        journal.append([*entries, Entry("run_end", {"ending": ending, "done": done, "errors": errors})])
    finally:
        journal.close()


def _line(planned: PlannedTrial, trial: ForeignTrial) -> tuple[JsonObject, list[str]]:
    fields = outline(planned, trial.status, trial.cause, trial.detail) | {"attempts": 1}
    texts: list[str] = []
    if trial.answer is not None:
        given = trial.answer
        message: JsonObject = {"content": given.text, "reasoning_content": given.reasoning}
        choice: JsonObject = {"message": message, "finish_reason": given.finish}
        described, texts = describe_answer({"choices": [choice], "model": given.model, "usage": given.usage})
        fields |= described
    flags = [row["label"] == "unsafe" for row in trial.supervisors]
    fields["verdicts"] = list(trial.supervisors)
    fields["flagged"] = any(flags) if flags else None
    fields["cached"] = trial.cached
    fields["cost_usd"] = 0.0 if trial.cached else trial.cost_usd
    fields["latency"] = None if trial.seconds is None else {"service_s": round(trial.seconds, 6), "retry_s": 0.0}
    return fields, texts


def _write_scores(folder: RunFolder, log: ForeignLog, plan: Sequence[PlannedTrial], name: str) -> Mapping[str, int]:
    verdicts = [
        _verdict(planned, trial, trial.verdicts.get(name))
        for planned, trial in zip(plan, log.trials, strict=True)
        if trial.status == "ok"
    ]
    labelled = sum([verdict.label is not Label.UNKNOWN for verdict in verdicts])
    path, _ = open_scores(folder, f"imported-{_plain(name)}", {**log.scorers[name], "labelled": labelled})
    store_scores(path, verdicts)
    return dict(sorted(Counter([verdict.label.value for verdict in verdicts]).items()))


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)


def _verdict(planned: PlannedTrial, trial: ForeignTrial, found: ForeignVerdict | None) -> AnswerVerdict:
    verdict = AnswerVerdict(planned.trial_key, "answer", Label.UNKNOWN, Cause.SKIPPED, "not_asked", cost_usd=None)
    if found is None:
        return verdict
    if trial.answer is not None and not trial.answer.text.strip():
        return replace(verdict, detail="empty")  # an empty answer has no verdict, whatever the log says (H-130)
    return replace(verdict, label=found.label, cause=found.cause, detail=found.detail, score=found.score)


def _unmapped(log: ForeignLog, name: str) -> Mapping[str, int]:
    found = [trial.verdicts[name] for trial in log.trials if name in trial.verdicts]
    values = [str(one.detail) for one in found if one.cause is Cause.UNSUPPORTED]
    return dict(sorted(Counter(values).items()))


def write_import_report(folder: RunFolder, report: JsonObject) -> None:
    """Keep what was read, ignored and found wrong beside the run."""
    write_json(folder.path / "import.json", report)
