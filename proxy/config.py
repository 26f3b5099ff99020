"""The configuration tree: one YAML file, one `model_validate`, the entry is the object.

This is the only module of the proxy that reads the environment, and it reads only what the file names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from heapq import nsmallest
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, cast

import orjson
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from proxy.declared import (
    BypassConfig,
    CacheConfig,
    JournalConfig,
    LocalUpstreamConfig,
    ModelConfig,
    ModerationsConfig,
    TracingConfig,
    UnguardedRoute,
    UpstreamConfig,
)
from proxy.expand import MOVED, expand
from proxy.extent import read_bounded, refusing
from proxy.hints import suggest
from proxy.locating import name_file
from proxy.mending import Mended, mend, named_supervisors
from proxy.policy import Policy, Routes
from proxy.reading import read_tree
from proxy.referenced import SecretSource
from proxy.store.reach import SCHEMA
from proxy.wire.moderation_field import FieldMode
from proxy.wire.moderations import DEFAULT_ALIAS
from proxy.wire.segments import as_object
from supervisors.errors import ConfigError, MissingError
from supervisors.nearest import did_you_mean
from supervisors.nesting import walk
from supervisors.plugins import REQUIRED, UNKNOWN, SupervisorEntry, flatten_errors, is_only_missing
from supervisors.secret import Secret

_STRICT = ConfigDict(frozen=True, extra="forbid")
PLACEHOLDER_KEYS = frozenset({"changeme", "sk-1234", "test", "secret", "password", "your-api-key", "sk-test"})


class ServerConfig(BaseModel):
    """Where the proxy listens. Without a caller key it listens on loopback only."""

    model_config = _STRICT

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    allowed_hosts: tuple[str, ...] = ()
    drain_grace_s: float = Field(default=5.0, ge=0)
    drain_timeout_s: float = Field(default=120.0, ge=0)
    _written: ServerConfig | None = PrivateAttr(default=None)

    def overridden(self, changes: Mapping[str, object]) -> Self:
        """Return the settings with those of a command line in the place of the file's."""
        made = self.model_copy(update=changes)
        made._written = self.written  # noqa: SLF001 - its own class
        return made

    @property
    def written(self) -> ServerConfig:
        """Return the settings as the file has them."""
        return self._written or self


class KeyConfig(BaseModel):
    """A caller's key: the secret itself, or the SHA-256 of it."""

    model_config = _STRICT

    key: Secret | None = None
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    admin: bool = False
    check: bool = True
    models: tuple[str, ...] = ("*",)
    routes: Routes = ("*",)
    tags: tuple[str, ...] = ()
    requests_per_minute: int | None = Field(default=None, ge=1)
    max_in_flight: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if (self.key is None) == (self.sha256 is None):
            msg = "give either 'key' ({env: NAME}) or 'sha256', not both"
            raise ValueError(msg)
        if self.key is not None and (len(self.key.value) < 32 or self.key.value.lower() in PLACEHOLDER_KEYS):
            msg = f"the key at {self.key.reference} is shorter than 32 characters or a known placeholder"
            raise ValueError(msg)
        if self.sha256 in {sha256(word.encode()).hexdigest() for word in ("", *PLACEHOLDER_KEYS)}:
            msg = "this is the digest of a known placeholder, or of nothing: make a key, as in openssl rand -hex 32"
            raise ValueError(msg)
        return self

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the key, hex."""
        return self.sha256 or sha256((self.key.value if self.key else "").encode()).hexdigest()


class LimitsConfig(BaseModel):
    """Sizes, times and numbers beyond which a request is refused or a verdict is unknown."""

    model_config = _STRICT

    max_body_bytes: int = Field(default=32 * 1024 * 1024, ge=1)
    max_reply_bytes: int = Field(default=32 * 1024 * 1024, ge=1)
    max_json_depth: int = Field(default=64, ge=4, le=200)
    max_choices: int = Field(default=16, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    request_timeout_s: float = Field(default=600.0, gt=0)
    max_in_flight: int = Field(default=1024, ge=1)
    max_queue: int = Field(default=256, ge=0)
    judge_calls_per_request: int = Field(default=32, ge=0)
    judge_cost_usd_per_request: float | None = Field(default=None, gt=0)
    judge_concurrency: int = Field(default=64, ge=1)
    judge_concurrency_per_model: int = Field(default=32, ge=1)


class Config(BaseModel):
    """The whole tree. Every field is documented in docs/configuration.md and has a test of its effect."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    server: ServerConfig = ServerConfig()
    upstreams: dict[str, Annotated[UpstreamConfig | LocalUpstreamConfig, Field(discriminator="use")]]
    models: dict[str, ModelConfig] = {}
    keys: dict[str, KeyConfig] = {}
    supervisors: dict[str, SupervisorEntry] = {}
    caches: dict[str, CacheConfig] = {}
    places: dict[str, Annotated[int, Field(ge=1)]] = {}
    policies: dict[str, Policy] = {}
    journal: JournalConfig = JournalConfig()
    tracing: TracingConfig = TracingConfig()
    limits: LimitsConfig = LimitsConfig()
    moderations: ModerationsConfig = ModerationsConfig()
    bypass: BypassConfig | None = None
    moderation_field: FieldMode = "answer"
    unguarded_routes: tuple[UnguardedRoute, ...] = ()
    tasks: tuple[str, ...] = ("title", "tags")
    expose: Literal["full", "decision", "none"] = "full"
    reload: Literal["signal", "auto"] = "signal"

    @field_validator("upstreams", mode="before")
    @classmethod
    def _default_kind(cls, value: Any) -> Any:
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value)
            return {name: _with_kind(entry) for name, entry in entries.items()}
        return value

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if not self.upstreams:
            msg = "at least one upstream is needed, for example upstreams: {main: {base_url: http://127.0.0.1:8000/v1}}"
            raise ValueError(msg)
        named = [(name, *place) for name, policy in self.policies.items() for place in policy.named()]
        models = {name: model.upstream for name, model in self.models.items()}
        problems = unknown_names(self.upstreams, models, self.supervisors, named)
        problems += unknown_owners(self.supervisors, {"caches": self.caches, "places": self.places})
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def moderation_aliases(self) -> Mapping[str, str]:
        """Return the policy of every alias."""
        if self.moderations.aliases is not None:
            return self.moderations.aliases
        return {DEFAULT_ALIAS: "default"} if "default" in self.policies else {}

    def served_models(self) -> Mapping[str, ModelConfig]:
        """Return the models by name; a single upstream without `models` serves every name."""
        if self.models or len(self.upstreams) > 1:
            return self.models
        return {"*": ModelConfig(upstream=next(iter(self.upstreams)))}


def _with_kind(entry: Any) -> Any:
    return {"use": "http", **cast("dict[str, Any]", entry)} if isinstance(entry, dict) else entry


def _names(names: Collection[str]) -> str:
    shown = nsmallest(MOST_PROBLEMS, names)
    return ", ".join([*shown, "…"] if len(shown) < len(names) else shown) or "none"


MOST_PROBLEMS: Final = 100
"""Lines that are said of one file."""


def unknown_names(
    upstreams: Collection[str],
    models: Mapping[str, object],
    supervisors: Collection[str],
    named: Iterable[tuple[str, str, Sequence[object]]],
) -> list[str]:
    """Return one line for every name that is used and not defined.

    Args:
        upstreams: defined ones.
        models: upstream by model.
        supervisors: defined ones.
        named: policy, place in it, and the supervisors it names there.
    """
    known_upstreams, known_supervisors = _names(upstreams), _names(supervisors)
    strange = [(name, one) for name, one in models.items() if isinstance(one, str) and one not in upstreams]
    unknown = [
        (f"policies.{name}.{place}", supervisor)
        for name, place, names in named
        for supervisor in names
        if isinstance(supervisor, str) and supervisor not in supervisors
    ]
    likely, meant = _likely([one for _, one in strange], upstreams), _likely([one for _, one in unknown], supervisors)
    return [
        *[
            f"models.{name}.upstream: unknown upstream {one!r}; known: {known_upstreams}{likely.get(one, '')}"
            for name, one in strange
        ],
        *[
            f"{path}: unknown supervisor {one!r}; known: {known_supervisors}{meant.get(one, '')}"
            for path, one in unknown
        ],
    ]


def _likely(names: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return the hints about unknown names, for no more of them than are read: looking for likeness takes long."""
    if len(known) > MOST_PROBLEMS:
        return {}
    return {name: did_you_mean(name, known) for name in list(dict.fromkeys(names))[:MOST_PROBLEMS]}


def config_version(config: Config) -> str:
    """Return the SHA-256 of the resolved config: defaults filled in, secrets by reference, files by content."""
    return sha256(canonical_config(config)).hexdigest()


def canonical_config(config: Config) -> bytes:
    """Return the canonical JSON that the version is the digest of: no secret, and nothing of a command line."""
    dumped = {**config.model_dump(mode="json"), "server": config.server.written.model_dump(mode="json")}
    parts = [part for name, supervisor in config.supervisors.items() for part in walk(name, supervisor)]
    prints = {full: digest for full, part in parts if (digest := getattr(part, "prompt_sha256", None)) is not None}
    return orjson.dumps({"archive": SCHEMA, "config": dumped, "files": prints}, option=orjson.OPT_SORT_KEYS)


_KIND: Final = re.compile(r"^(upstreams\.[^.]+)\.(?:http|local)(?=\.|$)")
"""The kind of an upstream stands in the path of its errors, but not in the file."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What is known of a config file.

    Args:
        config: the config, with stand-ins for missing secrets; None when it is wrong.
        problems: one line for every wrong setting.
        missing: one line for every secret that is not there.
        file: its name, which begins every line of an error; empty for a text that is no file.
        mended: the config with stand-ins for what is wrong, to look for what does not fit together in the rest.
        absent: all that is wrong is that packages or files that it names are not there.
    """

    config: Config | None
    problems: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    file: str = ""
    mended: Mended[Config] | None = None
    absent: bool = False

    def require(self) -> Config:
        """Return the config of a file without problems; raises `ConfigError` with all of them."""
        if self.problems or self.config is None:
            raise self.to_error()
        if self.missing:
            raise MissingError(name_file(self.file, self.missing))
        return self.config

    def to_error(self, further: Sequence[str] = ()) -> ConfigError:
        """Return the error with a line for every problem, and for those found further on."""
        said = name_file(self.file, (*self.problems, *self.missing, *further))
        return MissingError(said) if self.absent and not further else ConfigError(said)


def load_config(path: Path, environ: Mapping[str, str] | None = None) -> Config:
    """Read, resolve and validate one file.

    Args:
        path: YAML or JSON file.
        environ: environment to resolve ``{env: NAME}`` in; the process's own by default.

    Raises:
        ConfigError: one line a problem, each with the name of the file and the path of the setting.
    """
    return examine_config(path, environ).require()


def examine_config(path: Path, environ: Mapping[str, str] | None = None) -> Examined:
    """Do as `load_config`, but return what is wrong; only a file that cannot be read at all raises `ConfigError`."""
    text = read_bounded(path)
    with refusing(path):
        return replace(_examine(read_tree(text, str(path)), environ, path.parent), file=str(path))


def parse_config(text: str, environ: Mapping[str, str] | None = None, folder: Path = Path()) -> Config:
    """Validate the text of a config file; see `load_config`."""
    with refusing("the config"):
        return _examine(read_tree(text, "the config"), environ, folder).require()


def read_variable(name: str) -> str | None:
    """Return a variable of the environment that a command names; configs use ``{env: NAME}``."""
    return os.environ.get(name)  # noqa: TID251 - the one reader


def _examine(tree: dict[str, Any], environ: Mapping[str, str] | None, folder: Path) -> Examined:
    expanded = expand(tree)
    source = SecretSource(os.environ if environ is None else environ, folder, [])  # noqa: TID251 - the one reader
    resolved = source.resolve(tree)
    missing = tuple(source.missing)
    found, more, absent = list[tuple[str, str]](), 0, False
    try:
        config = Config.model_validate(resolved)
    except ValidationError as error:
        wrong, absent = flatten_errors(error), is_only_missing(error) and not expanded.problems
        schema = Config.model_json_schema() if any(UNKNOWN in message for _, message in wrong) else {}
        found = [
            (_written_path(where, expanded.moved), _with_hint(_KIND.sub(r"\1", where), message, resolved, schema))
            for where, message in wrong[:MOST_PROBLEMS]
        ]
        more = len(wrong) - len(found)  # nobody mends a thousand settings at once, and each hint takes its time
    else:
        if not expanded.problems:
            return Examined(config, (), missing)
    found = [one for one in found if not _is_misspelt(*one, found)]
    problems = [*expanded.problems, *(f"{where}: {message}" if where else message for where, message in found)]
    lines = [line for problem in problems for line in problem.splitlines()]
    lines += [line for line in _unknown_in(tree) if line not in lines]  # pydantic stops before them
    mended = None if more else mend(resolved, expanded.changed, Config.model_validate)
    return Examined(None, _first(lines, more), _first(missing), mended=mended, absent=absent)


def _first(lines: Sequence[str], more: int = 0) -> tuple[str, ...]:
    """Return the first lines, and how many more there are."""
    more += max(0, len(lines) - MOST_PROBLEMS)
    return (*lines[:MOST_PROBLEMS], f"and {more:,} more problems") if more else tuple(lines)


def _written_path(where: str, moved: frozenset[tuple[str, str]]) -> str:
    """Return the path of a setting as it stands in the file."""
    first, _, rest = where.partition(".")
    for option, section in MOVED.items():
        names = [name for at, name in moved if at == section == first]
        name = next((name for name in names if rest == name or rest.startswith(f"{name}.")), None)
        if name is not None:
            return f"supervisors.{name}.{option}{rest.removeprefix(name)}"
    return _KIND.sub(r"\1", where)


def _with_hint(path: str, message: str, tree: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if not message.startswith(UNKNOWN):
        return message
    return message.replace(f"{UNKNOWN};", f"{UNKNOWN}{suggest(path, tree, schema) or ';'}", 1)


def _is_misspelt(path: str, message: str, found: Sequence[tuple[str, str]]) -> bool:
    """Say whether a setting is missing only because it is there under a name that another line asks about."""
    parent, _, name = path.rpartition(".")
    asked = f"did you mean {name!r}"
    return message == REQUIRED and any(asked in said and at.rpartition(".")[0] == parent for at, said in found)


def _unknown_in(tree: dict[str, Any]) -> list[str]:
    """Return the names used and not defined in a tree that has other problems too."""
    parts = {part: as_object(tree.get(part, {})) for part in ("upstreams", "models", "supervisors", "caches", "places")}
    upstreams, models, supervisors, caches, places = (part if part is not None else {} for part in parts.values())
    wanted = {name: (as_object(model) or {}).get("upstream") for name, model in models.items()}
    return unknown_names(upstreams, wanted, supervisors, named_supervisors(tree)) + unknown_owners(
        supervisors, {"caches": caches, "places": places}
    )


def unknown_owners(supervisors: Collection[str], sections: Mapping[str, Collection[str]]) -> list[str]:
    """Return one line for every entry of a section that belongs to no supervisor."""
    known = _names(supervisors)
    return [
        f"{section}.{name}: unknown supervisor {name!r}; known: {known}"
        for section, entries in sections.items()
        for name in entries
        if name not in supervisors
    ]
