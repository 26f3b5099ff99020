"""Encoder guards: their cards, and the way from class probabilities to a verdict (guards §7)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from supervisors.errors import ReplyError
from supervisors.shelf import Shelf, check_canonical
from supervisors.types import Cause, Label, Verdict

Rows = list[tuple[float, ...]]
"""Probabilities: a row a window, in the order of the card's classes."""

Task = Literal["harm", "injection", "jailbreak", "refusal", "toxicity"]


class EncoderCard(BaseModel):
    """What the classes of one model mean.

    Args:
        name: id used in configs.
        hub_id: where the weights are published.
        revision: 40 hex digits once known.
        task: what it looks for.
        judges: side it was trained to assess.
        activation: from logits to probabilities; ``none`` when the model gives probabilities.
        by: whether a class is found by its index, or by its name in the model's own ``id2label``.
        classes: spellings of each class, in index order.
        unsafe: first spellings of the classes that are risks.
        unsafe_document: the same for third-party text; None takes `unsafe`.
        categories: canonical categories of each risk.
        refusal: class that says that a reply declines; it sets a fact, never the label.
        threshold: risk from which a text is unsafe.
        threshold_op: whether the threshold itself is.
        max_tokens: longest input in tokens, special ones included.
        overlap_tokens: tokens two windows share.
        pair: judges a response together with its prompt.
        onnx_file: path of the graph in the model's folder.
        licence: for orientation; the model's own page counts.
        gated: the hub asks for acceptance of terms.
        remote_code: the model needs code of its repository.
        size_mb: size of the weights where known.
        languages: languages it was made for.
        trained_on: data sets it has seen.
        notes: what an operator has to know.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    hub_id: str = ""
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    task: tuple[Task, ...] = Field(min_length=1)
    judges: Literal["prompt", "response", "both"]
    activation: Literal["softmax", "sigmoid", "none"]
    by: Literal["index", "name"] = "index"
    classes: tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...] = Field(min_length=2)
    unsafe: tuple[str, ...]
    unsafe_document: tuple[str, ...] | None = None
    categories: Mapping[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    refusal: str = ""
    threshold: float = Field(default=0.5, ge=0.0, le=1.0)
    threshold_op: Literal["ge", "gt"] = "ge"
    max_tokens: int = Field(default=512, ge=16)
    overlap_tokens: int = Field(default=64, ge=0)
    pair: bool = False
    onnx_file: str = "model.onnx"
    licence: str
    gated: bool = False
    remote_code: bool = False
    size_mb: int | None = None
    languages: tuple[str, ...] = ()
    trained_on: tuple[str, ...] = ()
    notes: str = ""

    @model_validator(mode="after")
    def _check(self) -> EncoderCard:
        names = self.names
        used = [
            *self.unsafe,
            *(self.unsafe_document or ()),
            *self.categories,
            *([self.refusal] if self.refusal else []),
        ]
        strange = [name for name in used if name not in names]
        if strange:
            msg = f"no class is called {', '.join(dict.fromkeys(strange))}; there are {', '.join(names)}"
            raise ValueError(msg)
        check_canonical(self.categories.values())
        if not self.unsafe and not self.refusal:
            msg = "a card names its unsafe classes, or the class that says that a reply declines"
            raise ValueError(msg)
        if self.overlap_tokens * 2 > self.max_tokens:
            msg = f"overlap_tokens {self.overlap_tokens} is more than half of max_tokens {self.max_tokens}"
            raise ValueError(msg)
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Return the first spelling of every class, in index order."""
        return tuple([spellings[0] for spellings in self.classes])

    def find_class(self, label: str) -> int | None:
        """Return the index of a class by any spelling in any case, as this card counts them."""
        folded = label.strip().casefold()
        for index, spellings in enumerate(self.classes):
            if folded in [spelling.casefold() for spelling in spellings]:
                return index
        return None

    def risks(self, *, document: bool) -> tuple[str, ...]:
        """Return the classes that count for a text of the user or of a third party."""
        return self.unsafe_document if document and self.unsafe_document is not None else self.unsafe


_SHELF: Final = Shelf("supervisors", "encoders.toml", "encoder card")


def list_encoders() -> tuple[str, ...]:
    """Return the names of the built-in cards."""
    return _SHELF.names


def load_encoder(name: str) -> EncoderCard:
    """Build a built-in card.

    Raises:
        ValueError: unknown name.
    """
    return EncoderCard.model_validate(resolve_encoder(name))


def resolve_encoder(entry: object) -> object:
    """Turn what `card:` may hold, a name or a mapping with `base:`, into the fields of a card.

    Raises:
        ValueError: an unknown name.
    """
    return _SHELF.resolve(entry)


class WrongScores(ReplyError):
    """Class scores that cannot be used: too few, not finite, of an unknown label, outside 0..1."""

    def __init__(self, detail: str) -> None:
        super().__init__("the classifier's scores cannot be used", detail=detail)


def to_probabilities(card: EncoderCard, logits: Sequence[float]) -> tuple[float, ...]:
    """Turn a row of logits into probabilities (GP-12).

    Raises:
        WrongScores: another number of classes than the card's, or a number that is not finite.
    """
    if len(logits) != len(card.classes):
        raise WrongScores("missing_field")
    if not all(math.isfinite(value) for value in logits):
        raise WrongScores("not_finite")
    match card.activation:
        case "softmax":
            top = max(logits)
            powers = [math.exp(value - top) for value in logits]
            return tuple([power / math.fsum(powers) for power in powers])
        case "sigmoid":
            return tuple([_sigmoid(value) for value in logits])
        case "none":
            return check_probabilities(card, logits)


def read_logits(card: EncoderCard, order: Sequence[int], logits: Sequence[Sequence[float]], expected: int) -> Rows:
    """Return the probabilities of rows that a model in the process gave.

    Args:
        card: what the classes mean.
        order: for each class of the card, the model's index of it.
        logits: a row a window.
        expected: windows.

    Raises:
        WrongScores: another number of rows or classes, or numbers that are none.
    """
    if len(logits) != expected or any(len(row) != len(order) for row in logits):
        raise WrongScores("missing_field")
    return [to_probabilities(card, [row[index] for index in order]) for row in logits]


def _sigmoid(value: float) -> float:
    if value >= 0:
        return 1.0 / (1.0 + math.exp(-value))
    power = math.exp(value)
    return power / (1.0 + power)


def check_probabilities(card: EncoderCard, values: Sequence[object]) -> tuple[float, ...]:
    """Return a row of probabilities a server gave.

    Raises:
        WrongScores: another number of classes than the card's, or no number in 0..1.
    """
    if len(values) != len(card.classes):
        raise WrongScores("missing_field")
    found: list[float] = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise WrongScores("not_finite")
        if not 0.0 <= value <= 1.0:
            raise WrongScores("missing_field")
        found.append(float(value))
    return tuple(found)


def judge_row(
    card: EncoderCard,
    row: Sequence[float],
    *,
    threshold: float | None = None,
    abstain: tuple[float, float] | None = None,
    document: bool = False,
) -> Verdict:
    """Judge one text by the probabilities of its classes.

    Args:
        card: whose classes they are.
        row: probabilities in the card's order.
        threshold: instead of the card's.
        abstain: band of risks in which the verdict is ``unknown/abstained``, ends excluded.
        document: the text is a third party's.
    """
    scores = dict(zip(card.names, row, strict=True))
    limit = card.threshold if threshold is None else threshold
    extras: dict[str, object] = {"score_kind": "probability"}
    if card.refusal:
        extras["refusal"] = _reaches(card, scores[card.refusal], limit)
    risks = card.risks(document=document)
    if not risks:
        return Verdict(Label.SAFE, score=0.0, extras=extras)
    several = card.activation == "sigmoid"
    risk = max([scores[name] for name in risks]) if several else min(1.0, math.fsum([scores[name] for name in risks]))
    if abstain is not None and abstain[0] < risk < abstain[1]:
        return Verdict(Label.UNKNOWN, Cause.ABSTAINED, risk, extras=extras)
    if not _reaches(card, risk, limit):
        return Verdict(Label.SAFE, score=risk, extras=extras)
    top = max(risks, key=lambda name: scores[name])
    raw = [name for name in risks if _reaches(card, scores[name], limit)] if several else [top]
    found = tuple(dict.fromkeys(category for name in raw for category in card.categories.get(name, ("other",))))
    return Verdict(Label.UNSAFE, score=risk, categories=found, extras={**extras, "raw_categories": raw})


def _reaches(card: EncoderCard, risk: float, limit: float) -> bool:
    return risk >= limit if card.threshold_op == "ge" else risk > limit


def read_classify(card: EncoderCard, answer: object, expected: int) -> list[tuple[float, ...]]:
    """Read ``data[i].probs`` of vLLM and SGLang, which are in index order (GU-09).

    Raises:
        WrongScores: fewer rows than texts, one twice, or a row that is none.
    """
    data = _member(answer, "data")
    rows = cast("list[object]", data) if isinstance(data, list) else []
    found: dict[int, tuple[float, ...]] = {}
    for position, row in enumerate(rows):
        index = _member(row, "index")
        place = index if isinstance(index, int) and not isinstance(index, bool) else position
        probs = _member(row, "probs")
        if not isinstance(probs, list) or place in found:
            raise WrongScores("missing_verdict")
        found[place] = check_probabilities(card, cast("list[object]", probs))
    if sorted(found) != list(range(expected)):
        raise WrongScores("missing_verdict")
    return [found[place] for place in range(expected)]


def read_predict(card: EncoderCard, answer: object, expected: int) -> list[tuple[float, ...]]:
    """Read ``[{label, score}]`` of Text Embeddings Inference and the inference API, sorted by score (GU-09).

    Raises:
        WrongScores: fewer rows than texts, fewer classes than the card's, or an unknown label.
    """
    rows = cast("list[object]", answer) if isinstance(answer, list) else []
    if expected == 1 and rows and not isinstance(rows[0], list):
        rows = [rows]
    if len(rows) != expected or not all(isinstance(row, list) for row in rows):
        raise WrongScores("missing_verdict")
    return [_read_labels(card, cast("list[object]", row)) for row in rows]


def _read_labels(card: EncoderCard, entries: Sequence[object]) -> tuple[float, ...]:
    found: dict[int, object] = {}
    for entry in entries:
        label = _member(entry, "label")
        index = card.find_class(label) if isinstance(label, str) else None
        if index is None:
            raise WrongScores("unknown_label")
        if index in found:
            raise WrongScores("contradiction")
        found[index] = _member(entry, "score")
    if len(found) != len(card.classes):
        raise WrongScores("missing_field")
    return check_probabilities(card, [found[index] for index in range(len(found))])


def _member(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None
