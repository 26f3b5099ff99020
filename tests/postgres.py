"""A real Postgres for tests: a cluster of its own on a unix socket, run by an ordinary user, gone after the session."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from proxy.store.driver import Connection, load_driver
from supervisors.errors import StoreError
from tests.timing import PATIENCE_S

_USERS: Final = ("postgres", "nobody")
"""Who runs it where we are root, under whom it refuses to run."""


def find_binary(name: str) -> str | None:
    """Return a program of Postgres; distributions keep them out of the search path."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return shutil.which(name) or (str(places[0]) if places else None)


def _children_of(process: int) -> list[int]:
    """Return its child processes, where the system tells them."""
    listed = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


class Cluster:
    """A server that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._user = next((user for user in _USERS if _exists(user)), None) if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        folder.chmod(0o755)  # the socket is for us, too
        self._run("initdb", "-D", str(folder / "data"), "-U", "tester", "--no-sync", "--auth=trust", "-E", "UTF8")

    def _run(self, program: str, *options: str) -> None:
        found = find_binary(program)
        assert found is not None
        subprocess.run(
            [found, *options], check=True, capture_output=True, timeout=60, user=self._user, cwd=self.folder, group=None
        )

    def start(self) -> None:
        """Start it and wait until it answers."""
        found = find_binary("postgres")
        assert found is not None
        deadline = time.monotonic() + PATIENCE_S
        while True:  # after a kill the children of the old one may still be ending
            if self._child is None or self._child.poll() is not None:
                options = ("-D", str(self.folder / "data"), "-k", str(self.folder), "-F")
                self._child = subprocess.Popen(
                    [found, *options, "-c", "listen_addresses=", "-c", "log_min_messages=fatal"],
                    user=self._user,
                    cwd=self.folder,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            try:
                self.connect("postgres").close()
            except StoreError:
                if time.monotonic() > deadline:
                    raise
                self._child.poll()
            else:
                return

    def stop(self, number: int = signal.SIGQUIT) -> None:
        """End it: at once by SIGQUIT, without any goodbye by SIGKILL."""
        if self._child is not None:
            sessions = _children_of(self._child.pid) if number == signal.SIGKILL else []
            self._child.send_signal(number)
            for session in sessions:  # they would notice only once they wait, and serve what was asked of them before
                with suppress(ProcessLookupError):
                    os.kill(session, number)
            self._child.wait(PATIENCE_S)
            self._child = None

    def address(self, database: str) -> str:
        """Return the connection string of a database."""
        return f"host={self.folder} user=tester dbname={database}"

    def connect(self, database: str) -> Connection:
        """Return a session of its own."""
        return load_driver().connect(self.address(database), "test")

    def make_database(self) -> str:
        """Make an empty database and return its connection string."""
        self._made += 1
        name = f"journal_{self._made}"
        with closing(self.connect("postgres")) as session:
            session.execute(f"CREATE DATABASE {name}")
        return self.address(name)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def run_cluster() -> Iterator[Cluster]:
    """Yield a running cluster, or skip with the reason."""
    if find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed: pip install 'psycopg[binary]'")
    if find_binary("initdb") is None or find_binary("postgres") is None:
        pytest.skip("there is no Postgres here: on Debian, apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="guardrail-postgres-"))
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
