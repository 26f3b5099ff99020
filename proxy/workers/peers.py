"""How the workers of one host see each other: each answers on a socket in a common folder with what it shows.

What has been shown is saved before it is shown, so that a worker that dies cannot have shown more than is kept of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import orjson

from proxy.workers.merging import Snapshot, from_json, to_json

log = logging.getLogger(__name__)

_SAVE_S: Final = 1.0
"""How much counting a worker that dies takes with it at most, beyond what has been shown."""
_ANSWER_S: Final = 2.0
"""How long a worker may take to answer; then it is shown as it was."""
_SOCKET, _SAVED = ".sock", ".json"


class Peers:
    """One worker among the others.

    Args:
        folder: common to all workers, nobody else may enter it.
        take: returns what this worker shows now.
    """

    def __init__(self, folder: Path, take: Callable[[], Awaitable[Snapshot]]) -> None:
        self._folder = folder
        self._take = take
        # Keeps apart a scrape and the regular save: what is older must not replace what is newer.
        self._saving = asyncio.Lock()

    async def run(self, boot: str) -> None:
        """Answer the others, and save now and then, until cancelled."""
        path = self._folder / f"{boot}{_SOCKET}"
        await self.save()
        async with await asyncio.start_unix_server(self._answer, path):
            while True:
                await asyncio.sleep(_SAVE_S)
                await self.save()

    async def save(self) -> bytes:
        """Save what this worker shows, and return it as JSON."""
        async with self._saving:
            snapshot = await self._take()
            return await asyncio.to_thread(self._write, snapshot)

    def _write(self, snapshot: Snapshot) -> bytes:
        text = orjson.dumps(to_json(snapshot))
        path = self._folder / f"{snapshot.boot}{_SAVED}"
        fresh = path.with_suffix(".new")
        try:
            fresh.write_bytes(text)
            fresh.replace(path)
        except OSError as error:
            log.warning("metrics cannot be saved", extra={"reason": str(error)})
        return text

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(await self.save())
            await writer.drain()
        except ConnectionError:
            log.debug("a worker stopped asking")
        finally:
            writer.close()

    async def gather(self) -> Sequence[Snapshot]:
        """Return what all workers show: the living as they are, others as they were, by time of start."""
        own = from_json(orjson.loads(await self.save()), live=True)
        others = await asyncio.to_thread(self._names, _SOCKET)
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(self._ask(name)) for name in others if name != own.boot]
        found = {own.boot: own} | {one.boot: one for task in asking if (one := task.result()) is not None}
        saved = await asyncio.to_thread(self._read_saved, set(found))
        return sorted([*found.values(), *saved], key=lambda one: one.boot)

    def _names(self, kind: str) -> list[str]:
        return [path.stem for path in self._folder.glob(f"*{kind}")]

    async def _ask(self, boot: str) -> Snapshot | None:
        path = self._folder / f"{boot}{_SOCKET}"
        try:
            async with asyncio.timeout(_ANSWER_S):
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    return from_json(orjson.loads(await reader.read()), live=True)
                finally:
                    writer.close()
        except ConnectionRefusedError:
            with suppress(OSError):  # its process is gone, and its name is never used again
                path.unlink()
        except (OSError, TimeoutError, ValueError, KeyError) as error:
            log.warning("a worker does not answer", extra={"boot": boot, "reason": type(error).__name__})
        return None

    def _read_saved(self, known: set[str]) -> list[Snapshot]:
        found: list[Snapshot] = []
        for boot in self._names(_SAVED):
            if boot not in known:
                with suppress(OSError, ValueError, KeyError):  # replaced in whole, so that none of them is to be seen
                    text = (self._folder / f"{boot}{_SAVED}").read_bytes()
                    found.append(from_json(orjson.loads(text), live=False))
        return found
