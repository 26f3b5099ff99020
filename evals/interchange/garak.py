"""Read report files of garak: JSON lines, also of a run that broke off (harness §12)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from evals.attempts import as_object
from evals.client import number, objects
from evals.datasets.load import hash_file
from evals.interchange.foreign import ForeignAnswer, ForeignLog, ForeignTrial, ForeignVerdict, ImportOptions, Status
from evals.journal import JsonObject
from evals.statistics.jsonable import Json
from evals.types import Message, MessageRole
from supervisors.errors import DatasetError
from supervisors.types import Cause, Label

_COMPLETE = 2
_USED = frozenset({"start_run setup", "init", "attempt", "eval", "completion"})
_ROLES: Mapping[str, MessageRole] = {"system": "system", "assistant": "assistant", "user": "user"}


@dataclass(frozen=True, slots=True)
class _Report:
    """What a report file holds."""

    setup: JsonObject
    version: Json
    attempts: tuple[JsonObject, ...]
    evals: tuple[JsonObject, ...]
    completed: bool
    ignored: Mapping[str, int]

    @property
    def threshold(self) -> float:
        """Return the score from which a detector counts as hit."""
        stated = number(self.setup.get("run.eval_threshold"))
        return 0.5 if stated is None else stated

    @property
    def generations(self) -> int:
        """Return how many answers each prompt was to get."""
        return int(number(self.setup.get("run.generations")) or 1)


def read_garak(path: Path, options: ImportOptions) -> ForeignLog:
    """Read a report.

    Raises:
        DatasetError: a line is no JSON object, or the file is no garak report.
    """
    report = _read(path)
    trials = tuple([trial for attempt in report.attempts for trial in _trials(report, attempt, options)])
    detectors = sorted({name for attempt in report.attempts for name in as_object(attempt.get("detector_results"))})
    ignored = dict(report.ignored)
    without = _scores_without_output(report.attempts)
    if without:
        ignored["scores of outputs that do not exist"] = without
    return ForeignLog(
        source="garak",
        sha256=hash_file(path),
        facts={
            "garak_version": report.version,
            "target": report.setup.get("plugins.target_name") or report.setup.get("plugins.model_name"),
            "seed": report.setup.get("run.seed"),
            "eval_threshold": report.threshold,
            "generations": report.generations,
        },
        trials=trials,
        scorers={name: _config(name, report.threshold) for name in detectors},
        complete=report.completed and all(_status(attempt) == _COMPLETE for attempt in report.attempts),
        mismatches=tuple(_mismatches(report)),
        ignored=ignored,
    )


def _read(path: Path) -> _Report:
    setup: JsonObject = {}
    version: Json = None
    attempts: dict[str, JsonObject] = {}
    evals: list[JsonObject] = []
    kinds: Counter[str] = Counter()
    for entry in _entries(path):
        kind = str(entry.get("entry_type"))
        kinds[kind] += 1
        if kind == "start_run setup":
            setup |= entry
        elif kind == "init":
            version = entry.get("garak_version")
        elif kind == "eval":
            evals.append(entry)
        elif kind == "attempt":
            name = str(entry.get("uuid"))
            if name not in attempts or _status(entry) > _status(attempts[name]):
                attempts[name] = entry
    if not setup and not attempts:
        msg = f"{path}: is no garak report: it has neither 'start_run setup' nor 'attempt' lines"
        raise DatasetError(msg)
    ignored = {f"{kind} lines": count for kind, count in sorted(kinds.items()) if kind not in _USED}
    return _Report(setup, version, tuple(attempts.values()), tuple(evals), kinds["completion"] > 0, ignored)


def _entries(path: Path) -> Iterator[JsonObject]:
    """Yield the objects of a file, a line each; blank lines are none."""
    for number_, line in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        if line.strip():
            yield _parse(path, number_, line)


def _parse(path: Path, number_: int, line: bytes) -> JsonObject:
    """Return the object of a line; text is written unescaped and may hold lone surrogates."""
    try:
        value: object = json.loads(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        msg = f"{path} line {number_}: is not JSON: {type(error).__name__}"
        raise DatasetError(msg) from error
    if not isinstance(value, dict):
        msg = f"{path} line {number_}: is no JSON object"
        raise DatasetError(msg)
    return cast("JsonObject", value)  # a JSON object has text names


def _status(attempt: JsonObject) -> int:
    return int(number(attempt.get("status")) or 0)


def _trials(report: _Report, attempt: JsonObject, options: ImportOptions) -> Iterator[ForeignTrial]:
    """Yield one trial an output; an attempt that was only announced gives as many missing ones as were to come."""
    outputs = attempt.get("outputs")
    listed = outputs if isinstance(outputs, list) else []
    probe = str(attempt.get("probe_classname"))
    uuid = str(attempt.get("uuid"))
    messages = tuple(_prompt(attempt.get("prompt")))
    place = int(number(attempt.get("seq")) or 0)
    target = str(report.setup.get("plugins.target_name") or report.setup.get("plugins.model_name"))
    results = as_object(attempt.get("detector_results"))
    for index in range(len(listed) if _status(attempt) > 0 else max(len(listed), report.generations)):
        text = _text(listed[index]) if index < len(listed) else None
        state: Status = "ok"
        if text is None:
            state = "error" if index < len(listed) else "missing"
        yield ForeignTrial(
            dataset=f"garak/{probe}",
            index=place,
            foreign_id=uuid,
            messages=messages,
            repeat=index,
            target=target,
            status=state,
            cause="no_output" if state == "error" else None,
            answer=None if text is None else ForeignAnswer(text),
            verdicts={} if text is None else dict(_verdicts(results, index, report.threshold)),
            truth=options.truth,
            cluster=uuid,
            category=(probe.partition(".")[0],),
        )


def _prompt(given: Json) -> Iterator[Message]:
    turns = objects(as_object(given).get("turns"))
    if not turns:
        yield Message("user", _text(given) or "")
    for turn in turns:
        yield Message(_ROLES.get(str(turn.get("role")), "user"), _text(turn.get("content")) or "")


def _text(value: Json) -> str | None:
    """Return the text of a message, which older reports hold as a plain string; None when there is none."""
    found = value.get("text") if isinstance(value, dict) else value
    return found if isinstance(found, str) else None


def _verdicts(results: JsonObject, index: int, threshold: float) -> Iterator[tuple[str, ForeignVerdict]]:
    for name, scores in results.items():
        listed = scores if isinstance(scores, list) else []
        score = number(listed[index]) if index < len(listed) else None
        if score is None:
            yield name, ForeignVerdict(Label.UNKNOWN, Cause.ERROR, "no_score")
        else:
            label = Label.UNSAFE if score >= threshold else Label.SAFE
            yield name, ForeignVerdict(label, None, None, score if 0 <= score <= 1 else None)


def _config(name: str, threshold: float) -> JsonObject:
    return {
        "kind": "imported",
        "source": "garak",
        "scorer": name,
        "threshold": threshold,
        "meaning": f"detector {name}: unsafe from a score of {threshold:g}; no score is unknown",
    }


def _scores_without_output(attempts: Sequence[JsonObject]) -> int:
    """Count scores a detector gave to an output that does not exist: they say nothing about a model."""
    count = 0
    for attempt in attempts:
        outputs = attempt.get("outputs")
        listed = outputs if isinstance(outputs, list) else []
        empty = {index for index, output in enumerate(listed) if _text(output) is None}
        for scores in as_object(attempt.get("detector_results")).values():
            found = scores if isinstance(scores, list) else []
            count += sum([index in empty and score is not None for index, score in enumerate(found)])
    return count


def _mismatches(report: _Report) -> Iterator[str]:
    """Count again what the eval lines state."""
    counted: dict[tuple[str, str], Counter[str]] = {}
    for attempt in report.attempts:
        if _status(attempt) != _COMPLETE:
            continue
        for name, scores in as_object(attempt.get("detector_results")).items():
            counts = counted.setdefault((str(attempt.get("probe_classname")), name), Counter())
            counts.update(
                [_counts_as(score, report.threshold) for score in (scores if isinstance(scores, list) else [])]
            )
    for line in report.evals:
        name = str(line.get("detector")).removeprefix("detector.")
        counts = counted.get((str(line.get("probe")), name), Counter())
        for field in ("passed", "fails", "nones"):
            stated = number(line.get(field))
            if stated is not None and stated != counts[field]:
                yield f"{line.get('probe')} {name}: {field} is {stated:g}, counted {counts[field]}"


def _counts_as(score: Json, threshold: float) -> str:
    found = number(score)
    if found is None:
        return "nones"
    return "fails" if found >= threshold else "passed"
