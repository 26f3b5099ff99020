from __future__ import annotations

import math
from random import Random

import pytest

from evals.operating.logistic import cross_fit, fit, joint_name, with_joint
from evals.operating.scores import Judged, choose_members
from evals.operating.tables import matrix_lines
from evals.operating.transfer import Matrix, Part, make_matrix, model_pairs, prepare_pairs
from evals.types import Item, Truth
from supervisors.errors import ConfigError
from supervisors.types import Cause, Label
from tests.evals.operating.made_up import judged, said

pytest.importorskip("sklearn", reason="pip install 'guardrail-proxy[train]'")
BOTH = ("a@input", "b@input")


def noisy(seed: int, dataset: str = "made") -> list[Judged]:
    """Return 200 items whose two scores each see half of what makes an item harmful; a third sees nothing."""
    draw = Random(seed)  # noqa: S311 - made-up data
    rows: list[Judged] = []
    for n in range(200):
        harmful = n % 2 == 0
        pair = [draw.gauss(1.0 if harmful else 0.0, 1.0) for _ in range(2)]
        scores = [1 / (1 + math.exp(-one)) for one in pair]
        verdicts = {"a": said(scores[0]), "b": said(scores[1]), "noise": said(draw.random())}
        rows.append(judged(n, "harmful" if harmful else "benign", verdicts, dataset))
    return rows


def auc(rows: list[Judged], name: str) -> float:
    good = [one.scored(name).score or 0.0 for one in rows if one.harmful]
    bad = [one.scored(name).score or 0.0 for one in rows if not one.harmful]
    return sum([(x > y) + 0.5 * (x == y) for x in good for y in bad]) / (len(good) * len(bad))


def test_a_model_of_two_halves_beats_both_on_items_it_has_not_seen() -> None:  # H-160
    train, test = noisy(1), noisy(2)
    model = fit(train, BOTH)
    assert model is not None
    joint = joint_name(BOTH)
    scored = list(with_joint(test, model, joint))
    assert auc(scored, joint) > max(auc(scored, name) for name in BOTH) + 0.02
    assert all(feature.weight > 0.5 for feature in model.features)


def test_scores_enter_as_log_odds_and_a_constant_score_has_no_weight() -> None:
    """Two items of each class at two scores: by symmetry the odds are even in the middle."""
    made = [("harmful", 0.9), ("harmful", 0.9), ("benign", 0.1), ("benign", 0.1)]
    rows = [judged(n, truth, {"a": said(score), "b": said(0.5)}) for n, (truth, score) in enumerate(made)]
    model = fit(rows, BOTH)
    assert model is not None
    middle = judged(9, "benign", {"a": said(0.5), "b": said(0.5)})
    assert model.score(middle) == pytest.approx(0.5, abs=1e-6)
    assert model.features[1].weight == pytest.approx(0.0, abs=1e-6)


def test_an_item_that_one_member_did_not_score_is_unknown_never_safe() -> None:  # H-160, Q-02
    model = fit(noisy(1), BOTH)
    assert model is not None
    lost = judged(7, "harmful", {"a": said(0.9), "b": said(None)})
    verdict = with_joint([lost], model, "joint")[0].said["joint"]
    assert (verdict.label, verdict.cause, verdict.score) == (Label.UNKNOWN, Cause.TIMEOUT, None)


def test_one_class_has_no_model() -> None:
    only = [one for one in noisy(1) if one.harmful]
    assert fit(only, BOTH) is None
    assert cross_fit(only, BOTH, 0) is None


def test_a_threshold_is_set_on_scores_of_items_outside_the_fit() -> None:
    """Variants of one root stay in one fold, and no item keeps the score of a model that saw it."""
    rows = noisy(3)
    whole = fit(rows, BOTH)
    crossed = cross_fit(rows, BOTH, 0)
    assert whole is not None
    assert crossed is not None
    assert [one.item_id for one in crossed] == [one.item_id for one in rows]
    inside = with_joint(rows, whole, joint_name(BOTH))
    pairs = [(one.scored(joint_name(BOTH)).score, two.scored(joint_name(BOTH)).score)
             for one, two in zip(crossed, inside, strict=True)]  # fmt: skip
    assert all(one != two for one, two in pairs)


def part(name: str, rows: list[Judged]) -> Part:
    items = [
        Item(name, "all", n, one.item_id, one.cluster, "prompt", f"{name} {n} umbrella", Truth.HARMFUL)
        for n, one in enumerate(rows)
    ]
    return Part(name, tuple(rows), tuple(items))


def matrix(*parts: Part) -> Matrix:
    prepared = model_pairs(prepare_pairs(parts, 0), BOTH, 0)
    return make_matrix(prepared, joint_name(BOTH), 0.05)


def test_a_matrix_of_models_names_their_weights_and_what_has_none() -> None:  # H-160
    benign = [one for one in noisy(5, "benign") if not one.harmful]
    made = matrix(part("x", noisy(3, "x")), part("y", noisy(4, "y")), part("benign", benign))
    cells = {(cell.calibrated_on, cell.tested_on): cell for cell in made.cells}
    there = cells["x", "y"]
    assert there.detection is not None
    assert there.false_positives is not None
    assert (there.detection.n, there.false_positives.n, there.negatives) == (100, 100, 100)
    assert cells["benign", "x"].reasons == {"threshold": "one_class"}
    assert list(made.models) == ["x", "y"]
    said_so = "\n".join(matrix_lines(made))
    assert "model of x (100 harmful, 100 benign): a@input +" in said_so
    assert "no threshold from benign: one_class" in said_so


def test_members_are_those_named_or_all_with_scores() -> None:
    rows = noisy(1)
    assert choose_members(rows, ()) == ("a@input", "b@input", "noise@input")
    assert choose_members(rows, ("b", "a")) == BOTH
    with pytest.raises(ConfigError, match="no supervisor c with scores"):
        choose_members(rows, ("a", "c"))
    with pytest.raises(ConfigError, match="joins two supervisors or more"):
        choose_members(rows, ("a",))
