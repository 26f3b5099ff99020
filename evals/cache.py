"""Finished trials kept across runs, by trial key: `--cache DIR`, off unless it is given (H-120).

A key holds the repeat, so that repeats stay independent, and hashes of target and guard, so that a changed policy or
sampling finds nothing. What may come out otherwise the next time is not kept: errors, answers that a filter or the
token limit ended, trials in which a supervisor failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from evals.attempts import as_object
from evals.client import objects
from evals.folder import make_folder, write_file
from evals.journal import JsonObject, canonical, parse_object, sha256_json
from evals.metrics import FAILURES
from evals.plan import PlannedTrial
from evals.statistics.jsonable import Json
from evals.trials import Finished

FORMAT_VERSION = 1
_WHOLE = frozenset({"stop", "tool_calls"})
"""Finish reasons of answers that ended by themselves."""
_NOT_OURS: JsonObject = {"record_id": None, "headers": None, "latency": None, "cost_usd": 0.0, "attempts": 0}
"""What a trial from the cache does not have: nothing was asked, and the record lies in another run's journal."""


class Cache:
    """A folder of finished trials.

    Args:
        path: the folder; made when the first trial is kept.
        keep_texts: false keeps no text (H-111), and takes trials that were kept without.
    """

    def __init__(self, path: Path, *, keep_texts: bool) -> None:
        self._path = path
        self._keep_texts = keep_texts

    def through(
        self, send: Callable[[PlannedTrial], Awaitable[Finished]]
    ) -> Callable[[PlannedTrial], Awaitable[Finished]]:
        """Return what makes a trial only when it is not here, and keeps what may be kept."""

        async def cached(planned: PlannedTrial) -> Finished:
            found = await asyncio.to_thread(self.get, planned)
            if found is not None:
                return found
            made = await send(planned)
            if is_kept(planned, made):
                await asyncio.to_thread(self.put, planned, made)
            return made

        return cached

    def get(self, planned: PlannedTrial) -> Finished | None:
        """Return a finished trial; None when there is none, its file is damaged or it lacks texts this run keeps."""
        try:
            entry = parse_object(self._file(planned).read_bytes())
        except OSError:
            return None
        if entry is None or entry.get("sha256") != _hash(entry):
            return None
        fields, texts = as_object(entry.get("fields")), entry.get("texts")
        same = (fields.get("trial_key"), fields.get("rendered_prompt_sha256")) == (
            planned.trial_key,
            planned.prompt_sha256 or None,
        )
        if not same or (self._keep_texts and not isinstance(texts, list)):
            return None
        kept = tuple([str(text) for text in texts]) if isinstance(texts, list) and self._keep_texts else ()
        return Finished(_as_cached(fields), kept)

    def put(self, planned: PlannedTrial, finished: Finished) -> None:
        """Keep a finished trial.

        Raises:
            StoreError: the disk does not take it.
        """
        path = self._file(planned)
        make_folder(path.parent)
        texts: Json = list[Json](finished.texts) if self._keep_texts else None
        entry: JsonObject = {"format_version": FORMAT_VERSION, "fields": finished.fields, "texts": texts}
        write_file(path, canonical({**entry, "sha256": _hash(entry)}) + "\n")

    def _file(self, planned: PlannedTrial) -> Path:
        return self._path / planned.trial_key[:2] / f"{planned.trial_key}.json"


def is_kept(planned: PlannedTrial, finished: Finished) -> bool:
    """Say whether a trial would most likely come out the same again; a check asks no model, so it needs no answer."""
    answer = as_object(finished.fields.get("answer"))
    whole = planned.arm == "check" or answer.get("finish_reason") in _WHOLE
    failed = any(verdict.get("cause") in FAILURES for verdict in objects(finished.fields.get("verdicts")))
    return finished.status == "ok" and whole and not failed


def _hash(entry: JsonObject) -> str:
    return sha256_json({name: value for name, value in entry.items() if name != "sha256"})


def _as_cached(fields: JsonObject) -> JsonObject:
    no_effort: JsonObject = {"cached": True, "seconds": None, "cost": 0.0}
    verdicts: list[Json] = [{**verdict, **no_effort} for verdict in objects(fields.get("verdicts"))]
    kept = {name: value for name, value in fields.items() if name not in ("cost_known_usd", "unpriced")}
    return {**kept, **_NOT_OURS, "cached": True, "verdicts": verdicts}
