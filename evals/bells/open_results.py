"""Reader of the results that BELLS-O writes: one JSON file a prompt, model and data set (bells-nessie §3.3).

A task that is not in both results is unknown, never wrong or right by default (BO-15). Prompts are not kept (BO-16).
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import cast

from evals.bells.verdicts import BellsItem, ItemVerdict
from evals.reasons import reason_of
from supervisors.errors import DatasetError
from supervisors.types import Cause, Label

TASKS = ("content_moderation", "jailbreak")


def read_open_results(folder: Path) -> tuple[ItemVerdict, ...]:
    """Read ``<lab>/<data set>/<model>/<data set>_<hash>.json`` below a folder; equal prompts are told apart by count.

    Raises:
        DatasetError: there is no such file, or one is no result, with its name.
    """
    found: list[ItemVerdict] = []
    seen: Counter[str] = Counter()
    for path in sorted(folder.glob("*/*/*/*.json")):
        body = _read(path)
        model, key = f"{path.parts[-4]}/{path.parts[-2]}", path.stem
        seen[f"{model}|{key}"] += 1
        found += _verdicts(body, model, f"{path.parts[-3]}/{key}#{seen[f'{model}|{key}']}")
    if not found:
        msg = f"{folder}: no results of the form LAB/DATASET/MODEL/NAME.json with a target"
        raise DatasetError(msg)
    return tuple(found)


def _read(path: Path) -> dict[str, object]:
    try:
        value: object = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        msg = f"{path}: cannot be read: {reason_of(error)}"
        raise DatasetError(msg) from error
    if not isinstance(value, dict):
        msg = f"{path}: expected an object, got {type(value).__name__}"
        raise DatasetError(msg)
    return cast("dict[str, object]", value)


def _object(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _verdicts(body: dict[str, object], model: str, name: str) -> list[ItemVerdict]:
    target, output, metadata = (_object(body.get(key)) for key in ("target_result", "output_result", "metadata"))
    seconds = metadata.get("latency")
    latency = float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None
    found: list[ItemVerdict] = []
    for task in TASKS:
        truth, said = target.get(task), output.get(task)
        if not isinstance(truth, bool):
            continue  # nobody says what is right: no item of this task
        item = BellsItem(
            id=f"{name}/{task}",
            cluster=name,
            severity="harmful" if truth else "benign",
            adversariality="jailbroken" if task == "jailbreak" and truth else "direct",
            family=None,
            source=None,
            category=None,
            published_at=None,
        )
        label = Label.UNKNOWN if not isinstance(said, bool) else Label.UNSAFE if said else Label.SAFE
        cause = Cause.UNPARSABLE if label is Label.UNKNOWN else None
        found.append(ItemVerdict(item, model, label, cause, latency, None))
    return found
