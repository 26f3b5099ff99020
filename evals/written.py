"""Files of options that somebody wrote: YAML within the bounds of a config, no key twice, errors with their place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from evals.reasons import reason_of
from proxy.expand import unfold
from proxy.reading import read_tree
from supervisors.errors import ConfigError

_WORDS = re.compile(r"^(yes|no|on|off)(?=[ \t]*:)", re.MULTILINE | re.IGNORECASE)
"""Names that YAML 1.1 reads as true and false."""


def read_mapping(path: Path, what: str, holds: str) -> dict[str, Any]:
    """Read a file of options.

    Args:
        path: the file.
        what: it is, for errors.
        holds: what its mapping has, for whoever gave something else.

    Raises:
        ConfigError: it cannot be read, is no YAML, has a key twice or holds no mapping.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{what} {path}: cannot be read: {reason_of(error)}"
        raise ConfigError(msg) from error
    return read_tree(_WORDS.sub(r'"\1"', text), f"{what} {path}", holds)


def read_policies(text: str, name: str) -> dict[str, Any]:
    """Return the tree of a proxy's configuration with the short form, if it has that, written out.

    Raises:
        ConfigError: it is no YAML, holds no mapping, or names no policy.
    """
    body = read_tree(text, name, "'supervisors' and 'policies'")
    unfold(body)
    if not body.get("policies"):
        msg = f"{name}: needs 'supervisors' and 'policies', or 'input' or 'output'; see docs/policies.md"
        raise ConfigError(msg)
    return body
