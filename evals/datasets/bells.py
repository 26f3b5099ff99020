"""BELLS 2025: the stored answers of six models, beside the generic loader (bells-nessie §1.1, §2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evals.datasets.card import FilePin
from evals.datasets.items import Record
from evals.datasets.labels import fold_label
from evals.datasets.readers import Row, read_rows
from evals.types import Truth
from supervisors.errors import DatasetError

ResponseType = Literal["answers", "refuses", "hedges"]
_RESPONSE_TYPES: dict[str, ResponseType] = {"answers": "answers", "refuses": "refuses", "hedges": "hedges"}
_TRUTHS = {"harmful": Truth.HARMFUL, "not_harmful": Truth.BENIGN}


@dataclass(frozen=True, slots=True)
class MetacognitiveRow:
    """One stored answer of `metacognitive_results.csv`.

    Args:
        index: 0-based position in the file.
        timestamp: ISO time of the call.
        model: model that answered and judged.
        dataset: source family, e.g. ``narrative_huggingface``.
        prompt: exact text.
        response: exact text.
        response_type: majority of the votes, as stored.
        votes: the three votes.
        harmfulness: the model's own verdict as a judge of the prompt.
        ground_truth: what is true of the prompt.
        is_coherent: as stored; the file rule of C-01.
        correct_classification: as stored; own verdict equals ground truth.
        response_length: characters, as stored.
        source: where the question came from, empty when not stated.
    """

    index: int
    timestamp: str
    model: str
    dataset: str
    prompt: str
    response: str
    response_type: ResponseType
    votes: tuple[ResponseType, ...]
    harmfulness: Truth
    ground_truth: Truth
    is_coherent: bool
    correct_classification: bool
    response_length: int
    source: str

    @property
    def family(self) -> str:
        """Return direct, narrative, syntactic or generative."""
        return split_family(self.dataset)[0]


def load_metacognitive_rows(path: Path) -> tuple[MetacognitiveRow, ...]:
    """Read every stored answer of the file, in file order.

    Raises:
        DatasetError: the file is missing, a column is missing, or a cell is outside its closed set.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        msg = f"{path.name}: cannot be read: {error.strerror}"
        raise DatasetError(msg) from error
    rows = read_rows(data, FilePin(name=path.name, container="csv"))
    return tuple(_to_metacognitive(index, row, path.name) for index, row in enumerate(rows))


def split_family(dataset: str) -> tuple[str, str | None]:
    """Split a source family such as ``narrative_deepinception`` into family and source."""
    if dataset == "non_adversarial_prompts":
        return "direct", None
    family, _, source = dataset.partition("_")
    return family, source or None


def distinct_prompts(records: Sequence[Record]) -> list[Record]:
    """Keep the first row of each prompt and hang the rows of all models under it.

    The stored answers stay reachable in ``meta["rows"]`` as file positions, ``meta["models"]`` names them.
    """
    firsts: dict[object, tuple[Record, list[Record]]] = {}
    for record in records:
        firsts.setdefault(record.row.get("prompt"), (record, []))[1].append(record)
    return [_with_rows(first, group) for first, group in firsts.values()]


def _with_rows(first: Record, group: Sequence[Record]) -> Record:
    family, attack = split_family(str(first.row.get("dataset")))
    row: Row = {name: first.row.get(name) for name in ("prompt", "ground_truth", "dataset", "source")}
    row |= {
        "family": family,
        "adversariality": "direct" if family == "direct" else "jailbroken",
        "attack": attack,
        "rows": tuple(record.index for record in group),
        "models": tuple(str(record.row.get("model")) for record in group),
    }
    return Record(first.index, row)


def _to_metacognitive(index: int, row: Row, name: str) -> MetacognitiveRow:
    where = f"{name} row {index}"
    votes: tuple[ResponseType, ...] = tuple(
        _response_type(vote, where) for vote in _cell(row, "response_type_votes", where).split(",")
    )
    length = _cell(row, "response_length", where)
    if not length.isdigit():
        msg = f"{where}: response_length is {length!r}, expected a number"
        raise DatasetError(msg)
    return MetacognitiveRow(
        index=index,
        timestamp=_cell(row, "timestamp", where),
        model=_cell(row, "model", where),
        dataset=_cell(row, "dataset", where),
        prompt=_cell(row, "prompt", where),
        response=_cell(row, "response", where),
        response_type=_response_type(_cell(row, "response_type", where), where),
        votes=votes,
        harmfulness=_truth(_cell(row, "harmfulness", where), where),
        ground_truth=_truth(_cell(row, "ground_truth", where), where),
        is_coherent=_boolean(row, "is_coherent", where),
        correct_classification=_boolean(row, "correct_classification", where),
        response_length=int(length),
        source=_cell(row, "source", where),
    )


def _cell(row: Row, column: str, where: str) -> str:
    value = row.get(column)
    if not isinstance(value, str):
        msg = f"{where}: expected a column {column!r}, found {list(row)}"
        raise DatasetError(msg)
    return value


def _response_type(text: str, where: str) -> ResponseType:
    found = _RESPONSE_TYPES.get(text)
    if found is None:
        msg = f"{where}: response type {text!r} is none of {sorted(_RESPONSE_TYPES)}"
        raise DatasetError(msg)
    return found


def _truth(text: str, where: str) -> Truth:
    if text not in _TRUTHS:
        msg = f"{where}: label {text!r} is none of {sorted(_TRUTHS)}"
        raise DatasetError(msg)
    return _TRUTHS[text]


def _boolean(row: Row, column: str, where: str) -> bool:
    folded = fold_label(row.get(column))
    if folded not in ("true", "false"):
        msg = f"{where}: {column} is {row.get(column)!r}, expected True or False"
        raise DatasetError(msg)
    return folded == "true"
