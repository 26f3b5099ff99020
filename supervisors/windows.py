"""Cut a text into windows of an encoder's tokens: what every model in the process needs, whatever runs it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from supervisors.encoder import EncoderCard
from supervisors.errors import ConfigError, MissingError, missing_extra

TOKENIZER: Final = "tokenizer.json"


def check_packages(names: Sequence[str], extra: str) -> None:
    """Refuse at start when an extra is not installed.

    Args:
        names: import names it brings.
        extra: its name.

    Raises:
        MissingError: names what is missing and the command that installs it.
    """
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise missing_extra(", ".join(missing), extra)


def check_files(folder: Path, names: Sequence[str], hint: str) -> None:
    """Refuse a folder that lacks a file.

    Args:
        folder: of the model.
        names: files; one that begins with ``*`` stands for any of that ending.
        hint: command that fetches them.

    Raises:
        MissingError: names the file and the command.
    """
    for name in names:
        found = any(folder.glob(name)) if name.startswith("*") else (folder / name).is_file()
        if not found:
            msg = f"{(folder / name).absolute()} is not there; `{hint}` fetches it"
            raise MissingError(msg)


@dataclass(frozen=True, slots=True)
class Text:
    """What is judged, and for models that judge pairs the prompt before it."""

    text: str
    before: str = ""


class Windows:
    """A model's tokenizer, cutting as its card says.

    Args:
        folder: holds ``tokenizer.json``.
        card: how long a window is, and whether it holds a pair.

    Raises:
        ConfigError: the file is no tokenizer.
    """

    def __init__(self, folder: Path, card: EncoderCard) -> None:
        _check_tokenizer(folder / TOKENIZER)
        self._card = card
        self._alone = self._open_tokenizer(folder, "only_first")
        self._paired = self._open_tokenizer(folder, "only_second")
        self._ends: Any = None
        if card.pair:
            self._ends = self._open_tokenizer(folder, "only_first")
            self._ends.enable_truncation(card.max_tokens // 4, direction="left")

    def cut(self, text: Text) -> list[Any]:
        """Cut by tokens: every token of the text is in some window, neighbours share the overlap."""
        if self._card.pair and text.before:
            first: Any = self._paired.encode(self._shorten(text.before), text.text)
        else:
            first = self._alone.encode(text.text)
        return [first, *cast("Sequence[Any]", first.overflowing)]

    def _shorten(self, prompt: str) -> str:
        """Return the end of a prompt that leaves the judged text three quarters of a window."""
        tail = prompt[-2 * self._card.max_tokens :]
        offsets: Sequence[tuple[int, int]] = self._ends.encode(tail, add_special_tokens=False).offsets
        return tail[offsets[0][0] :] if offsets else ""

    def _open_tokenizer(self, folder: Path, strategy: str) -> Any:
        """Open one tokenizer a strategy: it is part of its state, and threads share it."""
        tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(folder / TOKENIZER))
        tokenizer.no_padding()
        tokenizer.enable_truncation(self._card.max_tokens, stride=self._card.overlap_tokens, strategy=strategy)
        return tokenizer


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


def find_order(folder: Path, card: EncoderCard) -> tuple[int, ...]:
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
