"""An encoder in the process: tokenizer file and ONNX graph from one folder. Extra: onnx."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from supervisors.encoder import EncoderCard, WrongScores, to_probabilities
from supervisors.errors import ConfigError, MissingError

EXTRA: Final = ("onnxruntime", "tokenizers", "numpy")
TOKENIZER: Final = "tokenizer.json"
_BATCH: Final = 16


def check_extra() -> None:
    """Refuse at start when the extra is not installed.

    Raises:
        MissingError: names the package and the command that installs it.
    """
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        msg = f"{', '.join(missing)} is not installed: pip install 'guardrail-proxy[onnx]'"
        raise MissingError(msg)


def check_folder(folder: Path, card: EncoderCard) -> None:
    """Refuse a folder that lacks the graph or the tokenizer.

    Raises:
        MissingError: names the file and the command that pulls it.
    """
    for name in (card.onnx_file, TOKENIZER):
        if not (folder / name).is_file():
            msg = f"{folder / name} is not there; `guardrail-proxy guard pull {card.name}` fetches it"
            raise MissingError(msg)


@dataclass(frozen=True, slots=True)
class Text:
    """What is judged, and for models that judge pairs the prompt before it."""

    text: str
    before: str = ""


class OnnxModel:
    """A loaded model. Scoring blocks: call it in a thread.

    Args:
        folder: holds the graph, the tokenizer, and for cards by name the model's ``config.json``.
        card: what its classes mean.
        threads: processor threads of one call.

    Raises:
        MissingError: the extra or a file is not there.
        ConfigError: a file cannot be used.
    """

    def __init__(self, folder: Path, card: EncoderCard, threads: int) -> None:
        check_extra()
        check_folder(folder, card)
        self._card = card
        self._numpy: Any = import_module("numpy")
        runtime: Any = import_module("onnxruntime")
        options: Any = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        try:
            graph = str(folder / card.onnx_file)
            self._session: Any = runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except _runtime_errors() as error:
            msg = f"{folder / card.onnx_file} cannot be loaded: {type(error).__name__}"
            raise ConfigError(msg) from error
        _check_tokenizer(folder / TOKENIZER)
        self._alone = self._open_tokenizer(folder, "only_first")
        self._paired = self._open_tokenizer(folder, "only_second")
        self._inputs: list[str] = [entry.name for entry in self._session.get_inputs()]
        self._order = _find_order(folder, card)

    def count_windows(self, text: Text) -> int:
        """Return how many windows a text needs."""
        return len(self._encode(text))

    def score(self, text: Text) -> list[tuple[float, ...]]:
        """Return the class probabilities of every window of a text, in the card's order.

        Raises:
            WrongScores: the graph's output is not what the card says.
        """
        windows = self._encode(text)
        rows: list[tuple[float, ...]] = []
        for start in range(0, len(windows), _BATCH):
            rows += self._run(windows[start : start + _BATCH])
        return rows

    def _encode(self, text: Text) -> list[Any]:
        """Cut by tokens: every token of the text is in some window, neighbours share the overlap."""
        if self._card.pair and text.before:
            first: Any = self._paired.encode(self._shorten(text.before), text.text)
        else:
            first = self._alone.encode(text.text)
        return [first, *cast("Sequence[Any]", first.overflowing)]

    def _shorten(self, prompt: str) -> str:
        """Return the end of a prompt that leaves the judged text three quarters of a window."""
        most = self._card.max_tokens // 4
        tail = prompt[-8 * most :]
        offsets: Sequence[tuple[int, int]] = self._alone.encode(tail, add_special_tokens=False).offsets
        return tail if len(offsets) <= most else tail[offsets[-most][0] :]

    def _open_tokenizer(self, folder: Path, strategy: str) -> Any:
        """Open one tokenizer a strategy: it is part of its state, and threads share it."""
        tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(folder / TOKENIZER))
        tokenizer.no_padding()
        tokenizer.enable_truncation(self._card.max_tokens, stride=self._card.overlap_tokens, strategy=strategy)
        return tokenizer

    def _run(self, windows: Sequence[Any]) -> list[tuple[float, ...]]:
        longest = max([len(window.ids) for window in windows])
        columns = {
            "input_ids": [_pad(window.ids, longest) for window in windows],
            "attention_mask": [_pad(window.attention_mask, longest) for window in windows],
            "token_type_ids": [_pad(window.type_ids, longest) for window in windows],
        }
        feed = {name: self._numpy.array(columns[name], dtype=self._numpy.int64) for name in self._inputs}
        logits: list[list[float]] = self._session.run(None, feed)[0].tolist()
        if len(logits) != len(windows) or any(len(row) != len(self._order) for row in logits):
            raise WrongScores("missing_field")
        return [to_probabilities(self._card, [row[index] for index in self._order]) for row in logits]


def _runtime_errors() -> tuple[type[Exception], ...]:
    """Return the errors of ONNX Runtime; they have no common class of their own."""
    module = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Exception)]
    return (RuntimeError, OSError, ValueError, *found)


def _check_tokenizer(file: Path) -> None:
    """Refuse a file that is no tokenizer; the library's own error is a bare `Exception`."""
    try:
        content: object = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{file} is not JSON"
        raise ConfigError(msg) from error
    if not isinstance(content, dict) or "model" not in content:
        msg = f"{file} is no tokenizer: it has no member model"
        raise ConfigError(msg)


def _pad(values: Sequence[int], length: int) -> list[int]:
    return [*values, *[0] * (length - len(values))]


def _find_order(folder: Path, card: EncoderCard) -> tuple[int, ...]:
    """Return the model's index of each class of the card.

    Raises:
        ConfigError: the card goes by names that the model's config does not have (GU-22).
    """
    if card.by == "index":
        return tuple(range(len(card.classes)))
    labels = _read_labels(folder / "config.json")
    found = {card.find_class(label): index for index, label in labels.items()}
    missing = [name for position, name in enumerate(card.names) if position not in found]
    if missing:
        msg = f"{folder / 'config.json'} names no class {', '.join(missing)}; it has {', '.join(labels.values())}"
        raise ConfigError(msg)
    return tuple([found[position] for position in range(len(card.classes))])


def _read_labels(file: Path) -> Mapping[int, str]:
    try:
        content: object = json.loads(file.read_text(encoding="utf-8"))
        labels = cast("Mapping[str, Mapping[str, str]]", content)["id2label"]
        return {int(index): str(label) for index, label in labels.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"{file} has no readable id2label, which this card needs"
        raise ConfigError(msg) from error
