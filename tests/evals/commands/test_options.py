"""Options of the verbs, each with its effect; those that other tests name are not repeated here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.cli import main
from tests.e2e.fake_replies import chat_reply
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.processes import run_python

Capture = pytest.CaptureFixture[str]
SMOKE = ("replay", "smoke", "--target", "fake", "--yes", "--quiet")


def run(folder: Path, *args: str) -> int:
    return main([*args, "--runs-dir", str(folder), "--data-dir", str(folder)])


def planned(folder: Path, capsys: Capture, *args: str) -> Any:
    """Return what a dry run would do."""
    assert run(folder, *SMOKE, "--dry-run", "--json", *args) == 0
    return json.loads(capsys.readouterr().out)


def trials(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the plan of a run."""
    return [json.loads(line) for line in (folder / name / "plan.jsonl").read_text("utf-8").splitlines()]


def states(folder: Path, name: str) -> list[str]:
    """Return how the trials of a run ended."""
    lines = [json.loads(line) for line in (folder / name / "journal.jsonl").read_text("utf-8").splitlines()]
    return [line["status"] for line in lines if line["type"] == "trial"]


@pytest.mark.parametrize(
    ("option", "count"),
    [
        (("--sample", "4"), 4),
        (("--item-id", "smoke/all/000001*"), 1),
        (("--item-id", "*0001-*", "--item-id", "*0002-*"), 2),
        (("--category", "can*"), 5),
        (("--filter", "truth=benign"), 5),
        (("--filter", "truth=benign", "--filter", "category=canary"), 0),
    ],
)
def test_items_are_chosen(tmp_path: Path, capsys: Capture, option: tuple[str, ...], count: int) -> None:
    wanted = 0 if count else 1
    assert run(tmp_path, *SMOKE, "--dry-run", "--json", *option) == wanted
    assert count == 0 or json.loads(capsys.readouterr().out)["trials"] == count


def test_the_seed_decides_what_is_sampled(tmp_path: Path) -> None:
    chosen: list[set[str]] = []
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert run(tmp_path, *SMOKE, "--sample", "4", "--seed", seed, "--run-name", name) == 0
        chosen.append({trial["item_id"] for trial in trials(tmp_path, name)})
    assert chosen[0] == chosen[1] != chosen[2]


def test_only_what_ended_in_an_error_is_run_again(tmp_path: Path, capsys: Capture) -> None:
    failing = ("--target", "fake?errors=0.5", "--max-retries", "0", "--max-errors", "100")
    assert run(tmp_path, *SMOKE, *failing, "--run-name", "a") == 12
    errors = states(tmp_path, "a").count("error")
    capsys.readouterr()
    assert planned(tmp_path, capsys, "--errors-only", "a")["trials"] == errors > 0


@pytest.mark.parametrize(
    ("options", "code", "least", "most"),
    [
        (("--deadline", "0.05", "--target", "fake?delay_ms=1000", "--max-errors", "100"), 12, 0, 0),
        (
            ("--timeout", "0.05", "--target", "fake?delay_ms=1000", "--max-errors", "100", "--max-retries", "0"),
            12,
            0,
            0,
        ),
        (("--max-run-tokens", "1", "--concurrency", "1"), 12, 1, 2),
        (("--max-cost", "0.000001", "--price", "1000:1000", "--concurrency", "1"), 12, 1, 2),
        (("--max-run-s", "0.000001", "--concurrency", "1"), 12, 0, 1),
        (("--rate", "1", "--max-run-s", "2", "--concurrency", "1"), 12, 0, 2),
    ],
)
def test_a_limit_ends_the_run_early(
    tmp_path: Path, options: tuple[str, ...], code: int, least: int, most: int
) -> None:  # H-121, H-125
    assert run(tmp_path, *SMOKE, *options, "--run-name", "a") == code
    assert least <= states(tmp_path, "a").count("ok") <= most


def test_a_cost_limit_needs_a_price_or_leave(tmp_path: Path, capsys: Capture) -> None:
    limited = (*SMOKE, "--target", "http://127.0.0.1:9/v1#m", "--max-cost", "1", "--dry-run")
    assert run(tmp_path, *limited) == 2
    assert "--allow-unpriced" in capsys.readouterr().err
    assert run(tmp_path, *limited, "--allow-unpriced") == 0


def test_a_system_text_changes_what_is_sent(tmp_path: Path) -> None:
    system = tmp_path / "system.txt"
    system.write_text("You are a helpful lamp.", "utf-8")
    for name, options in (("a", ()), ("b", ("--system", str(system)))):
        assert run(tmp_path, *SMOKE, *options, "--limit", "1", "--run-name", name) == 0
    assert trials(tmp_path, "a")[0]["prompt_sha256"] != trials(tmp_path, "b")[0]["prompt_sha256"]


async def test_effort_temperature_and_budget_reach_the_model_and_verbose_tells_of_it(tmp_path: Path) -> None:
    async with FakeUpstream() as up:
        up.script(Answer(json=chat_reply("I cannot help with that.")))
        options = ("--reasoning-effort", "low", "--temperature", "0.5", "--max-tokens", "7", "--verbose")
        target = ("--target", f"{up.url}#m", "--limit", "1", "--runs-dir", str(tmp_path))
        ended = await run_python("-m", "evals.cli", *SMOKE, *target, *options)
        assert ended.code == 0, ended.err
        sent = next(received.json for received in up.received if received.path.endswith("/chat/completions"))
    assert (sent["reasoning_effort"], sent["temperature"], sent["max_tokens"]) == ("low", 0.5, 7)
    assert "INFO:" in ended.err


def test_the_stored_answer_is_shown_on_request(tmp_path: Path, capsys: Capture) -> None:
    assert run(tmp_path, *SMOKE, "--limit", "1", "--run-name", "a") == 0
    capsys.readouterr()
    assert run(tmp_path, "show", "a", "smoke", "--with-text", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["answer_text"]


def test_the_answers_to_a_sensitive_set_take_a_word_of_their_own(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "simplesafetytests" / "SimpleSafetyTests - test cases.csv"
    file.parent.mkdir()
    file.write_text("id,harm_area,counter,category,prompts_final\nsst_001,made up,1,x,Where is the violet umbrella?\n")
    made_up = ("simplesafetytests", "--accept-drift")
    assert run(tmp_path, "data", "show", *made_up, "--json") == 0
    assert "sensitive" in json.loads(capsys.readouterr().out)[0]["texts"]
    assert run(tmp_path, "replay", *made_up, "--target", "fake", "--yes", "--quiet", "--run-name", "b") == 0
    capsys.readouterr()
    for words, shown in (((), False), (("--with-sensitive",), True)):
        assert run(tmp_path, "show", "b", "simplesafetytests", "--with-text", "--json", *words) == 0
        trial = json.loads(capsys.readouterr().out)[0]
        assert bool(trial.get("answer_text")) is shown
        assert ("answer_withheld" in trial) is not shown


def test_a_set_whose_texts_ask_to_stay_out_of_training_data_is_shown_as_such(tmp_path: Path, capsys: Capture) -> None:
    assert run(tmp_path, "data", "show", "ahb", "--json") == 0
    assert "stay out of training data" in json.loads(capsys.readouterr().out)[0]["texts"]


def test_minutes_are_planned_from_measured_seconds(tmp_path: Path, capsys: Capture) -> None:
    for options, minutes in (((), None), (("--seconds-a-call", "12", "--concurrency", "1"), 2.0)):
        assert run(tmp_path, "plan", "smoke", "--json", *options) == 0
        assert json.loads(capsys.readouterr().out)["smoke"]["minutes"] == minutes


@pytest.mark.parametrize("option", [("--max-fpr", "0"), ("--min-score", "0"), ("--family", "x")])
@pytest.mark.parametrize("action", ["score", "export"])
def test_filters_of_a_table_are_refused_where_there_is_none(
    tmp_path: Path, capsys: Capture, action: str, option: tuple[str, str]
) -> None:
    assert run(tmp_path, "bells", action, "a", *option) == 2
    assert "use `bells table`" in capsys.readouterr().err


def test_a_lock_is_held_against_the_sets_that_are_named(tmp_path: Path, capsys: Capture) -> None:
    lock = ("--lock-file", str(tmp_path / "data.lock"))
    assert run(tmp_path, "data", "lock", "smoke", *lock) == 0
    assert (tmp_path / "data.lock").is_file()
    assert run(tmp_path, "data", "verify", "smoke", "--locked", *lock) == 0
    assert run(tmp_path, "data", "verify", "bells", "--locked", *lock) == 2
    assert "bells not in" in capsys.readouterr().err


def test_the_condition_of_nessie_changes_what_is_sent(tmp_path: Path) -> None:
    command = ("nessie", "--target", "fake", "--limit", "1", "--quiet", "--yes")
    hashes: set[str] = set()
    for name, condition in (("a", "plain"), ("b", "distraction")):
        assert run(tmp_path, *command, "--condition", condition, "--run-name", name) == 0
        hashes |= {trial["prompt_sha256"] for trial in trials(tmp_path, name)}
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("options", "calls"), [((), 89), (("--limit", "5"), 5), (("--limit", "5", "--num-runs", "3"), 15)]
)
def test_a_dry_run_of_nessie_counts_the_rows_asked_for(
    tmp_path: Path, capsys: Capture, options: tuple[str, ...], calls: int
) -> None:
    assert run(tmp_path, "nessie", "--dry-run", "--json", "--quiet", *options) == 0
    assert json.loads(capsys.readouterr().out)["calls"] == calls


@pytest.mark.parametrize(
    "text", ["a: [", "supervisors: {}", "supervisors: {w: {use: rules, keyword: [x]}}\npolicies: {p: {inputs: {}}}"]
)
def test_every_line_about_a_policy_names_the_file(tmp_path: Path, capsys: Capture, text: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text, "utf-8")
    assert run(tmp_path, *SMOKE, "--guard", str(path), "--dry-run") == 2
    said = capsys.readouterr().err.splitlines()
    assert said
    assert [line for line in said if str(path) not in line] == []


@pytest.mark.parametrize("name", ["a/b", "../a", "/a", "a\\b", "..", ""])
@pytest.mark.parametrize("verb", [SMOKE, ("merge", "x"), ("import", "jsonl", "x")])
def test_the_name_of_a_run_is_no_path(tmp_path: Path, capsys: Capture, verb: tuple[str, ...], name: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(tmp_path, *verb, "--run-name", name)
    assert f"{name!r} is no name of one folder, such as mine" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_sample_says_what_it_is_balanced_by(capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["replay", "--help"])
    assert "balanced by category, not by truth" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--rate", "0"), ("--rate", "nan"), ("--timeout", "nan"), ("--timeout", "0"), ("--deadline", "-1"),
        ("--max-cost", "nan"), ("--max-run-s", "-1"), ("--max-run-tokens", "-1"), ("--price", "nan:1"),
        ("--price", "inf:1"), ("--max-tokens", "0"), ("--temperature", "nan"), ("--concurrency", "\u00b2"),
        ("--max-errors", "\u00b2"), ("--retries", "x"),
    ],
)  # fmt: skip
def test_a_number_that_no_run_can_keep_is_refused(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # H-101
    given = ["replay", "smoke", "--target", "fake", "--yes", "--runs-dir", str(tmp_path), option, value]
    if option == "--retries":
        with pytest.raises(SystemExit, match="2"):
            main(given)
    else:
        assert main(given) == 2
    assert option in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "asked",
    [
        ("transfer", "run", "--budget", "0"),
        ("transfer", "run", "--budget", "nan"),
        ("combine", "run", "--max-fpr", "nan"),
        ("thresholds", "run", "--cost", "nan:1:0.5"),
        ("plan", "smoke", "--seconds-a-call", "-1"),
        ("watch", "run", "--every", "nan"),
        ("verify", "x" * 300),
        ("nessie", "--target", "fake", "--rows", "empty", "--dry-run"),
        ("bells", "table", "empty.jsonl"),
        ("data", "lock", "smoke", "--lock-file", "nowhere/lock.json"),
    ],
    ids=" ".join,
)
def test_a_wrong_number_or_an_empty_file_is_a_line_and_no_traceback(
    asked: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("empty", "empty.jsonl"):
        (tmp_path / name).write_bytes(b"")
    made = ["direct", "smoke", "--limit", "2", "--yes", "--quiet", "--run-name", "run", "--runs-dir", str(tmp_path)]
    assert main(made) == 0
    named = [str(tmp_path / word) if word.startswith(("empty", "nowhere")) else word for word in asked]
    code = main([*named, "--runs-dir", str(tmp_path)])
    assert code == (1 if asked[0] in ("nessie", "bells", "data") else 2)
    assert capsys.readouterr().err.splitlines()[-1].startswith("evals: ")
