"""A chosen threshold written back as a policy file, with the evidence beside it (H-159)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import yaml

from evals.attempts import as_object
from evals.client import parse_guard
from evals.journal import JsonObject
from evals.manifest import Manifest
from evals.operating.candidates import Candidate
from evals.statistics.jsonable import to_json
from evals.written import read_policies
from supervisors.errors import ConfigError

_SCORED = "scored"
"""Name of the step that looks at the score."""


def read_policy(manifest: Manifest) -> dict[str, Any]:
    """Return the policy a run was made with, the short form written out.

    Raises:
        ConfigError: the run's guard was not a file.
    """
    if not manifest.policy:
        msg = f"the guard of {manifest.run_id} was not read from a policy file, so none can be written back"
        raise ConfigError(msg)
    return read_policies(manifest.policy, f"the policy of {manifest.run_id}")


def entry_of(policy: Mapping[str, Any], supervisor: str) -> dict[str, Any]:
    """Return the configuration entry of a supervisor, also of a member such as ``panel/a``.

    Args:
        policy: as read.
        supervisor: name with or without its stage.

    Raises:
        ConfigError: it is not in the file.
    """
    name = supervisor.partition("@")[0]
    first, *inner = name.split("/")
    entry = _named(policy, first)
    for part in inner:
        entry = _resolve(policy, _member(entry, part))
    if entry is None:
        msg = f"the policy file has no supervisor {name}"
        raise ConfigError(msg)
    return entry


def _named(policy: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    return _resolve(policy, policy.get("supervisors", {}).get(name))


def _resolve(policy: Mapping[str, Any], entry: object) -> dict[str, Any] | None:
    """Return an entry, following the name of a top-level supervisor."""
    if isinstance(entry, str):
        entry = policy.get("supervisors", {}).get(entry)
    return cast("dict[str, Any]", entry) if isinstance(entry, dict) else None


def _member(entry: dict[str, Any] | None, name: str) -> object:
    if entry is None:
        return None
    if "members" in entry:
        return entry["members"].get(name)
    steps = enumerate(entry.get("steps", ()), 1)
    return next((step["supervisor"] for n, step in steps if step.get("name", f"step{n}") == name), None)


def at_score(entry: Mapping[str, Any], threshold: float) -> dict[str, Any]:
    """Return a supervisor that flags if and only if the score of another is at least the threshold.

    Raises:
        ConfigError: the threshold is no score in 0..1.
    """
    if not 0 < threshold <= 1:
        msg = f"threshold {threshold!r} is outside 0..1: a policy file cannot say it"
        raise ConfigError(msg)
    return {"use": "cascade", "steps": [{"name": _SCORED, "supervisor": dict(entry), **band(threshold, threshold)}]}


def band(low: float, high: float) -> dict[str, float]:
    """Return the band of a step: below `low` is safe, from `high` on is unsafe, in between goes on."""
    return {"low": math.nextafter(low, 0.0), "high": high}


def with_supervisor(policy: Mapping[str, Any], name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy with the entry of one supervisor replaced."""
    return {**policy, "supervisors": {**policy["supervisors"], name: dict(entry)}}


def to_entry(candidate: Candidate, policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the supervisor that decides as a candidate does.

    Raises:
        ConfigError: a member is not in the policy file, or a threshold cannot be written.
    """
    entries = [entry_of(policy, name) for name in candidate.members]
    if candidate.shape == "threshold":
        return at_score(entries[0], candidate.thresholds[0])
    names = [name.partition("@")[0].replace("/", ".") for name in candidate.members]
    if candidate.shape == "any":
        members = {
            name: at_score(entry, threshold)
            for name, entry, threshold in zip(names, entries, candidate.thresholds, strict=True)
            if math.isfinite(threshold)
        }
        return {"use": "vote", "strategy": "any", "members": members}
    high, inside = candidate.thresholds
    first: dict[str, Any] = {"name": names[0], "supervisor": entries[0]}
    if candidate.low is not None and candidate.low > 0:
        first["low"] = math.nextafter(candidate.low, 0.0)
    if math.isfinite(high):
        first["high"] = high
    if len(first) == 2:
        return at_score(entries[1], inside)
    return {"use": "cascade", "steps": [first, {"name": names[1], "supervisor": entries[1], **band(inside, inside)}]}


def with_choice(
    policy: Mapping[str, Any], candidate: Candidate, considered: Sequence[str], name: str = "tuned"
) -> dict[str, Any]:
    """Return the policy with the choice in place of the supervisors it was chosen from; all others stay.

    Raises:
        ConfigError: the choice cannot be written, or no policy asks any of them.
    """
    supervisors = {**policy["supervisors"], name: to_entry(candidate, policy)}
    replaced = {one.partition("@")[0].partition("/")[0] for one in considered}
    stage = candidate.members[0].rpartition("@")[2]
    changed = 0
    policies: dict[str, Any] = {}
    for title, one in policy["policies"].items():
        inner = dict(one.get(stage) or {})
        for kind in ("forced", "optional"):
            listed: list[str] = list(inner.get(kind) or [])
            if replaced & set(listed):
                inner[kind] = [*[other for other in listed if other not in replaced], name]
                changed += 1
        policies[title] = {**one, stage: inner} if inner else dict(one)
    if not changed:
        msg = f"no policy of the file asks {', '.join(sorted(replaced))} at {stage}"
        raise ConfigError(msg)
    return {**policy, "supervisors": supervisors, "policies": policies}


def data_lines(manifest: Manifest, sets: Sequence[str]) -> list[str]:
    """Return one line for each data set: id, revision, hashes of its files."""
    lines: list[str] = []
    for name in sets:
        entry = as_object(to_json(manifest.lock.get(name)))
        files = entry.get("files")
        hashes = [str(as_object(file).get("sha256")) for file in files] if isinstance(files, list) else []
        lines.append(f"{name} ({entry.get('items')} items), sha256 {' '.join(hashes) or 'unknown'}")
    return lines


class _Plain(yaml.SafeDumper):
    """Writes every entry where it is used, without anchors."""

    def ignore_aliases(self, data: object) -> bool:
        """Say that nothing is written as a reference."""
        return True


def to_policy_file(policy: Mapping[str, Any], comments: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the text of a policy file with its evidence as comments; it is read back before it is returned.

    Raises:
        ConfigError: the file would not be valid.
    """
    head = "".join([f"# {line}\n" for text in comments for line in text.splitlines()])
    text = head + yaml.dump(dict(policy), Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)
    parse_guard(Path("tuned.yaml"), text, environ)
    return text


def evidence(value: object) -> JsonObject:
    """Return evidence as a JSON object."""
    return as_object(to_json(value))
