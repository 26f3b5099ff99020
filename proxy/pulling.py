"""Fetch, check and remove the files of guards, and keep ``guards.lock`` (embedded §8)."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Final, Protocol, TextIO

from proxy.hub import RemoteFile, Snapshot
from supervisors.card import UnknownCard, list_cards, load_card
from supervisors.encoder import list_encoders, load_encoder
from supervisors.errors import ConfigError
from supervisors.in_process.cards import list_in_process, load_in_process
from supervisors.lock import Licence, Lock, LockedFile, LockedGuard, find_differences, read_lock

_WEIGHTS: Final = (".safetensors", ".onnx", ".gguf")
_ONNX_DATA: Final = (".onnx_data", ".onnx.data")
_BESIDE: Final = (".json", ".model", ".txt", ".md")
_REFUSED: Final = (".bin", ".pt", ".pth", ".pkl", ".joblib", ".h5", ".msgpack", ".ckpt", ".zip", ".tar", ".gz")
_PLAIN: Final = ("license", "licence", "notice")

Say = Callable[[str], None]


class Origin(Protocol):
    """Where files come from."""

    def find(self, repo: str, revision: str | None) -> Snapshot:
        """Return what is there, of a revision that cannot move."""
        ...

    def fetch(self, snapshot: Snapshot, file: RemoteFile, target: Path) -> str:
        """Write one file and return its SHA-256."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """Where a guard comes from.

    Args:
        name: of its card.
        repo: on the hub.
        revision: the card's own, None for the newest.
        remote_code: the model needs code of its repository.
        graph: path of the ONNX graph that is used, empty where all weights are.
        safetensors: only the weights in this format are used, of the repository's own folder.
    """

    name: str
    repo: str
    revision: str | None
    remote_code: bool
    graph: str = ""
    safetensors: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """How a guard is to be pulled.

    Args:
        lock: lock file; the folders stand beside it.
        folder: below the lock file's folder.
        revision: instead of the card's.
        licence: id that is accepted.
        remote_code: fetch Python files too.
    """

    lock: Path
    folder: str
    revision: str | None = None
    licence: str | None = None
    remote_code: bool = False


def find_source(name: str, *, safetensors: bool = False) -> Source:
    """Return where the weights of a card are published.

    Args:
        name: of the card.
        safetensors: an encoder's published weights instead of its ONNX graph.

    Raises:
        ConfigError: no such card, or one without weights.
    """
    if name in list_encoders():
        encoder = load_encoder(name)
        graph = "" if safetensors else encoder.onnx_file
        return Source(name, encoder.hub_id, encoder.revision, encoder.remote_code, graph, safetensors=safetensors)
    if name in list_cards():
        card = load_card(name)
        if card.hub_id:
            return Source(name, card.hub_id, card.revision, card.remote_code)
        msg = f"card {name!r} has no weights to pull"
        raise ConfigError(msg)
    if name in list_in_process():
        own = load_in_process(name)
        return Source(name, own.hub_id, own.revision, own.remote_code, safetensors=True)
    raise unknown_card(name)


def unknown_card(name: str) -> ConfigError:
    """Return the error for a name that no card of any kind has."""
    return ConfigError(str(UnknownCard(name, [*list_cards(), *list_encoders(), *list_in_process()])))


def choose_files(source: Source, snapshot: Snapshot, *, remote_code: bool) -> tuple[RemoteFile, ...]:
    """Return the files that are fetched (PL-02): data, never code that runs when it is read.

    Raises:
        ConfigError: nothing usable is left, or the model needs code that was not allowed.
    """
    if source.remote_code and not remote_code:
        msg = f"{source.repo} needs code of its own: read it, then give --allow-remote-code"
        raise ConfigError(msg)
    chosen = [file for file in snapshot.files if _is_wanted(source, file.path, remote_code=remote_code)]
    weights = [file for file in chosen if file.path.endswith(_WEIGHTS)]
    if not weights:
        refused = [file.path for file in snapshot.files if file.path.endswith(_REFUSED)]
        what = "safetensors" if source.safetensors else source.graph or "safetensors, ONNX or GGUF"
        msg = f"{source.repo} has no {what}" + (
            f"; {', '.join(refused[:3])} could run code and is refused" if refused else ""
        )
        if source.graph and any(file.path.endswith(".safetensors") for file in snapshot.files):
            msg += "; --format safetensors fetches what route transformers reads"
        raise ConfigError(msg)
    return tuple(chosen)


def _is_wanted(source: Source, path: str, *, remote_code: bool) -> bool:
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\\" in path or any(part.startswith(".") for part in parts):
        return False
    if path.endswith(".py"):
        return source.remote_code and remote_code
    if source.safetensors and path.endswith((*_WEIGHTS, *_ONNX_DATA)):
        return path.endswith(".safetensors") and len(parts) == 1
    if path.endswith((*_WEIGHTS, *_ONNX_DATA)):
        return not source.graph or path.startswith(source.graph)
    return path.endswith(_BESIDE) or parts[-1].casefold() in _PLAIN


def pull(source: Source, wish: Wish, origin: Origin, say: Say) -> LockedGuard:
    """Fetch a guard and lock it; pulling the same again changes nothing.

    Args:
        source: which guard.
        wish: how.
        origin: a hub, a package or addresses.
        say: told what an operator should know.

    Raises:
        ConfigError: the licence was not accepted, or there is nothing that may be fetched.
        PullError: the transfer failed; nothing is left behind.
    """
    with _alone(wish.lock):
        snapshot = origin.find(source.repo, wish.revision or source.revision)
        files = choose_files(source, snapshot, remote_code=wish.remote_code)
        for line in describe(source, snapshot, files):
            say(line)
        lock = read_lock(wish.lock)
        held = lock.guards.get(source.name)
        root = wish.lock.parent
        if (
            held is not None
            and held.revision == snapshot.revision
            and {file.path for file in held.files} == {file.path for file in files}
            and not list(find_differences(root / held.folder, held))
        ):
            say("already pulled")
            return held
        if wish.licence != snapshot.licence:
            msg = f"the licence is {snapshot.licence!r}: read it, then give --accept-licence {snapshot.licence}"
            raise ConfigError(msg)
        entry = _fetch(source, wish, origin, snapshot, files)
        _write(wish.lock, Lock(guards={**lock.guards, source.name: entry}))
        say(f"locked {len(entry.files)} files in {root / entry.folder}")
        return entry


def describe(source: Source, snapshot: Snapshot, files: Sequence[RemoteFile]) -> Iterator[str]:
    """Yield what an operator should know before saying yes."""
    yield f"{snapshot.repo} at {snapshot.revision}"
    yield f"licence {snapshot.licence}, {'gated' if snapshot.gated else 'not gated'}"
    yield f"code of its own: {'yes' if source.remote_code else 'no'}"
    sizes = [file.size for file in files if file.size is not None]
    size = f"{sum(sizes) / 1e6:.1f} MB" if len(sizes) == len(files) else "size told at the transfer"
    yield f"{len(files)} files, {size}"


def _fetch(source: Source, wish: Wish, origin: Origin, snapshot: Snapshot, files: Sequence[RemoteFile]) -> LockedGuard:
    """Fetch into a temporary folder beside the final one, then move it into place."""
    final = wish.lock.parent / wish.folder
    final.parent.mkdir(parents=True, exist_ok=True)
    locked: list[LockedFile] = []
    with tempfile.TemporaryDirectory(prefix=".pulling-", dir=final.parent) as name:
        draft = Path(name) / "files"
        for file in files:
            target = draft / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            digest = origin.fetch(snapshot, file, target)
            locked.append(LockedFile(path=file.path, size=target.stat().st_size, sha256=digest))
        if final.exists():
            final.rename(Path(name) / "before")
        draft.rename(final)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return LockedGuard(
        repo=snapshot.repo,
        revision=snapshot.revision,
        licence=Licence(id=snapshot.licence, accepted=now),
        remote_code=source.remote_code,
        folder=wish.folder,
        files=tuple(locked),
        pulled_with=f"guardrail-proxy {version('guardrail-proxy')}",
    )


def _write(file: Path, lock: Lock) -> None:
    draft = file.with_name(f"{file.name}.part")
    draft.write_text(lock.to_text(), encoding="utf-8")
    draft.replace(file)


@contextmanager
def _alone(lock: Path) -> Generator[None]:
    """Let one command at a time change a lock file and its folders; the second waits."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    busy = lock.with_name(f".{lock.name}.busy")
    with _hold(busy):
        try:
            yield
        finally:
            busy.unlink(missing_ok=True)


def _hold(busy: Path) -> TextIO:
    """Return the file, open and locked; one that its last holder took away in the meantime holds nobody off."""
    while True:
        stream = busy.open("w")
        fcntl.flock(stream, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if busy.stat().st_ino == os.fstat(stream.fileno()).st_ino:
                return stream
        stream.close()


def verify(lock: Path, names: Sequence[str]) -> Iterator[str]:
    """Yield one sentence a file that is not what was locked; without names, of every guard.

    Raises:
        ConfigError: there is no lock, or a name that is not locked.
    """
    if not lock.exists():
        msg = f"there is no {lock} here: --lock FILE names another, `guardrail-proxy guard pull NAME` makes one"
        raise ConfigError(msg)
    guards = read_lock(lock).guards
    for name in names or sorted(guards):
        if name not in guards:
            msg = f"{lock} has no entry for {name!r}; it has {', '.join(sorted(guards)) or 'none'}"
            raise ConfigError(msg)
        for sentence in find_differences(lock.parent / guards[name].folder, guards[name]):
            yield f"{name}: {sentence}"


def remove(lock: Path, name: str) -> None:
    """Take a guard out of the lock and delete its files.

    Raises:
        ConfigError: it is not locked.
    """
    with _alone(lock):
        held = read_lock(lock)
        entry = held.guards.get(name)
        if entry is None:
            msg = f"{lock} has no entry for {name!r}; it has {', '.join(sorted(held.guards)) or 'none'}"
            raise ConfigError(msg)
        _write(lock, Lock(guards={key: guard for key, guard in held.guards.items() if key != name}))
        shutil.rmtree(lock.parent / entry.folder, ignore_errors=True)
