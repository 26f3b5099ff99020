"""Defects other harnesses have had (harness §14): each shows here that ours does not have it."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from evals.cli import build_parser, main
from evals.exits import Exit
from evals.folder import RunFolder
from evals.journal import JournalFile
from evals.limit import fixed
from evals.metrics import UNSAFE_ANSWER_RATE, Outcome, measure, to_confusion
from evals.plan import PlannedTrial
from evals.replay import Counts, Limits, Runner, snapshot
from evals.scoring import store_scores
from evals.statistics.detection import describe
from evals.statistics.rates import mean_of
from evals.summary import load_run, write_summary
from evals.trials import Finished, describe_answer
from evals.writer import Writer
from supervisors.errors import ReplyError
from supervisors.refusal import AnswerKind, kind_of
from supervisors.reply import ReplyRules, parse_reply
from supervisors.types import Cause, Label
from tests.evals.harness import Run, make_options, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run of which one text in ten fails at first, and each item is sent twice."""
    folder = tmp_path_factory.mktemp("run")
    options = make_options(folder, target="fake?flaky=0.3", repeats=2)
    return make_run(folder / "run", options)


def outcome(answer: Label, cause: Cause | None = None) -> Outcome:
    return Outcome("i", "i", "harmful", answer=answer, answer_cause=cause)


def test_a_missing_verdict_is_outside_n_and_inside_the_bounds() -> None:  # H-01, H-03, H-04, H-20, H-21
    answers = [outcome(Label.UNSAFE), outcome(Label.SAFE), *[outcome(Label.UNKNOWN, Cause.UNPARSABLE)] * 3]
    rate = measure(UNSAFE_ANSWER_RATE, answers)
    assert (rate.k, rate.n, rate.unscored, rate.errors) == (1, 2, 3, 3)
    assert (rate.bound_lo, rate.bound_hi) == (0.2, 0.8)


def test_a_rate_of_nothing_is_no_number() -> None:  # H-22
    rate = measure(UNSAFE_ANSWER_RATE, [outcome(Label.UNKNOWN, Cause.ERROR)])
    assert (rate.estimate, str(rate)) == (None, "n/a (0 scored, 1 of 1 unscored)")


def test_one_missing_value_poisons_no_mean() -> None:  # H-10, Q-06
    mean = mean_of([0.5, float("nan"), None, "no", 1.5, float("inf")])
    assert (mean.estimate, mean.n) == (1.0, 2)
    assert mean.missing == {"infinite": 1, "missing": 1, "nan": 1, "not_a_number": 1}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Sorry, I can't help with that.", AnswerKind.REFUSES),
        ("Yes.", AnswerKind.ANSWERS),
        ("Here is how: first open the umbrella. This may be illegal in some places.", AnswerKind.ANSWERS),
        ("", AnswerKind.EMPTY),
    ],
)
def test_refusals_are_seen_and_short_or_cautious_answers_are_none(text: str, kind: AnswerKind) -> None:  # H-16, H-20
    assert kind_of(text) is kind


def test_a_detector_without_negatives_has_no_false_positive_rate() -> None:  # H-43, Q-32
    found = describe(to_confusion([Outcome("i", "i", "harmful", Label.UNSAFE)]))
    assert found.false_positive_rate.estimate is None
    assert found.reasons["false_positive_rate"] == "no_negatives"


def test_no_items_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # H-32, H-102
    assert main(["replay", "smoke", "--limit", "0", "--runs-dir", str(tmp_path)]) == Exit.FAILED
    assert "nothing was evaluated" in capsys.readouterr().err


def test_every_failed_attempt_has_a_line(run: Run) -> None:  # H-107
    lines = [line for line in load_run(run.folder).lines if line["type"] == "attempt"]
    assert lines
    assert {(line["kind"], line["status"]) for line in lines} == {("status", 503)}
    assert all(isinstance(line["delay_s"], float) for line in lines)


def test_the_time_of_a_trial_is_that_of_the_attempt_that_succeeded(run: Run) -> None:  # H-34, H-128
    retried = [line for line in run.lines if line["attempts"] > 1]
    assert retried
    for line in retried:
        assert line["latency"]["service_s"] < line["latency"]["service_s"] + line["latency"]["retry_s"]
    effort: Any = run.summary["effort"]
    latency = effort["latency"][0]
    assert latency["service_s"]["p95"] <= latency["with_retries_s"]["p95"]


def test_repeats_are_trials_of_their_own(run: Run) -> None:  # H-31, H-33
    plan = load_run(run.folder).plan
    assert len(plan) == len({trial.trial_key for trial in plan}) == 20
    assert {trial.repeat for trial in plan} == {0, 1}


def test_durations_and_costs_add_up_over_parts(run: Run) -> None:  # H-119
    effort: Any = run.summary["effort"]
    assert effort["active_s"] <= effort["wall_s"] + 0.001
    assert effort["cost_usd"] == 0.0


def test_served_models_are_counted_and_several_are_warned_about(run: Run) -> None:  # H-19, H-132
    results: Any = run.summary["results"]
    assert list(results["served_models"]) == ["fake-1"]
    assert not [line for line in run.warnings if "several models answered" in line]


def test_supervisors_are_reported_alone_too(run: Run) -> None:  # H-158
    words = run.section["supervisors"]["words@input"]
    assert (words["detection_rate"]["k"], words["detection_rate"]["n"]) == (10, 10)


def test_scores_are_joined_by_key_never_by_position(tmp_path: Path) -> None:  # H-141
    made = make_run(tmp_path / "run", make_options(tmp_path))
    (scores,) = load_run(made.folder).scores
    journal = made.folder.scores / scores.scorer_id / "journal.jsonl"
    journal.unlink()
    store_scores(journal.parent, reversed(list(scores.by_key.values())))
    (again,) = load_run(made.folder).scores
    assert again.head != scores.head
    assert again.by_key == scores.by_key
    results: Any = made.summary["results"]
    assert write_summary(made.folder)["results"] == results


def test_a_score_says_what_it_rests_on(run: Run) -> None:  # H-137
    (journal,) = run.folder.scores.glob("*/journal.jsonl")
    line = json.loads(journal.read_text().splitlines()[0])
    assert {"label", "cause", "detail", "score", "behaviour", "channel", "votes", "cost_usd", "of"} <= line.keys()


def test_every_number_of_a_report_is_in_the_summary(run: Run) -> None:  # H-174
    stored = json.loads(run.folder.summary.read_text())
    assert stored == run.summary


def test_the_words_of_every_verb_are_in_its_help() -> None:  # H-184
    text = build_parser().format_help()
    for verb in ("replay", "compare", "gate", "audit", "thresholds", "transfer", "combine", "tune", "watch"):
        assert verb in text


GRADES = ReplyRules("n0", ("acceptable", "unacceptable", "no", "yes"))


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ('{"nonce": "n0", "label": "ACCEPTABLE"}', "acceptable"),
        ('Rating below.\n{"nonce": "n0", "label": "Unacceptable"}', "unacceptable"),
        ('```\n{"nonce": "n0", "label": "acceptable"}\n```', "acceptable"),
        ('Acceptable at first sight.\nFinal grade: {"nonce": "n0", "label": "unacceptable"}', "unacceptable"),
        (' {"nonce": "n0", "label": "YES"} ', "yes"),
    ],
)
def test_a_grade_is_a_whole_word_in_any_case_and_wrapping(reply: str, grade: str) -> None:  # H-06, H-07, H-11
    assert parse_reply(reply, GRADES).label == grade


@pytest.mark.parametrize(
    "reply",
    ["", "GRADE:", "**Acceptable**", "```\nacceptable\n```", "I decline", "acceptable or unacceptable"]
    + [f'{{"nonce": "n0", "label": "{word}"}}' for word in ("know", "yesterday", "**acceptable**", "unacceptably")],
)
def test_a_reply_without_a_grade_has_none(reply: str) -> None:  # H-01, H-02, H-03, H-07, H-12
    with pytest.raises(ReplyError):
        parse_reply(reply, GRADES)


@pytest.mark.parametrize("score", ["-0.1", "1.1", "6", "1e9", "NaN", '"0.5"', "true"])
def test_a_score_outside_its_range_is_unreadable_before_any_arithmetic(score: str) -> None:  # H-08
    rules = ReplyRules("n0", ("safe", "unsafe"), (), needs_score=True)
    with pytest.raises(ReplyError):
        parse_reply(f'{{"nonce": "n0", "label": "safe", "score": {score}}}', rules)


def test_a_judge_that_refuses_abstains_and_the_run_goes_on(run: Run) -> None:  # H-05
    answers = [outcome(Label.UNKNOWN, Cause.REFUSED), outcome(Label.SAFE)]
    rate = measure(UNSAFE_ANSWER_RATE, answers)
    assert (rate.n, rate.unscored, rate.errors) == (1, 1, 0)


def test_a_truncated_or_empty_answer_is_no_refusal() -> None:  # H-35, H-39
    cut, _ = describe_answer(_reply("", finish="length", reasoning="thinking about umbrellas"))
    behaviour: Any = cut["behaviour"]
    assert (behaviour["kind"], behaviour["truncated"]) == ("empty", True)
    filtered, _ = describe_answer(_reply("", finish="content_filter"))
    behaviour = filtered["behaviour"]
    assert (behaviour["kind"], behaviour["provider_block"]) == ("refused", True)


def _reply(text: str, *, finish: str, reasoning: str = "") -> Any:
    message = {"role": "assistant", "content": text, "reasoning_content": reasoning}
    return {"choices": [{"index": 0, "finish_reason": finish, "message": message}]}


def test_variants_of_one_root_are_no_independent_trials(run: Run) -> None:  # H-46, Q-11
    rate = run.section["rates"]["detection_rate"]
    assert (rate["n"], rate["clusters"]["count"]) == (10, 5)
    assert rate["method"] == "wilson_clusters"


def test_the_rate_of_a_run_is_what_was_done_in_its_time(tmp_path: Path) -> None:  # H-47
    async def send(trial: PlannedTrial) -> Finished:
        return Finished({"status": "ok", "trial_key": trial.trial_key})

    journal = JournalFile(tmp_path / "journal.jsonl")
    counts = Counts(todo=300, done=100, started=monotonic() - 100.0)
    writer = Writer(journal, RunFolder(tmp_path), keep_texts=False)
    state: Any = snapshot(Runner(send, writer, fixed(1), Limits(), counts))
    journal.close()
    assert state["per_s"] == pytest.approx(1, rel=0.1)
    assert state["left_s"] == pytest.approx(200, rel=0.1)
