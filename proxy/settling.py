"""When a choice has finished for sure, in a stream whose end has not come yet. No I/O."""

from __future__ import annotations

from typing import Final

from proxy.beside import BEHIND_S
from proxy.stream import Gate
from proxy.wire.adapter import Chunk

DOUBTED_S: Final = 5.0
"""How long a choice that has said more behind its finish waits for what it may say next."""


class Finishes:
    """The choices that have finished, and until when each waits for what may come behind its finish.

    A choice that says more behind its finish had not finished: a server may give a reason with every chunk. From then
    on the end of the stream ends it, or a longer time in which it says nothing more.
    """

    __slots__ = ("_doubted", "_until")

    def __init__(self) -> None:
        self._until: dict[int, float] = {}
        self._doubted: set[int] = set()

    def note(self, chunk: Chunk, gate: Gate, *, before: bool, now: float) -> None:
        """Note a chunk of a choice that its gate has taken.

        Args:
            chunk: of a choice.
            gate: of that choice.
            before: it had finished before this chunk.
            now: seconds, on the clock of `due`.
        """
        choice = chunk.choice or 0
        if before and any(piece.text for piece in chunk.pieces):
            self._doubted.add(choice)
            self._until[choice] = now + DOUBTED_S
        elif not gate.judged and choice not in self._doubted:
            self._until.setdefault(choice, now + BEHIND_S)

    def wait_s(self, now: float) -> float | None:
        """Return how long none of them is due; None when there is none."""
        return min(self._until.values()) - now if self._until else None

    def due(self, now: float) -> list[int]:
        """Return the choices that have waited long enough, each once."""
        due = [choice for choice, until in self._until.items() if until <= now]
        for choice in due:
            del self._until[choice]
        return due

    def clear(self) -> None:
        """Forget them: the stream has ended."""
        self._until.clear()
