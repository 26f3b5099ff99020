"""Config entries of what the proxy leads to: model servers, models, moderation façade, unguarded routes, journal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from proxy.upstream_headers import CREDENTIALS
from supervisors.secret import Secret

_STRICT = ConfigDict(frozen=True, extra="forbid")
_SECRET_CHARS: Final = 32
_SHOWN_CHARS: Final = 6
"""A shorter word is no credential, and could stand in any sentence."""
_PART: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._:~-]{1,256}\Z")
"""What may stand for a part in braces: never a dot segment, a slash or an escape."""


_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _check_header(value: object) -> object:
    if isinstance(value, str | Secret):
        return value
    msg = "a header is a text, or a secret: {env: NAME} or {file: PATH}"
    raise ValueError(msg)


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
    headers: dict[str, Annotated[str | Secret, BeforeValidator(_check_header)]] = {}
    allow_link_local: bool = False
    stream_usage: bool = False
    tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    propagate_trace: bool = False
    bypass: bool = False
    max_concurrency: int | None = Field(default=None, ge=1)
    breaker_failures: int = Field(default=5, ge=0)
    breaker_open_s: float = Field(default=60.0, gt=0)

    @field_validator("headers")
    @classmethod
    def _check_credentials(cls, headers: dict[str, str | Secret]) -> dict[str, str | Secret]:
        for name, value in headers.items():
            if name.lower() in CREDENTIALS and not isinstance(value, Secret):
                msg = f"{name!r} holds a credential: write its value as {{env: NAME}} or {{file: PATH}}"
                raise ValueError(msg)
        return headers

    def fixed_headers(self) -> list[tuple[str, str]]:
        """Return the headers with the values of secrets."""
        return [(name, one.value if isinstance(one, Secret) else one) for name, one in self.headers.items()]

    def header_secrets(self) -> list[str]:
        """Return what no error may show: secret values, and what follows a scheme such as ``Bearer`` in them."""
        values = [one.value for one in self.headers.values() if isinstance(one, Secret)]
        return values + [rest for value in values if len(rest := value.partition(" ")[2].strip()) >= _SHOWN_CHARS]


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
    price: tuple[_Dollars, _Dollars] | None = None
    max_concurrency: int | None = Field(default=None, ge=1)


class BypassConfig(BaseModel):
    """Signed tokens by which the judges of one proxy pass through another one unjudged (G-42)."""

    model_config = _STRICT

    secret: Secret
    ttl_s: float = Field(default=30.0, ge=1, le=300)
    accept: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_secret(self) -> Self:
        if len(self.secret.value) < _SECRET_CHARS:
            msg = f"the secret at {self.secret.reference} is shorter than {_SECRET_CHARS} characters"
            raise ValueError(msg)
        return self


class CacheConfig(BaseModel):
    """How long and for whom the verdicts of one supervisor are kept (G-43, G-44)."""

    model_config = _STRICT

    ttl_s: float = Field(default=300.0, gt=0)
    max_entries: int = Field(default=50_000, ge=1)
    scope: Literal["key", "global"] = "key"


class ModerationsConfig(BaseModel):
    """The model names of `/v1/moderations` and of the `moderation` field: each is a policy whose input stage judges.

    Without `aliases`, ``omni-moderation-latest`` is the policy ``default``, if there is one.
    """

    model_config = _STRICT

    aliases: dict[str, str] | None = None


class UnguardedRoute(BaseModel):
    """A route that is passed to a model server unjudged; every call through it is recorded and counted.

    A part of the path in braces, as in ``/v1/files/{id}``, stands for one part of letters, digits and ``. _ : ~ -``.
    """

    model_config = _STRICT

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str = Field(pattern=r"^/v1(/([A-Za-z0-9][A-Za-z0-9._-]*|\{[a-z_]+\}))+$")
    upstream: str | None = None

    def covers(self, path: str) -> bool:
        """Say whether a path is one that the template stands for; upper and lower case are told apart."""
        wanted, given = self.path.split("/"), path.split("/")
        if len(wanted) != len(given):
            return False
        return all(
            _PART.match(part) is not None if name.startswith("{") else name == part
            for name, part in zip(wanted, given, strict=True)
        )


class TracingConfig(BaseModel):
    """OpenTelemetry: off unless `export` says otherwise."""

    model_config = _STRICT

    export: Literal["off", "otlp"] = "off"
    endpoint: str | None = Field(default=None, pattern="^https?://[^@?#]+$")
    headers: dict[str, Secret] = {}
    sample: float = Field(default=1.0, ge=0, le=1)


ContentMode = Literal["off", "hashed", "full"]


class JournalConfig(BaseModel):
    """The decision journal: one SQLite file in WAL mode, or a Postgres database."""

    model_config = _STRICT

    path: Path = Path("guardrail.sqlite3")
    postgres: Secret | None = None
    input: ContentMode = "hashed"
    output: ContentMode = "hashed"
    hmac_key: Secret | None = None
    on_record_failure: Literal["block", "continue"] = "block"
    max_backlog: int = Field(default=100_000, ge=1)
    stream_notes: Literal["off", "batched", "durable"] = "batched"
    retention_days: int | None = Field(default=None, ge=1)
    content_days: dict[Literal["hashed", "full"], Annotated[int, Field(ge=1)]] = {}
    replica: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._:-]{1,128}$")

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if self.postgres is not None and "path" in self.model_fields_set:
            msg = "give either 'path', a SQLite file, or 'postgres', the address of a database, not both"
            raise ValueError(msg)
        return self

    def in_file(self, path: Path) -> Self:
        """Return the same settings for a journal in a file."""
        return self.model_copy(update={"path": path, "postgres": None})
