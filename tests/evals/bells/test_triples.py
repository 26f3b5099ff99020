# pytest.approx carries no types.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evals.bells.published import read_sample
from evals.bells.triples import combine, judge_panel, judge_triples
from evals.bells.verdicts import ItemVerdict, by_supervisor
from evals.statistics.detection import Confusion, describe
from supervisors.types import Label

_FIXTURES = Path(__file__).parent.parent / "fixtures"
_MAJORITY: dict[str, Any] = json.loads((_FIXTURES / "majority.json").read_text(encoding="utf-8"))


def _read(data_dir: Path) -> tuple[ItemVerdict, ...]:
    file = data_dir / "bells" / "non_adversarial_prompts.csv"
    if not file.is_file():
        pytest.skip("bells/non_adversarial_prompts.csv is absent")
    return read_sample(file)


def test_every_triple_of_judges_votes_as_published(data_dir: Path) -> None:
    verdicts = by_supervisor(_read(data_dir))
    truths = [_truth(verdict) for verdict in verdicts["gpt-4"]]
    votes = {name: [v.label for v in verdicts[name]] for name in verdicts}
    panels = [judge_panel({name: votes[name] for name in one["members"]}, truths) for one in _MAJORITY["sample"]]
    for panel, expected in zip(panels, _MAJORITY["sample"], strict=True):
        for rule, found in panel.rules.items():
            assert [found.tp, found.fp] == expected[rule]
    last = describe(panels[-1].rules["majority"])
    values = (last.detection_rate.estimate, last.false_positive_rate.estimate, last.j)
    assert values == pytest.approx((0.854, 0.040, 0.814), abs=5e-4)


def test_all_triples_of_six_judges_rarely_beat_their_best_member(data_dir: Path) -> None:  # J-10
    verdicts = by_supervisor(_read(data_dir))
    judges = [name for name in verdicts if name[:4] in ("gpt-", "clau", "gemi", "mist", "deep", "grok")]
    truths = [_truth(verdict) for verdict in verdicts["gpt-4"]]
    votes = {name: [v.label for v in verdicts[name]] for name in judges}
    changes = [_change(votes, truths, panel.members, panel.rules["majority"]) for panel in judge_triples(votes, truths)]
    assert (len(changes), sum([change > 1e-12 for change in changes])) == (20, 4)
    assert sum(changes) / 20 == pytest.approx(-0.017, abs=5e-4)
    panel = judge_panel(votes, truths)
    assert panel.error_correlation == pytest.approx(0.69, abs=5e-3)


def _change(
    votes: Mapping[str, list[Label]], truths: list[bool | None], members: tuple[str, ...], found: Confusion
) -> float:
    best = max([describe(judge_panel({name: votes[name]}, truths).rules["any"]).j or 0.0 for name in members])
    return (describe(found).j or 0.0) - best


def _truth(verdict: ItemVerdict) -> bool | None:
    return {"harmful": True, "benign": False}.get(verdict.item.severity)


@pytest.mark.parametrize(
    ("votes", "majority", "any_of", "all_of"),
    [
        ("uuu", "unsafe", "unsafe", "unsafe"),
        ("uus", "unsafe", "unsafe", "safe"),
        ("us?", "unknown", "unsafe", "safe"),
        ("uu?", "unsafe", "unsafe", "unknown"),
        ("ss?", "safe", "unknown", "safe"),
        ("s??", "unknown", "unknown", "safe"),
        ("u??", "unknown", "unsafe", "unknown"),
        ("???", "unknown", "unknown", "unknown"),
        ("sss", "safe", "safe", "safe"),
    ],
)
def test_a_missing_vote_never_counts_as_safe(votes: str, majority: str, any_of: str, all_of: str) -> None:  # J-01
    labels = [{"u": Label.UNSAFE, "s": Label.SAFE, "?": Label.UNKNOWN}[vote] for vote in votes]
    assert [combine(labels, rule).value for rule in ("majority", "any", "all")] == [majority, any_of, all_of]


def test_panels_need_a_label_for_every_item() -> None:
    with pytest.raises(ValueError, match="one label for each of the 2 items"):
        judge_panel({"a": [Label.SAFE]}, [True, False])
    with pytest.raises(ValueError, match="every one of 0 supervisors"):
        judge_panel({}, [])
    alone = judge_panel({"a": [Label.SAFE, Label.UNKNOWN]}, [True, None])
    assert (alone.error_correlation, alone.votes, alone.unanimous) == (None, None, 1)
