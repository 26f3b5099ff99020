"""Dataset cards, readers and loaders. See docs/datasets.md.

A data set is data: one TOML card says where the bytes come from, what the columns mean and what must be counted.
"""

from evals.datasets.card import Card, requires_labels, requires_negatives
from evals.datasets.load import (
    Drift,
    Loaded,
    State,
    Verification,
    how_to_obtain,
    load,
    read_dataset,
    state,
    verify,
)
from evals.datasets.registry import Listed, list_cards, load_card

__all__ = [
    "Card",
    "Drift",
    "Listed",
    "Loaded",
    "State",
    "Verification",
    "how_to_obtain",
    "list_cards",
    "load",
    "load_card",
    "read_dataset",
    "requires_labels",
    "requires_negatives",
    "state",
    "verify",
]
