"""Where the config of a running proxy is read again from, and which settings a running proxy cannot change (O-05)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from proxy.config import Config, load_config
from proxy.extent import MOST_BYTES, is_regular
from supervisors.errors import ConfigError


class Source(Protocol):
    """Where a config is read again from."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def poll_s(self) -> float:
        """Seconds between two looks at it."""
        ...

    def read(self) -> Config:
        """Return the config as it should be now.

        Raises:
            ConfigError: one line a problem.
        """
        ...

    def applied(self) -> None:
        """Note that what was read last is in force.

        Raises:
            OSError: others who serve with it cannot be told.
        """
        ...

    def behind(self) -> bool:
        """Say whether it should be read although nobody asked for that."""
        ...

    def fingerprint(self) -> str | None:
        """Return a digest of the file, None while it cannot be read."""
        ...

    @property
    def parsed(self) -> str | None:
        """The digest of what was read last: a file with another one was changed since."""
        ...


def as_read(config: Config) -> Config:
    """Return a config unchanged."""
    return config


def fingerprint(path: Path) -> str | None:
    """Return a digest of a file, None while it cannot be read; of one too large for a config, what tells a change."""
    if not is_regular(path):  # a pipe would be read empty, or make its reader wait
        return None
    try:
        with path.open("rb") as file:
            raw, found = file.read(MOST_BYTES + 1), os.fstat(file.fileno())
    except OSError:
        return None
    return sha256(raw).hexdigest() if len(raw) <= MOST_BYTES else f"{found.st_size} bytes, {found.st_mtime_ns}"


def require_regular(path: Path) -> None:
    """Raise `ConfigError` for what cannot be read again while requests are served."""
    if path.exists() and not is_regular(path):
        msg = f"{path} is no regular file and cannot be read again"
        raise ConfigError(msg)


@dataclass(slots=True)
class ConfigSource:
    """A config file, made before it is read for the first time.

    Args:
        path: of the file.
        adapt: applies what the command line overrides.
        poll_s: seconds between two looks at the file, under ``reload: auto``.
    """

    path: Path
    adapt: Callable[[Config], Config] = as_read
    poll_s: float = 2.0
    parsed: str | None = field(init=False)

    def __post_init__(self) -> None:
        self.parsed = fingerprint(self.path)

    def read(self) -> Config:
        """Return the config as the file says it now.

        Raises:
            ConfigError: one line a problem.
        """
        require_regular(self.path)
        self.parsed = fingerprint(self.path)  # before: an edit in between is one that is still to be seen
        return self.adapt(load_config(self.path))

    def fingerprint(self) -> str | None:
        """Return a digest of the file, None while it cannot be read."""
        return fingerprint(self.path)

    def applied(self) -> None:
        """Do nothing: nobody else serves with it."""

    def behind(self) -> bool:
        """Say no."""
        return False


@dataclass(slots=True)
class Watched:
    """What was seen of a file that is polled: a change counts once two looks in a row agree on it.

    Args:
        applied: fingerprint of what was tried last.
    """

    applied: str | None
    seen: str | None = None

    def look(self, fingerprint: str | None) -> bool:
        """Say whether the file has changed and is at rest again."""
        settled = fingerprint == self.seen
        self.seen = fingerprint
        if fingerprint is None or fingerprint == self.applied or not settled:
            return False
        self.applied = fingerprint
        return True


def is_passing(error: BaseException) -> bool:
    """Say whether the system was at fault (no descriptors, no space), not what the file says: it may pass."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    return cause is not None


_FIXED = (
    ("server", ("host", "port")),
    ("journal", ("path", "postgres", "on_record_failure", "max_backlog", "retention_days", "content_days", "replica")),
    ("tracing", ("export", "endpoint", "headers", "sample")),
)
"""Settings of what is opened once a process: the listener, the journal, the exporter."""


def refuse_fixed(old: Config, new: Config) -> None:
    """Raise `ConfigError` with one line for every changed setting that needs a restart."""
    changed = [
        f"{part}.{name}: cannot change while the proxy runs; restart it"
        for part, names in _FIXED
        for name in names
        if getattr(getattr(old, part), name) != getattr(getattr(new, part), name)
    ]
    if changed:
        raise ConfigError("\n".join(changed))
