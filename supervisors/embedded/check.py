"""Compare a fresh build with the shipped files, for the job that re-trains in CI."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from supervisors.embedded.evaluate import Evaluation
from supervisors.embedded.model import Weights, decode_weights, score_text
from supervisors.embedded.train import Build

AUC_TOLERANCE = 0.005
FLAGGED_TOLERANCE = 2


def compare_build(build: Build, shipped: bytes, items: bytes, calibration: Sequence[str]) -> list[str]:
    """Return what differs beyond the tolerance, one sentence each; nothing when the bytes are equal.

    Args:
        build: fresh build with the shipped date.
        shipped: bytes of the shipped weights file.
        items: bytes of the shipped contamination list.
        calibration: calibration texts, on which the flagged sets are compared.
    """
    if build.weights == shipped and build.items == items:
        return []
    old = decode_weights(shipped, "shipped weights")
    new = decode_weights(build.weights)
    wrong: list[str] = []
    if new.header.manifest_sha256 != old.header.manifest_sha256:
        wrong.append(
            f"manifest sha256 is {new.header.manifest_sha256}, shipped is {old.header.manifest_sha256}: "
            "inputs or package versions differ"
        )
    if build.items != items:
        wrong.append(f"contamination list differs: sha256 {hashlib.sha256(build.items).hexdigest()}")
    wrong += _compare_quality(build.evaluation, old)
    wrong += _compare_flagged(new, old, calibration)
    return wrong


def _compare_quality(evaluation: Evaluation, old: Weights) -> list[str]:
    shipped = old.header.metrics.get("bells_auc")
    if isinstance(shipped, float) and abs(evaluation.auc - shipped) <= AUC_TOLERANCE:
        return []
    return [f"BELLS AUC is {evaluation.auc:.4f}, shipped is {shipped}: more than {AUC_TOLERANCE} apart"]


def _compare_flagged(new: Weights, old: Weights, calibration: Sequence[str]) -> list[str]:
    wrong: list[str] = []
    differing = dict.fromkeys(old.header.heads, 0)
    for text in calibration:
        fresh, before = score_text(new, text) or {}, score_text(old, text) or {}
        for head in old.header.heads:
            limits = [weights.header.heads[head].thresholds["0.05"] for weights in (new, old)]
            differing[head] += (fresh[head] > limits[0]) != (before[head] > limits[1])
    for head, count in differing.items():
        if count > FLAGGED_TOLERANCE:
            wrong.append(f"head {head} flags {count} calibration texts differently; at most {FLAGGED_TOLERANCE} may")
    return wrong
