"""A hub of model weights, as the commands that fetch them use it: what a revision holds, and one file of it.

Nothing else opens a connection to one (LU-01). A file's body may come from the hub itself or from a content host that
is named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

import orjson

from proxy.fetching import Web
from supervisors.errors import PullError
from supervisors.hashes import hash_file

HUB: Final = "https://huggingface.co"
CONTENT_HOSTS: Final = ("cdn-lfs.huggingface.co", "cdn-lfs-us-1.huggingface.co", "cas-bridge.xethub.hf.co")

_MOST_ANSWER: Final = 32 * 2**20
"""Bytes of what a hub says of a repository; those of the largest hold some megabytes."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a revision.

    Args:
        path: below the repository's root.
        size: bytes; None where only the transfer tells.
        sha256: of large files; None for small ones, which have `git_sha1`.
        git_sha1: of the file as a git blob.
    """

    path: str
    size: int | None
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


_INSTEAD: Final = "; --hub names a mirror, --package and --url take the files from elsewhere"


class Hub:
    """A hub at an address.

    Args:
        url: its address.
        token: for gated repositories; never in a log or an error.
        content_hosts: hosts beside the hub's own that a file's body may come from.
    """

    def __init__(self, url: str = HUB, token: str | None = None, content_hosts: Sequence[str] = CONTENT_HOSTS) -> None:
        self._url = url.rstrip("/")
        self._web = Web(urlsplit(self._url).netloc, content_hosts, token, refused=self._explain, instead=_INSTEAD)

    def _explain(self, repo: str) -> str:
        return f"access to {repo} is refused: accept its terms at {self._url}/{repo} and give a token with --token-env"

    def find(self, repo: str, revision: str | None) -> Snapshot:
        """Resolve a revision to a full commit and return what it holds.

        Raises:
            PullError: the hub cannot be reached, refuses, or answers something else.
        """
        path = f"/api/models/{quote(repo)}/revision/{quote(revision or 'main', safe='')}"
        body = self._web.read(f"{self._url}{path}?blobs=true", repo, _MOST_ANSWER)
        return _read_snapshot(repo, revision, _to_json(body, repo))

    def fetch(self, snapshot: Snapshot, file: RemoteFile, target: Path) -> str:
        """Write one file and return its SHA-256.

        Raises:
            PullError: it is cut off, longer than declared, or has another hash.
        """
        url = f"{self._url}/{quote(snapshot.repo)}/resolve/{snapshot.revision}/{quote(file.path)}"
        self._web.fetch(url, file.path, target, file.size)
        return check_file(file, target)


def check_file(file: RemoteFile, target: Path) -> str:
    """Return the SHA-256 of a file that was fetched.

    Raises:
        PullError: it has another size or hash than was announced.
    """
    size = target.stat().st_size
    if file.size is not None and size != file.size:
        msg = f"{file.path} has {'more than ' if size > file.size else ''}{min(size, file.size)} bytes, "
        raise PullError(f"{msg}{file.size} were announced")
    found = hash_file(target)
    if file.sha256 is not None and file.sha256 != found:
        msg = f"{file.path} has hash {found}, {file.sha256} was announced"
        raise PullError(msg)
    if file.git_sha1 is not None and file.git_sha1 != (blob := _hash_blob(target, size)):
        msg = f"{file.path} has hash {blob}, {file.git_sha1} was announced"
        raise PullError(msg)
    return found


def _hash_blob(file: Path, size: int) -> str:
    """Return what git calls a file of this content."""
    digest = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    with file.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _to_json(body: bytes, repo: str) -> Mapping[str, Any]:
    try:
        content: object = orjson.loads(body)
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
    except (AttributeError, KeyError, TypeError, ValueError) as error:
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
