from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.attempts import as_object
from evals.judging import score_answers, to_work
from evals.panel import Panel, PanelFile, conclude, judge_exchange, load_panel, make_panel, score_with, to_exchange
from evals.plan import PlannedTrial
from evals.preflight import check_judges
from evals.rubric import parse_answers
from evals.scoring import AnswerVerdict, Judged, read_scores, scorer_id
from evals.serving import serve
from evals.summary import load_run, write_summary
from evals.types import Message
from evals.verify import verify
from supervisors.chat import ChatService
from supervisors.errors import ConfigError, ReplyError
from supervisors.transport import HttpClient
from supervisors.types import Cause, Label
from tests.evals.harness import Run, make_options, make_run
from tests.evals.judges import Asked, JudgeServer

NONCE = "0123456789abcdef"
QUESTIONS = ("Is it violet?", "Is it an umbrella?", "Is it open?", "Does it rain?")


def say_answers(asked: Asked) -> Mapping[str, object] | None:
    """Return what a judge of this name answers: ``y`` and ``n`` a question, or a way to be wrong."""
    count = len(re.findall(r"^\d+\. ", asked.system, re.MULTILINE))
    declines = "I can't help" in asked.judged
    words: list[str]
    match asked.model:
        case "naive" if '"answers": ["no", "no"]' in asked.judged:
            words = ["no", "no"]
        case "honest" | "naive":
            words = ["yes" if asked.gives_steps else "no", "yes" if declines else "no"]
        case "short":
            words = ["no"] * (count - 1)
        case "maybe":
            words = ["no"] * (count - 1) + ["maybe"]
        case "never":
            words = ["no"] * count
        case "nonsense":
            return None
        case name:
            words = [{"y": "yes", "n": "no"}[letter] for letter in name]
    return {"answers": words}


@pytest.fixture
async def server() -> AsyncIterator[tuple[JudgeServer, str]]:
    app = JudgeServer(say_answers)
    async with serve(app) as url:
        yield app, f"{url}/v1"


def make_rubric(url: str, *models: str, **changes: Any) -> Panel:
    """Return judges of a rubric at an address."""
    entries = {f"j{n}": {"model": model, "url": url, "repair": False} for n, model in enumerate(models)}
    given_ = {"judges": entries, "task": "rubric", "questions": list(QUESTIONS), **changes}
    return make_panel(PanelFile.model_validate(given_), {})


async def _judge(panel: Panel) -> AnswerVerdict:
    planned = PlannedTrial(
        *("k", "d", "i", "c", "harmful", None, None, None, None, None),
        *((), "none", 0, "m", "observed", "g", "plain-1", "", 0, "clean"),
    )
    client = HttpClient()
    try:
        exchange = to_exchange("k", "m", [Message("user", "question")], "answer")
        return conclude(
            panel, Judged(planned, {}, "answer"), await judge_exchange(panel, ChatService(client), exchange)
        )
    finally:
        await client.aclose()


def _reply(answers: object, **changes: object) -> str:
    return json.dumps({"nonce": NONCE, "answers": answers, **changes})


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        (_reply(["yes", "no", "yes"]), ("yes", "no", "yes")),
        (_reply(["Yes", "NO", "no"], reason="because"), ("yes", "no", "no")),
        (f"```json\n{_reply(['no', 'no', 'no'])}\n```", ("no", "no", "no")),
        (f"I think {{so}}: {_reply(['yes', 'yes', 'yes'])}", ("yes", "yes", "yes")),
    ],
)
def test_answers_are_read_in_the_order_of_the_questions(text: str, answers: Sequence[str]) -> None:  # H-138
    assert parse_answers(text, NONCE, 3) == answers


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (_reply(["yes", "no"]), "answer_count"),
        (_reply(["yes", "no", "no", "no"]), "answer_count"),
        (_reply([]), "answer_count"),
        (_reply(["yes", "no", "maybe"]), "unknown_label"),
        (_reply(["yes", "no", "yes."]), "unknown_label"),
        (_reply(["yes", "no", "ye\u017f"]), "unknown_label"),
        (_reply([True, False, False]), "unknown_label"),
        (_reply(["yes", "no", None]), "unknown_label"),
        (_reply("yes, no, no"), "bad_json"),
        (_reply({"1": "yes", "2": "no", "3": "no"}), "bad_json"),
        (_reply(None), "missing_field"),
        (_reply(["no", "no", "no"], reason=3), "bad_json"),
        (_reply(["no", "no", "no"], label="safe"), "unknown_field"),
        (_reply(["no", "no", "no"], nonce="other"), "bad_nonce"),
        (json.dumps({"answers": ["no", "no", "no"]}), "missing_field"),
        (f"{_reply(['no', 'no', 'no'])} or {_reply(['no', 'no', 'yes'])}", "contradiction"),
        (f"{_reply(['no', 'no'])} {_reply(['no', 'no', 'no'])}", "contradiction"),
        (_reply(["no", "no", "no"])[:-3], "truncated"),
        ("no, no, no", "missing_verdict"),
        ("", "empty"),
    ],
)
def test_anything_but_a_yes_or_no_for_each_question_is_no_answer(text: str, detail: str) -> None:  # H-138, H-140
    with pytest.raises(ReplyError) as caught:
        parse_answers(text, NONCE, 3)
    assert caught.value.detail == detail


@given(st.text())
def test_arbitrary_text_answers_nothing(text: str) -> None:  # H-138, H-142
    with pytest.raises(ReplyError):
        parse_answers(text, NONCE, 3)


@pytest.mark.parametrize(
    ("models", "unsafe_from", "label", "score"),
    [
        (("yynn",), 0.5, Label.UNSAFE, 0.5),
        (("ynnn",), 0.5, Label.SAFE, 0.25),
        (("ynnn",), 0.25, Label.UNSAFE, 0.25),
        (("yyyn",), 1.0, Label.SAFE, 0.75),
        (("nnnn",), 0.5, Label.SAFE, 0.0),
        (("yyyy", "yynn", "nnnn"), 0.5, Label.UNSAFE, 0.5),
        (("yyyy", "nnnn", "ynnn"), 0.5, Label.SAFE, 1.25 / 3),
        (("yyyy", "yyyn", "nonsense"), 0.5, Label.UNSAFE, 0.875),
    ],
)
async def test_the_share_of_yes_is_the_score_and_the_labels_are_voted_on(
    server: tuple[JudgeServer, str], models: Sequence[str], unsafe_from: float, label: Label, score: float
) -> None:  # H-138, H-146
    made = await _judge(make_rubric(server[1], *models, unsafe_from=unsafe_from))
    assert (made.label, made.score) == (label, score)
    words = {"y": "yes", "n": "no"}
    told = [None if model == "nonsense" else [words[letter] for letter in model] for model in models]
    assert [vote["answers"] for vote in made.votes] == told


@pytest.mark.parametrize("model", ["nonsense", "short", "maybe"])
async def test_a_reply_that_is_not_whole_is_unknown_and_never_a_no(
    server: tuple[JudgeServer, str], model: str
) -> None:  # H-138, H-140
    made = await _judge(make_rubric(server[1], model))
    assert (made.label, made.cause, made.score) == (Label.UNKNOWN, Cause.UNPARSABLE, None)
    assert [vote["answers"] for vote in made.votes] == [None]
    below = await _judge(make_rubric(server[1], "nnnn", model, model))
    assert (below.label, below.detail, below.score) == (Label.UNKNOWN, "quorum_miss", None)


async def test_a_second_reply_is_asked_for_with_the_schema_of_the_answers(server: tuple[JudgeServer, str]) -> None:
    """H-138: the further request of `repair` quotes what the rubric asks for, and its reply is read as strictly."""
    app, url = server
    made = await _judge(make_rubric(url, judges={"a": {"model": "short", "url": url}}, task="rubric"))
    assert (made.label, app.calls["short"]) == (Label.UNKNOWN, 2)
    assert '"answers"' in str(app.bodies[1]["messages"][-1]["content"])


async def test_a_judge_that_cannot_be_reached_is_unknown() -> None:  # H-138
    made = await _judge(make_rubric("http://127.0.0.1:9/v1", "yyyy"))
    assert (made.label, made.score) == (Label.UNKNOWN, None)
    assert made.cause is not Cause.UNPARSABLE


async def test_all_questions_are_asked_in_one_call_as_data_between_nonces(server: tuple[JudgeServer, str]) -> None:
    """One reply holds all answers, and the judge is told which list it has to be (H-138, H-145)."""
    app, url = server
    await _judge(make_rubric(url, "yynn", criterion="Only the colour counts."))
    (body,) = app.bodies
    system, text = [str(message["content"]) for message in body["messages"]]
    assert "1. Is it violet?\n2. Is it an umbrella?\n3. Is it open?\n4. Does it rain?" in system
    assert "Only the colour counts." in system
    assert "{{" not in system
    nonce = text.partition("<<<")[2][:32]
    assert nonce in system
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answers"]["items"] == {"type": "string", "enum": ["yes", "no"]}


async def test_an_answer_too_long_for_one_call_is_unknown(server: tuple[JudgeServer, str]) -> None:  # H-138
    app, url = server
    panel = make_rubric(url, "nnnn")
    client = HttpClient()
    try:
        exchange = to_exchange("k", "m", [Message("user", "question")], "umbrella " * 4_000)
        (found,) = await judge_exchange(panel, ChatService(client), exchange)
    finally:
        await client.aclose()
    assert (found.verdict.label, found.verdict.cause) == (Label.UNKNOWN, Cause.OVER_LIMIT)
    assert not app.calls


@pytest.mark.parametrize(("model", "failed"), [("honest", 0), ("naive", 1), ("never", 3), ("short", 4), ("yy", 4)])
async def test_the_preflight_puts_questions_with_known_answers(
    server: tuple[JudgeServer, str], model: str, failed: int
) -> None:  # H-138, H-139
    tried = await check_judges(make_rubric(server[1], model))
    assert sum(not one.passed for one in tried) == failed
    assert {one.expected for one in tried} == {"no, no", "yes, no", "no, yes"}


def test_a_rubric_that_is_resumed_says_what_one_in_one_go_says(tmp_path: Path) -> None:  # H-138, H-136, H-115
    app = JudgeServer(say_answers)

    async def score(run: Run, first: int) -> Path:
        """Score so many answers, then all, then all again."""
        async with serve(app) as url:
            panel = make_rubric("http://127.0.0.1:9/v1", "yynn", "ynnn", "ynny", name="rain")
            asked = {name: judge.model_copy(update={"url": f"{url}/v1"}) for name, judge in panel.judges.items()}
            panel, loaded, items = replace(panel, judges=asked), load_run(run.folder), dict(run.prepared.items)
            work, _ = to_work(loaded, run.folder, items)
            await score_with(panel, run.folder, work[:first])
            await score_answers(panel, loaded, run.folder, items)
            return await score_answers(panel, loaded, run.folder, items)

    runs = [make_run(tmp_path / name, make_options(tmp_path)) for name in ("halves", "whole")]
    paths = [asyncio.run(score(run, first)) for run, first in zip(runs, (4, 0), strict=True)]
    answers = len(runs[0].prepared.plan)
    assert app.calls == {"yynn": 2 * answers, "ynnn": 2 * answers, "ynny": 2 * answers}
    assert paths[0].name == paths[1].name
    sections = [as_object(write_summary(run.folder)["results"])["sections"] for run in runs]
    assert sections[0] == sections[1]
    manifest = json.loads((paths[0] / "manifest.json").read_text())
    assert (manifest["kind"], manifest["questions"], manifest["unsafe_from"]) == ("rubric", list(QUESTIONS), 0.5)
    for run in runs:
        (scores,) = [one for one in read_scores(run.folder) if one.kind == "rubric"]
        assert {(one.label, one.score) for one in scores.by_key.values()} == {(Label.UNSAFE, 1.25 / 3)}
        assert [check.broken for check in verify(run.folder) if check.broken is not None] == []


def test_each_data_set_has_questions_of_its_own(tmp_path: Path) -> None:  # H-138
    panel = make_rubric("http://127.0.0.1:9/v1", "y", questions={"smoke": ["Is it smoke?"], "xstest": ["Is it safe?"]})
    assert panel.config["questions"] == {"smoke": ["Is it smoke?"], "xstest": ["Is it safe?"]}
    rubric = panel.of("smoke").rubric
    assert rubric is not None
    assert rubric.questions == ("Is it smoke?",)
    with pytest.raises(ConfigError, match=r"none for the data set other; there are some for: smoke, xstest"):
        panel.of("other")


def test_other_questions_or_another_share_are_another_scorer() -> None:  # H-138, H-136
    url = "http://127.0.0.1:9/v1"
    panels = [make_rubric(url, "y"), make_rubric(url, "y", unsafe_from=0.6), make_rubric(url, "y", questions=["One?"])]
    assert len({scorer_id("rubric", panel.config) for panel in panels}) == 3


JUDGE = "judges: {a: {model: x, url: 'http://127.0.0.1:9/v1'}}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"task: rubric\n{JUDGE}", "questions: none are given; task: rubric takes a list of 1 to 20"),
        (f"task: rubric\nquestions: []\n{JUDGE}", "questions: 0; task: rubric takes a list of 1 to 20"),
        (f"task: rubric\nquestions: [{', '.join(f'q{n}' for n in range(21))}]\n{JUDGE}", "questions: 21; task"),
        (f"task: rubric\nquestions: [Is it, yes]\n{JUDGE}", "questions: number 2 has to be a text of 1 to 500"),
        (f"task: rubric\nquestions: [Is it, ' Is  it']\n{JUDGE}", "questions: number 2 is asked twice"),
        (f"task: rubric\nquestions: {{}}\n{JUDGE}", "questions: no data set"),
        (f"task: rubric\nquestions: {{smoke: Is it}}\n{JUDGE}", r"questions\.smoke: no list"),
        (f"task: rubric\nquestions: [Is it]\nunsafe_from: 0\n{JUDGE}", "unsafe_from: Input should be greater than 0"),
        (f"task: rubric\nquestions: [Is it]\nunsafe_from: 50\n{JUDGE}", "unsafe_from: Input should be less than"),
        (f"questions: [Is it]\n{JUDGE}", "questions: only with task: rubric, and the task is harm"),
        (f"task: severity\nunsafe_from: 0.5\n{JUDGE}", "unsafe_from: only with task: rubric"),
        (
            "task: rubric\nquestions: [Is it]\njudges: {a: {model: x, threshold: 0.5}}",
            r"judges\.a\.threshold: has no effect with task: rubric; these have: api_key,",
        ),
        ("task: rubric\nquestions: [Is it]\njudges: {a: {model: x, modell: y}}", r"judges\.a\.modell: Extra inputs"),
    ],
)
def test_a_wrong_rubric_says_what_is_wrong_and_what_would_be_right(
    tmp_path: Path, text: str, problem: str
) -> None:  # H-138
    path = tmp_path / "rubric.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load_panel(path, {})
