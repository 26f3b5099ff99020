"""The weights and the contamination list of the package, each read and checked once."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from supervisors.embedded.items import decode_items
from supervisors.embedded.model import Weights, decode_weights
from supervisors.errors import ConfigError


def _read(name: str) -> bytes:
    try:
        return (files("supervisors.embedded") / name).read_bytes()
    except OSError as error:
        msg = f"the package lacks supervisors/embedded/{name}: install guardrail-proxy again"
        raise ConfigError(msg) from error


@lru_cache(maxsize=1)
def shipped_weights() -> Weights:
    """Return the weights of the package.

    Raises:
        ConfigError: the file is absent or altered.
    """
    return decode_weights(_read("embedded.gpeg"), "embedded.gpeg")


@lru_cache(maxsize=1)
def shipped_items() -> bytes:
    """Return the contamination list of the package.

    Raises:
        ConfigError: the file is absent or damaged.
    """
    return decode_items(_read("embedded.items"), "embedded.items")
