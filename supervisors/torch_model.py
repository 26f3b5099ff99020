"""An encoder in the process from its published weights, run by PyTorch. Extra: transformers.

Only safetensors are read, only from the folder, and no code of the model's repository is run: what a card marks as
needing its own code is served, not loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from inspect import signature
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from supervisors.encoder import EncoderCard, Rows, read_logits
from supervisors.errors import ConfigError
from supervisors.offload import Stop
from supervisors.windows import TOKENIZER, Text, Windows, check_files, check_packages, find_order

EXTRA: Final = ("torch", "transformers", "tokenizers", "safetensors")
_FILES: Final = ("config.json", "*.safetensors", TOKENIZER)
_BATCH: Final = 16


def check_extra() -> None:
    """Refuse at start when the extra is not installed.

    Raises:
        MissingError: names the package and the command that installs it.
    """
    check_packages(EXTRA, "transformers")


def check_folder(folder: Path, card: EncoderCard) -> None:
    """Refuse a folder that lacks the weights, their config or the tokenizer.

    Raises:
        MissingError: names the file and the command that pulls it.
    """
    check_files(folder, _FILES, f"guardrail-proxy guard pull {card.name} --format safetensors")


class TorchModel:
    """A loaded model. Scoring blocks: call it in a thread.

    Args:
        folder: holds ``config.json``, safetensors and the tokenizer.
        card: what its classes mean.
        threads: processor threads; PyTorch has one number for the whole process, the last model loaded sets it.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``mps``.

    Raises:
        MissingError: the extra or a file is not there.
        ConfigError: a file or the device cannot be used.
    """

    def __init__(self, folder: Path, card: EncoderCard, threads: int, device: str = "cpu") -> None:
        check_extra()
        check_folder(folder, card)
        self._card = card
        self._device = device
        self._torch: Any = import_module("torch")  # an extra that takes seconds
        self._windows = Windows(folder, card)
        self._order = find_order(folder, card)
        self._torch.set_num_threads(threads)
        try:
            self._model: Any = _load(folder).to(device).eval()
        except (ImportError, OSError, ValueError, KeyError, RuntimeError, AssertionError, _broken()) as error:
            msg = f"the model in {folder} cannot be loaded on {device}: {type(error).__name__}: {error}"
            raise ConfigError(msg.splitlines()[0]) from error
        self._typed = "token_type_ids" in signature(self._model.forward).parameters
        self._most = _BATCH if getattr(self._model.config, "pad_token_id", None) is not None else 1

    def count_windows(self, text: Text) -> int:
        """Return how many windows a text needs."""
        return len(self._windows.cut(text))

    def score(self, text: Text, stop: Stop | None = None) -> Rows:
        """Return the class probabilities of every window of a text, in the card's order, as long as somebody waits.

        Raises:
            WrongScores: the model's output is not what the card says.
        """
        rows: Rows = []
        for batch in (stop or Stop()).watch(_batches(self._windows.cut(text), self._most)):
            rows += self._run(batch)
        return rows

    def _run(self, windows: Sequence[Any]) -> Rows:
        ids = self._torch.tensor([window.ids for window in windows], device=self._device)
        feed = {"input_ids": ids, "attention_mask": self._torch.ones_like(ids)}
        if self._typed:
            feed["token_type_ids"] = self._torch.tensor([window.type_ids for window in windows], device=self._device)
        with self._torch.inference_mode():
            found: Any = self._model(**feed).logits
        logits: list[list[float]] = found.to(self._torch.float64).tolist()
        return read_logits(self._card, self._order, logits, len(windows))


def _broken() -> type[Exception]:
    """Return what reading a damaged weights file raises."""
    error: type[Exception] = import_module("safetensors").SafetensorError
    return error


def _load(folder: Path) -> Any:
    """Load a classifier from its folder; names of the published class heads are the library's business."""
    transformers: Any = import_module("transformers")  # an extra that takes seconds
    loaded: Any = transformers.AutoModelForSequenceClassification.from_pretrained(
        str(folder), local_files_only=True, use_safetensors=True, trust_remote_code=False, output_loading_info=True
    )
    model, report = loaded
    missing = sorted(report["missing_keys"])
    if missing:  # the library would fill them with random numbers
        msg = f"the weights lack {', '.join(missing[:3])}"
        raise ValueError(msg)
    return model


def _batches(windows: Sequence[Any], most: int) -> Iterator[list[Any]]:
    """Yield windows of equal length together, so that nothing is padded; decoders without a pad token take one."""
    for _, same in groupby(windows, key=lambda window: len(window.ids)):
        several = list(same)
        for start in range(0, len(several), most):
            yield several[start : start + most]
