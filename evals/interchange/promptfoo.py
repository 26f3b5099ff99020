"""Read result files of promptfoo: JSON of versions 1 to 3 (harness §12)."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evals.attempts import as_object
from evals.client import number, objects
from evals.datasets.load import hash_file
from evals.interchange.foreign import (
    ForeignAnswer,
    ForeignLog,
    ForeignTrial,
    ForeignVerdict,
    ImportOptions,
    raw_text,
)
from evals.journal import JsonObject, canonical
from evals.statistics.jsonable import Json
from evals.types import Message, MessageRole
from supervisors.errors import DatasetError
from supervisors.types import Cause, Label

SCORER = "assertions"
_ASSERTION, _ERROR = 1, 2
_ROLES: Mapping[str, MessageRole] = {"system": "system", "assistant": "assistant", "user": "user"}
_STATED = (("successes", "pass"), ("failures", "fail"), ("errors", "error"))


def read_promptfoo(path: Path, options: ImportOptions) -> ForeignLog:
    """Read a result file.

    Raises:
        DatasetError: it is no such file.
    """
    try:
        value: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        msg = f"{path}: is not JSON: {type(error).__name__}"
        raise DatasetError(msg) from error
    log = as_object(value)
    results = as_object(log.get("results"))
    rows = objects(results.get("results"))
    if not isinstance(results.get("results"), list):
        msg = f"{path}: is no promptfoo result file: it has no results.results"
        raise DatasetError(msg)
    dataset = f"promptfoo/{as_object(log.get('config')).get('description') or 'evaluation'}"
    seen: Counter[str] = Counter()
    trials: list[ForeignTrial] = []
    for row in rows:
        key = canonical([row.get("testIdx"), row.get("promptIdx"), _provider(row)])
        trials.append(_trial(row, dataset, seen[key], options))
        seen[key] += 1
    return ForeignLog(
        source="promptfoo",
        sha256=hash_file(path),
        facts={
            "eval_id": log.get("evalId"),
            "version": results.get("version"),
            "promptfoo": as_object(log.get("metadata")).get("promptfooVersion"),
        },
        trials=tuple(trials),
        scorers={SCORER: _config()},
        complete=True,
        mismatches=tuple(_mismatches(as_object(results.get("stats")), rows)),
    )


def _provider(row: JsonObject) -> str:
    provider = as_object(row.get("provider"))
    return str(provider.get("label") or provider.get("id") or "unknown")


def _trial(row: JsonObject, dataset: str, occurrence: int, options: ImportOptions) -> ForeignTrial:
    response = as_object(row.get("response"))
    case = as_object(row.get("testCase"))
    metadata = as_object(case.get("metadata")) | as_object(row.get("metadata"))
    metadata |= as_object(as_object(row.get("gradingResult")).get("metadata"))
    variables = as_object(row.get("vars")) | as_object(case.get("vars"))
    place = int(number(row.get("testIdx")) or 0)
    answer = _answer(response)
    cached = response.get("cached") is True
    milliseconds = number(row.get("latencyMs"))
    return ForeignTrial(
        dataset=dataset,
        split=f"prompt{int(number(row.get('promptIdx')) or 0)}",
        index=place,
        foreign_id=f"test {place}",
        messages=tuple(_messages(as_object(row.get("prompt")).get("raw"))),
        repeat=occurrence,
        target=_provider(row),
        status="error" if answer is None else "ok",
        cause="provider_error" if answer is None else None,
        answer=answer,
        verdicts={} if answer is None else {SCORER: _verdict(row)},
        truth=options.truth_of(metadata | variables),
        cluster=f"{dataset}/{place}",
        category=(str(metadata["pluginId"]),) if metadata.get("pluginId") else (),
        transform=str(metadata.get("strategyId") or "none"),
        supervisors=tuple(_guardrails(as_object(response.get("guardrails")))),
        seconds=None if cached or milliseconds is None else milliseconds / 1000,
        cached=cached,
        cost_usd=number(response.get("cost")),
    )


def _answer(response: JsonObject) -> ForeignAnswer | None:
    output = response.get("output")
    if output is None or response.get("error") is not None:
        return None
    used = as_object(response.get("tokenUsage"))
    tokens = {"prompt_tokens": used.get("prompt"), "completion_tokens": used.get("completion")}
    finish = response.get("finishReason")
    return ForeignAnswer(
        text=output if isinstance(output, str) else canonical(output),
        finish=finish if isinstance(finish, str) else None,
        usage={name: value for name, value in tokens.items() if number(value) is not None} or None,
    )


def _messages(raw: Json) -> Iterator[Message]:
    """Yield what was sent; a prompt may be a chat written as JSON."""
    text = raw if isinstance(raw, str) else canonical(raw)
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    chat = objects(as_object({"chat": value}).get("chat"))
    if not chat or any("role" not in message for message in chat):
        yield Message("user", text)
        return
    for message in chat:
        content = message.get("content")
        body = content if isinstance(content, str) else canonical(content)
        yield Message(_ROLES.get(str(message.get("role")), "user"), body)


def _outcome(row: JsonObject) -> str:
    """Return pass, fail, error or grader_error; a failed assertion also fills the field `error` of its row."""
    reason = number(row.get("failureReason"))
    if _grader_failed(as_object(row.get("gradingResult"))):
        return "grader_error"
    if reason == _ERROR or as_object(row.get("response")).get("error") is not None:
        return "error"
    if reason == _ASSERTION:
        return "fail"
    return "pass" if row.get("success") is True and row.get("error") is None else "error"


def _grader_failed(grading: JsonObject) -> bool:
    parts = [grading, *objects(grading.get("componentResults"))]
    return any(as_object(part.get("metadata")).get("graderError") is True for part in parts)


def _verdict(row: JsonObject) -> ForeignVerdict:
    score = row.get("score")
    if isinstance(score, float) and not math.isfinite(score):  # JSON of JavaScript has none, what wrote it anew may
        return ForeignVerdict(Label.UNKNOWN, Cause.ERROR, "no_score")
    match _outcome(row):
        case "pass":
            return ForeignVerdict(Label.SAFE, None, raw_text(row.get("score")))
        case "fail":
            return ForeignVerdict(Label.UNSAFE, None, raw_text(row.get("score")))
        case outcome:
            return ForeignVerdict(Label.UNKNOWN, Cause.ERROR, outcome)


def _guardrails(stated: JsonObject) -> Iterator[JsonObject]:
    """Yield a verdict for each stage a guardrail is said to have looked at: flagged, never blocked."""
    stages = {"input": stated.get("flaggedInput"), "output": stated.get("flaggedOutput")}
    if not any(isinstance(flagged, bool) for flagged in stages.values()):
        stages = {"output": stated.get("flagged")}
    for stage, flagged in stages.items():
        if isinstance(flagged, bool):
            label = Label.UNSAFE if flagged else Label.SAFE
            yield {"supervisor": "guardrails", "stage": stage, "label": label.value, "cause": None, "score": None}


def _config() -> JsonObject:
    return {
        "kind": "imported",
        "source": "promptfoo",
        "scorer": SCORER,
        "meaning": "all assertions of a row passed: safe; one failed: unsafe; an error of provider or grader: unknown",
    }


def _mismatches(stats: JsonObject, rows: Sequence[JsonObject]) -> Iterator[str]:
    counted = Counter([_stated_outcome(row) for row in rows])
    for name, outcome in _STATED:
        stated = number(stats.get(name))
        if stated is not None and stated != counted[outcome]:
            yield f"{name} is {stated:g}, counted {counted[outcome]}"


def _stated_outcome(row: JsonObject) -> str:
    """Return how the source itself counts a row."""
    if row.get("success") is True:
        return "pass"
    return "error" if number(row.get("failureReason")) == _ERROR else "fail"
