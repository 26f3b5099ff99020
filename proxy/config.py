"""The configuration tree: one YAML file, one `model_validate`, the entry is the object.

This is the only module of the proxy that reads the environment, and it reads only what the file names.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, cast

import orjson
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from proxy.declared import ModerationsConfig, UnguardedRoute
from proxy.expand import expand_short_form, inline_references
from proxy.policy import Policy
from proxy.wire.moderation_field import FieldMode
from proxy.wire.moderations import DEFAULT_ALIAS
from proxy.wire.segments import as_list
from supervisors.errors import ConfigError, MissingError
from supervisors.nesting import walk
from supervisors.plugins import SupervisorEntry, flatten_errors
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


class UpstreamConfig(BaseModel):
    """A model server that speaks OpenAI's protocol, or a vendor reached through litellm."""

    model_config = _STRICT

    use: Literal["http"] = "http"
    base_url: str | None = None
    api_key: Secret | None = None
    vendor: str = "openai"
    proxy: Secret | None = None
    connect_timeout_s: float = Field(default=5.0, gt=0)
    timeout_s: float = Field(default=600.0, gt=0)
    idle_timeout_s: float = Field(default=120.0, gt=0)
    retries: int = Field(default=1, ge=0, le=5)
    max_connections: int = Field(default=256, ge=1)
    forward_headers: tuple[str, ...] | None = None
    headers: dict[str, str] = {}
    allow_link_local: bool = False


class LocalUpstreamConfig(BaseModel):
    """The local model of the `local` extra, served by a child process."""

    model_config = _STRICT

    use: Literal["local"]
    model: str = "smollm2"
    path: Path | None = None
    n_ctx: int = Field(default=4096, ge=256)
    slots: int = Field(default=2, ge=1, le=16)
    threads: int = Field(default=1, ge=1)
    timeout_s: float = Field(default=600.0, gt=0)
    idle_timeout_s: float = Field(default=120.0, gt=0)


class ModelConfig(BaseModel):
    """A model name callers may use.

    The name ``*`` accepts every name; metrics then show undeclared names as ``other``.
    """

    model_config = _STRICT

    upstream: str
    model: str | None = None


class KeyConfig(BaseModel):
    """A caller's key: the secret itself, or the SHA-256 of it."""

    model_config = _STRICT

    key: Secret | None = None
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    admin: bool = False
    check: bool = True
    models: tuple[str, ...] = ("*",)
    routes: tuple[str, ...] = ("*",)
    tags: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if (self.key is None) == (self.sha256 is None):
            msg = "give either 'key' ({env: NAME}) or 'sha256', not both"
            raise ValueError(msg)
        if self.key is not None and (len(self.key.value) < 32 or self.key.value.lower() in PLACEHOLDER_KEYS):
            msg = f"the key at {self.key.reference} is shorter than 32 characters or a known placeholder"
            raise ValueError(msg)
        return self

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the key, hex."""
        return self.sha256 or sha256((self.key.value if self.key else "").encode()).hexdigest()


ContentMode = Literal["off", "hashed", "full"]


class JournalConfig(BaseModel):
    """The decision journal: one SQLite file in WAL mode."""

    model_config = _STRICT

    path: Path = Path("guardrail.sqlite3")
    input: ContentMode = "hashed"
    output: ContentMode = "hashed"
    hmac_key: Secret | None = None
    on_record_failure: Literal["block", "continue"] = "block"
    max_backlog: int = Field(default=100_000, ge=1)
    retention_days: int | None = Field(default=None, ge=1)


class LimitsConfig(BaseModel):
    """Sizes, times and numbers beyond which a request is refused or a verdict is unknown."""

    model_config = _STRICT

    max_body_bytes: int = Field(default=32 * 1024 * 1024, ge=1)
    max_reply_bytes: int = Field(default=32 * 1024 * 1024, ge=1)
    max_json_depth: int = Field(default=64, ge=4, le=512)
    max_choices: int = Field(default=16, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    request_timeout_s: float = Field(default=600.0, gt=0)
    max_in_flight: int = Field(default=1024, ge=1)
    judge_calls_per_request: int = Field(default=32, ge=0)
    judge_concurrency: int = Field(default=64, ge=1)


class Config(BaseModel):
    """The whole tree. Every field is documented in docs/configuration.md and has a test of its effect."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    server: ServerConfig = ServerConfig()
    upstreams: dict[str, Annotated[UpstreamConfig | LocalUpstreamConfig, Field(discriminator="use")]]
    models: dict[str, ModelConfig] = {}
    keys: dict[str, KeyConfig] = {}
    supervisors: dict[str, SupervisorEntry] = {}
    policies: dict[str, Policy] = {}
    journal: JournalConfig = JournalConfig()
    limits: LimitsConfig = LimitsConfig()
    moderations: ModerationsConfig = ModerationsConfig()
    moderation_field: FieldMode = "answer"
    unguarded_routes: tuple[UnguardedRoute, ...] = ()
    tasks: tuple[str, ...] = ("title", "tags")
    expose: Literal["full", "decision", "none"] = "full"

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
        problems = [
            f"models.{name}.upstream: unknown upstream {model.upstream!r}; known: {_names(self.upstreams)}"
            for name, model in self.models.items()
            if model.upstream not in self.upstreams
        ]
        problems += [
            f"policies.{name}.{place}: unknown supervisor {supervisor!r}; known: {_names(self.supervisors)}"
            for name, policy in self.policies.items()
            for place, names in policy.named()
            for supervisor in names
            if supervisor not in self.supervisors
        ]
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


def _names(mapping: Mapping[str, object]) -> str:
    return ", ".join(sorted(mapping)) or "none"


def config_version(config: Config) -> str:
    """Return the SHA-256 of the resolved config: defaults filled in, secrets by reference, files by content."""
    return sha256(canonical_config(config)).hexdigest()


def canonical_config(config: Config) -> bytes:
    """Return the canonical JSON that the version is the digest of; it holds no secret."""
    dumped = config.model_dump(mode="json")
    parts = [part for name, supervisor in config.supervisors.items() for part in walk(name, supervisor)]
    prints = {full: digest for full, part in parts if (digest := getattr(part, "prompt_sha256", None)) is not None}
    return orjson.dumps({"config": dumped, "files": prints}, option=orjson.OPT_SORT_KEYS)


_KIND: Final = re.compile(r"^(upstreams\.[^.]+)\.(?:http|local)(?=\.|$)")
"""The kind of an upstream stands in the path of its errors, but not in the file."""


def load_config(path: Path, environ: Mapping[str, str] | None = None) -> Config:
    """Read, resolve and validate one file.

    Args:
        path: YAML or JSON file.
        environ: environment to resolve ``{env: NAME}`` in; the process's own by default.

    Raises:
        ConfigError: one line a problem, each with the path of the setting.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror or error}"
        raise ConfigError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path} is not UTF-8: byte {error.start} cannot be read"
        raise ConfigError(msg) from error
    return parse_config(text, environ, path.parent)


def parse_config(text: str, environ: Mapping[str, str] | None = None, folder: Path = Path()) -> Config:
    """Validate the text of a config file; see `load_config`."""
    raw = _read_text(text)
    if not isinstance(raw, dict):
        msg = "the file must hold a mapping with at least 'upstreams'"
        raise ConfigError(msg)
    tree = cast("dict[str, Any]", raw)
    expand_short_form(tree)
    inline_references(tree)
    source = _Source(os.environ if environ is None else environ, folder, [])  # noqa: TID251 - the one reader
    resolved = source.resolve(tree, "")
    if source.missing:
        raise MissingError("\n".join(source.missing))
    try:
        return Config.model_validate(resolved)
    except ValidationError as error:
        found = [(_KIND.sub(r"\1", where), message) for where, message in flatten_errors(error)]
        problems = [f"{where}: {message}" if where else message for where, message in found]
        raise ConfigError("\n".join(problems)) from error


def _read_text(text: str) -> object:
    if text.lstrip().startswith("{"):
        try:
            parsed: object = json.loads(text, object_pairs_hook=_refuse_repeats)
        except json.JSONDecodeError:
            pass  # YAML may begin with a brace too
        else:
            return parsed
    try:
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader that also refuses duplicates
    except yaml.YAMLError as error:
        msg = f"not valid YAML: {' '.join(str(error).split())}"
        raise ConfigError(msg) from error


def _refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = next(key for key, count in Counter([key for key, _ in pairs]).items() if count > 1)
        msg = f"not valid: the key {repeated!r} occurs twice"
        raise ConfigError(msg)
    return found


@dataclass(frozen=True, slots=True)
class _Source:
    """Where secrets come from, and what was not there."""

    environ: Mapping[str, str]
    folder: Path
    missing: list[str]

    def resolve(self, value: Any, path: str) -> Any:
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

    def _read_env(self, name: str, path: str) -> Secret | None:
        if not self.environ.get(name):
            self.missing.append(f"{path}: the environment variable {name} is not set")
            return None
        return Secret(f"env:{name}", self.environ[name])

    def _read_file(self, name: str, path: str) -> Secret | None:
        try:
            text = (self.folder / name).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not a text file"
            self.missing.append(f"{path}: cannot read the secret file {name}: {reason}")
            return None
        if not text:
            self.missing.append(f"{path}: the secret file {name} is empty")
        return Secret(f"file:{name}", text)


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that refuses duplicate keys."""


def _construct_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    construct: Any = cast("Any", loader).construct_object  # PyYAML has no types for it
    mapping: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key: Any = construct(key_node, deep=True)
        if not isinstance(key, Hashable):
            raise yaml.MarkedYAMLError(problem="a key must be a word", problem_mark=key_node.start_mark)
        if key in mapping:
            problem = f"the key {key!r} occurs twice"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
        mapping[key] = construct(value_node, deep=True)
    return mapping


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)
