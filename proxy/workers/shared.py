"""The config that all workers of one host serve with: its text lies in their common folder (O-06).

A worker that has applied a changed file puts the text there; one that finds another text there than its own applies
that one. So they agree also when one missed the signal, or was started anew after the file had changed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from proxy.config import Config, parse_config
from proxy.extent import is_regular, read_bounded
from proxy.locating import name_file
from proxy.reload import as_read, fingerprint, require_regular
from supervisors.errors import ConfigError

log = logging.getLogger(__name__)

_CONFIG = "config"


def publish(folder: Path, text: str) -> None:
    """Put the text of a config into the common folder, in one step."""
    fresh = folder / f"{_CONFIG}.{os.getpid()}"  # a name of its own: two workers may do so at once
    fresh.write_text(text, "utf-8")
    fresh.replace(folder / _CONFIG)


class SharedSource:
    """A config file whose accepted text all workers share.

    Args:
        path: of the file.
        folder: common to all workers.
        adapt: applies what the command line overrides.
    """

    poll_s = 1.0

    def __init__(self, path: Path, folder: Path, adapt: Callable[[Config], Config] = as_read) -> None:
        self.path = path
        self._folder = folder
        self._adapt = adapt
        self._tried: str | None = None
        self._applied: str | None = None

    def read(self) -> Config:
        """Return the config of the others if it is another than ours, else as the file says it now.

        Raises:
            ConfigError: one line a problem, or what all serve with cannot be read.
        """
        try:
            shared = self._shared()
        except OSError as error:
            msg = f"the config that the workers share cannot be read: {error}"
            raise ConfigError(msg) from error
        text = self._tried = shared if shared != self._applied else self._read_file()
        try:
            return self._adapt(parse_config(text, None, self.path.parent))
        except ConfigError as error:
            raise type(error)(name_file(self.path, str(error).splitlines())) from error

    def applied(self) -> None:
        """Note that what was read last is in force, and tell the others.

        Raises:
            OSError: they cannot be told.
        """
        if self._tried is not None and self._tried != self._shared():
            publish(self._folder, self._tried)
        self._applied = self._tried

    def behind(self) -> bool:
        """Say whether the others serve with another text, which was not tried yet; not while none can be read."""
        try:
            return self._shared() not in (self._applied, self._tried)
        except FileNotFoundError:  # a cleaner of temporary files: what this worker serves with is put back
            if self._applied is not None:
                with suppress(OSError):
                    publish(self._folder, self._applied)
                    log.warning("the config that the workers share was gone, it is there again")
        except OSError as error:
            log.debug("the config that the workers share cannot be read now", extra={"reason": str(error)})
        return False

    def fingerprint(self) -> str | None:
        """Return a digest of the file, None while it cannot be read."""
        try:
            return _digest(read_bounded(self.path)) if is_regular(self.path) else None
        except ConfigError:
            return fingerprint(self.path)

    @property
    def parsed(self) -> str | None:
        """The digest of what was read last."""
        return None if self._tried is None else _digest(self._tried)

    def _shared(self) -> str:
        return (self._folder / _CONFIG).read_text("utf-8")

    def _read_file(self) -> str:
        require_regular(self.path)
        return read_bounded(self.path)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
