"""How similar texts are to examples, by models in the process. Extra: embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from supervisors import minilm, wordllama
from supervisors.minilm import MiniLM
from supervisors.offload import Stop
from supervisors.wordllama import WordLlama

LocalEngine = Literal["minilm", "wordllama"]
Row = Sequence[float]
"""Cosine of a text with every example, in their order, each in -1..1."""
BATCH: Final = 64


class Model(Protocol):
    """Turns texts into rows of length one."""

    def embed(self, texts: Iterable[str], /) -> Any:
        """Return an array with a row a text."""
        ...


@dataclass(frozen=True, slots=True)
class Search:
    """How to look for one text that counts, where not all need to be known.

    Args:
        counts: whether a text with these similarities does.
        nearest_first: whether texts near an example are the likelier ones, else those far from all.
    """

    counts: Callable[[Row], bool]
    nearest_first: bool


def check_engine(engine: LocalEngine) -> None:
    """Check that what an engine needs is installed; `minilm` needs the other one's vectors to see what is likely.

    Raises:
        MissingError: something is not; says how to install it.
        ConfigError: a file is another than the known one.
    """
    if engine == "minilm":
        minilm.find_files()
    wordllama.find_files()


def load_comparer(engine: LocalEngine, examples: Sequence[str]) -> Comparer:
    """Load what compares texts with examples.

    Raises:
        MissingError: something is not installed; says how to install it.
        ConfigError: a file is another than the known one.
    """
    return Comparer(examples, WordLlama(), MiniLM() if engine == "minilm" else None)


class Comparer:
    """Compares texts with examples. Comparing blocks: do it in a thread.

    Args:
        examples: what texts are compared with.
        quick: model that takes next to no time.
        exact: slower model that decides; None lets the quick one.
    """

    def __init__(self, examples: Sequence[str], quick: Model, exact: Model | None = None) -> None:
        self._quick = _Compared(quick, examples)
        self._exact = self._quick if exact is None else _Compared(exact, examples)

    def compare(self, texts: Sequence[str], stop: Stop, search: Search | None = None) -> Mapping[str, Row]:
        """Return the similarities of texts.

        Args:
            texts: what is compared; the same one twice is so once.
            stop: asked before every text.
            search: lets a slow model end with the 64 texts in which one counts, where there are more: those that the
                quick one takes for the likeliest are its first. None compares all.
        """
        different = list(dict.fromkeys(texts))
        searching = search if self._exact is not self._quick and len(different) > BATCH else None
        rows: dict[str, Row] = {}
        for batch in _cut(self._order(different, stop, searching) if searching else different):
            found = self._exact.compare(stop.watch(batch))
            rows.update(zip(batch, found, strict=True))
            if searching and any(searching.counts(row) for row in found):
                break
        return rows

    def _order(self, texts: Sequence[str], stop: Stop, search: Search) -> Sequence[str]:
        near = [max(row) for batch in _cut(texts) for row in self._quick.compare(stop.watch(batch))]
        order = sorted(range(len(texts)), key=near.__getitem__, reverse=search.nearest_first)
        return [texts[index] for index in order]


class _Compared:
    """A model, and what it makes of the examples."""

    def __init__(self, model: Model, examples: Sequence[str]) -> None:
        self._model = model
        self._examples = model.embed(examples)

    def compare(self, texts: Iterable[str]) -> Sequence[Row]:
        rows: Sequence[Row] = (self._model.embed(texts) @ self._examples.T).tolist()
        return rows


def _cut(texts: Sequence[str]) -> Iterable[Sequence[str]]:
    return (texts[start : start + BATCH] for start in range(0, len(texts), BATCH))
