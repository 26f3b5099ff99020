"""What the start needs of this machine besides the config: folders, files, packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Final

from proxy.config import Config
from proxy.declared import LocalUpstreamConfig
from proxy.local import find_weights
from proxy.misled import Doubt
from supervisors.errors import ConfigError, MissingError
from supervisors.nesting import walk

_HERE: Final = ("onnx", "transformers")
OTEL: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def is_installed(name: str) -> bool:
    """Say whether a package can be imported; nothing is imported but those above it."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def find_missing(config: Config, installed: Callable[[str], bool] = is_installed) -> Iterator[Doubt]:
    """Yield files, folders and packages that the start needs and that are not on this machine."""
    yield from _find_journal(config, installed)
    yield from _find_others(config, installed)


def refuse_missing(config: Config, installed: Callable[[str], bool] = is_installed) -> None:
    """Refuse a start that would end without what it needs, before it begins a chain in the journal; blocks.

    What the journal itself needs is not looked for: opening it says so, and nothing is begun then.

    Raises:
        MissingError: one line for everything that is not there.
        ConfigError: the files of a model cannot be used.
    """
    lines = [f"{one.path}: {one.message}" for one in _find_others(config, installed)]
    if lines:
        raise MissingError("\n".join(lines))
    _load_models(config)


def _load_models(config: Config) -> None:
    """Load what judges in this process: weights that are wrong or away end the start before a chain begins."""
    for name, supervisor in config.supervisors.items():
        for _, part in walk(name, supervisor):
            if getattr(part, "route", "onnx") in _HERE and (load := getattr(part, "load_model", None)) is not None:
                try:
                    load()
                except ConfigError as error:
                    raise type(error)(str(error).removeprefix(f"{error.path}: "), f"supervisors.{name}") from error


def _find_journal(config: Config, installed: Callable[[str], bool]) -> Iterator[Doubt]:
    journal = config.journal
    if journal.postgres is None and not journal.path.parent.is_dir():
        yield Doubt("journal.path", f"the folder {journal.path.parent} does not exist; make it before the start")
    if journal.postgres is not None and not installed("psycopg"):
        yield Doubt("journal.postgres", "it needs psycopg: pip install 'guardrail-proxy[postgres]'")


def _find_others(config: Config, installed: Callable[[str], bool]) -> Iterator[Doubt]:
    if config.tracing.export != "off" and not all(map(installed, OTEL)):
        yield Doubt("tracing.export", "it needs the OpenTelemetry SDK: pip install 'guardrail-proxy[otel]'")
    for name, upstream in config.upstreams.items():
        if isinstance(upstream, LocalUpstreamConfig):
            try:
                find_weights(upstream.path)
            except MissingError as error:
                yield Doubt(f"upstreams.{name}.path", str(error).removeprefix(f"{error.path}: "))
