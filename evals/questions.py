"""How often each question of a rubric was answered yes (H-138)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evals.attempts import as_object
from evals.rows import Row
from evals.statistics.jsonable import Json, to_json
from evals.statistics.rates import Observation, rate_of


def questions_of(config: Mapping[str, Json], dataset: str) -> tuple[str, ...]:
    """Return the questions a scorer asks about answers to one data set, none when it is no rubric."""
    given = config.get("questions")
    listed = as_object(given).get(dataset) if isinstance(given, dict) else given
    return tuple([str(text) for text in listed]) if isinstance(listed, list) else ()


def describe_questions(rows: Sequence[Row], questions: Sequence[str]) -> Json:
    """Return for each question the share of answers with a yes by the majority of the judges that answered.

    An answer on which they are as many as against, or too few to be a quorum, is outside the rate and within its
    bounds.

    Args:
        rows: with verdicts of their answers that have votes.
        questions: in the order they were asked.
    """
    return [
        {
            "question": question,
            "yes": to_json(rate_of([Observation(row.planned.cluster_id, _said(row, place)) for row in rows])),
        }
        for place, question in enumerate(questions)
    ]


def _said(row: Row, place: int) -> bool | None:
    """Return what the majority answered to one question, None for a tie or without a quorum."""
    votes = row.answer.votes if row.answer is not None else ()
    given = [vote["answers"] for vote in votes if isinstance(vote.get("answers"), list)]
    said = [_word(answers, place) for answers in given]
    yes, no = said.count("yes"), said.count("no")
    if yes + no < min(2, len(votes)) or yes == no:
        return None
    return yes > no


def _word(answers: Json, place: int) -> str | None:
    return str(answers[place]) if isinstance(answers, list) and place < len(answers) else None
