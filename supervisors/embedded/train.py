"""Build the embedded guard from the data folder: weights, contamination list, manifest, figures.

Deterministic: no random choice anywhere, one thread. The libraries of the extra ``train`` are used by
`supervisors.embedded.fit` and `supervisors.embedded.exclusion` only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from supervisors.embedded.calibrate import BUDGETS, calibration_error, find_threshold
from supervisors.embedded.evaluate import (
    Evaluation,
    Gate,
    area_under_curve,
    check_gates,
    count_at_benign,
    measure_shares,
    summarise,
)
from supervisors.embedded.exclusion import NEAR
from supervisors.embedded.features import HASH, NORMALISER
from supervisors.embedded.fit import FOLDS, MAX_ITERATIONS, TOLERANCE, C, Fit, fit_head
from supervisors.embedded.heldout import CALIBRATION_NAME, WILD_HELD_OUT, HeldOut, read_calibration, read_held_out
from supervisors.embedded.items import contains_text, encode_items
from supervisors.embedded.model import (
    Header,
    HeadInfo,
    HeadName,
    Profile,
    SourceFile,
    TrainedOn,
    Weights,
    calibrate_score,
    decode_weights,
    encode_weights,
    score_text,
)
from supervisors.embedded.prepare import Prepared, prepare_rows, select_sources
from supervisors.errors import DatasetError

VERSION = "1"
HEADS: tuple[HeadName, ...] = ("harm", "injection")


@dataclass(frozen=True, slots=True)
class Build:
    """Everything one training run makes.

    Args:
        weights: bytes of ``embedded.gpeg``.
        items: bytes of ``embedded.items``.
        manifest: bytes of ``embedded.manifest.json``.
        header: header of the weights file.
        evaluation: figures on the held-out sets.
        gates: quality gates; empty for profile full, whose training set contains the sets they are measured on.
        prepared: training rows and counts.
        held_out: sets that the figures are about.
    """

    weights: bytes
    items: bytes
    manifest: bytes
    header: Header
    evaluation: Evaluation
    gates: tuple[Gate, ...]
    prepared: Prepared
    held_out: tuple[HeldOut, ...]


def train_guard(data: Path, profile: Profile, bits: int, trained_at: str) -> Build:
    """Train, calibrate and measure.

    Args:
        data: folder of public benchmark files.
        profile: which sources are used.
        bits: log2 of the number of buckets a table.
        trained_at: date stamped into the header; an input, so that equal inputs give equal bytes.

    Raises:
        DatasetError: a file is missing or differs from its card, or a source is a sister of a headline set.
    """
    trained = {source.dataset for source in select_sources(profile)}
    held_out = [held for held in read_held_out(data) if held.dataset not in trained]
    calibration = read_calibration(data)
    prepared = prepare_rows(data, profile, held_out, calibration)
    fits: dict[HeadName, Fit] = {head: fit_head(prepared.rows, head, bits) for head in HEADS}
    manifest = _write_manifest(prepared, profile, bits, held_out, calibration)
    header = _draft_header(fits, prepared, profile, bits, manifest).model_copy(update={"trained_at": trained_at})
    full = Weights(header, {head: fit.tables for head, fit in fits.items()})
    header = _set_thresholds(decode_weights(encode_weights(header, full.tables)), calibration)
    shipped = decode_weights(encode_weights(header, full.tables))
    evaluation = _evaluate(shipped, full, held_out, calibration)
    header = header.model_copy(update={"metrics": summarise(evaluation)})
    encoded = encode_weights(header, full.tables)
    items = encode_items(row.text for _, row in prepared.rows)
    _refuse_test_texts(items, held_out, calibration)
    gates = tuple(check_gates(evaluation)) if profile == "clean" else ()
    return Build(encoded, items, manifest, decode_weights(encoded).header, evaluation, gates, prepared, tuple(held_out))


def _draft_header(
    fits: Mapping[HeadName, Fit], prepared: Prepared, profile: Profile, bits: int, manifest: bytes
) -> Header:
    return Header(
        version=VERSION,
        profile=profile,
        bits=bits,
        heads={
            head: HeadInfo(
                bias=fit.bias, a=fit.a, b=fit.b, thresholds={}, positives=fit.positives, negatives=fit.negatives
            )
            for head, fit in fits.items()
        },
        normaliser=NORMALISER,
        hash=HASH,
        trained_at="",
        manifest_sha256=hashlib.sha256(manifest).hexdigest(),
        weights_sha256="",
        licence="Apache-2.0",
        trained_on=tuple(
            TrainedOn(
                dataset=source.dataset,
                files=tuple(SourceFile(path=path, sha256=sha256) for path, sha256 in source.files),
                items=prepared.counts[source.dataset].kept,
                role=source.role,
                licence=source.licence,
            )
            for source in select_sources(profile)
        ),
        calibrated_on=CALIBRATION_NAME,
        metrics={},
    )


def _set_thresholds(shipped: Weights, calibration: Sequence[str]) -> Header:
    logits = score_all(shipped, calibration)
    heads = {
        head: info.model_copy(
            update={"thresholds": {budget: find_threshold(logits[head], budget).z for budget in BUDGETS}}
        )
        for head, info in shipped.header.heads.items()
    }
    return shipped.header.model_copy(update={"heads": heads})


def score_all(weights: Weights, texts: Sequence[str]) -> dict[HeadName, list[float]]:
    """Return head → logit of each text.

    Raises:
        DatasetError: a text is empty.
    """
    logits: dict[HeadName, list[float]] = {head: [] for head in weights.tables}
    for number, text in enumerate(texts):
        found = score_text(weights, text)
        if found is None:
            msg = f"text {number} is empty: an empty text has no score"
            raise DatasetError(msg)
        for head, value in found.items():
            logits[head].append(value)
    return logits


def _evaluate(shipped: Weights, full: Weights, held_out: Sequence[HeldOut], calibration: Sequence[str]) -> Evaluation:
    scored = {held.name: score_all(shipped, held.texts) for held in held_out}
    benign = score_all(shipped, calibration)
    exact = score_all(full, calibration)
    harmful, harmless = scored["bells/harmful"]["harm"], scored["bells/benign"]["harm"]
    return Evaluation(
        auc=area_under_curve(harmful, harmless),
        curve_harmful=count_at_benign(harmful, harmless, 2),
        shares=measure_shares(scored, {head: info.thresholds for head, info in shipped.header.heads.items()}),
        calibration_error={
            head: _measure_calibration(shipped, head, held_out, scored, benign[head]) for head in shipped.header.heads
        },
        rounding={
            head: max(abs(x - y) for x, y in zip(benign[head], exact[head], strict=True))
            for head in shipped.header.heads
        },
    )


def _measure_calibration(
    shipped: Weights,
    head: HeadName,
    held_out: Sequence[HeldOut],
    scored: Mapping[str, Mapping[HeadName, Sequence[float]]],
    benign: Sequence[float],
) -> float:
    """Return the calibration error on texts nobody trained on: plain test sets, wild jailbreaks, benign texts."""
    logits, labels = list(benign), [False] * len(benign)
    for held in held_out:
        wild = held.dataset == WILD_HELD_OUT
        positive = wild if head == "injection" else held.harmful
        if positive is None or "/wrapped-" in held.name:
            continue
        logits += scored[held.name][head]
        labels += [positive] * len(held.texts)
    info = shipped.header.heads[head]
    return calibration_error([calibrate_score(info, value) for value in logits], labels)


def _write_manifest(
    prepared: Prepared, profile: Profile, bits: int, held_out: Sequence[HeldOut], calibration: Sequence[str]
) -> bytes:
    """Return what the model was made from: versions, digests, counts, exclusions. The platform is left out."""
    training = encode_items(row.text for _, row in prepared.rows)
    facts = {
        "profile": profile,
        "features": {"bits": bits, "normaliser": NORMALISER, "hash": HASH},
        "solver": {
            "model": "logistic regression, L2, balanced class weights, lbfgs, one thread",
            "C": C,
            "max_iterations": MAX_ITERATIONS,
            "tolerance": TOLERANCE,
            "calibration_folds": FOLDS,
        },
        "packages": {name: version(name) for name in ("numpy", "scikit-learn", "scipy")},
        "sources": [
            {
                "dataset": source.dataset,
                "files": dict(source.files),
                "role": source.role,
                "licence": source.licence,
                "rows": asdict(prepared.counts[source.dataset]),
                "shared_with": prepared.shared_with.get(source.dataset, {}),
            }
            for source in select_sources(profile)
        ],
        "near_duplicate_jaccard": NEAR,
        "training_items_sha256": hashlib.sha256(training).hexdigest(),
        "held_out": {held.name: [len(held.texts), hash_texts(held.texts)] for held in held_out},
        "calibration": {CALIBRATION_NAME: [len(calibration), hash_texts(calibration)]},
    }
    return (json.dumps(facts, ensure_ascii=False, indent=1) + "\n").encode()


def hash_texts(texts: Sequence[str]) -> str:
    """Return one digest over texts in order."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    return digest.hexdigest()


def _refuse_test_texts(items: bytes, held_out: Sequence[HeldOut], calibration: Sequence[str]) -> None:
    for name, texts in [*((held.name, held.texts) for held in held_out), (CALIBRATION_NAME, calibration)]:
        found = sum(contains_text(items, text) for text in texts)
        if found:
            msg = f"{found} texts of the test set {name} are in the training list"
            raise DatasetError(msg)
