"""Which store a journal is in: a file, or a Postgres database that is named by where its address is kept."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from proxy.config import read_variable
from proxy.declared import JournalConfig
from proxy.record import Record
from proxy.store.audit import Audit, open_audit
from proxy.store.journal import StoredJournal
from proxy.store.lookup import open_postgres_audit
from proxy.store.postgres import open_postgres
from proxy.store.retention import Retention
from proxy.store.sqlite import LOCAL, open_journal
from proxy.store.writer import WriterSettings
from supervisors.errors import MissingError, StoreError

_VARIABLE: Final = "env:"
_KEPT_IN_FILE: Final = "secret:"
_ADDRESSES: Final = ("postgres:", "postgresql:")


async def open_configured(settings: JournalConfig, counted: Callable[[Record], None]) -> StoredJournal:
    """Open the journal of a config for writing, and begin a chain.

    Raises:
        StoreError: it cannot be opened.
        MissingError: the library for it is not installed.
    """
    options = WriterSettings(on_failure=settings.on_record_failure, queue_limit=settings.max_backlog)
    retention = Retention(settings.retention_days, {str(mode): days for mode, days in settings.content_days.items()})
    if settings.postgres is not None:
        address, name = settings.postgres.value, settings.replica
        return await open_postgres(address, name, settings=options, retention=retention, counted=counted)
    name = settings.replica or LOCAL
    return await open_journal(settings.path, replica=name, settings=options, retention=retention, counted=counted)


@contextmanager
def open_named(name: Path) -> Generator[Audit]:
    """Open a journal for an audit.

    Args:
        name: a file; or ``env:NAME``, ``secret:PATH``: the variable or file that holds the address of a database.

    Raises:
        StoreError: it cannot be opened, or turns out to be unreadable on the way.
        MissingError: the address is not where the name says, or the library is not installed.
    """
    text = str(name)
    if text.startswith(_ADDRESSES):
        msg = "an address may hold a password and would show in the list of processes: put it into an environment "
        raise StoreError(f"{msg}variable or a file, and name that: env:NAME or secret:PATH")
    if text.startswith((_VARIABLE, _KEPT_IN_FILE)):
        with open_postgres_audit(_read_address(text)) as audit:
            yield audit
    else:
        with open_audit(name) as audit:
            yield audit


def _read_address(name: str) -> str:
    kind, _, where = name.partition(":")
    if kind == "env":
        found = read_variable(where) or ""
        problem = f"the environment variable {where} is not set"
    else:
        try:
            found, problem = Path(where).read_text("utf-8").strip(), f"the file {where} is empty"
        except (OSError, ValueError) as error:
            msg = f"{name}: cannot read the file {where}: {getattr(error, 'strerror', None) or 'it is not a text file'}"
            raise MissingError(msg) from error
    if not found:
        msg = f"{name}: {problem}; it holds the address of the journal's database"
        raise MissingError(msg)
    return found
