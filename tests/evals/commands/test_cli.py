from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evals.cli import build_parser, main
from evals.commands.replay import found_line
from evals.datasets import load
from tests.timing import PATIENCE_S

WORDS = """supervisors:
  words: {use: rules, patterns: [{name: canary, regex: "violet umbrella"}]}
policies:
  default: {input: {forced: [words]}}
"""
SMOKE = ["replay", "smoke", "--target", "fake", "--yes", "--quiet"]


def _run(tmp_path: Path, *args: str) -> int:
    return main([*args, "--runs-dir", str(tmp_path)])


def test_a_smoke_run_is_done_and_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # H-101
    assert _run(tmp_path, *SMOKE, "--run-name", "a") == 0
    shown = capsys.readouterr()
    assert "smoke × fake-1" in shown.out
    assert "warning: FAKE model" in shown.out
    assert shown.err == ""
    assert _run(tmp_path, "verify", "a") == 0


def test_the_same_command_continues_the_run(tmp_path: Path) -> None:  # H-115
    assert _run(tmp_path, *SMOKE, "--run-name", "a") == 0
    before = (tmp_path / "a" / "journal.jsonl").read_text().count('"type":"trial"')
    assert _run(tmp_path, *SMOKE, "--run-name", "a") == 0
    assert (tmp_path / "a" / "journal.jsonl").read_text().count('"type":"trial"') == before == 10


def test_another_command_on_the_same_name_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # H-116
    assert _run(tmp_path, *SMOKE, "--run-name", "a") == 0
    assert _run(tmp_path, *SMOKE, "--run-name", "a", "--max-tokens", "9") == 2
    assert "target.fake-1.sampling.max_tokens: was 256, is 9" in capsys.readouterr().err
    assert _run(tmp_path, *SMOKE, "--run-name", "a", "--max-tokens", "9", "--force-new") == 0


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["replay", "no-such-set"], 2, "no data set 'no-such-set'"),
        (["replay", "smoke", "--limit", "0"], 1, "nothing was evaluated"),
        (["replay", "smoke", "--target", "ftp://x"], 2, "expected local, fake, recorded:FILE"),
        (["replay", "smoke", "--target", "http://127.0.0.1:9/v1"], 2, "name the model after a #"),
        (["replay", "smoke", "--target", "http://a:b@127.0.0.1/v1#m"], 2, "no credentials"),
        (["replay", "smoke", "--guard", "missing.yaml"], 2, "cannot be read"),
        (["replay", "smoke", "--concurrency", "many"], 2, "expected auto or a number"),
        (["replay", "smoke", "--max-errors", "x"], 2, "a share such as 20%"),
        (["replay", "smoke", "--price", "1"], 2, "expected IN:OUT"),
        (["replay", "smoke", "--tag", "x"], 2, "expected K=V"),
        (["replay", "smoke", "--proxy", "http://127.0.0.1:9"], 2, "use --ledger off"),
        (["replay", "smoke", "--api-key-env", "NO_SUCH_KEY"], 2, "NO_SUCH_KEY is not set"),
        (["replay", "bells"], 2, "missing bells/non_adversarial_prompts.csv"),
        (["verify", "no-run"], 2, "no run 'no-run'"),
        (["data", "show"], 2, "name at least one data set"),
        (["data", "overlap", "smoke"], 2, "at least two"),
        (["plan", "smoke", "--half-width", "2"], 2, "a share between 0 and 0.5"),
        (["plan", "smoke", "--icc", "1.5"], 2, "expected a correlation in 0..1"),
    ],
)
def test_a_mistake_is_one_clear_line_and_its_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], code: int, said: str
) -> None:  # H-101, H-177
    assert main([*args, "--runs-dir", str(tmp_path), "--data-dir", str(tmp_path)]) == code
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("*/journal.jsonl"))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["data", "show", "--accept-drift", "no-set"], "no data set 'no-set'"),
        (["direct", "smoke", "--limit", "1", "no-set"], "no data set 'no-set'"),
        (["frontier", "no-a", "--out", "t", "no-b"], "no run 'no-a'"),
        (["compare", "no-a", "--metric", "detection_rate", "no-b"], "no run 'no-a'"),
    ],
)
def test_names_may_stand_between_options_and_behind_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], said: str
) -> None:
    assert main([*args, "--runs-dir", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err


def test_all_names_are_taken_with_options_from_a_file_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "options.yaml"
    config.write_text("offline: true\n")
    for words in (["--quiet"], ["--config", str(config)]):
        assert _run(tmp_path, "data", "verify", "smoke", *words, "smoke", "--json") == 0
        assert [one["dataset"] for one in json.loads(capsys.readouterr().out)] == ["smoke", "smoke"]


@pytest.mark.parametrize("args", [["resume", "a", "--quiet", "b"], ["resume", "a", "--no-such", "b"]])
def test_what_a_verb_does_not_take_is_said_with_its_own_usage(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(args)
    said = capsys.readouterr().err
    assert said.startswith("evals resume: error: unrecognized arguments: ")
    assert said.endswith("evals resume --help says how it is used\n")
    assert f"unrecognized arguments: {' '.join(args[2:]).removeprefix('--quiet ')}" in said


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ["replay", "smoke", "--limt", "3"],
            "evals replay: error: unrecognized arguments: --limt 3; did you mean '--lim",
        ),
        (["replay", "smoke", "--limt=3"], "unrecognized arguments: --limt=3; did you mean '--limit'?"),
        (["replya", "smoke"], "evals: error: argument VERB: invalid choice: 'replya' (choose from "),
        (["replya", "smoke"], "; did you mean 'replay'?"),
        (["replay", "smoke", "--ledger", "shadw"], "; did you mean 'shadow'?"),
    ],
)
def test_a_misspelt_option_or_word_is_told_the_nearest_in_a_line(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(args)
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 2


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["replay", "smok"], "did you mean smoke?"),
        (["replay", "smoke", "--target", "fak"], "did you mean 'fake'?"),
        (["replay", "smoke", "--target", "record:replies.jsonl"], "did you mean 'recorded'?"),
        (["replay", "smoke", "--transform", "bas64"], "did you mean 'base64'?"),
    ],
)
def test_a_misspelt_name_is_told_the_nearest(
    args: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*args, "--runs-dir", str(tmp_path / "runs"), "--quiet"]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_makes_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, *SMOKE, "--dry-run", "--json") == 0
    planned: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (planned["trials"], planned["model_calls"]) == (10, 10)
    assert list(tmp_path.iterdir()) == []


def test_planned_calls_are_the_calls_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # H-170
    assert _run(tmp_path, "plan", "smoke", "--ledger", "paired", "--repeats", "2", "--json") == 0
    planned: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert _run(tmp_path, *SMOKE, "--ledger", "paired", "--repeats", "2", "--run-name", "a") == 0
    made = (tmp_path / "a" / "journal.jsonl").read_text().count('"type":"trial"')
    assert planned["smoke"]["model calls"] == made == 60


def _smallest(tmp_path: Path, capsys: pytest.CaptureFixture[str], *args: str) -> tuple[float, str]:
    assert _run(tmp_path, "plan", "smoke", "--json", *args) == 0
    shown = capsys.readouterr()
    planned: dict[str, Any] = json.loads(shown.out)["smoke"]
    return planned["smallest difference"], planned["reaches half width"]


def test_variants_of_the_same_roots_find_no_more_than_their_roots_allow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = [part for name in ("base64", "rot13", "leet", "flip") for part in ("--transform", name)]
    plain = _smallest(tmp_path, capsys)
    alike = _smallest(tmp_path, capsys, *variants, "--icc", "1")
    assumed = _smallest(tmp_path, capsys, *variants)
    apart = _smallest(tmp_path, capsys, *variants, "--icc", "0")
    assert plain[0] == alike[0] > assumed[0] > apart[0]
    items = int(apart[1].split()[1])
    assert (plain[1], apart[1]) == ("no, 5 of 381", f"no, {items} of 381")
    assert assumed[1] == f"no, {items} of {math.ceil(381 * (1 + (items / 5 - 1) * 0.5))}"
    assert _run(tmp_path, "plan", "smoke", *variants) == 0
    assert "allow for a correlation of 0.5 (assumed)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "needed", "smallest", "said"),
    [
        ((), 307, 0.247, "307 items of one class (312 by Connor's form) show a difference of 0.05"),
        (("--difference", "0.2"), 32, 0.35, "differ on 0.2 of the items (assumed)"),
        (("--difference", "0.1", "--discordant", "0.3"), 228, 0.428, "(234 by Connor's form)"),
        (("--unpaired", "0.05"), 432, 0.64, "432 items of one class in each run tell 0.05 from 0.1"),
        (("--unpaired", "0.5", "--difference", "0.1"), 385, None, "tell 0.5 from 0.6"),
        (("--at-most", "0.01"), 307, 0.247, "299 items without a failure, 473, 628, 773 with 1, 2, 3"),
    ],
)
def test_a_plan_says_how_many_items_show_the_wanted_difference(
    options: tuple[str, ...],
    needed: int,
    smallest: float | None,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # H-170, Q-09, Q-21, Q-22, Q-24
    assert _run(tmp_path, "plan", "smoke", "--json", *options) == 0
    shown = capsys.readouterr()
    planned: dict[str, Any] = json.loads(shown.out)["smoke"]
    assert planned["shows the difference"] == f"no, 5 of {needed}"
    assert planned["smallest difference"] == planned["smallest difference, benign"] == smallest
    assert said in shown.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--difference", "1.5"), "--difference 1.5: expected a share between 0 and 1"),
        (("--discordant", "0.01"), "cannot differ by 0.05 on fewer items"),
        (("--unpaired", "-1"), "--unpaired -1.0: expected a share in 0..1"),
        (("--unpaired", "0.3", "--difference", "0.8"), "no rate that far from 0.3"),
        (("--at-most", "0"), "--at-most 0.0: expected a share between 0 and 1"),
        (("--icc", "2"), "--icc 2.0: expected a correlation in 0..1"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(
    options: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tmp_path, "plan", "smoke", *options) == 2
    assert said in capsys.readouterr().err


def test_errors_leave_the_run_incomplete_and_are_retried(tmp_path: Path) -> None:  # H-101, H-115
    failing = ["--target", "fake?errors=0.5", "--max-retries", "0", "--max-errors", "100", "--run-name", "a"]
    assert _run(tmp_path, "replay", "smoke", "--quiet", "--yes", *failing) == 12
    journal = tmp_path / "a" / "journal.jsonl"
    before = journal.read_text().count('"status":"error"')
    assert _run(tmp_path, "retry-errors", "a", "--quiet") == 12
    assert journal.read_text().count('"status":"error"') == 2 * before > 0
    assert journal.read_text().count('"status":"ok"') == 10 - before


def test_options_may_come_from_a_file_and_the_command_line_wins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "options.yaml"
    config.write_text("limit: 3\nmax-tokens: 7\nyes: true\n")
    assert _run(tmp_path, "replay", "smoke", "--dry-run", "--json", "--config", str(config)) == 0
    assert json.loads(capsys.readouterr().out)["trials"] == 3
    assert _run(tmp_path, "replay", "smoke", "--dry-run", "--json", "--config", str(config), "--limit", "5") == 0
    assert json.loads(capsys.readouterr().out)["trials"] == 5


def test_an_unknown_option_in_a_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "options.yaml"
    config.write_text("limits: 3\n")
    assert _run(tmp_path, *SMOKE, "--config", str(config)) == 2
    assert "unknown options limits" in capsys.readouterr().err


def test_one_item_is_shown_with_its_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, *SMOKE, "--run-name", "a") == 0
    capsys.readouterr()
    assert _run(tmp_path, "show", "a", "smoke/all/000001", "--json") == 0
    shown: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert [one["planned"]["truth"] for one in shown] == ["harmful"]
    assert shown[0]["line"]["verdicts"][0]["supervisor"] == "embedded"
    assert "answer_text" not in shown[0]


def _shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, item: str) -> list[str]:
    capsys.readouterr()
    assert _run(tmp_path, "show", name, item) == 0
    return capsys.readouterr().out.splitlines()


def test_what_an_item_has_not_is_left_out_and_why_it_was_not_scored_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guard = tmp_path / "words.yaml"
    guard.write_text(WORDS, "utf-8")
    enforced = ["--ledger", "off", "--guard", str(guard), "--run-name", "enforced"]
    assert _run(tmp_path, *SMOKE, *enforced) == 0
    blocked = _shown(tmp_path, capsys, "enforced", "smoke/all/000001")
    assert any(re.fullmatch(r"  status ok, gate block_input, record \w+", line) for line in blocked)
    assert [line.split(": ", 1)[1] for line in blocked if "scorer" in line] == [
        "not scored: the guard blocked it, so the answer is not the model's"
    ]
    alone = ["direct", "smoke", "--limit", "1", "--yes", "--quiet", "--run-name", "alone"]
    assert _run(tmp_path, *alone) == 0
    checked = _shown(tmp_path, capsys, "alone", "smoke/")
    assert any(line.endswith("not scored: supervisors alone were asked, so there is no answer") for line in checked)
    assert any(re.fullmatch(r"    embedded \(input\): safe, score 0\.\d{1,6}", line) for line in checked)
    assert not any("None" in line for line in blocked + checked)


def test_a_wrong_policy_is_told_with_line_and_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guard = tmp_path / "bad.yaml"
    guard.write_text(WORDS.replace("regex", "regx"), "utf-8")
    assert _run(tmp_path, "direct", "smoke", "--guard", str(guard)) == 2
    said = capsys.readouterr().err
    assert f"{guard}:2:" in said
    assert "did you mean 'regex'" in said
    guard.write_text("supervisors: {a: {use: rules}\npolicies: [", "utf-8")
    assert _run(tmp_path, "direct", "smoke", "--guard", str(guard)) == 2
    said = capsys.readouterr().err
    assert str(guard) in said
    assert "not valid YAML" in said
    assert "<unicode string>" not in said


def test_runs_and_data_sets_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, *SMOKE, "--run-name", "a") == 0
    capsys.readouterr()
    assert _run(tmp_path, "list", "runs", "--json") == 0
    assert [(one["run"], one["state"]) for one in json.loads(capsys.readouterr().out)] == [("a", "complete")]
    assert _run(tmp_path, "list", "datasets", "--json", "--data-dir", str(tmp_path)) == 0
    sets = {one["id"]: one for one in json.loads(capsys.readouterr().out)}
    assert (sets["smoke"]["state"], sets["bells"]["state"]) == ("present", "missing")
    assert sets["smoke"]["how to get it"] == ""
    assert sets["bells"]["how to get it"].startswith("evals data fetch bells --accept-licence bells --data-dir ")
    assert sets["spikee-mini"]["how to get it"].startswith("pip install --no-deps spikee==0.9.2, then evals data fetch")
    assert all(one["how to get it"] for one in sets.values() if one["state"] in ("missing", "gated"))


def test_failing_items_of_a_run_can_be_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, *SMOKE, "--run-name", "a") == 0
    capsys.readouterr()
    assert _run(tmp_path, *SMOKE, "--failing", "a", "--dry-run", "--json") == 0
    failing = (tmp_path / "a" / "report" / "failures.jsonl").read_text().count("\n")
    assert json.loads(capsys.readouterr().out)["trials"] == failing


def test_the_nessie_cases_run_with_and_without_the_proxy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # N-11, N-12
    args = ["nessie", "--target", "fake", "--suite", "agentic", "--quiet", "--yes", "--json", "--run-name", "n"]
    assert _run(tmp_path, *args) == 0
    summary: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    strict = summary["results"]["nessie"]["fake-1"]["strict"]
    assert strict["with proxy"]["all"]["sh"]["n"] == strict["without proxy"]["all"]["sh"]["n"] == 4
    assert strict["effect"]["overall"]["n"] == 4
    assert _run(tmp_path, "verify", "n") == 0


def test_the_first_interruption_lets_trials_finish_and_the_run_goes_on_later(tmp_path: Path) -> None:  # H-118
    target = ["--target", "fake?delay_ms=300", "--concurrency", "2", "--run-name", "a", "--runs-dir", str(tmp_path)]
    command = [sys.executable, "-m", "evals.cli", "replay", "smoke", "--yes", *target]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    journal = tmp_path / "a" / "journal.jsonl"
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and not (journal.exists() and '"type":"trial"' in journal.read_text()):
        if process.poll() is not None:
            break
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert b"next: evals resume" in said
    assert _run(tmp_path, "resume", "a", "--quiet") == 0
    assert journal.read_text().count('"type":"trial"') == 10
    assert _run(tmp_path, "verify", "a") == 0


def test_every_verb_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    verbs = ["list", "data", "plan", "replay", "direct", "resume", "retry-errors", "score", "report", "verify", "show"]
    for verb in [*verbs, "bells", "nessie"]:
        with pytest.raises(SystemExit):
            build_parser().parse_args([verb, "--help"])
        assert "example: evals" in capsys.readouterr().out


def test_a_run_offered_again_is_said_to_be_finished_or_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loud = [word for word in SMOKE if word != "--quiet"]
    assert _run(tmp_path, *loud, "--run-name", "a") == 0
    assert "this run" not in capsys.readouterr().err
    for words in ([*loud, "--run-name", "a"], ["resume", "a"]):
        assert _run(tmp_path, *words) == 0
        assert "this run is finished: 10 trials are done and none is made again" in capsys.readouterr().err
    assert found_line(10, 3).endswith("7 of 10 trials done, 3 left")
    assert found_line(1, 0).startswith("this run is finished: 1 trial is done and is not made again")


def test_trials_of_several_models_are_compared_model_by_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = tmp_path / "replies.jsonl"
    rows = [
        {"model": model, "prompt": item.prompt, "response": "I cannot help with that."}
        for model in ("one", "two")
        for item in load("smoke", tmp_path)
    ]
    replies.write_text("".join([json.dumps(row) + "\n" for row in rows]))
    for name in ("a", "b"):
        words = ["replay", "smoke", "--target", f"recorded:{replies}", "--run-name", name, "--yes", "--quiet"]
        assert _run(tmp_path, *words) == 0
    assert _run(tmp_path, "compare", "a", "b") == 2
    assert "was tried with several models; tell them apart with --by-target" in capsys.readouterr().err
    assert _run(tmp_path, "compare", "a", "b", "--by-target", "--metric", "detection_rate", "--json") == 0
    compared: Any = json.loads(capsys.readouterr().out)["compared"][0]
    assert (compared["matched"], compared["changes"]) == (20, [])


_SETS = "advbench-pair50 simplesafetytests jailbreakbench jailbreakbench-copy strongreject-small malicious-instruct"
_MORE = "notinject-1 notinject-2 notinject-3 tdc2023 harmbench-val pyrit-refusal-mini benign-mt-bench"


def test_near_texts_of_many_sets_are_looked_for_when_asked(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # DS-14
    found: dict[bool, Any] = {}
    for near in (False, True):
        words = ["data", "overlap", *_SETS.split(), *_MORE.split(), "--data-dir", str(data_dir), "--json"]
        assert main([*words, *(["--near"] if near else [])]) == 0
        found[near] = json.loads(capsys.readouterr().out)
    assert {near: (one["sets"], one["near"]) for near, one in found.items()} == {False: (13, False), True: (13, True)}
    assert all(pair["near"] is None for pair in found[False]["pairs"])
    assert all(pair["near"] is not None for pair in found[True]["pairs"])
    exact = {(pair["left"], pair["right"]): pair["norm"] for pair in found[True]["pairs"] if pair["norm"]}
    assert exact == {(pair["left"], pair["right"]): pair["norm"] for pair in found[False]["pairs"]}


def test_where_every_page_of_a_report_is_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["nessie", "--target", "fake", "--suite", "agentic", "--limit", "1", "--yes", "--run-name", "n"]
    assert _run(tmp_path, *asked) == 0
    pages = f"report: {tmp_path / 'n' / 'report' / 'report.html'}, {tmp_path / 'n' / 'report' / 'nessie.html'}\n"
    assert pages in capsys.readouterr().err
    assert _run(tmp_path, "report", "n") == 0
    assert pages in capsys.readouterr().err
