"""Secrets of a config by reference: `{env: NAME}` and `{file: PATH}`, and what was not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from errno import EFBIG
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from proxy.wire.segments import as_list
from supervisors.secret import Secret


@dataclass(frozen=True, slots=True)
class SecretSource:
    """Where secrets come from.

    Args:
        environ: variables.
        folder: what the paths of files are relative to.
        missing: gets one line for every secret that is not there.
    """

    environ: Mapping[str, str]
    folder: Path
    missing: list[str]

    def resolve(self, value: Any, path: str = "") -> Any:
        """Return a tree with every reference replaced by its secret, and by a stand-in where that is missing."""
        items = as_list(value)
        if items is not None:
            return [self.resolve(item, f"{path}.{i}") for i, item in enumerate(items)]
        if not isinstance(value, dict):
            return value
        mapping = cast("dict[str, Any]", value)
        if len(mapping) == 1:
            (kind, name), *_ = mapping.items()
            if kind == "env" and isinstance(name, str):
                return self._read_env(name, path)
            if kind == "file" and isinstance(name, str):
                return self._read_file(name, path)
        return {key: self.resolve(item, f"{path}.{key}" if path else str(key)) for key, item in mapping.items()}

    def _read_env(self, name: str, path: str) -> Secret:
        if not self.environ.get(name):
            hint = "; write the name without $" if name.startswith("$") else ""
            self.missing.append(f"{path}: the environment variable {name} is not set{hint}")
            return _stand_in(f"env:{name}")
        return Secret(f"env:{name}", self.environ[name])

    def _read_file(self, name: str, path: str) -> Secret:
        try:
            text = _read_secret(self.folder / name)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not a text file"
            self.missing.append(f"{path}: cannot read the secret file {name}: {reason}")
            return _stand_in(f"file:{name}")
        if not text:
            self.missing.append(f"{path}: the secret file {name} is empty")
            return _stand_in(f"file:{name}")
        return Secret(f"file:{name}", text)


def _read_secret(path: Path) -> str:
    """Return the text of a file; a device or a pipe might never end."""
    if not path.is_file() and path.exists():
        raise ValueError(path)
    with path.open("rb") as file:
        raw = file.read(_MOST_BYTES + 1)
    if len(raw) > _MOST_BYTES:
        raise OSError(EFBIG, f"it is larger than {_MOST_BYTES // 1024} KiB")
    return raw.decode("utf-8").strip()


_MOST_BYTES: Final = 64 * 1024


def _stand_in(reference: str) -> Secret:
    """Return a secret that nobody has, so that the rest of the file can be checked; it is never served with."""
    return Secret(reference, f"missing {sha256(reference.encode()).hexdigest()}")
