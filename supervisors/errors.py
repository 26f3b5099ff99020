"""The error tree of the project. An exception means failure; it is never a verdict.

GuardrailError
├── ConfigError          the configuration is wrong; `path` says where
│   └── MissingError     a secret, file, package or model that it names is not there
│       └── MissingPart  found while an entry of the config was read
├── ChatError            a model behind a supervisor did not answer
│   ├── ChatTimeout      the deadline passed
│   ├── ChatRefused      the backend answered and declined (4xx, content filter)
│   └── ChatUnavailable  connect error, reset, 429, 5xx after retries
├── ReplyError           a reply came and breaks its contract
├── UpstreamError        the model server failed; carries the status for the caller
├── StoreError           the journal could not be written or read
│   └── QueryError       it was asked for what it cannot look for: a mistake of whoever asked
├── PullError            the files of a guard could not be fetched
└── DatasetError         a dataset is missing, drifted or malformed
"""

from __future__ import annotations

from pathlib import Path


class GuardrailError(Exception):
    """Root of every error this project raises on purpose."""


class ConfigError(GuardrailError):
    """Say what is wrong in the configuration, where, and what would be right.

    Args:
        message: what was wrong and what would be right.
        path: dotted path of the setting, empty when the file itself is the problem.
    """

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class MissingError(ConfigError):
    """A secret, file, package or model that the configuration names is not there."""


class MissingPart(MissingError, ValueError):
    """Something that an entry of the config needs is not there; pydantic carries it out of a validator as it is."""


def missing_extra(packages: str, extra: str) -> MissingPart:
    """Return the error of optional packages that are not installed, with the command that installs them.

    Args:
        packages: what was looked for, by the names of imports.
        extra: of this distribution.
    """
    return MissingPart(f"{packages} is not installed: pip install 'guardrail-proxy[{extra}]'")


class ChatError(GuardrailError):
    """A model or service behind a supervisor did not give a usable answer.

    Args:
        message: scrubbed of URLs and keys.
        status: HTTP status if one was received.
        code: short machine word of the backend, if it gave one.
    """

    def __init__(self, message: str, *, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class ChatTimeout(ChatError):
    """The deadline passed before the answer was complete."""


class ChatRefused(ChatError):
    """The backend answered and declined: 4xx other than 408 and 429, or a content filter."""


class ChatUnavailable(ChatError):
    """Nobody answered: connect error, reset, TLS, redirect, 429 or 5xx after the retries."""


class ReplyError(GuardrailError):
    """A reply arrived and breaks its contract (empty, not JSON, wrong type, too large).

    Args:
        message: what was expected; never the reply itself.
        detail: short code for the verdict, e.g. ``truncated`` or ``bad_json``.
    """

    def __init__(self, message: str, *, detail: str = "bad_json") -> None:
        super().__init__(message)
        self.detail = detail


class UpstreamError(GuardrailError):
    """The model server failed.

    Args:
        message: scrubbed prose for the caller.
        status: status the caller shall see (502 connect or protocol, 504 timeout, or the upstream's own).
        code: machine word of the error body.
        kind: label for metrics: connect, timeout, status, protocol or circuit_open.

    `attempts` says how often it was asked; who asks again, or not at all, sets it. `answered` is the status of its
    answer, None without one; `reason` says in one word why it failed, more closely than `kind` where that is known.
    """

    def __init__(self, message: str, *, status: int, code: str, kind: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.kind = kind
        self.attempts = 1
        self.answered: int | None = None
        self.reason = kind


class StoreError(GuardrailError):
    """The journal could not be written, read or proven."""


class QueryError(StoreError):
    """What was asked of the journal cannot be looked for; nothing is wrong with the journal."""


class PullError(GuardrailError):
    """The files of a guard could not be fetched, or are not what was announced; nothing is left behind."""


class DatasetError(GuardrailError):
    """A dataset is missing, differs from its card, or cannot be parsed.

    Args:
        message: what was found and what was expected.
        drifted: true when the bytes or counts differ from the card (exit code 3).
    """

    def __init__(self, message: str, *, drifted: bool = False) -> None:
        super().__init__(message)
        self.drifted = drifted


def first_leaf(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception inside the group."""
    found = errors.exceptions[0]
    if not isinstance(found, BaseExceptionGroup):
        return found
    inner: BaseExceptionGroup[BaseException] = found  # pyright: ignore[reportUnknownVariableType] # isinstance widens
    return first_leaf(inner)


def why_unread(path: Path, error: OSError | UnicodeDecodeError) -> str:
    """Say why a text file that an option names could not be read, and where a relative path led."""
    reason = error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8 text"
    return reason if path.is_absolute() else f"{reason}; from the working directory it is {path.absolute()}"


_LONGEST_WORDS = 1000


def why_no_yaml(file: object, error: Exception) -> str:
    """Say in one line why a text is no YAML, with the place as editors take it: ``file:line:column``."""
    mark = getattr(error, "problem_mark", None)  # of PyYAML, which is not imported for it
    place = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
    parts = [str(part) for part in (getattr(error, "context", None), getattr(error, "problem", None)) if part]
    said = " ".join((": ".join(parts) or str(error)).split()).replace("<unicode string>", str(file))
    return f"{file}{place}: not valid YAML: {said[:_LONGEST_WORDS]}"
