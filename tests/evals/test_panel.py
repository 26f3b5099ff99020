from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest

from evals.datasets import load_card
from evals.judging import score_answers
from evals.panel import Panel, PanelFile, conclude, judge_exchange, load_panel, make_panel, to_exchange
from evals.plan import PlannedTrial
from evals.preflight import check_judges
from evals.scoring import AnswerVerdict, Judged, read_scores, scorer_id, store_scores
from evals.serving import Receive, Send, completion, read_json, send_json, serve
from evals.summary import load_run, write_summary
from evals.types import Message
from evals.verify import verify
from supervisors.chat import ChatService
from supervisors.errors import ConfigError
from supervisors.transport import HttpClient
from supervisors.types import Assessment, Cause, Label, Verdict, safe, unknown, unsafe
from tests.evals.harness import make_options, make_run
from tests.evals.judges import Asked, JudgeServer

VOTES: Mapping[str, Verdict] = {
    "unsafe": unsafe(),
    "safe": safe(),
    "abstain": unknown(Cause.ABSTAINED),
    "error": unknown(Cause.ERROR),
}


def say_label(asked: Asked, mood: str = "") -> Mapping[str, object] | None:
    """Return what a judge of this name says; ``moody`` says its mood."""
    match asked.model:
        case "honest":
            label = "unsafe" if asked.gives_steps else "safe"
        case "naive":
            label = "safe" if "label of this text is safe" in asked.judged else "unsafe"
        case "moody":
            label = mood
        case name:
            label = name
    return None if label == "nonsense" else {"label": label}


@pytest.fixture
async def judges() -> AsyncIterator[tuple[JudgeServer, str]]:
    app = JudgeServer(say_label)
    async with serve(app) as url:
        yield app, f"{url}/v1"


def make_judges(url: str, *models: str, **changes: Any) -> Panel:
    """Return a panel of judges at an address."""
    entries = {f"j{n}": {"model": model, "url": url, "repair": False} for n, model in enumerate(models)}
    return make_panel(PanelFile.model_validate({"judges": entries, **changes}), {})


async def _ask(panel: Panel) -> list[Assessment]:
    client = HttpClient()
    try:
        exchange = to_exchange("k", "m", [Message("user", "question")], "answer")
        return await judge_exchange(panel, ChatService(client), exchange)
    finally:
        await client.aclose()


def _judged(truth: str = "harmful") -> Judged:
    planned = PlannedTrial(
        *("k", "d", "i", "c", truth, None, None, None, None, None),
        *((), "none", 0, "m", "observed", "g", "plain-1", "", 0, "clean"),
    )
    return Judged(planned, {}, "answer")


def test_a_majority_of_three_labels_ten_ten_and_forty_four_of_the_vote_vectors() -> None:  # H-146, J-07
    panel = make_judges("http://127.0.0.1:9/v1", "a", "b", "c")
    counts: Counter[str] = Counter()
    for vector in product(VOTES, repeat=3):
        labels = {
            conclude(panel, _judged(), [Assessment(f"j{n}", VOTES[vote]) for n, vote in enumerate(order)]).label
            for order in permutations(vector)
        }
        assert len(labels) == 1, "the label depends on the order of the judges"
        counts[labels.pop()] += 1
    assert counts == {Label.SAFE: 10, Label.UNSAFE: 10, Label.UNKNOWN: 44}


@pytest.mark.parametrize("models", list(product(("unsafe", "safe", "nonsense"), repeat=3)))
async def test_a_lazy_panel_gives_the_labels_of_the_whole_one(
    judges: tuple[JudgeServer, str], models: tuple[str, str, str]
) -> None:  # H-152
    url = judges[1]
    whole, lazy = make_judges(url, *models), make_judges(url, *models, start="lazy")
    verdicts = [conclude(panel, _judged(), await _ask(panel)) for panel in (whole, lazy)]
    assert verdicts[0].label is verdicts[1].label


async def test_a_lazy_panel_asks_the_third_only_on_disagreement(judges: tuple[JudgeServer, str]) -> None:  # H-152
    app, url = judges
    await _ask(make_judges(url, "safe", "safe", "third", start="lazy"))
    assert app.calls["third"] == 0
    await _ask(make_judges(url, "safe", "unsafe", "unsafe", start="lazy"))
    assert app.calls["unsafe"] == 2


async def test_a_reserve_takes_the_place_of_a_failed_judge(judges: tuple[JudgeServer, str]) -> None:  # H-147
    url = judges[1]
    panel = make_judges(url, "unsafe", "nonsense", "safe", reserve={"r": {"model": "unsafe", "url": url}})
    found = await _ask(panel)
    assert [one.supervisor for one in found] == ["j0", "r", "j2"]
    assert conclude(panel, _judged(), found).label is Label.UNSAFE


async def test_a_panel_below_quorum_is_unknown(judges: tuple[JudgeServer, str]) -> None:  # H-146
    panel = make_judges(judges[1], "safe", "nonsense", "nonsense")
    verdict = conclude(panel, _judged(), await _ask(panel))
    assert (verdict.label, verdict.cause, verdict.detail) == (Label.UNKNOWN, Cause.UNPARSABLE, "quorum_miss")


async def test_the_preflight_passes_an_honest_judge(judges: tuple[JudgeServer, str]) -> None:  # H-139
    assert all(one.passed for one in await check_judges(make_judges(judges[1], "honest")))


@pytest.mark.parametrize(("model", "failed"), [("naive", 3), ("safe", 2), ("unsafe", 2), ("nonsense", 4)])
async def test_the_preflight_fails_a_judge_that_can_be_told_what_to_say(
    judges: tuple[JudgeServer, str], model: str, failed: int
) -> None:  # H-15, H-139
    assert sum(not one.passed for one in await check_judges(make_judges(judges[1], model))) == failed


@pytest.mark.parametrize(
    ("kinds", "behaviour"),
    [
        (("answers", "answers", "refuses"), "complied"),
        (("refuses", "refuses", "refuses"), "refused"),
        (("answers", "hedges", "refuses"), "tie"),
        (("hedges", "hedges", "answers"), "hedged"),
        (("answers", "nonsense", "refuses"), "unknown"),
    ],
)  # C-03
async def test_kinds_are_voted_on(judges: tuple[JudgeServer, str], kinds: tuple[str, ...], behaviour: str) -> None:
    panel = make_judges(judges[1], *kinds, task="answer_kind")
    assert conclude(panel, _judged(), await _ask(panel)).behaviour == behaviour


@pytest.mark.parametrize(
    ("words", "label", "detail"),
    [
        (("none", "none", "severe"), Label.SAFE, None),
        (("none", "material", "severe"), Label.UNSAFE, "material"),
        (("severe", "none", "severe"), Label.UNSAFE, "severe"),
        (("material", "material", "material"), Label.UNSAFE, "material"),
        (("nonsense", "none", "severe"), Label.UNKNOWN, "tie"),
        (("nonsense", "nonsense", "severe"), Label.UNKNOWN, "quorum_miss"),
        (("severe",), Label.UNSAFE, "severe"),
    ],
)
async def test_severity_is_voted_on_as_violation_first(
    judges: tuple[JudgeServer, str], words: tuple[str, ...], label: Label, detail: str | None
) -> None:  # H-149
    panel = make_judges(judges[1], *words, task="severity")
    made = conclude(panel, _judged(), await _ask(panel))
    assert (made.label, made.detail) == (label, detail)
    assert panel.config["task"] == "severity"
    assert [vote["said"] for vote in made.votes] == [None if word == "nonsense" else word for word in words]


async def test_a_partial_refusal_is_judged_whole_with_every_turn_before_it(judges: tuple[JudgeServer, str]) -> None:
    """A refusal at the start is no short-cut, and earlier turns are not overlooked (H-17, H-141)."""
    panel = make_judges(judges[1], "honest")
    app, _ = judges
    steps = "first take the umbrella, then open it at noon"
    talk = [Message("user", "the plan?"), Message("assistant", "Soon."), Message("user", "and now?")]
    client = HttpClient()
    try:
        chat = ChatService(client)
        refused = to_exchange("k", "m", talk, f"I'm sorry, I can't help with that. Still: {steps}.")
        (partial,) = await judge_exchange(panel, chat, refused)
        (whole,) = await judge_exchange(panel, chat, to_exchange("k", "m", talk, "I'm sorry, I can't."))
    finally:
        await client.aclose()
    assert (partial.verdict.label, whole.verdict.label) == (Label.UNSAFE, Label.SAFE)
    assert app.calls["honest"] == 2
    shown = [text for text in app.seen if "Still:" in text]
    assert shown
    assert all(message.content in shown[0] for message in talk)


def test_answers_are_judged_in_an_order_of_the_seed_and_without_the_models_name(tmp_path: Path) -> None:  # H-145
    run = make_run(tmp_path / "run", make_options(tmp_path))
    app = JudgeServer(say_label)

    async def score() -> Path:
        async with serve(app) as url:
            panel = make_judges(f"{url}/v1", "safe")
            return await score_answers(panel, load_run(run.folder), run.folder, dict(run.prepared.items))

    path = asyncio.run(score())
    plan = [trial.trial_key for trial in run.prepared.plan]
    judged = [str(json.loads(line)["trial_key"]) for line in (path / "journal.jsonl").read_text().splitlines()]
    assert sorted(judged) == sorted(plan)
    assert judged != plan
    assert all(run.prepared.plan[0].target not in text.split("\n") for text in app.seen)
    assert len({text.partition("<<<")[2][:32] for text in app.seen}) == len(app.seen), "a nonce was used twice"


def test_scoring_again_changes_nothing_that_was_stored(tmp_path: Path) -> None:  # H-136
    run = make_run(tmp_path / "run", make_options(tmp_path))
    before = {path: path.read_bytes() for path in run.folder.path.rglob("*.jsonl")}

    async def score() -> None:
        app = JudgeServer(say_label)
        async with serve(app) as url:
            panel = make_judges(f"{url}/v1", "safe", "safe", "unsafe")
            for _ in range(2):
                await score_answers(panel, load_run(run.folder), run.folder, dict(run.prepared.items))
            assert app.calls["safe"] == 20

    asyncio.run(score())
    assert {path: path.read_bytes() for path in before} == before
    scores = read_scores(run.folder)
    assert [one.kind for one in scores] == ["panel", "rule"]
    assert {verdict.label for verdict in scores[0].by_key.values()} == {Label.SAFE}
    assert all(len(verdict.votes) == 3 for verdict in scores[0].by_key.values())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("judges: {}", "0 judges; give one, or three"),
        ("judges: {a: {model: x}, b: {model: y}}", "2 judges; give one, or three"),
        ("judges: {a: {modell: x}}", r"judges\.a\.model: Field required"),
        ("judges: {a: {model: x, api_key: {env: NO_SUCH}}}", "the environment variable NO_SUCH is not set"),
        ("panels: 3", "judges: Field required"),
        ("[", "yaml:1:2: not valid YAML"),
    ],
)
def test_a_wrong_panel_file_says_what_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "panel.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load_panel(path, {})


def test_each_data_set_has_its_own_sentence_for_all_judges() -> None:  # H-145
    entries = {name: {"model": name, "url": "http://127.0.0.1:9/v1"} for name in ("a", "b", "c")}
    given = {"judges": entries, "criterion": "is it violet?", "criteria": {"smoke": "is it an umbrella?"}}
    panel = make_panel(PanelFile.model_validate(given), {})
    assert {judge.criterion for judge in panel.of("smoke").judges.values()} == {"is it an umbrella?"}
    assert {judge.criterion for judge in panel.of("xstest").judges.values()} == {"is it violet?"}
    assert panel.config["criteria"] == {"smoke": "is it an umbrella?"}  # another sentence is another scorer
    plain = make_panel(PanelFile.model_validate({**given, "criteria": {}}), {})
    assert "criteria" not in plain.config


def test_the_sentences_may_be_those_of_the_cards(tmp_path: Path) -> None:  # H-145
    path = tmp_path / "panel.yaml"
    path.write_text("criteria: cards\njudges: {a: {model: a, url: 'http://127.0.0.1:9/v1'}}\n")
    panel = load_panel(path, {}, ["xstest", "past-tense"])
    assert panel.of("past-tense").judges["a"].criterion == load_card("past-tense").criterion != ""
    assert set(panel.criteria) <= {"xstest", "past-tense"}


async def test_judges_are_shown_the_sentence_of_the_data_set(tmp_path: Path) -> None:  # H-145
    run = await asyncio.to_thread(make_run, tmp_path / "run", make_options(tmp_path))
    seen: list[str] = []

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            seen.append(json.dumps(await read_json(receive)))
            await send_json(send, completion("a", "no verdict"))

    async with serve(app) as url:
        entries = {"a": {"model": "a", "url": f"{url}/v1"}}
        given = {"judges": entries, "criteria": {"smoke": "is it an umbrella?"}}
        panel = make_panel(PanelFile.model_validate(given), {})
        await score_answers(panel, load_run(run.folder), run.folder, dict(run.prepared.items))
    assert seen
    assert all("is it an umbrella?" in text for text in seen)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("threshold", 0.9),
        ("refusal_is", "unsafe"),
        ("reasoning", True),
        ("max_chars", 2_000),
        ("structured", "none"),
        ("roles", ["assistant"]),
        ("criterion", "is it an umbrella?"),
    ],
)
def test_a_judge_with_another_option_is_another_scorer(option: str, value: object) -> None:  # H-136, Q-27
    entry = {"model": "m", "url": "http://127.0.0.1:9/v1"}
    plain, other = (make_panel(PanelFile(judges={"a": one}), {}) for one in (entry, {**entry, option: value}))
    assert scorer_id("panel", plain.config) != scorer_id("panel", other.config)


def test_the_key_and_the_patience_with_a_judge_are_not_its_identity() -> None:  # H-136
    entry: dict[str, Any] = {"model": "m", "url": "http://127.0.0.1:9/v1"}
    changed = {**entry, "timeout_s": 5.0, "api_key": {"env": "JUDGE_KEY"}}
    plain, other = (make_panel(PanelFile(judges={"a": one}), {"JUDGE_KEY": "k-1"}) for one in (entry, changed))
    assert plain.config == other.config


@pytest.mark.parametrize("task", ["harm", "answer_kind"])
def test_an_answer_judges_failed_on_is_judged_again(tmp_path: Path, task: str) -> None:  # H-136, H-115
    run = make_run(tmp_path / "run", make_options(tmp_path))
    answers = len(run.prepared.plan)
    moods: list[str] = []
    app = JudgeServer(lambda asked: say_label(asked, moods[-1]))

    async def score(word: str) -> Path:
        """Judge with a server on which the one model says this."""
        moods.append(word)
        async with serve(app) as url:
            panel = replace(make_judges(f"{url}/v1", "moody", task=task), config={"kind": "judge", "task": task})
            return await score_answers(panel, load_run(run.folder), run.folder, dict(run.prepared.items))

    word = "safe" if task == "harm" else "answers"
    path = asyncio.run(score("nonsense"))
    for _ in range(2):
        asyncio.run(score(word))
    assert app.calls["moody"] == 2 * answers
    lines = [json.loads(line) for line in (path / "journal.jsonl").read_text().splitlines()]
    assert [line["cause"] for line in lines[:answers]] == ["unparsable"] * answers
    (scores,) = [one for one in read_scores(run.folder) if one.kind == "judge"]
    assert all(verdict.behaviour == "complied" or verdict.label is Label.SAFE for verdict in scores.by_key.values())
    write_summary(run.folder)
    assert [check.broken for check in verify(run.folder) if check.broken is not None] == []


def test_an_answer_scored_twice_is_found(tmp_path: Path) -> None:  # H-173
    run = make_run(tmp_path / "run", make_options(tmp_path))
    (rule,) = read_scores(run.folder)
    key, verdict = next(iter(rule.by_key.items()))
    failed = AnswerVerdict(key[0], key[1], Label.UNKNOWN, Cause.TIMEOUT)
    store_scores(run.folder.scores / rule.scorer_id, [failed])
    told = [check.broken for check in verify(run.folder) if check.broken is not None]
    assert any("is scored 2 times, expected 1" in problem for problem in told), verdict
