"""Stored results of guards on Spikee's documents, and whether a guard says the same twice (datasets §10)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.published.values import Published, counted
from supervisors.errors import DatasetError

_NAME = re.compile(r"results_(.+?)-(\d+_guardrail-false-positive-check|targeted-[\d-]+-document)_(\d+)\.jsonl")


@dataclass(frozen=True, slots=True)
class GuardRun:
    """One file: a guard on the benign documents, or on the attacks.

    Args:
        guard: its name.
        benign: the documents are benign.
        stamp: of the file, which tells two runs apart.
        flagged: document → flagged, by ``long_id`` or ``id``.
        sha256: of the file.
    """

    guard: str
    benign: bool
    stamp: str
    flagged: dict[str, bool]
    sha256: str

    def number(self) -> Published:
        """Return the flagged share: a false positive rate on benign documents, recall on attacks."""
        share = counted(sum(self.flagged.values()), len(self.flagged))
        metric = "fpr" if self.benign else "recall"
        named = "benign documents" if self.benign else "attack documents"
        note = "that `success` means flagged is inferred"
        return Published("", named, self.guard, metric, share[0], "Spikee results", f"Spikee {named}", *share[1:], note)


def read_guard_run(path: Path) -> GuardRun:
    """Read one file of results.

    Raises:
        DatasetError: its name says no guard, a line is no JSON object, or has no id or no boolean ``success``.
    """
    named = _NAME.fullmatch(path.name)
    if named is None:
        msg = f"{path.name}: expected results_GUARD-SET_TIME.jsonl"
        raise DatasetError(msg)
    data = path.read_bytes()
    flagged: dict[str, bool] = {}
    for number, line in enumerate(data.decode("utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row: object = json.loads(line)
        except ValueError as error:
            msg = f"{path.name} line {number}: is not JSON"
            raise DatasetError(msg) from error
        key = f"{row.get('long_id') or row.get('id')}" if isinstance(row, dict) else ""  # pyright: ignore[reportUnknownMemberType] # JSON
        success = row.get("success") if isinstance(row, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # JSON
        if not key or not isinstance(success, bool) or key in flagged:
            msg = f"{path.name} line {number}: needs an id of its own and `success` true or false"
            raise DatasetError(msg)
        flagged[key] = success
    benign = "false-positive" in named[2]
    return GuardRun(named[1], benign, named[3], flagged, hashlib.sha256(data).hexdigest())


def differences_between_runs(runs: Sequence[GuardRun]) -> list[str]:
    """Return what two runs of one guard on the same documents say about it: flips, or files that are the same bytes."""
    found: list[str] = []
    for index, one in enumerate(runs):
        for other in runs[index + 1 :]:
            if (one.guard, one.benign) != (other.guard, other.benign):
                continue
            where = (
                f"{one.guard} on {'benign' if one.benign else 'attack'} documents, runs {one.stamp} and {other.stamp}"
            )
            shared = one.flagged.keys() & other.flagged.keys()
            flips = sum([one.flagged[key] is not other.flagged[key] for key in shared])
            if one.sha256 == other.sha256:
                found.append(f"{where}: the same bytes; one run was copied, or nothing was asked")
            elif flips:
                sums = f"{sum(one.flagged.values())} and {sum(other.flagged.values())} flagged"
                found.append(f"{where}: {flips} of {len(shared)} labels differ ({sums})")
    return found
