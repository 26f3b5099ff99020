"""Keep test texts out of training: near-duplicates and sister sets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from supervisors.embedded.features import norm_text
from supervisors.errors import DatasetError

NEAR = 0.4
"""Jaccard similarity of word sets from which a training text counts as a copy of a test text."""
CORPUS_NEAR = 0.6
"""The same between an own text and any data set, for the claim that it is original."""
SISTER_SHARED = 2
"""Two sets that share this many distinct texts are sisters."""

_WORDS = re.compile(r"[a-z]+")


def word_set(text: str) -> frozenset[str]:
    """Return the set of lower-cased a–z words."""
    return frozenset(_WORDS.findall(text.lower()))


def find_near(texts: Sequence[str], others: Sequence[str], limit: float) -> list[float]:
    """Return for each text its highest word-set Jaccard similarity with any of `others`, 0.0 when below `limit`.

    Needs numpy and scipy (extra ``train``).
    """
    import numpy as np  # noqa: PLC0415 - optional extra
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - optional extra

    left = [word_set(text) for text in texts]
    right = [word_set(text) for text in others]
    index = {word: number for number, word in enumerate(sorted({word for words in (*left, *right) for word in words}))}

    def to_matrix(sets: Sequence[frozenset[str]]) -> Any:
        columns = [index[word] for words in sets for word in sorted(words)]
        ends = np.cumsum([0, *map(len, sets)])
        return csr_matrix((np.ones(len(columns), np.int32), columns, ends), shape=(len(sets), len(index)))

    a, b = to_matrix(left), to_matrix(right).T.tocsc()
    sizes = np.array([len(words) for words in right])
    best: list[float] = []
    for start in range(0, len(left), 512):
        shared = (a[start : start + 512] @ b).toarray()
        own = np.array([len(words) for words in left[start : start + 512]])[:, None]
        union = np.maximum(own + sizes[None, :] - shared, 1)
        best += (shared / union).max(axis=1, initial=0.0).tolist()
    return [value if value >= limit else 0.0 for value in best]


def count_shared(texts: Sequence[str], others: Sequence[str]) -> int:
    """Count distinct normalised texts that are in both."""
    return len({norm_text(text) for text in texts} & {norm_text(text) for text in others})


def refuse_sisters(dataset: str, texts: Sequence[str], headline: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the number of texts shared with each headline set.

    Raises:
        DatasetError: the source shares `SISTER_SHARED` or more with one of them.
    """
    shared = {name: count_shared(texts, others) for name, others in headline.items()}
    for name, count in shared.items():
        if count >= SISTER_SHARED:
            msg = f"{dataset} shares {count} texts with the headline set {name}: profile clean allows at most 1"
            raise DatasetError(msg)
    return {name: count for name, count in shared.items() if count}
