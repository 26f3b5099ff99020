"""``guards.lock``: which files of which revision a pulled guard has, and whether they still are that (PL-03)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from supervisors.errors import ConfigError, MissingError
from supervisors.hashes import Hashes, hash_file

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LockedFile(_Strict):
    """One file: its path below the guard's folder, its size and its hash."""

    path: str = Field(min_length=1)
    size: int = Field(ge=0)
    sha256: Digest

    @field_validator("path")
    @classmethod
    def _check_path(cls, path: str) -> str:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or "\\" in path or ".." in parts or not parts:
            msg = f"{path!r} leads out of the guard's folder"
            raise ValueError(msg)
        return path


class Licence(_Strict):
    """The licence that was accepted, and when (UTC)."""

    id: str
    accepted: str


class LockedGuard(_Strict):
    """One pulled guard.

    Args:
        repo: repository on a hub, ``package:NAME`` or ``url:HOSTS``.
        revision: full commit; version of the package; hash of all paths and hashes at addresses.
        licence: which was accepted, and when.
        remote_code: it has code of its own.
        folder: below that of the lock file.
        files: all of them.
        pulled_with: version of this program.
    """

    repo: str
    revision: Annotated[str, Field(pattern=r"^[0-9A-Za-z.!+_-]{1,64}$")]
    licence: Licence
    remote_code: bool = False
    folder: str = Field(min_length=1)
    files: tuple[LockedFile, ...] = Field(min_length=1)
    pulled_with: str = ""


class Lock(_Strict):
    """The whole file, meant to be committed beside the config."""

    version: Literal[1] = 1
    guards: Mapping[str, LockedGuard] = Field(default_factory=dict[str, LockedGuard])

    def to_text(self) -> str:
        """Return the file's content."""
        return json.dumps(self.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"


def read_lock(file: Path) -> Lock:
    """Read a lock file; one that is not there is empty.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return Lock.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return Lock()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        msg = f"{file} is no lock file: {where}: {first['msg']}"
        raise ConfigError(msg) from error
    except OSError as error:
        msg = f"{file} cannot be read: {type(error).__name__}"
        raise ConfigError(msg) from error


def find_locked(lock: Lock, name: str, file: Path) -> LockedGuard:
    """Return the entry of a guard (PL-05).

    Raises:
        MissingError: there is none; says how to make one.
    """
    entry = lock.guards.get(name)
    if entry is None:
        msg = f"{file.absolute()} has no entry for {name!r}; `guardrail-proxy guard pull {name}` makes one"
        raise MissingError(msg)
    return entry


def find_differences(folder: Path, entry: LockedGuard, digest: Callable[[Path], str] = hash_file) -> Iterator[str]:
    """Yield one sentence a file that is not what was locked (PL-04).

    Args:
        folder: where the guard's files are.
        entry: what they were.
        digest: how a file is hashed; by default every file is read once.
    """
    root = folder.resolve()
    for locked in entry.files:
        file = folder / locked.path
        if not file.is_file():
            yield f"{file} is not there"
            continue
        if not file.resolve().is_relative_to(root):
            yield f"{file} is a link that leads out of the guard's folder"
            continue
        size = file.stat().st_size
        if size != locked.size:
            yield f"{file} has {size} bytes, {locked.size} are locked"
            continue
        found = digest(file)
        if found != locked.sha256:
            yield f"{file} has sha256 {found}, {locked.sha256} is locked"


def check_locked(folder: Path, entry: LockedGuard, side: Path | None = None) -> None:
    """Refuse a folder that is not what was locked.

    Args:
        folder: where the guard's files are.
        entry: what they were.
        side: file that remembers the hashes of files that have not changed since; None reads every file.

    Raises:
        ConfigError: names the first file that differs, expected and found.
    """
    hashes = Hashes(side) if side is not None else None
    for sentence in find_differences(folder, entry, hashes.digest if hashes is not None else hash_file):
        raise ConfigError(sentence)
    if hashes is not None:
        hashes.save()


def side_file(lock: Path) -> Path:
    """Return where the hashes of a lock's files are remembered."""
    return lock.with_name(f".{lock.name}.hashes")


@dataclass(frozen=True, slots=True)
class GuardFiles:
    """The folder of a guard, and what the lock says of it.

    Args:
        folder: where its files are.
        entry: what they were when they were pulled, None without a lock to keep to.
        lock: file of the lock.
    """

    folder: Path
    entry: LockedGuard | None
    lock: Path | None

    def check(self, verify: Literal["cached", "always"]) -> None:
        """Refuse files that are not what was locked; ``cached`` reads only those that changed since.

        Raises:
            ConfigError: names the first file that differs.
        """
        if self.entry is not None and self.lock is not None:
            check_locked(self.folder, self.entry, side_file(self.lock) if verify == "cached" else None)


def find_guard(name: str, path: str | None, lock: str | None) -> GuardFiles:
    """Find the files of a guard.

    Args:
        name: of its card.
        path: folder; None takes that of the lock.
        lock: file of the lock, None for none.

    Raises:
        ConfigError: the lock cannot be read, or does not name the guard.
    """
    file = None if lock is None else Path(lock)
    entry = None if file is None else find_locked(read_lock(file), name, file)
    if path is not None:
        return GuardFiles(Path(path), entry, file)
    return GuardFiles((file or Path()).parent / (entry.folder if entry is not None else ""), entry, file)
