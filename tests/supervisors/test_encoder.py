"""Encoder cards and the way from class scores to a verdict (guards §7, GP-12, GU-09, GU-21, GU-22; rows 80 to 90)."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from supervisors.encoder import (
    EncoderCard,
    WrongScores,
    judge_row,
    list_encoders,
    load_encoder,
    read_classify,
    read_predict,
    resolve_encoder,
    to_probabilities,
)
from supervisors.types import Cause, Label

PG2 = load_encoder("llama-prompt-guard-2-86m")
PG1 = load_encoder("prompt-guard-86m")
NOTHING: list[object] = []


@pytest.mark.parametrize("name", list_encoders())
def test_every_card_is_whole_and_each_class_of_it_decides(name: str) -> None:
    card = load_encoder(name)
    assert EncoderCard.model_validate(card.model_dump(mode="json")) == card
    for index, risk in enumerate(card.names):
        row = [1.0 if each == index else 0.0 for each in range(len(card.classes))]
        verdict = judge_row(card, row)
        assert (verdict.label is Label.UNSAFE) == (risk in card.unsafe)
        if risk in card.unsafe:
            assert verdict.categories == card.categories[risk]


@pytest.mark.parametrize(
    ("card", "logits", "document", "label", "score"),
    [
        (PG2, [2.0, -1.0], False, Label.SAFE, 0.0474),  # 80
        (PG2, [-0.3, 1.2], False, Label.UNSAFE, 0.8176),  # 81
        (PG1, [1.0, 2.0, 0.5], False, Label.SAFE, 0.1402),  # 84
        (PG1, [1.0, 2.0, 0.5], True, Label.UNSAFE, 0.7688),  # 85
    ],
)
def test_golden_logits(card: EncoderCard, logits: list[float], document: bool, label: Label, score: float) -> None:
    verdict = judge_row(card, to_probabilities(card, logits), document=document)
    assert verdict.label is label
    assert verdict.score == pytest.approx(score, abs=5e-5)


def test_sigmoid_outputs_count_one_by_one() -> None:  # 86
    card = load_encoder("duoguard-0.5b")
    verdict = judge_row(card, to_probabilities(card, [0.2 if index == 1 else -2.0 for index in range(12)]))
    assert (verdict.label, verdict.categories) == (Label.UNSAFE, ("crime",))
    assert verdict.score == pytest.approx(0.5498, abs=5e-5)


def test_the_threshold_itself_flags_or_not_as_the_card_says() -> None:  # 87, GU-21
    card = load_encoder("protectai-injection-v2")
    assert judge_row(card, [0.08, 0.92]).label is Label.SAFE
    assert judge_row(card, [0.0799, 0.9201]).label is Label.UNSAFE
    assert judge_row(PG2, [0.5, 0.5]).label is Label.UNSAFE
    assert judge_row(card, [0.5, 0.5], threshold=0.49).label is Label.UNSAFE


def test_identities_are_no_risks() -> None:  # 88
    card = load_encoder("toxic-roberta")
    row = [0.05] * 16
    row[card.names.index("female")] = 0.99
    verdict = judge_row(card, row)
    assert (verdict.label, verdict.score) == (Label.SAFE, 0.05)


@pytest.mark.parametrize("logits", [[math.nan, 0.1], [math.inf, 0.1], [0.1], [0.1, 0.2, 0.3], NOTHING])
def test_logits_that_are_not_finite_or_too_few_are_unreadable(logits: list[float]) -> None:  # 90
    with pytest.raises(WrongScores):
        to_probabilities(PG2, logits)


def test_large_logits_do_not_overflow() -> None:
    assert to_probabilities(PG2, [-1e308, 1e308]) == (0.0, 1.0)
    duo = load_encoder("duoguard-0.5b")
    assert to_probabilities(duo, [1e308, *[-1e308] * 11])[:2] == (1.0, 0.0)


def test_a_risk_inside_the_band_abstains() -> None:
    inside = judge_row(PG2, [0.5, 0.5], abstain=(0.3, 0.7))
    assert (inside.cause, inside.score) == (Cause.ABSTAINED, 0.5)
    assert judge_row(PG2, [0.3, 0.7], abstain=(0.3, 0.7)).label is Label.UNSAFE
    assert judge_row(PG2, [0.7, 0.3], abstain=(0.3, 0.7)).label is Label.SAFE


def test_the_refusal_detector_states_a_fact_and_is_always_safe() -> None:
    verdict = judge_row(load_encoder("rejection"), [0.1, 0.9])
    assert (verdict.label, verdict.extras["refusal"]) == (Label.SAFE, True)


def test_predict_replies_are_sorted_by_score_so_the_label_counts() -> None:  # 82
    rows = [{"label": "LABEL_1", "score": 0.8}, {"label": "LABEL_0", "score": 0.2}]
    assert read_predict(PG2, rows, 1) == [(0.2, 0.8)]
    assert read_predict(PG2, [rows, rows], 2) == [(0.2, 0.8)] * 2
    assert read_predict(PG2, [[{"label": "malicious", "score": 1.0}, {"label": "Benign", "score": 0}]], 1) == [
        (0.0, 1.0)
    ]


def test_classify_replies_are_in_index_order() -> None:  # 83
    row = {"index": 0, "label": "LABEL_0", "probs": [0.97, 0.03], "num_classes": 2}
    assert read_classify(PG2, {"data": [row]}, 1) == [(0.97, 0.03)]
    two = [{"index": 1, "probs": [0.1, 0.9]}, {"index": 0, "probs": [0.9, 0.1]}]
    assert read_classify(PG2, {"data": two}, 2) == [(0.9, 0.1), (0.1, 0.9)]


@pytest.mark.parametrize(
    "answer",
    [
        NOTHING,
        {"error": "x"},
        [{"label": "LABEL_1", "score": 0.8}],
        [{"label": "LABEL_1", "score": 0.8}, {"label": "LABEL_1", "score": 0.2}],
        [{"label": "LABEL_1", "score": 0.8}, {"label": "LABEL_2", "score": 0.2}],
        [{"label": "LABEL_1", "score": None}, {"label": "LABEL_0", "score": 0.2}],
        [{"label": "LABEL_1", "score": math.nan}, {"label": "LABEL_0", "score": 0.2}],
        [{"label": "LABEL_1", "score": 1.8}, {"label": "LABEL_0", "score": 0.2}],
        [{"label": "LABEL_1", "score": True}, {"label": "LABEL_0", "score": 0.2}],
        [[{"label": "LABEL_0", "score": 1.0}], NOTHING],
    ],
)
def test_a_predict_reply_with_classes_missing_doubled_or_unknown_is_unreadable(answer: object) -> None:
    with pytest.raises(WrongScores):
        read_predict(PG2, answer, 1)


@pytest.mark.parametrize(
    "rows",
    [
        NOTHING,
        [{"index": 0, "probs": [0.9]}],
        [{"index": 0, "probs": [0.9, "0.1"]}],
        [{"index": 0, "label": "LABEL_0"}],
        [{"index": 1, "probs": [0.9, 0.1]}],
        [{"index": 0, "probs": [0.9, 0.1]}, {"index": 0, "probs": [0.9, 0.1]}],
    ],
)
def test_a_classify_reply_with_rows_missing_or_doubled_is_unreadable(rows: object) -> None:
    with pytest.raises(WrongScores):
        read_classify(PG2, {"data": rows}, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unsafe": ["EVIL"]}, "no class is called EVIL; there are BENIGN, MALICIOUS"),
        ({"categories": {"MALICIOUS": ["bad"]}}, "not a canonical category: bad"),
        ({"unsafe": [], "categories": {}}, "names its unsafe classes"),
        ({"overlap_tokens": 400}, "more than half of max_tokens"),
        ({"classes": [["BENIGN"]]}, "at least 2"),
    ],
)
def test_a_card_that_cannot_work_says_why(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        EncoderCard.model_validate(resolve_encoder({"base": "llama-prompt-guard-2-86m", **change}))


def test_an_unknown_card_names_the_known_ones() -> None:
    words = (
        r"unknown encoder card 'prompt-gard'; did you mean 'prompt-guard-86m'\? built in are llama-prompt-guard-2-86m"
    )
    with pytest.raises(ValueError, match=words):
        load_encoder("prompt-gard")
