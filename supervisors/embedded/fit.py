"""Fit one head: hashed features to a sparse matrix, logistic regression, out-of-fold Platt calibration.

numpy, scipy and scikit-learn (extra ``train``) are imported inside the functions that need them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from math import sqrt
from typing import Any

from supervisors.embedded.calibrate import fit_platt
from supervisors.embedded.features import count_features, cut_windows, norm_text
from supervisors.embedded.model import HeadName, Tables
from supervisors.embedded.reading import Row

C = 20.0
MAX_ITERATIONS = 300
TOLERANCE = 1e-4
FOLDS = 5


@dataclass(frozen=True, slots=True)
class Fit:
    """One trained head in full precision, with its Platt numbers."""

    bias: float
    tables: Tables
    a: float
    b: float
    positives: int
    negatives: int


def fit_head(rows: Sequence[tuple[str, Row]], head: HeadName, bits: int) -> Fit:
    """Train one head on the rows that have a label for it."""
    import_module("sklearn.linear_model")  # a BLAS that is loaded later would not be held to one thread
    threads: Any = import_module("threadpoolctl")  # optional extra, without types
    used = [(dataset, row.text, label) for dataset, row in rows if (label := _label(row, head)) is not None]
    matrix = _to_matrix([text for _, text, _ in used], bits)
    labels = [label for _, _, label in used]
    folds = _assign_folds([(dataset, text) for dataset, text, _ in used])
    with threads.threadpool_limits(limits=1):
        coefficients, bias = _regress(matrix, labels)
        logits = _score_out_of_fold(matrix, labels, folds)
    a, b = fit_platt(logits, [label == 1 for label in labels])
    size = 1 << bits
    tables = Tables(tuple(coefficients[:size]), tuple(coefficients[size:]))
    return Fit(bias, tables, a, b, sum(labels), len(labels) - sum(labels))


def _label(row: Row, head: HeadName) -> int | None:
    return row.harm if head == "harm" else row.injection


def _to_matrix(texts: Sequence[str], bits: int) -> Any:
    """Return the normalised counts of the first window of each text: words, then characters."""
    import numpy as np  # noqa: PLC0415 - optional extra
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - optional extra

    size = 1 << bits
    columns: list[int] = []
    values: list[float] = []
    ends = [0]
    for text in texts:
        counts = count_features(next(iter(cut_windows(norm_text(text)))), bits)
        for offset, table in ((0, counts.words), (size, counts.chars)):
            norm = sqrt(sum(count * count for count in table.values()))
            for bucket in sorted(table):
                columns.append(bucket + offset)
                values.append(table[bucket] / norm)
        ends.append(len(columns))
    return csr_matrix((np.array(values), np.array(columns), np.array(ends)), shape=(len(texts), 2 * size))


def _regress(matrix: Any, labels: Sequence[int]) -> tuple[list[float], float]:
    sklearn: Any = import_module("sklearn.linear_model")  # optional extra, without types
    model = sklearn.LogisticRegression(
        C=C, class_weight="balanced", solver="lbfgs", max_iter=MAX_ITERATIONS, tol=TOLERANCE
    ).fit(matrix, labels)
    return [float(value) for value in model.coef_[0]], float(model.intercept_[0])


def _assign_folds(keys: Sequence[tuple[str, str]]) -> list[int]:
    """Deal each source's texts, in the order of their hash, to the folds in turn."""
    by_source: dict[str, list[tuple[str, int]]] = {}
    for index, (dataset, text) in enumerate(keys):
        digest = hashlib.sha256(norm_text(text).encode("utf-8", "surrogatepass")).hexdigest()
        by_source.setdefault(dataset, []).append((digest, index))
    folds = [0] * len(keys)
    for ranked in by_source.values():
        for place, (_, index) in enumerate(sorted(ranked)):
            folds[index] = place % FOLDS
    return folds


def _score_out_of_fold(matrix: Any, labels: Sequence[int], folds: Sequence[int]) -> list[float]:
    import numpy as np  # noqa: PLC0415 - optional extra

    logits = [0.0] * len(labels)
    for fold in range(FOLDS):
        inside = [index for index, found in enumerate(folds) if found == fold]
        outside = [index for index, found in enumerate(folds) if found != fold]
        coefficients, bias = _regress(matrix[outside], [labels[index] for index in outside])
        for index, value in zip(inside, matrix[inside] @ np.array(coefficients), strict=True):
            logits[index] = float(value) + bias
    return logits
