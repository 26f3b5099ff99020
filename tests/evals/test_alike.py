from __future__ import annotations

from dataclasses import replace

from evals.alike import count_alike
from evals.rows import Row, to_outcome
from evals.scoring import AnswerVerdict
from supervisors.types import Label
from tests.evals.test_discrimination import row, to_rows


def _again(one: Row, repeat: int) -> Row:
    planned = replace(one.planned, trial_key=f"{one.planned.trial_key}-{repeat}", repeat=repeat)
    return Row(planned, {**one.fields, "latency": {"service_s": float(repeat)}}, one.answer, one.behind)


def test_repeats_that_ended_alike_are_one_row_with_a_count() -> None:
    flagged, passed = row(0, harmful=True, score=0.9), row(1, harmful=True, score=0.1)
    alike = count_alike(to_rows([flagged, passed, _again(flagged, 1), _again(flagged, 2)]))
    assert [(one.planned.item_id, times) for one, times in alike.counts()] == [("toy/0", 3), ("toy/1", 1)]
    assert len(alike) == 4


def test_what_is_counted_gives_the_same_outcomes() -> None:
    rows = to_rows([row(n, harmful=n % 2 == 0, score=n / 10) for n in range(10)])
    assert list(count_alike(rows).map(to_outcome)) == [to_outcome(one) for one in rows]


def test_repeats_that_ended_otherwise_are_told_apart() -> None:
    one = row(0, harmful=True, score=0.9)
    unknown = replace(_again(one, 1), line={**one.fields, "status": "error", "cause": "timeout"})
    assert [times for _, times in count_alike(to_rows([one, unknown])).counts()] == [1, 1]


def test_answers_with_votes_are_never_put_together() -> None:
    one = row(0, harmful=True, score=0.9)
    voted = AnswerVerdict("0", "answer", Label.SAFE, votes=({"judge": "a", "label": "safe"},))
    plain = replace(voted, votes=())
    rows = [replace(_again(one, n), answer=answer) for n, answer in enumerate((voted, voted, plain, plain))]
    alike = count_alike(to_rows(rows))
    assert [times for _, times in alike.counts()] == [1, 1, 2]
    assert [times for _, times in alike.where_judged().counts()] == [1, 1]


def test_parts_and_groups_keep_the_counts() -> None:
    rows = [row(n % 3, harmful=True, score=0.9) for n in range(7)]
    alike = count_alike(to_rows(rows))
    assert len(alike.where(lambda trial: trial.item_id != "toy/0")) == 4
    assert {name: len(group) for name, group in alike.by_group().items()} == {("toy", "m"): 7}
    assert alike.tally(lambda one: one.planned.item_id) == {"toy/0": 3, "toy/1": 2, "toy/2": 2}
