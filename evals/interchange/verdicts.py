"""Our own verdicts as JSON lines without any text, and a run made of them again with the same results (H-175)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evals.attempts import as_object
from evals.client import objects
from evals.datasets.load import hash_file
from evals.folder import RunFolder, write_lines
from evals.journal import Entry, JournalFile, JsonObject, parse_object
from evals.manifest import Manifest, describe_environment, write_manifest
from evals.plan import FORMAT_VERSION, PlannedTrial, to_rows
from evals.rows import Row, join, policy_verdict
from evals.scoring import AnswerVerdict, Scores, open_scores, store_scores, verdict_fields, verdict_of
from evals.statistics.jsonable import Json, to_json
from evals.summary import Loaded
from supervisors.errors import ConfigError, DatasetError

FORMAT = "guardrail-proxy-verdicts"
_VERSION = 1
_CHAIN = frozenset({"seq", "ts", "type", "prev_sha256", "sha256"})
_OPTIONS = ("allow_contaminated",)
_TRIAL = TypeAdapter(PlannedTrial)


FLAT = (
    "trial_key",
    "item_id",
    "dataset",
    "target",
    "arm",
    "repeat",
    "transform",
    "truth",
    "category",
    "status",
    "label",
    "cause",
    "gate",
    "answer",
    "answer_cause",
    "behaviour",
    "contamination",
)
"""Names of the columns of `flat`."""


def flat(row: Row) -> JsonObject:
    """Return ids, labels and causes of one trial; no text."""
    label, cause = policy_verdict(row)
    planned = row.planned
    return {
        "trial_key": planned.trial_key,
        "item_id": planned.item_id,
        "dataset": planned.dataset,
        "target": planned.target,
        "arm": planned.arm,
        "repeat": planned.repeat,
        "transform": planned.transform,
        "truth": row.truth,
        "category": "|".join(planned.category),
        "status": row.status,
        "label": label.value if label else None,
        "cause": cause.value if cause else None,
        "gate": row.fields.get("gate"),
        "answer": row.answer.label.value if row.answer else None,
        "answer_cause": row.answer.cause.value if row.answer and row.answer.cause else None,
        "behaviour": row.answer.behaviour if row.answer else None,
        "contamination": planned.contamination,
    }


def verdict_lines(run: Loaded) -> Iterator[JsonObject]:
    """Yield the header and one line a trial: everything a summary needs, and no text."""
    manifest = run.manifest
    yield {
        "format": FORMAT,
        "format_version": _VERSION,
        "run_id": manifest.run_id,
        "started": manifest.started,
        "origin": manifest.origin,
        "labels": dict(manifest.labels),
        "options": {name: to_json(manifest.options.get(name)) for name in _OPTIONS},
        "lock": to_json(manifest.lock),
        "tags": dict(manifest.tags),
        "scorers": {scores.scorer_id: scores.config for scores in run.scores},
    }
    for row in join(run.plan, run.counted, run.scores[0] if run.scores else None):
        key = row.planned.trial_key
        yield {
            **flat(row),
            "planned": to_json(row.planned),
            "line": None if row.line is None else {n: v for n, v in row.line.items() if n not in _CHAIN},
            "scores": {scores.scorer_id: list(_scores_of(scores, key)) for scores in run.scores},
        }


def _scores_of(scores: Scores, key: str) -> Iterator[Json]:
    for of in ("answer", "behind"):
        if (key, of) in scores.by_key:
            yield verdict_fields(scores.by_key[key, of])


@dataclass(frozen=True, slots=True)
class _Line:
    planned: PlannedTrial
    fields: JsonObject | None
    scores: Mapping[str, tuple[AnswerVerdict, ...]]


def read_verdicts(path: Path, folder: RunFolder, argv: Sequence[str]) -> Mapping[str, int]:
    """Make a run folder of exported verdicts; texts are not in them and are not in the folder.

    Raises:
        DatasetError: the file is no such export, or a line of it is broken.
        ConfigError: the folder holds a run already.
    """
    if folder.manifest.exists():
        msg = f"{folder.path} holds a run already; give another --run-name"
        raise ConfigError(msg)
    header, lines = _read(path)
    folder.make()
    plan = [line.planned for line in lines]
    write_lines(folder.plan, to_rows(plan))
    write_manifest(folder, _manifest(header, folder, path, argv, len(plan)))
    _write_journal(folder, lines)
    for name, config in as_object(header.get("scorers")).items():
        place, _ = open_scores(folder, name.rpartition("-")[0], as_object(config))
        store_scores(place, [verdict for line in lines for verdict in line.scores.get(name, ())])
    return {"trials": len(lines), "missing": sum([line.fields is None for line in lines])}


def _read(path: Path) -> tuple[JsonObject, list[_Line]]:
    header: JsonObject = {}
    lines: list[_Line] = []
    with path.open("rb") as stream:
        for number, text in enumerate(stream, start=1):
            body = parse_object(text)
            if number == 1 and body is not None:
                header = body
            if header.get("format") != FORMAT or header.get("format_version") != _VERSION:
                msg = f"{path}: is no export of `evals export --format jsonl` of version {_VERSION}"
                raise DatasetError(msg)
            if number > 1:
                lines.append(_to_line(path, number, body))
    if not header:
        msg = f"{path}: is empty"
        raise DatasetError(msg)
    return header, lines


def _to_line(path: Path, number: int, body: JsonObject | None) -> _Line:
    try:
        planned = _TRIAL.validate_python((body or {}).get("planned"))
        line = (body or {}).get("line")
        scores = as_object((body or {}).get("scores"))
        verdicts = {name: tuple([verdict_of(one) for one in objects(found)]) for name, found in scores.items()}
    except (ValidationError, ValueError, LookupError) as error:
        msg = f"{path} line {number}: is not an exported trial: {type(error).__name__}"
        raise DatasetError(msg) from error
    return _Line(planned, as_object(line) if line is not None else None, verdicts)


def _manifest(header: JsonObject, folder: RunFolder, path: Path, argv: Sequence[str], planned: int) -> Manifest:
    return Manifest(
        format_version=FORMAT_VERSION,
        run_id=str(header.get("run_id")),
        started=str(header.get("started")),
        origin=str(header.get("origin")),
        argv=argv,
        identity={
            "imported": {"source": "jsonl", "sha256": hash_file(path)},
            "selection": "every trial of the export",
            "ledger": "imported",
            "composition": None,
        },
        options={**as_object(header.get("options")), "hash_only": True},
        labels={name: str(value) for name, value in as_object(header.get("labels")).items()},
        policy="",
        lock=as_object(header.get("lock")),
        plan_sha256=hash_file(folder.plan),
        planned=planned,
        environment=describe_environment(),
        tags={name: str(value) for name, value in as_object(header.get("tags")).items()},
    )


def _write_journal(folder: RunFolder, lines: Sequence[_Line]) -> None:
    proof: JsonObject = {"manifest_sha256": hash_file(folder.manifest), "plan_sha256": hash_file(folder.plan)}
    trials = [Entry("trial", line.fields) for line in lines if line.fields is not None]
    errors = sum([line.fields is not None and line.fields.get("status") == "error" for line in lines])
    end = Entry("run_end", {"ending": "done", "done": len(trials), "errors": errors})
    journal = JournalFile(folder.journal)
    try:
        journal.append([Entry("run_start", proof), Entry("note", {"text": "imported from exported verdicts"})])
        for start in range(0, len(trials), 1000):
            journal.append(trials[start : start + 1000])
        journal.append([end])
    finally:
        journal.close()
