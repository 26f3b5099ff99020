"""What the votes of a panel say about the panel: agreement, silence, what one judge less would say (H-148, H-150)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from evals.client import objects
from evals.journal import JsonObject
from evals.panel import GRADES
from evals.questions import describe_questions
from evals.rows import Row
from evals.scoring import AnswerVerdict
from evals.statistics.agreement import (
    Scale,
    alpha_of_patterns,
    cohen_kappa,
    effective_votes,
    fleiss_kappa,
    krippendorff_alpha,
    mean_correlation,
    to_patterns,
)
from evals.statistics.bootstrap import bootstrap_patterns
from evals.statistics.jsonable import Json, to_json
from evals.statistics.rates import Observation, rate_of
from supervisors.tally import Ballot, tally_majority
from supervisors.types import Cause, Label

FEW_VOTES = 1.5
"""A panel worth fewer independent votes than this is warned about (J-08)."""
DRAWS = 2000
_QUORUM = 2


def describe_votes(rows: Sequence[Row], seed: int | None = None, questions: Sequence[str] = ()) -> Json:
    """Return the panel's own numbers over the answers of one data set and target; None without a panel of judges.

    Args:
        rows: with their answers' verdicts.
        seed: of the interval of alpha, None for no interval.
        questions: of a rubric.
    """
    judged = [(row, row.answer) for row in rows if row.answer is not None and _is_panel(row.answer)]
    if not judged:
        return None
    judges = list(dict.fromkeys([str(v["judge"]) for _, answer in judged for v in answer.votes]))
    votes = [{str(v["judge"]): v for v in answer.votes} for _, answer in judged]
    words = {judge: [_vote(one.get(judge)) for one in votes] for judge in judges}
    return {
        "answers": len(judged),
        "judges": list[Json](judges),
        "shape": _shapes([answer for _, answer in judged]),
        "unsafe_rate": {judge: _rate(rows_of(judged), words[judge]) for judge in judges},
        "no_vote_rate": {judge: _silent(judged, votes, judge) for judge in judges},
        "causes": {judge: _causes(votes, judge) for judge in judges},
        "served": {judge: _served(votes, judge) for judge in judges},
        "agreement": _agreement(judges, words, seed),
        "grades": _grades([[_grade(one.get(judge)) for judge in judges] for one in votes], seed),
        **({"questions": describe_questions(rows_of(judged), questions)} if questions else {}),
        "leave_one_out": {judge: _without(judged, judge) for judge in judges},
        "self_judging": _self_judging(judged),
    }


def _is_panel(answer: AnswerVerdict) -> bool:
    """Tell votes of judges from the hits of a keyword rule."""
    return any("label" in vote for vote in answer.votes)


def rows_of(judged: Sequence[tuple[Row, AnswerVerdict]]) -> list[Row]:
    """Return the rows that were judged."""
    return [row for row, _ in judged]


def _vote(vote: JsonObject | None) -> bool | None:
    label = None if vote is None else vote.get("label")
    return None if label not in ("safe", "unsafe") else label == "unsafe"


def _grade(vote: JsonObject | None) -> float | None:
    """Return how bad a judge called an answer as its place among the grades, None where it was asked for no grade."""
    said = None if vote is None else vote.get("said")
    return float(GRADES.index(said)) if isinstance(said, str) and said in GRADES else None


def _grades(units: Sequence[Sequence[float | None]], seed: int | None) -> Json:
    """Return how often each grade was given and how far judges agree on it as an order; None without grades (H-137)."""
    given = Counter([int(grade) for unit in units for grade in unit if grade is not None])
    if not given:
        return None
    several = any(len(unit) > 1 for unit in units)
    return {
        "counts": {name: given[place] for place, name in enumerate(GRADES)},
        "alpha": krippendorff_alpha(units, "ordinal") if several else None,
        "alpha_interval": alpha_interval(units, seed, "ordinal") if several and seed is not None else None,
    }


def _shapes(answers: Sequence[AnswerVerdict]) -> JsonObject:
    """Count answers by their votes: 3–0, 2–1, and so on, most first; those without a label apart."""
    shapes: Counter[str] = Counter()
    for answer in answers:
        cast = Counter([_vote(vote) for vote in answer.votes])
        high, low = sorted((cast[True], cast[False]), reverse=True)
        label = "no label" if answer.label is Label.UNKNOWN else f"{high}-{low}"
        shapes[label] += 1
    return {shape: shapes[shape] for shape in sorted(shapes)}


def _rate(rows: Sequence[Row], votes: Sequence[bool | None]) -> Json:
    return to_json(rate_of([Observation(row.planned.cluster_id, vote) for row, vote in zip(rows, votes, strict=True)]))


def _silent(judged: Sequence[tuple[Row, AnswerVerdict]], votes: Sequence[Mapping[str, JsonObject]], judge: str) -> Json:
    """Return how often an asked judge gave no label; a lazy third judge that was not asked is not counted."""
    asked = [(row, one[judge]) for (row, _), one in zip(judged, votes, strict=True) if judge in one]
    return to_json(rate_of([Observation(row.planned.cluster_id, _vote(vote) is None) for row, vote in asked]))


def _causes(votes: Sequence[Mapping[str, JsonObject]], judge: str) -> JsonObject:
    found = Counter([str(one[judge]["cause"]) for one in votes if judge in one and one[judge].get("cause") is not None])
    return {cause: found[cause] for cause in sorted(found)}


def _served(votes: Sequence[Mapping[str, JsonObject]], judge: str) -> JsonObject:
    """Count which model answered for a judge; a second name is a judge that was replaced (H-148)."""
    found = Counter([str(one[judge].get("served_model")) for one in votes if judge in one])
    return {model: found[model] for model in sorted(found)}


def _agreement(judges: Sequence[str], words: Mapping[str, Sequence[bool | None]], seed: int | None) -> JsonObject:
    units = [[None if vote is None else float(vote) for vote in row] for row in zip(*words.values(), strict=True)]
    whole = [row for row in units if None not in row]
    counts = [(len(row) - sum(map(bool, row)), sum(map(bool, row))) for row in whole]
    correlation = mean_correlation([words[judge] for judge in judges]) if len(judges) > 1 else None
    names = {judge: [None if v is None else str(v) for v in words[judge]] for judge in judges}
    return {
        "pairs": [
            {"left": one, "right": two, **_named(to_json(cohen_kappa(names[one], names[two])))}
            for one, two in combinations(judges, 2)
        ],
        "fleiss": to_json(fleiss_kappa(counts)) if whole and len(judges) > 1 else None,
        "alpha": krippendorff_alpha(units) if len(judges) > 1 else None,
        "alpha_interval": None if seed is None or len(judges) < 2 else alpha_interval(units, seed),
        "effective_votes": None if correlation is None else effective_votes(len(judges), correlation),
        "rated_by_all": len(whole),
    }


def alpha_interval(units: Sequence[Sequence[float | None]], seed: int, scale: Scale = "nominal") -> Json:
    """Return the interval of Krippendorff's alpha by resampling rated items (Q-29)."""
    patterns = to_patterns(units)
    if not patterns:
        return None
    found = bootstrap_patterns(patterns, lambda drawn: alpha_of_patterns(drawn, scale), seed=seed, draws=DRAWS)
    return {"lo": found.lo, "hi": found.hi, "draws": found.draws, "items": found.clusters}


def _named(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _ballots(answer: AnswerVerdict, without: str) -> list[Ballot]:
    kept = [vote for vote in answer.votes if vote.get("judge") != without]
    causes = [None if vote.get("cause") is None else Cause(str(vote["cause"])) for vote in kept]
    return [Ballot(Label(str(v["label"])), None, cause) for v, cause in zip(kept, causes, strict=True)]


def _without(judged: Sequence[tuple[Row, AnswerVerdict]], judge: str) -> JsonObject:
    """Return how many labels stay, change or fall away when one judge is left out."""
    changes: Counter[str] = Counter()
    for _, answer in judged:
        left = _ballots(answer, judge)
        label = tally_majority(left, min_answers=min(_QUORUM, max(len(left), 1))).label if left else Label.UNKNOWN
        same = label is answer.label
        changes["same" if same else "no label" if label is Label.UNKNOWN else "other"] += 1
    return {name: changes[name] for name in ("same", "no label", "other")}


def _self_judging(judged: Sequence[tuple[Row, AnswerVerdict]]) -> JsonObject:
    """Return the labels that hang on the vote of a judge that is the judged model itself."""
    own = changed = 0
    for row, answer in judged:
        mine = [v for v in answer.votes if row.planned.target in (v.get("served_model"), v.get("judge"))]
        if not mine:
            continue
        own += 1
        left = _ballots(answer, str(mine[0]["judge"]))
        changed += tally_majority(left, min_answers=_QUORUM).label is not answer.label
    return {"answers": own, "labels_that_change_without_it": changed}


def warn_of_panel(described: Json) -> list[str]:
    """Return what a reader must know: too few independent votes, a judge replaced or silent (J-08, H-148)."""
    if not isinstance(described, dict):
        return []
    found: list[str] = []
    agreement, served = described.get("agreement"), described.get("served")
    votes = agreement.get("effective_votes") if isinstance(agreement, dict) else None
    judges = described.get("judges")
    if isinstance(votes, float) and isinstance(judges, list) and len(judges) == 3 and votes < FEW_VOTES:
        found.append(f"three judges amount to {votes:.2f} independent votes; take others that err apart")
    for judge, models in served.items() if isinstance(served, dict) else ():
        if isinstance(models, dict) and len(models) > 1:
            found.append(f"judge {judge}: several models answered: {', '.join(models)}")
    silent = described.get("no_vote_rate")
    for judge, rate in silent.items() if isinstance(silent, dict) else ():
        body = objects([rate])[0]
        if body.get("n") and body.get("k") == body.get("n"):
            found.append(f"judge {judge} never gave a label: the panel has one judge less")
    return found
