"""What the start needs of this machine besides the config: folders, files, packages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from proxy.config import Config
from proxy.declared import LocalUpstreamConfig
from proxy.local import find_weights
from proxy.misled import Doubt
from supervisors.errors import MissingError


def find_missing(config: Config) -> Iterator[Doubt]:
    """Yield files, folders and packages that the start needs and that are not on this machine."""
    journal = config.journal
    if journal.postgres is None and not journal.path.parent.is_dir():
        yield Doubt("journal.path", f"the folder {journal.path.parent} does not exist; make it before the start")
    if journal.postgres is not None and find_spec("psycopg") is None:
        yield Doubt("journal.postgres", "it needs psycopg: pip install 'guardrail-proxy[postgres]'")
    for name, upstream in config.upstreams.items():
        if isinstance(upstream, LocalUpstreamConfig):
            try:
                find_weights(upstream.path)
            except MissingError as error:
                yield Doubt(f"upstreams.{name}.path", str(error).removeprefix(f"{error.path}: "))
