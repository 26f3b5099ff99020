"""Labels: what a cell says about an item, in three values (DS-11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evals.datasets.card import FilePin, LabelRule, View
from evals.types import Truth

_VOTES: Mapping[str, float] = {"true": 1.0, "false": 0.0}


def fold_label(value: object) -> str | None:
    """Return the comparable text of a label cell: booleans and numbers spelled one way, None when missing.

    TRUE, True and ``true`` become ``true``; 1, 1.0, ``"1"`` and ``"1.0"`` become ``1``.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN is the only value unlike itself
        return None
    text = str(value).strip().casefold()
    whole, dot, rest = text.partition(".")
    if dot and whole.lstrip("-").isdigit() and rest and not rest.strip("0"):
        text = whole
    return text or None


def judge_row(rule: LabelRule, row: Mapping[str, object], pin: FilePin, view: View | None) -> tuple[Truth, str | None]:
    """Return the truth of a row and the label as the file has it.

    Anything absent, empty or outside the card's map is unknown; unknown is never benign.
    """
    match rule.rule:
        case "constant":
            return rule.value or Truth.UNKNOWN, None
        case "column":
            return _mapped(rule, row)
        case "any_of":
            return _any_of(rule.columns, row)
        case "split":
            return pin.truth or Truth.UNKNOWN, pin.split
        case "paired":
            truth = view.truth if view else None
            return truth or Truth.UNKNOWN, view.name if view else None
        case "none":
            return Truth.UNKNOWN, None


def vote_share(raters: Sequence[str], row: Mapping[str, object]) -> float | None:
    """Return the mean of the votes on a row: yes and no, or grades from 0 to 1 (Q-35, H-144).

    A rater who gave none is left out; a vote of another kind, such as the name of a behaviour, makes all of them
    incomparable: None.
    """
    votes: list[float] = []
    for name in raters:
        folded = fold_label(row.get(name))
        if folded is None:
            continue
        try:
            vote = _VOTES[folded] if folded in _VOTES else float(folded)
        except ValueError:
            return None
        if not 0 <= vote <= 1:
            return None
        votes.append(vote)
    return sum(votes) / len(votes) if votes else None


def _mapped(rule: LabelRule, row: Mapping[str, object]) -> tuple[Truth, str | None]:
    value = row.get(rule.column)
    folded = fold_label(value)
    truth = Truth.UNKNOWN if folded is None else _look_up(rule.map, folded)
    return truth, None if value is None else str(value)


def _look_up(known: Mapping[str, Truth], folded: str) -> Truth:
    """Find the truth of a label; the key ``!x`` means everything but x (BO-01) and yields to a key of its own."""
    for key, truth in known.items():
        if fold_label(key) == folded:
            return truth
    for key, truth in known.items():
        if key.startswith("!") and fold_label(key[1:]) != folded:
            return truth
    return Truth.UNKNOWN


def _any_of(columns: Sequence[str], row: Mapping[str, object]) -> tuple[Truth, str | None]:
    """Join 0/1 labels: an absent one is missing, not 0 (T-14)."""
    cells = {name: fold_label(row.get(name)) for name in columns}
    shown = ",".join(f"{name}={cell}" for name, cell in cells.items() if cell is not None)
    if "1" in cells.values():
        return Truth.HARMFUL, shown
    if all(cell == "0" for cell in cells.values()):
        return Truth.BENIGN, shown
    return Truth.UNKNOWN, shown
