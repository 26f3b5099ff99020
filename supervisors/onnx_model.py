"""An encoder in the process: tokenizer file and ONNX graph from one folder. Extra: onnx."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from supervisors.encoder import EncoderCard, Rows, read_logits
from supervisors.errors import ConfigError
from supervisors.offload import Stop
from supervisors.windows import TOKENIZER, Text, Windows, check_files, check_packages, find_order

EXTRA: Final = ("onnxruntime", "tokenizers", "numpy")


def check_extra() -> None:
    """Refuse at start when the extra is not installed.

    Raises:
        MissingError: names the package and the command that installs it.
    """
    check_packages(EXTRA, "onnx")


def check_folder(folder: Path, card: EncoderCard) -> None:
    """Refuse a folder that lacks the graph or the tokenizer.

    Raises:
        MissingError: names the file and the command that pulls it.
    """
    check_files(folder, (card.onnx_file, TOKENIZER), f"guardrail-proxy guard pull {card.name}")


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
        self._windows = Windows(folder, card)
        self._inputs: list[str] = [entry.name for entry in self._session.get_inputs()]
        self._order = find_order(folder, card)

    def count_windows(self, text: Text) -> int:
        """Return how many windows a text needs."""
        return len(self._windows.cut(text))

    def score(self, text: Text, stop: Stop | None = None) -> Rows:
        """Return the class probabilities of every window of a text, in the card's order, as long as somebody waits.

        Raises:
            WrongScores: the graph's output is not what the card says.
        """
        rows: Rows = []
        for window in (stop or Stop()).watch(self._windows.cut(text)):
            rows += self._run(window)
        return rows

    def _run(self, window: Any) -> Rows:
        """Score one window: padding and neighbours would change what a graph of integers says, and need more memory."""
        columns = {"input_ids": window.ids, "attention_mask": window.attention_mask, "token_type_ids": window.type_ids}
        feed = {name: self._numpy.array([columns[name]], dtype=self._numpy.int64) for name in self._inputs}
        logits: list[list[float]] = self._session.run(None, feed)[0].tolist()
        return read_logits(self._card, self._order, logits, 1)


def _runtime_errors() -> tuple[type[Exception], ...]:
    """Return the errors of ONNX Runtime; they have no common class of their own."""
    module = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Exception)]
    return (RuntimeError, OSError, ValueError, *found)
