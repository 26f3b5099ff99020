"""`evals replay`: what it says when trials fail, and when nobody listens where it is to ask."""

from __future__ import annotations

import asyncio
import json
import queue
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evals.cli import main
from evals.fake import FakeModel
from evals.serving import serve

DEAD = "http://127.0.0.1:1"


@contextmanager
def one_connection() -> Generator[str]:
    """Listen until somebody has connected once; whoever comes later is refused."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        port = listener.getsockname()[1]

        def take_one() -> None:
            listener.accept()[0].close()
            listener.close()

        waiting = threading.Thread(target=take_one)
        waiting.start()
        yield f"http://127.0.0.1:{port}"
        waiting.join(30)


def test_a_proxy_that_has_left_is_named_as_the_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = ["--runs-dir", str(tmp_path), "--quiet"]
    with one_connection() as url:
        dead = ["--proxy", url, "--ledger", "off", "--max-retries", "0", "--run-name", "dead"]
        assert main(["replay", "smoke", *dead, "--max-errors", "3", "--concurrency", "1", *runs]) == 12
    said = capsys.readouterr()
    assert "stopped: 4 of 10 trials failed: 4 x connect (nobody answers at the address)" in said.err
    assert main(["report", "dead", *runs]) == 0
    assert "4 x connect (nobody answers at the address)" in capsys.readouterr().out
    assert main(["resume", "dead", *runs]) == 2
    assert f"cannot reach {url}: connection refused" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--target", f"{DEAD}/v1#x"], f"{DEAD}/v1"),
        (["--target", f"{DEAD}/v1#x", "--ledger", "paired"], f"{DEAD}/v1"),
        (["--proxy", DEAD, "--ledger", "off"], DEAD),
        (["--proxy", "http://a:secret@127.0.0.1:1", "--ledger", "off"], DEAD),
    ],
)
def test_a_server_that_is_down_is_named_before_a_trial_is_spent(
    options: list[str], shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "smoke", *options, "--runs-dir", str(tmp_path), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert f"cannot reach {shown}: connection refused; is the server up?" in said
    assert "secret" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options", [["--target", "http://127.0.0.1:no/v1#x"], ["--proxy", "http://127.0.0.1:no", "--ledger", "off"]]
)
def test_an_address_whose_port_is_no_number_is_shown(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "smoke", *options, "--runs-dir", str(tmp_path), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "127.0.0.1:no" in said
    assert "expected a URL with a host" in said


def test_planning_and_a_run_without_model_need_no_server(tmp_path: Path) -> None:
    runs = ["--runs-dir", str(tmp_path), "--quiet"]
    assert main(["replay", "smoke", "--target", f"{DEAD}/v1#x", "--dry-run", *runs]) == 0
    assert main(["direct", "smoke", "--limit", "1", *runs]) == 0


@contextmanager
def fake_model() -> Generator[str]:
    """Serve the fake model from another thread, since a run handles signals in the main one."""
    urls: queue.Queue[str] = queue.Queue()
    loop, left = asyncio.new_event_loop(), asyncio.Event()

    async def run() -> None:
        async with serve(FakeModel()) as url:
            urls.put(url)
            await left.wait()

    serving = threading.Thread(target=lambda: loop.run_until_complete(run()))
    serving.start()
    try:
        yield urls.get(timeout=30)
    finally:
        loop.call_soon_threadsafe(left.set)
        serving.join(30)
        loop.close()


def test_a_finished_run_is_shown_again_without_its_server(tmp_path: Path) -> None:
    runs = ["--runs-dir", str(tmp_path), "--quiet"]
    with fake_model() as url:
        asked = ["replay", "smoke", "--target", f"{url}/v1#fake", "--run-name", "mine", "--limit", "1", "--yes", *runs]
        assert main(asked) == 0
    assert main(asked) == 0
    assert main(["resume", "mine", *runs]) == 0


def _guard(path: Path, policy: str, **supervisors: str) -> list[str]:
    """Write a policy file and return the options of a run behind it."""
    lines = "".join([f"  {name}: {entry}\n" for name, entry in supervisors.items()])
    file = path / "policy.yaml"
    file.write_text(f"supervisors:\n{lines}policies:\n  default: {policy}\n", "utf-8")
    return ["smoke", "--guard", str(file), "--runs-dir", str(path / "runs"), "--yes"]


_UNREACHABLE = "{use: moderation, url: 'http://127.0.0.1:1/v1'}"


@pytest.mark.parametrize("verb", ["direct", "replay"])
def test_a_run_whose_guard_was_never_reached_evaluated_nothing(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # H-101
    assert main([verb, *_guard(tmp_path, "{input: {forced: [far]}}", far=_UNREACHABLE)]) == 1
    said = capsys.readouterr()
    assert "evals: nothing was evaluated: far@input failed: 10 of 10 unknown (error 10); the first: connect" in said.err
    assert "warning: far@input failed: 10 of 10 unknown (error 10)" in said.out


def test_one_supervisor_that_was_never_reached_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # H-101
    policy = "{input: {forced: [far, near], exhaustive: true, on_unknown: log}}"
    near = "{use: rules, keywords: [violet umbrella]}"
    assert main(["direct", *_guard(tmp_path, policy, far=_UNREACHABLE, near=near)]) == 0
    said = capsys.readouterr()
    assert "nothing was evaluated" not in said.err
    assert "warning: far@input failed: 10 of 10 unknown (error 10)" in said.out


def test_nobody_was_asked_about_a_reply_there_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # H-101
    near = "{use: rules, keywords: [violet umbrella]}"
    assert main(["direct", *_guard(tmp_path, "{output: {forced: [near]}}", near=near)]) == 1
    assert "nothing was evaluated: 10 of 10 trials unknown (skipped 10)" in capsys.readouterr().err


_WORDS = "{use: rules, keywords: [violet umbrella]}"


@pytest.mark.parametrize("ledger", ["shadow", "off", "paired"])
@pytest.mark.parametrize("attach", ["{models: [elsewhere]}", "{routes: [/v1/responses]}"])
def test_a_policy_that_holds_elsewhere_measured_nothing(
    ledger: str, attach: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # H-101
    options = _guard(tmp_path, f"{{attach: {attach}, input: {{forced: [near]}}}}", near=_WORDS)
    with (tmp_path / "policy.yaml").open("a", encoding="utf-8") as file:
        file.write("upstreams: {main: {base_url: http://127.0.0.1:1/v1}}\nmodels: {elsewhere: {upstream: main}}\n")
    options = ["replay", *options, "--ledger", ledger, "--run-name", "mine"]
    assert main(options) == 1
    said = capsys.readouterr()
    assert "evals: nothing was evaluated: 10 of 10 trials unknown (skipped 10)" in said.err
    summary = json.loads((tmp_path / "runs" / "mine" / "summary.json").read_text("utf-8"))
    (section,) = summary["results"]["sections"]
    assert [section["ledger"][name]["n"] for name in ("detection_rate", "unsafe_behind", "needless_block_rate")] == [
        0
    ] * 3
    assert {cell["answered_behind"]["n"] for cell in section["cells"].values()} == {0}
    gained = section["ledger"]["marginal_safety"]
    assert gained is None or gained["n"] == 0
    unsafe_alone = section["ledger"]["unsafe_alone"]["n"]
    assert unsafe_alone > 0


def test_a_policy_that_only_watches_was_asked(tmp_path: Path) -> None:
    options = _guard(tmp_path, "{input: {forced: [near], mode: shadow}}", near=_WORDS)
    assert main(["replay", *options, "--run-name", "mine", "--quiet"]) == 0
    summary = json.loads((tmp_path / "runs" / "mine" / "summary.json").read_text("utf-8"))
    assert summary["results"]["sections"][0]["ledger"]["unsafe_behind"]["n"] > 0


def _production(path: Path, url: str, **more: str) -> list[str]:
    """Write the config of a proxy that serves the model `toy` itself, and return the options of a run behind it."""
    judge = "{use: judge, model: judge-1}"
    parts = {
        "upstreams": "{main: {base_url: http://127.0.0.1:1/v1}, target: {base_url: http://127.0.0.1:1/v1}}",
        "models": "{toy: {upstream: main, model: real}, judge-1: {upstream: target}}",
        "supervisors": f"{{words: {_WORDS}, judge: {judge}}}",
        "policies": "{p: {attach: {models: [toy]}, input: {forced: [words]}}}",
        **more,
    }
    file = path / "proxy.yaml"
    file.write_text("".join([f"{name}: {value}\n" for name, value in parts.items()]), "utf-8")
    target = ["--target", f"{url}/v1#toy", "--max-retries", "0"]
    return ["replay", "smoke", "--guard", str(file), *target, "--runs-dir", str(path / "runs"), "--yes"]


@pytest.mark.parametrize("models", [None, "{'*': {upstream: main}, judge-1: {upstream: target}}"])
def test_the_target_takes_the_place_of_the_model_of_its_name(models: str | None, tmp_path: Path) -> None:
    with fake_model() as url:
        more = {} if models is None else {"models": models}
        assert main([*_production(tmp_path, url, **more), "--run-name", "mine", "--quiet"]) == 0
    summary = json.loads((tmp_path / "runs" / "mine" / "summary.json").read_text("utf-8"))
    (section,) = summary["results"]["sections"]
    assert section["ledger"]["unsafe_behind"]["n"] > 0  # the policy of the model holds for the target
    assert summary["results"]["progress"]["ok"] == 10  # its own server is down


_POLICY_OF_JUDGE = "{p: {input: {forced: [judge]}}}"


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"supervisors": "{judge: {use: judge, model: toy}}", "policies": _POLICY_OF_JUDGE},
            "policy proxy.yaml: the supervisor judge asks the model 'toy', and the target has the same name",
        ),
        (
            {
                "supervisors": "{judge: {use: judge, model: toy}}",
                "policies": _POLICY_OF_JUDGE,
                "models": "{'*': {upstream: main}}",
            },
            "policy proxy.yaml: the supervisor judge asks the model 'toy', and the target has the same name",
        ),
        (
            {"supervisors": "{judge: {use: judge, model: judge-2}}", "policies": _POLICY_OF_JUDGE},
            "policy proxy.yaml: supervisors.judge.model: unknown model 'judge-2'; known: judge-1, toy",
        ),
        (
            {"policies": "{p: {attach: {keys: [app]}, input: {forced: [words]}}}"},
            "policy proxy.yaml: policies.p.attach.keys: 'app' matches nothing",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_before_there_is_a_run(
    dry: bool, more: dict[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # H-101
    with fake_model() as url:
        assert main([*_production(tmp_path, url, **more), *(["--dry-run"] if dry else [])]) == 2
    assert f"evals: {said}" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_judge_nobody_asks_may_have_the_name_of_the_target(tmp_path: Path) -> None:
    judges = f"{{words: {_WORDS}, judge: {{use: judge, model: toy}}}}"
    with fake_model() as url:
        assert main([*_production(tmp_path, url, supervisors=judges), "--dry-run", "--quiet"]) == 0


def test_a_dry_run_finds_that_the_name_is_of_another_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = ["replay", "smoke", "--runs-dir", str(tmp_path), "--run-name", "mine", "--quiet"]
    assert main([*mine, "--limit", "1"]) == 0
    assert main([*mine, "--limit", "2", "--dry-run"]) == 2
    assert "is another run" in capsys.readouterr().err
    assert main([*mine, "--limit", "2", "--dry-run", "--force-new"]) == 0
