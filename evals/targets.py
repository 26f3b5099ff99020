"""What is evaluated: a target as written on the command line, and what of it identifies a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, urlsplit

from evals.datasets.load import hash_file
from evals.fake import MODEL as FAKE_MODEL
from evals.fake import FakeOptions, read_options
from evals.journal import JsonObject, sha256_json
from evals.recorded import StoredReply, check_models, read_replies
from evals.types import sha256_text
from supervisors.errors import ConfigError
from supervisors.nearest import did_you_mean

TargetKind = Literal["local", "fake", "recorded", "url"]
LOCAL_MODEL = "smollm2"


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the model is asked; part of the identity of a trial.

    Args:
        temperature: None leaves it to the server.
        max_tokens: output budget.
        system: system prompt put before every conversation, None for none.
        reasoning_effort: how much a reasoning model may think, ``none`` for not at all; None leaves it to the server.
    """

    temperature: float | None = 0.0
    max_tokens: int = 256
    system: str | None = None
    reasoning_effort: str | None = None

    def to_body(self) -> JsonObject:
        """Return the members of a request body."""
        body: JsonObject = {"max_tokens": self.max_tokens}
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if self.reasoning_effort is not None:
            body["reasoning_effort"] = self.reasoning_effort
        return body


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost of one call."""
        return (tokens_in * self.input + tokens_out * self.output) / 1_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """A target.

    Args:
        kind: local, fake, recorded or url.
        spec: as written, without credentials.
        models: models asked, each with trials of its own.
        base_url: address including ``/v1``, for kind url.
        file: stored replies, for kind recorded.
        file_sha256: its hash.
        replies: its content.
        fake: options, for kind fake.
        price: None means unknown, never free.
    """

    kind: TargetKind
    spec: str
    models: tuple[str, ...]
    base_url: str | None = None
    file: Path | None = None
    file_sha256: str | None = None
    replies: tuple[StoredReply, ...] = field(default=(), repr=False)
    fake: FakeOptions = field(default_factory=FakeOptions)
    price: Price | None = None

    @property
    def label(self) -> str:
        """Say in words what answers, for every report."""
        words: Mapping[TargetKind, str] = {
            "local": "local model",
            "fake": "FAKE model: synthetic replies, these numbers say nothing about any model",
            "recorded": "stored replies, no model was called",
            "url": "model server",
        }
        return f"{self.spec} ({words[self.kind]})"

    def facts(self, model: str, sampling: Sampling) -> JsonObject:
        """Return what identifies the target of one model's trials (H-114)."""
        address: str | None = None
        if self.base_url is not None:
            parts = urlsplit(self.base_url)
            address = f"{parts.hostname}:{parts.port or ''}{parts.path}"
        known: JsonObject = {
            "kind": self.kind,
            "model": model,
            "address": address,
            "file_sha256": self.file_sha256,
            "sampling": sampling.to_body(),
            "system_sha256": None if sampling.system is None else sha256_text(sampling.system),
        }
        if self.kind == "fake":
            known["fake"] = {"errors": self.fake.errors}
        return known

    def sha256(self, model: str, sampling: Sampling) -> str:
        """Return the target hash of one model's trials."""
        return sha256_json(self.facts(model, sampling))


def parse_target(spec: str, price: Price | None = None) -> Target:
    """Read a target: ``local``, ``fake``, ``recorded:FILE[#MODEL]`` or ``URL#MODEL``.

    Raises:
        ConfigError: none of these, or its model is missing.
        DatasetError: the file of stored replies cannot be read.
    """
    free = price or Price(0.0, 0.0)
    head, _, query = spec.partition("?")
    if spec == "local":
        return Target("local", spec, (LOCAL_MODEL,), price=free)
    if head == "fake":
        return Target("fake", spec, (FAKE_MODEL,), fake=read_options(dict(parse_qsl(query))), price=free)
    if spec.startswith("recorded:"):
        name, _, model = spec.removeprefix("recorded:").partition("#")
        path = Path(name)
        replies = read_replies(path)
        models = check_models(replies, model or None)
        return Target(
            "recorded", spec, models, file=path, file_sha256=hash_file(path), replies=replies, price=Price(0.0, 0.0)
        )
    if spec.startswith(("http://", "https://")):
        return _parse_url(spec, price)
    known = "local, fake, recorded:FILE[#MODEL] or URL#MODEL, such as http://127.0.0.1:8000/v1#m"
    meant = did_you_mean(head.partition(":")[0], ("local", "fake", "recorded"))
    msg = f"target {spec!r}: expected {known}{meant}"
    raise ConfigError(msg)


def _parse_url(spec: str, price: Price | None) -> Target:
    url, _, model = spec.partition("#")
    parts = _split(url)
    if not model:
        msg = f"target {url}: name the model after a #, such as {url}#gpt-4o-mini"
        raise ConfigError(msg)
    if parts.username or parts.password:
        msg = "a target's URL carries no credentials; name the variable that holds the key with --api-key-env"
        raise ConfigError(msg)
    return Target("url", spec, (model,), base_url=url.rstrip("/"), price=price)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.hostname and parts.port != 0:
            return parts
    except ValueError:  # a port that is no number
        pass
    msg = f"target {url.rpartition('@')[2]}: expected a URL with a host, such as http://127.0.0.1:8000/v1#m"
    raise ConfigError(msg)
