"""Read logs of inspect_ai: the zipped `.eval` form, also of a run that was killed, and the JSON form (harness §12)."""

from __future__ import annotations

import importlib
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from evals.attempts import as_object
from evals.client import number, objects
from evals.datasets.load import hash_file
from evals.interchange.foreign import (
    ForeignAnswer,
    ForeignLog,
    ForeignTrial,
    ForeignVerdict,
    ImportOptions,
    map_value,
)
from evals.journal import JsonObject
from evals.statistics.jsonable import Json
from evals.types import Message, MessageRole
from supervisors.errors import ConfigError, DatasetError

_FINISH: Mapping[str, str] = {
    "stop": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
}
_ROLES: Mapping[str, MessageRole] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_ATTACHMENT = "attachment://"
_ZSTANDARD = 93


@dataclass(frozen=True, slots=True)
class _Raw:
    """The parts of a log: header (or the start of one that was killed) and samples."""

    header: JsonObject
    samples: tuple[JsonObject, ...]
    ended: bool
    listed: int | None


def read_inspect(path: Path, options: ImportOptions) -> ForeignLog:
    """Read a log.

    Raises:
        DatasetError: the file is no such log.
        ConfigError: its compression needs the extra `inspect`, or the mapping names a scorer it does not have.
    """
    raw = _read_zip(path) if zipfile.is_zipfile(path) else _read_json(path)
    spec = as_object(raw.header.get("eval"))
    if not spec:
        msg = f"{path}: is no inspect_ai log: it has no 'eval'"
        raise DatasetError(msg)
    by_key = {(_id(sample), _epoch(sample)): sample for sample in raw.samples}
    scorers = _scorers(raw)
    unknown = sorted({name for name, _ in options.mapping} - scorers.keys())
    if unknown:
        msg = f"--map names the scorer {unknown[0]!r}; this log has {', '.join(sorted(scorers)) or 'none'}"
        raise ConfigError(msg)
    fields = {_id(sample): as_object(sample.get("metadata")) for sample in raw.samples}
    trials: list[ForeignTrial] = []
    for place, (name, epoch) in _planned(spec, raw.samples):
        planned = ForeignTrial(
            dataset=f"inspect/{spec.get('task')}",
            index=place,
            foreign_id=name,
            messages=(),
            repeat=epoch - 1,
            target=str(spec.get("model")),
            status="missing",
            truth=options.truth_of(fields.get(name, {})),
        )
        sample = by_key.get((name, epoch))
        trials.append(planned if sample is None else _fill(planned, sample, options))
    return ForeignLog(
        source="inspect",
        sha256=hash_file(path),
        facts={
            "task": spec.get("task"),
            "eval_id": spec.get("eval_id"),
            "model": spec.get("model"),
            "status": raw.header.get("status") if raw.ended else "no header: the run was killed",
            "packages": spec.get("packages"),
        },
        trials=tuple(trials),
        scorers={name: _config(name, options) for name in scorers},
        complete=raw.ended and raw.header.get("status") == "success",
        mismatches=tuple(_mismatches(raw, len(trials))),
    )


def _read_zip(path: Path) -> _Raw:
    with _opener(path)(path) as archive:
        names = archive.namelist()
        samples = tuple([_member(archive, name) for name in names if name.startswith("samples/")])
        if "header.json" in names:
            listed = _length(archive, "summaries.json") if "summaries.json" in names else None
            return _Raw(_member(archive, "header.json"), samples, True, listed)
        if "_journal/start.json" not in names:
            msg = f"{path}: is no inspect_ai log: neither header.json nor _journal/start.json is in it"
            raise DatasetError(msg)
        journals = [name for name in names if name.startswith("_journal/summaries/")]
        listed = sum([_length(archive, name) for name in journals])
        return _Raw(_member(archive, "_journal/start.json"), samples, False, listed)


def _opener(path: Path) -> type[zipfile.ZipFile]:
    """Return what opens the archive: the standard library, or its successor's copy for Zstandard members.

    Raises:
        ConfigError: Zstandard is needed and not there.
    """
    with zipfile.ZipFile(path) as archive:
        packed = any(info.compress_type == _ZSTANDARD for info in archive.infolist())
    if not packed or sys.version_info >= (3, 14):
        return zipfile.ZipFile
    try:
        # Optional extra; the module is the standard library's of Python 3.14.
        found: type[zipfile.ZipFile] = importlib.import_module("backports.zstd.zipfile").ZipFile
    except ImportError as error:
        msg = (
            f"{path}: is compressed with Zstandard, which needs Python 3.14 or the extra: "
            "pip install 'guardrail-proxy[inspect]'"
        )
        raise ConfigError(msg) from error
    return found


def _member(archive: zipfile.ZipFile, name: str) -> JsonObject:
    """Return a JSON member.

    Raises:
        DatasetError: it is damaged or no JSON object.
    """
    value = _load(archive, name)
    if not isinstance(value, dict):
        msg = f"{archive.filename}: {name} is no JSON object"
        raise DatasetError(msg)
    return value


def _length(archive: zipfile.ZipFile, name: str) -> int:
    value = _load(archive, name)
    return len(value) if isinstance(value, list) else 0


def _load(archive: zipfile.ZipFile, name: str) -> Json:
    try:
        # What a JSON parser returns; it also reads NaN, which this format uses for an unscored sample.
        return cast("Json", json.loads(archive.read(name)))
    except (ValueError, RecursionError, zipfile.BadZipFile, EOFError) as error:
        msg = f"{archive.filename}: {name} cannot be read: {type(error).__name__}"
        raise DatasetError(msg) from error


def _read_json(path: Path) -> _Raw:
    try:
        value: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        msg = f"{path}: is neither an .eval archive nor JSON: {type(error).__name__}"
        raise DatasetError(msg) from error
    log = as_object(value)
    return _Raw(log, tuple(objects(log.get("samples"))), True, None)


def _id(sample: JsonObject) -> str:
    return str(sample.get("id"))


def _epoch(sample: JsonObject) -> int:
    return int(number(sample.get("epoch")) or 1)


def _planned(spec: JsonObject, samples: tuple[JsonObject, ...]) -> Iterator[tuple[int, tuple[str, int]]]:
    """Yield place and (id, epoch) of every sample the log planned, and of those it holds beside its plan."""
    listed = as_object(spec.get("dataset")).get("sample_ids")
    ids = [str(one) for one in listed] if isinstance(listed, list) else []
    ids = list(dict.fromkeys([*ids, *[_id(sample) for sample in samples]]))
    stated = int(number(as_object(spec.get("config")).get("epochs")) or 1)
    epochs = max([stated, *[_epoch(sample) for sample in samples]])
    for place, name in enumerate(ids):
        yield from [(place, (name, epoch)) for epoch in range(1, epochs + 1)]


def _fill(planned: ForeignTrial, sample: JsonObject, options: ImportOptions) -> ForeignTrial:
    """Return the trial with what came of it; a sample with an error has no answer, whatever else it holds."""
    attached = _Attachments(as_object(sample.get("attachments")))
    output = as_object(sample.get("output"))
    answer = _answer(output, attached)
    messages = tuple(_messages(sample.get("input"), attached))
    limit = as_object(sample.get("limit")).get("type")
    detail = None if limit is None else f"limit_{limit}"
    if sample.get("error") is not None or output.get("error") is not None or answer is None:
        cause = "no_output" if sample.get("error") is None else "sample_error"
        return replace(planned, messages=messages, status="error", cause=cause, detail=detail)
    return replace(
        planned,
        messages=messages,
        status="ok",
        detail=detail,
        answer=answer,
        verdicts=dict(_verdicts(as_object(sample.get("scores")), options)),
        seconds=number(output.get("time")),
    )


def _verdicts(scores: JsonObject, options: ImportOptions) -> Iterator[tuple[str, ForeignVerdict]]:
    for name, score in scores.items():
        yield name, map_value(name, as_object(score).get("value"), options.mapping)


@dataclass(frozen=True, slots=True)
class _Attachments:
    """Texts that stand once at the end of a sample and are named by hash elsewhere."""

    texts: JsonObject

    def resolve(self, text: str) -> str:
        """Return the text a reference names; one that is not there stays as it is."""
        found = self.texts.get(text.removeprefix(_ATTACHMENT)) if text.startswith(_ATTACHMENT) else None
        return found if isinstance(found, str) else text


def _messages(given: Json, attached: _Attachments) -> Iterator[Message]:
    if isinstance(given, str):
        yield Message("user", attached.resolve(given))
        return
    for message in objects(given):
        role = _ROLES.get(str(message.get("role")), "user")
        yield Message(role, _text(message.get("content"), attached, "text"))


def _text(content: Json, attached: _Attachments, kind: str) -> str:
    """Return the text of one kind of part, joined; a plain string is of kind text."""
    if isinstance(content, str):
        return attached.resolve(content) if kind == "text" else ""
    parts = [part.get(kind) for part in objects(content) if part.get("type") == kind]
    return "\n".join([attached.resolve(part) for part in parts if isinstance(part, str)])


def _answer(output: JsonObject, attached: _Attachments) -> ForeignAnswer | None:
    choices = objects(output.get("choices"))
    if not choices:
        return None
    content = as_object(choices[0].get("message")).get("content")
    stop = choices[0].get("stop_reason")
    used = as_object(output.get("usage"))
    tokens = {"prompt_tokens": used.get("input_tokens"), "completion_tokens": used.get("output_tokens")}
    model = output.get("model")
    return ForeignAnswer(
        text=_text(content, attached, "text"),
        finish=_FINISH.get(str(stop), "unknown"),
        reasoning=_text(content, attached, "reasoning"),
        usage={name: value for name, value in tokens.items() if number(value) is not None} or None,
        model=model if isinstance(model, str) else None,
    )


def _scorers(raw: _Raw) -> dict[str, None]:
    """Return the names of all scorers: those the results list and those a sample has."""
    listed = [str(one.get("name")) for one in objects(as_object(raw.header.get("results")).get("scores"))]
    used = [name for sample in raw.samples for name in as_object(sample.get("scores"))]
    return dict.fromkeys([*listed, *used])


def _config(name: str, options: ImportOptions) -> JsonObject:
    mapping: JsonObject = {
        text: label.value for (scorer, text), label in sorted(options.mapping.items()) if scorer == name
    }
    said = ", ".join([f"{text} is {label}" for text, label in mapping.items()]) or "no value was mapped"
    return {
        "kind": "imported",
        "source": "inspect",
        "scorer": name,
        "mapping": mapping,
        "meaning": f"scorer {name} of the imported log: {said}; everything else is unknown",
    }


def _mismatches(raw: _Raw, planned: int) -> Iterator[str]:
    """Hold the totals of the log against its samples."""
    results = as_object(raw.header.get("results"))
    total, completed = number(results.get("total_samples")), number(results.get("completed_samples"))
    if total is not None and total != planned:
        yield f"total_samples is {total:g}, the log plans {planned}"
    done = sum([sample.get("error") is None for sample in raw.samples])
    if completed is not None and completed != done:
        yield f"completed_samples is {completed:g}, {done} samples ended without an error"
    if raw.listed is not None and raw.listed != len(raw.samples):
        yield f"the summaries list {raw.listed} samples, {len(raw.samples)} are in the log"
