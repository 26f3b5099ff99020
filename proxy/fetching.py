"""Fetch files over HTTP for the commands that pull guards: named hosts only, what breaks off is taken up again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import httpx

from supervisors.errors import PullError

_REDIRECTS: Final = 5
_ATTEMPTS: Final = 3
_TIMEOUT_S: Final = 60.0
_PIECE: Final = 1 << 16


class _BrokeOffError(Exception):
    """A transfer that ended early; carries the name of the client's error."""


class Web:
    """A host that files are fetched from, and further ones that it may redirect to.

    Args:
        host: network location of the host.
        others: network locations that a redirect may lead to, over HTTPS.
        token: for the host alone; never in a log or an error.
        name: of the host in errors.
        instead: what else can be done where it cannot be reached.
        refused: what to tell of 401 and 403, by what was asked for.
    """

    def __init__(
        self,
        host: str,
        others: Sequence[str] = (),
        token: str | None = None,
        *,
        name: str = "the hub",
        instead: str = "",
        refused: Callable[[str], str] = "access to {} is refused".format,
    ) -> None:
        self._host = host
        self._others = frozenset(others)
        self._token = token
        self._name = name
        self._instead = instead
        self._refused = refused

    @contextmanager
    def open(self, url: str, what: str, start: int = 0) -> Generator[httpx.Response]:
        """Send a GET and give the reply that is no redirect, its body not yet read.

        Args:
            url: on the host.
            what: named in errors.
            start: bytes that are here already.

        Raises:
            PullError: the host cannot be reached, refuses, or redirects where it may not.
        """
        with httpx.Client(follow_redirects=False, timeout=_TIMEOUT_S, trust_env=False) as client:
            for _ in range(_REDIRECTS):
                headers = {"accept-encoding": "identity"}
                if start:
                    headers["range"] = f"bytes={start}-"
                if self._token is not None and urlsplit(url).netloc == self._host:
                    headers["authorization"] = f"Bearer {self._token}"
                try:
                    reply = client.send(client.build_request("GET", url, headers=headers), stream=True)
                except httpx.HTTPError as error:
                    asked = urlsplit(url).netloc.rpartition("@")[2]
                    msg = f"{self._name} cannot be reached: {type(error).__name__} at {asked}{self._instead}"
                    raise PullError(msg) from error
                try:
                    if not reply.has_redirect_location:
                        self._check_status(reply, what)
                        yield reply
                        return
                    url = self._follow(url, reply.headers["location"])
                finally:
                    reply.close()
        msg = f"{self._name} redirects in circles"
        raise PullError(msg)

    def read(self, url: str, what: str, most: int) -> bytes:
        """Return the whole body of a small answer.

        Args:
            url: on the host.
            what: named in errors.
            most: bytes after which it is given up.

        Raises:
            PullError: as `open`; the answer breaks off, cannot be decoded, or is longer.
        """
        with self.open(url, what) as reply:
            body = bytearray()
            try:
                for piece in reply.iter_bytes(_PIECE):
                    body += piece
                    if len(body) > most:
                        break
            except httpx.HTTPError as error:
                msg = f"the answer of {self._name} for {what} broke off: {type(error).__name__}"
                raise PullError(msg) from error
        if len(body) > most:
            msg = f"the answer of {self._name} for {what} is longer than {most} bytes"
            raise PullError(msg)
        return bytes(body)

    def fetch(self, url: str, what: str, target: Path, most: int | None = None) -> None:
        """Write a file; a transfer that breaks off is taken up where it stopped, twice.

        Args:
            url: on the host.
            what: named in errors.
            target: the file.
            most: bytes after which nothing more is read; None takes the length that the host announces.

        Raises:
            PullError: it broke off for good, or the host does not say how long it is.
        """
        done, reason = 0, ""
        for _ in range(_ATTEMPTS):
            try:
                self._take(url, what, target, done, most)
            except _BrokeOffError as error:
                done, reason = target.stat().st_size, str(error)
            else:
                return
        msg = f"the transfer of {what} broke off: {reason}"
        raise PullError(msg)

    def _take(self, url: str, what: str, target: Path, done: int, most: int | None) -> None:
        with self.open(url, what, done) as reply:
            resumed = reply.status_code == 206
            if resumed and not reply.headers.get("content-range", "").startswith(f"bytes {done}-"):
                msg = f"{self._name} sent another part of {what} than was asked for"
                raise PullError(msg)
            size = done if resumed else 0
            if most is None:
                most = size + _length(reply, what)
            with target.open("ab" if resumed else "wb") as stream:
                try:
                    for piece in reply.iter_raw(_PIECE):
                        size += len(piece)
                        stream.write(piece)
                        if size > most:
                            return
                except httpx.HTTPError as error:
                    raise _BrokeOffError(type(error).__name__) from error

    def _follow(self, url: str, location: str) -> str:
        target = urljoin(url, location)
        parts = urlsplit(target)
        if parts.netloc != self._host and (parts.netloc not in self._others or parts.scheme != "https"):
            msg = f"{self._name} redirects to {parts.hostname}, which is no content host of it"
            raise PullError(msg)
        return target

    def _check_status(self, reply: httpx.Response, what: str) -> None:
        if reply.status_code in (401, 403):
            raise PullError(self._refused(what))
        if reply.status_code not in (200, 206):
            msg = f"{self._name} answered {reply.status_code} for {what}"
            raise PullError(msg)


def _length(reply: httpx.Response, what: str) -> int:
    told = reply.headers.get("content-length", "")
    if not told.isdecimal():
        msg = f"the server does not say how long {what} is"
        raise PullError(msg)
    return int(told)
