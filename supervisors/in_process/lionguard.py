"""LionGuard: a head over embeddings, and what its answer means (guards §7, row 89).

Source: the models' cards and `predict` of their code: a mapping from eleven names to one probability a text. The head
runs code of its repository, so that must be allowed in so many words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast

from supervisors.embeddings import Vector
from supervisors.errors import ConfigError, ReplyError
from supervisors.in_process.cards import InProcessCard
from supervisors.types import Label, Verdict
from supervisors.windows import check_files, check_packages

EXTRA: Final = ("torch", "transformers", "safetensors", "numpy")
BINARY: Final = "binary"


class Head(Protocol):
    """What is used of the model."""

    def predict(self, vectors: object, /) -> Mapping[str, object]:
        """Return the probabilities of every name, one a vector."""
        ...


def load_lionguard(folder: Path, name: str) -> Head:
    """Load the head from its folder, running the code that lies there.

    Raises:
        MissingError: the library or a file is not there.
        ConfigError: the model cannot be loaded.
    """
    check_packages(EXTRA, "transformers")
    hint = f"guardrail-proxy guard pull {name} --allow-remote-code"
    check_files(folder, ("config.json", "*.safetensors", "*.py"), hint)
    kind: Any = import_module("transformers").AutoModel  # an extra that takes seconds
    try:
        model: Any = kind.from_pretrained(
            str(folder), local_files_only=True, use_safetensors=True, trust_remote_code=True
        )
    except (ImportError, OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
        msg = f"the model in {folder} cannot be loaded: {type(error).__name__}"
        raise ConfigError(msg) from error
    model.eval()
    return cast("Head", model)


def predict(head: Head, vectors: Sequence[Vector]) -> Mapping[str, object]:
    """Ask the head about vectors; blocks."""
    numpy: Any = import_module("numpy")
    return head.predict(numpy.array(vectors, dtype=numpy.float32))


def read_lionguard(answer: object, place: int, card: InProcessCard, threshold: float | None = None) -> Verdict:
    """Read what was said of one text.

    Args:
        answer: of the head; a value is a number, or a list with one a text.
        place: of the text among those that were asked about.
        card: names and thresholds.
        threshold: risk from which it is unsafe, instead of the card's.

    Raises:
        ReplyError: ``binary`` is missing, or something is no number in 0..1.
    """
    if not isinstance(answer, Mapping):
        raise _wrong("bad_json")
    scores = {name: _read(value, place) for name, value in cast("Mapping[str, object]", answer).items()}
    risk = scores.pop(BINARY, None)
    if risk is None:
        raise _wrong("missing_verdict")
    extras: dict[str, object] = {"score_kind": "probability"}
    if risk < (card.threshold if threshold is None else threshold):
        return Verdict(Label.SAFE, score=risk, extras=extras)
    raw = tuple([name for name, score in scores.items() if score >= card.category_threshold])
    return Verdict(
        Label.UNSAFE, score=risk, categories=card.to_canonical(raw), extras={**extras, "raw_categories": list(raw)}
    )


def _read(value: object, place: int) -> float:
    listed = _listed(value)
    if listed is not None:
        if place >= len(listed):
            raise _wrong("missing_field")
        value = listed[place]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong("not_finite")
    if not 0.0 <= value <= 1.0:
        raise _wrong("missing_field")
    return float(value)


def _listed(value: object) -> Sequence[object] | None:
    if isinstance(value, list | tuple):
        return cast("Sequence[object]", value)
    convert = getattr(value, "tolist", None)  # an array of the library
    found: object = convert() if callable(convert) else None
    return cast("Sequence[object]", found) if isinstance(found, list) else None


def _wrong(detail: str) -> ReplyError:
    return ReplyError("the guard's answer cannot be used", detail=detail)
