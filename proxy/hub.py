"""A hub of model weights, as the commands that fetch them use it: what a revision holds, and one file of it.

Nothing else opens a connection to one (LU-01). Redirects are followed by hand: a file's body may come from the hub
itself or from a content host that is named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote, urljoin, urlsplit

import httpx

from supervisors.errors import PullError

HUB: Final = "https://huggingface.co"
CONTENT_HOSTS: Final = ("cdn-lfs.huggingface.co", "cdn-lfs-us-1.huggingface.co", "cas-bridge.xethub.hf.co")
_REDIRECTS: Final = 5
_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a revision.

    Args:
        path: below the repository's root.
        size: bytes.
        sha256: of large files; None for small ones, which have `git_sha1`.
        git_sha1: of the file as a git blob.
    """

    path: str
    size: int
    sha256: str | None = None
    git_sha1: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a full commit of a repository holds."""

    repo: str
    revision: str
    licence: str
    gated: bool
    files: tuple[RemoteFile, ...]


class Hub:
    """A hub at an address.

    Args:
        url: its address.
        token: for gated repositories; never in a log or an error.
        content_hosts: hosts beside the hub's own that a file's body may come from.
    """

    def __init__(self, url: str = HUB, token: str | None = None, content_hosts: Sequence[str] = CONTENT_HOSTS) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._hosts = {urlsplit(self._url).netloc, *content_hosts}

    def find(self, repo: str, revision: str | None) -> Snapshot:
        """Resolve a revision to a full commit and return what it holds.

        Raises:
            PullError: the hub cannot be reached, refuses, or answers something else.
        """
        path = f"/api/models/{quote(repo)}/revision/{quote(revision or 'main', safe='')}"
        with self._open(f"{self._url}{path}?blobs=true", repo) as reply:
            reply.read()
            return _read_snapshot(repo, revision, _to_json(reply, repo))

    def fetch(self, snapshot: Snapshot, file: RemoteFile, target: Path) -> str:
        """Write one file and return its SHA-256.

        Raises:
            PullError: it is cut off, longer than declared, or has another hash.
        """
        url = f"{self._url}/{quote(snapshot.repo)}/resolve/{snapshot.revision}/{quote(file.path)}"
        digest, blob = hashlib.sha256(), hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
        size = 0
        with self._open(url, snapshot.repo) as reply, target.open("wb") as stream:
            for piece in _iterate(reply, file.path):
                size += len(piece)
                if size > file.size:
                    break
                stream.write(piece)
                digest.update(piece)
                blob.update(piece)
        if size != file.size:
            msg = f"{file.path} has {'more than ' if size > file.size else ''}{min(size, file.size)} bytes, "
            raise PullError(f"{msg}{file.size} were announced")
        for expected, found in ((file.sha256, digest.hexdigest()), (file.git_sha1, blob.hexdigest())):
            if expected is not None and expected != found:
                msg = f"{file.path} has hash {found}, {expected} was announced"
                raise PullError(msg)
        return digest.hexdigest()

    @contextmanager
    def _open(self, url: str, repo: str) -> Generator[httpx.Response]:
        """Send a GET and give the reply that is no redirect; the token goes to the hub only."""
        own = urlsplit(self._url).netloc
        with httpx.Client(follow_redirects=False, timeout=_TIMEOUT_S, trust_env=False) as client:
            for _ in range(_REDIRECTS):
                headers = {}
                if self._token is not None and urlsplit(url).netloc == own:
                    headers = {"authorization": f"Bearer {self._token}"}
                try:
                    request = client.build_request("GET", url, headers=headers)
                    reply = client.send(request, stream=True)
                except httpx.HTTPError as error:
                    msg = f"the hub cannot be reached: {type(error).__name__}"
                    raise PullError(msg) from error
                try:
                    if not reply.has_redirect_location:
                        self._check_status(reply, repo)
                        yield reply
                        return
                    url = self._follow(url, reply.headers["location"])
                finally:
                    reply.close()
        msg = "the hub redirects in circles"
        raise PullError(msg)

    def _follow(self, url: str, location: str) -> str:
        target = urljoin(url, location)
        parts = urlsplit(target)
        if parts.netloc not in self._hosts or (parts.scheme != "https" and parts.netloc != urlsplit(self._url).netloc):
            msg = f"the hub redirects to {parts.hostname}, which is no content host of it"
            raise PullError(msg)
        return target

    def _check_status(self, reply: httpx.Response, repo: str) -> None:
        if reply.status_code in (401, 403):
            msg = (
                f"access to {repo} is refused: accept its terms at {self._url}/{repo} and give a token with --token-env"
            )
            raise PullError(msg)
        if reply.status_code != 200:
            msg = f"the hub answered {reply.status_code} for {repo}"
            raise PullError(msg)


def _iterate(reply: httpx.Response, path: str) -> Iterator[bytes]:
    try:
        yield from reply.iter_raw(1 << 16)
    except httpx.HTTPError as error:
        msg = f"the transfer of {path} broke off: {type(error).__name__}"
        raise PullError(msg) from error


def _to_json(reply: httpx.Response, repo: str) -> Mapping[str, Any]:
    try:
        content: object = reply.json()
    except ValueError as error:
        msg = f"the hub's answer for {repo} is not JSON"
        raise PullError(msg) from error
    if not isinstance(content, dict):
        msg = f"the hub's answer for {repo} is not an object"
        raise PullError(msg)
    return cast("dict[str, Any]", content)


def _read_snapshot(repo: str, wanted: str | None, content: Mapping[str, Any]) -> Snapshot:
    try:
        revision = str(content["sha"])
        files = tuple([_read_file(entry) for entry in content["siblings"]])
    except (KeyError, TypeError, ValueError) as error:
        msg = f"the hub's answer for {repo} lacks its commit or its files"
        raise PullError(msg) from error
    whole = len(revision) == 40 and set(revision) <= set("0123456789abcdef")
    if not whole or (wanted is not None and len(wanted) == 40 and wanted != revision):
        msg = f"the hub gave commit {revision!r} of {repo} where {wanted or 'a full commit'} was asked for"
        raise PullError(msg)
    card = content.get("cardData")
    licence = cast("Mapping[str, Any]", card).get("license") if isinstance(card, dict) else None
    return Snapshot(repo, revision, str(licence or "unknown"), bool(content.get("gated")), files)


def _read_file(entry: Mapping[str, Any]) -> RemoteFile:
    lfs = entry.get("lfs")
    if isinstance(lfs, dict):
        large = cast("Mapping[str, Any]", lfs)
        return RemoteFile(str(entry["rfilename"]), int(large["size"]), str(large["sha256"]))
    blob = entry.get("blobId")
    return RemoteFile(str(entry["rfilename"]), int(entry["size"]), None, str(blob) if blob else None)
