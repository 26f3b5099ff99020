"""JSON lines on stderr: constant messages, fields beside them, nothing of a prompt, reply, header or key (O-23)."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final, cast

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}
_QUIET: Final = ("litellm", "LiteLLM", "httpx", "httpcore", "uvicorn.access", "asyncio")
_OWN: Final = frozenset({"proxy", "supervisors", "evals", "uvicorn"})
"""Loggers whose messages are constant; the rest of what they say is in fields."""
_LONGEST: Final = 200
_MOST: Final = 20
"""Entries of a list or an object that are shown."""


class JsonFormatter(logging.Formatter):
    """Render a record as one JSON line; control characters in any value are escaped by JSON itself."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        for key, value in vars(record).items():
            if key not in _STANDARD:
                line[key] = _plain(value)
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["at"] = _where(record)
        return json.dumps(line, separators=(",", ":"))


class LineFormatter(logging.Formatter):
    """Render a record as one line for a person: the message, and its fields after it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields = [f"{key}: {_plain(value)}" for key, value in vars(record).items() if key not in _STANDARD]
        return f"{record.levelname.lower()}: {'; '.join([_message(record), *fields])}"


def show_warnings() -> None:
    """Show warnings of a command as lines on stderr, whole."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _plain(value: object) -> object:
    """Return a field's value as JSON: numbers and small objects as they are, anything else as text."""
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, int | None):
        return value
    if isinstance(value, dict):
        entries = list(cast("dict[object, object]", value).items())[:_MOST]
        return {str(key)[:_LONGEST]: _plain(item) for key, item in entries}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[object]", value)[:_MOST]]
    return str(value)[:_LONGEST]


def _message(record: logging.LogRecord) -> str:
    """Return the message; a library's may quote what it works on, so only where it was said is kept of it."""
    if record.name.partition(".")[0] in _OWN:
        return record.getMessage()[:_LONGEST]
    return f"withheld: said by {record.module}:{record.lineno}"


def _where(record: logging.LogRecord) -> list[str]:
    """Return the frames of a traceback as file:line function; never the values, which may hold content."""
    frames: list[str] = []
    trace = record.exc_info[2] if record.exc_info else None
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename.rsplit('/', 2)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return frames[-12:]


def set_up_logging(level: str = "INFO") -> None:
    """Send every logger's records to stderr as JSON lines; third-party chatter below warnings is dropped."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
