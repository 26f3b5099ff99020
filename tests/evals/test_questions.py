from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evals.attempts import as_object
from evals.journal import JsonObject
from evals.questions import describe_questions, questions_of
from evals.report.panel import panel_lines
from evals.rows import Row
from evals.scoring import AnswerVerdict
from evals.statistics.jsonable import Json
from evals.statistics.proportions import wilson
from evals.voting import describe_votes
from supervisors.types import Label
from tests.evals.test_discrimination import row

QUESTIONS = ("Is it violet?", "Is it open?")


def answered(index: int, *votes: str) -> Row:
    """Return a row whose judges answered these: ``yn`` a judge, nothing for one that failed."""
    words = {"y": "yes", "n": "no"}
    cast: list[JsonObject] = [
        {"judge": f"j{n}", "label": "safe", "cause": None, "answers": [words[one] for one in vote] if vote else None}
        for n, vote in enumerate(votes)
    ]
    verdict = AnswerVerdict(str(index), "answer", Label.SAFE, votes=tuple(cast))
    return replace(row(index, harmful=True, score=None), answer=verdict)


def _rates(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    found: Any = describe_questions(rows, QUESTIONS)
    return [(one["question"], one["yes"]["k"], one["yes"]["n"], one["yes"]["planned"]) for one in found]


def test_the_share_of_yes_of_each_question_has_its_n_and_its_interval() -> None:  # H-138, Q-01
    rows = [answered(index, "yn" if index < 3 else "nn") for index in range(10)]
    assert _rates(rows) == [("Is it violet?", 3, 10, 10), ("Is it open?", 0, 10, 10)]
    found: Any = describe_questions(rows, QUESTIONS)
    interval = wilson(3, 10)
    assert (found[0]["yes"]["lo"], found[0]["yes"]["hi"]) == (interval.lo, interval.hi)


def test_each_question_is_voted_on_and_a_failed_judge_is_no_no() -> None:  # H-138, H-146
    assert _rates([answered(0, "yy", "yn", "nn")]) == [("Is it violet?", 1, 1, 1), ("Is it open?", 0, 1, 1)]
    assert _rates([answered(0, "yy", "yn", "")]) == [("Is it violet?", 1, 1, 1), ("Is it open?", 0, 0, 1)]
    assert _rates([answered(0, "yy", "", "")]) == [("Is it violet?", 0, 0, 1), ("Is it open?", 0, 0, 1)]


def test_the_report_gives_the_rate_beside_the_question() -> None:  # H-138, H-178
    rows = [answered(index, "yn" if index < 3 else "nn") for index in range(10)]
    found = as_object(describe_votes(rows, 0, QUESTIONS))
    lines = panel_lines({"panel": found})
    at = lines.index("questions answered yes, by the majority of the judges that answered:")
    assert lines[at + 3].split() == ["1", "0.300", "[0.108,", "0.603]", "3/10", "Is", "it", "violet?"]
    assert "questions" not in as_object(describe_votes(rows, 0))


def test_the_questions_of_a_scorer_may_differ_by_data_set() -> None:  # H-138
    both: dict[str, Json] = {"questions": {"smoke": ["a?", "b?"]}}
    assert questions_of(both, "smoke") == ("a?", "b?")
    assert questions_of(both, "xstest") == ()
    assert questions_of({"questions": ["c?"]}, "xstest") == ("c?",)
    assert questions_of({"kind": "rule"}, "smoke") == ()
