"""psycopg as far as the journal needs it: imported at first use, its errors translated, no call without an end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from threading import Timer
from typing import Any, Final, Protocol

from supervisors.errors import MissingError, StoreError

_CONNECT_S: Final = 5
_SILENCE_MS: Final = 15_000
"""How long a server may leave what was sent to it unacknowledged."""


class Copy(Protocol):
    """Rows on their way into a table."""

    def set_types(self, types: Sequence[str]) -> None:
        """Say what the columns are."""
        ...

    def write_row(self, row: Sequence[object]) -> None:
        """Send a row."""
        ...


class Cursor(Protocol):
    """What a statement returned."""

    @property
    def rowcount(self) -> int:
        """Rows changed."""
        ...

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row."""
        ...

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows left."""
        ...

    def execute(self, query: str, params: Sequence[object] | None = None) -> Cursor:
        """Run a statement."""
        ...

    def executemany(self, query: str, params_seq: Sequence[Sequence[object]]) -> None:
        """Run a statement with many values."""
        ...

    def copy(self, statement: str) -> AbstractContextManager[Copy]:
        """Run a COPY."""
        ...

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows."""
        ...

    def close(self) -> None:
        """Give up the rows left."""
        ...


class Connection(Protocol):
    """A session of the server."""

    def execute(self, query: str, params: Sequence[object] | None = None) -> Cursor:
        """Run a statement."""
        ...

    def cursor(self, name: str = "") -> Cursor:
        """Return a cursor; with a name it is the server's and rows come in portions."""
        ...

    def fileno(self) -> int:
        """Return the socket."""
        ...

    def close(self) -> None:
        """End the session."""
        ...


@dataclass(frozen=True, slots=True)
class Driver:
    """The library.

    Args:
        open: connects.
        error: root of its errors.
        repeated: a value that must be unique is there already.
        private: error about a value, whose message may quote it.
        wrong: error about a statement or, without an SQLSTATE, the connection string, whose message may quote it too.
    """

    open: Callable[..., Connection]
    error: type[Exception]
    repeated: type[Exception]
    private: type[Exception]
    wrong: type[Exception]

    def connect(self, address: str, name: str, *, readonly: bool = False) -> Connection:
        """Begin a session in which every statement is its own transaction until a ``BEGIN``.

        Args:
            address: connection string or URI of libpq; what it sets wins over what is set here.
            name: shown in the server's list of sessions.
            readonly: the session writes nothing.

        Raises:
            StoreError: the server is not there, or does not let us in.
        """
        settings: dict[str, object] = {
            "fallback_application_name": name,
            "connect_timeout": _CONNECT_S,
            "tcp_user_timeout": _SILENCE_MS,
        }
        with self.translated():
            for setting in [key for key in settings if key in address]:
                del settings[setting]
            connection = self.open(address, autocommit=True, **settings)
            if readonly:
                connection.execute("SET default_transaction_read_only = on")
        return connection

    @contextmanager
    def translated(self) -> Generator[None]:
        """Raise `StoreError` for every error of the library, without quoting a value or the address."""
        try:
            yield
        except (self.error, OSError) as error:
            raise StoreError(self._say(error)) from error

    def _say(self, error: Exception) -> str:
        name, state = type(error).__name__, getattr(error, "sqlstate", None)
        said: str | None = getattr(getattr(error, "diag", None), "message_primary", None)
        if isinstance(error, self.private):
            return f"{name}: SQLSTATE {state}"
        if isinstance(error, self.wrong) and state is None:
            return f"{name}: the connection string cannot be read"
        return f"{name}: {said or ' '.join(str(error).split())}"


def load_driver() -> Driver:
    """Import psycopg.

    Raises:
        MissingError: it is not installed.
    """
    try:
        library: Any = import_module("psycopg")
    except ImportError as error:
        msg = "journal.postgres needs psycopg: pip install 'guardrail-proxy[postgres]'"
        raise MissingError(msg) from error
    return Driver(
        library.connect,
        library.Error,
        library.errors.UniqueViolation,
        library.DataError,
        library.ProgrammingError,
    )


@contextmanager
def bounded(connection: Connection, seconds: float) -> Generator[None]:
    """Cut the connection if the body takes longer: a server that hangs would otherwise hold its caller for ever."""
    timer = Timer(seconds, _cut, [connection.fileno()])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cut(number: int) -> None:
    with suppress(OSError), socket.socket(fileno=os.dup(number)) as line:
        line.shutdown(socket.SHUT_RDWR)
