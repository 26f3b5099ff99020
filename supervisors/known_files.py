"""Files of packages that are data: found without importing the package, and known by their hashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from supervisors.errors import ConfigError, MissingError
from supervisors.hashes import hash_file


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file inside a package.

    Args:
        package: name it would be imported by.
        name: path inside the package.
        sha256: of the file that is known, in hexadecimal.
    """

    package: str
    name: str
    sha256: str


def check_libraries(names: Sequence[str], hint: str) -> None:
    """Check that libraries are installed, without importing them.

    Raises:
        MissingError: one is not; says how to install it.
    """
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        msg = f"{', '.join(missing)} is not installed: {hint}"
        raise MissingError(msg)


def find_known(file: KnownFile, hint: str) -> Path:
    """Return where a file is.

    Args:
        file: what is looked for.
        hint: command that installs its package.

    Raises:
        MissingError: the package is not installed.
        ConfigError: the file is another than the known one.
    """
    spec = find_spec(file.package)
    folders = spec.submodule_search_locations if spec is not None else None
    found = [Path(folder) / file.name for folder in folders or () if (Path(folder) / file.name).is_file()]
    if not found:
        msg = f"the package {file.package.replace('_', '-')} is not installed: {hint}"
        raise MissingError(msg)
    digest = hash_file(found[0])
    if digest != file.sha256:
        msg = f"{found[0]} has sha256 {digest}, {file.sha256} is known: {hint}"
        raise ConfigError(msg)
    return found[0]
