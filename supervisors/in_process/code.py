"""What must hold before code of a model's repository is run (PL-02)."""

from __future__ import annotations

from pathlib import Path

from supervisors.errors import ConfigError
from supervisors.lock import LockedGuard


def check_code(folder: Path, entry: LockedGuard, name: str) -> None:
    """Refuse to run code that is not in the lock.

    Raises:
        ConfigError: the lock has none, or the folder has more.
    """
    locked = {file.path for file in entry.files}
    if not entry.remote_code or not any(path.endswith(".py") for path in locked):
        msg = f"the lock has no code of {name}: pull it with --allow-remote-code"
        raise ConfigError(msg)
    strange = [file for file in folder.rglob("*.py") if file.relative_to(folder).as_posix() not in locked]
    if strange:
        msg = f"{strange[0]} is not in the lock, so nothing of {name} is run"
        raise ConfigError(msg)
