"""`validate`, `explain`, `schema` and the program itself, as processes (operations §1, §2.2, O-02)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from tests.e2e.processes import run_command
from tests.timing import PATIENCE_S

WORDS = {"use": "rules", "keywords": ["violet umbrella"]}
GOOD: dict[str, Any] = {
    "upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1", "api_key": {"env": "UPSTREAM_KEY"}}},
    "models": {"gpt": {"upstream": "main"}},
    "keys": {"app": {"sha256": "a" * 64, "tags": ["team"]}},
    "supervisors": {"words": WORDS, "extra": WORDS},
    "policies": {
        "all": {"input": {"forced": ["words"], "optional": ["extra"]}, "output": {"forced": ["words"]}},
        "team": {"attach": {"tags": ["team"]}, "input": {"forced": ["extra"], "on_unsafe": "log", "timeout_s": 3}},
    },
}
ENVIRON = {"UPSTREAM_KEY": "upstream-secret-" + "x" * 30}


def write(folder: Path, tree: object, name: str = "config.json") -> Path:
    path = folder / name
    path.write_text(tree if isinstance(tree, str) else json.dumps(tree))
    return path


async def test_a_good_config_is_valid(tmp_path: Path) -> None:
    ended = await run_command("validate", write(tmp_path, GOOD), environ=ENVIRON)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("valid, version ")


async def test_every_problem_is_a_line_and_the_code_is_2(tmp_path: Path) -> None:  # §2.2
    bad = {**GOOD, "policies": {"p": {"attach": {"models": ["gtp"], "keys": ["nope"]}}, "q": {}}}
    ended = await run_command("validate", write(tmp_path, bad), environ=ENVIRON)
    assert ended.code == 2
    assert ended.out == ""
    lines = ended.err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error"] * 2 + ["warning"] * 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "error: {file}:1:5: not valid YAML: "),
        ("upstreams: {}\nnope: 1\n", "error: {file}:2:1: nope: unknown setting"),
        ('{"a": 1, "a": 2}', "error: {file}: not valid: the key 'a' occurs twice"),
        ("[]", "error: {file}: the file must hold a mapping"),
    ],
)
async def test_what_is_no_config_is_2(tmp_path: Path, text: str, said: str) -> None:
    ended = await run_command("validate", write(tmp_path, text, "c.yaml"))
    assert ended.code == 2
    assert said.format(file=tmp_path / "c.yaml") in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("change", [{"nope": 1}, {"policies": {"p": {"attach": {"models": ["gtp"]}}}}])
def test_every_line_about_a_config_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any]
) -> None:
    path = str(write(tmp_path, {**GOOD, "upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}}, **change}))
    for command in (["validate", path], ["matrix", path], ["attack", path]):
        assert main(command) == 2
        said = capsys.readouterr().err.splitlines()
        assert said, command
        assert [line for line in said if path not in line or not line.startswith(("error: ", "warning: "))] == [], (
            command
        )


@pytest.mark.parametrize("command", ["serve", "validate", "explain", "matrix", "attack"])
def test_a_config_is_an_argument_or_an_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:  # operations §1
    path = str(write(tmp_path, {"nope": 1}))
    rest = ["--request", str(request(tmp_path))] if command == "explain" else []
    said: list[str] = []
    for given in ([path], ["--config", path]):
        assert main([command, *given, *rest]) == 2
        said.append(capsys.readouterr().err)
    assert said[0] == said[1]
    assert f"error: {path}:1:2: nope: unknown setting" in said[0]
    for given in ([path, "--config", path], []):
        if given or command != "matrix":  # which has a config of its own
            with pytest.raises(SystemExit):
                main([command, *given, *rest])
            assert "give it once" in (wrong := capsys.readouterr().err) or "give the config file" in wrong


async def test_what_is_found_at_the_start_names_the_file_too(tmp_path: Path) -> None:
    path = write(tmp_path, {**GOOD, "keys": {}, "policies": {}})
    ended = await run_command("serve", "--config", path, "--host", "127.0.0.9", "--port", "0", environ=ENVIRON)
    said = "server.host: 127.0.0.9 is not loopback and no key is configured; add keys or listen on 127.0.0.1"
    assert (ended.code, ended.err.splitlines()[-1]) == (2, f"error: {path}: {said}")


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_is_a_number_of_two_bytes(capsys: pytest.CaptureFixture[str], port: str) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--config", "c.yaml", f"--port={port}"])
    assert f"'{port}' is no port; give a number from 0 to 65535" in capsys.readouterr().err


async def test_validate_names_missing_variables(tmp_path: Path) -> None:
    ended = await run_command("validate", write(tmp_path, GOOD))
    assert ended.code == 2
    said = "upstreams.main.api_key: the environment variable UPSTREAM_KEY is not set"
    assert ended.err == f"error: {tmp_path / 'config.json'}:1:62: {said}\n"


async def test_validate_checks_what_it_can_while_variables_are_missing(tmp_path: Path) -> None:  # §2.2
    bad = {**GOOD, "policies": {"p": {"attach": {"models": ["gtp"]}, "input": {"forced": ["words"]}}}}
    ended = await run_command("validate", write(tmp_path, bad))
    assert ended.code == 2
    assert "the environment variable UPSTREAM_KEY is not set" in ended.err
    assert "policies.p.attach.models: 'gtp' matches nothing; known: gpt" in ended.err


WRONG = """
upstreams:
  main: {base_url: "http://user@127.0.0.1:1/v1", api_key: {env: GONE}}
models:
  gpt-4.1: {upstream: main}
supervisors:
  words: {use: rules, keywords: [canary]}
  misspelt: {use: rules, keywrds: [canary]}
  itself: {use: vote, strategy: any, members: {a: itself}}
policies:
  all:
    attach: {models: ["gtp*"]}
    input: {forced: [words, gone], on_unsafe: redact, mode: parallel}
    output: {forced: [words], stream: {mode: windw}}
"""


async def test_no_group_of_errors_hides_another(tmp_path: Path) -> None:  # §2.2: all at once, each with its place
    file = write(tmp_path, WRONG, "c.yaml")
    ended, started = await run_command("validate", file), await run_command("serve", file)
    assert (ended.code, started.code) == (2, 2)
    assert started.err == ended.err
    assert [line.removeprefix(f"error: {file}:").split(": ")[:2] for line in ended.err.splitlines()] == [
        ["3:10", "upstreams.main.base_url"],
        ["3:50", "upstreams.main.api_key"],
        ["8:26", "supervisors.misspelt.keywrds"],
        ["9:48", "supervisors.itself.members.a"],
        ["12:14", "policies.all.attach.models"],
        ["13:13", "policies.all.input.forced"],
        ["13:36", "policies.all.input.on_unsafe"],
        ["14:40", "policies.all.output.stream.mode"],
    ]


def request(folder: Path, **fields: Any) -> Path:
    body = {"model": "gpt", "messages": [{"role": "user", "content": "violet umbrella"}], **fields}
    return write(folder, body, "request.json")


def test_explain_reads_a_request_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, body = write(tmp_path, GOOD), request(tmp_path)
    with body.open() as given:
        monkeypatch.setattr(sys, "stdin", given)
        assert main(["explain", str(path), "--request", "-"]) == 0
    assert "for the model gpt goes to the upstream main" in capsys.readouterr().out


def test_a_misspelt_section_is_one_line_and_lines_follow_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "upstream:\n  main: {base_url: http://127.0.0.1:1/v1}\n", "a.yaml")
    assert main(["validate", str(path)]) == 2
    said = "upstream: unknown setting; did you mean 'upstreams'?"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {path}:1:1: {said}")
    path = write(tmp_path, "nope: 1\nupstreams: {main: {bas_url: http://127.0.0.1:1/v1}}\nlimits: {b: 1}\n", "b.yaml")
    assert main(["validate", str(path)]) == 2
    places = [line.split(":")[2:4] for line in capsys.readouterr().err.splitlines()]
    assert places == [["1", "1"], ["2", "20"], ["3", "10"]]


async def test_a_start_that_fails_never_says_that_it_listens(tmp_path: Path) -> None:
    path = write(tmp_path, {**GOOD, "journal": {"path": str(tmp_path / "gone" / "j.db")}})
    ended = await run_command("serve", "--config", path, "--port", "0", environ=ENVIRON)
    assert (ended.code, "listening" in ended.err) == (3, False)
    assert f"the folder {tmp_path / 'gone'} does not exist" in ended.err.splitlines()[-1]


async def test_explain_says_who_would_judge_what_and_shows_no_text(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "search", "description": "look"}}]
    path, body = write(tmp_path, GOOD), request(tmp_path, tools=tools)
    ended = await run_command("explain", path, "--request", body, "--key", "app", "--json", environ=ENVIRON)
    assert ended.code == 0, ended.err
    shown = json.loads(ended.out)
    assert shown["policies"] == ["all", "team"]
    rows = {(row["supervisor"], row["stage"]): row for row in shown["supervisors"]}
    assert rows["extra", "input"]["policies"] == ["team"]
    assert rows["words", "input"]["on_unsafe"] == "block"
    assert rows["extra", "input"]["on_unsafe"] == "log"
    assert rows["words", "output"]["mode"] == "blocking"
    assert {segment["scope"] for segment in shown["segments"]} == {"conversation", "tool_def"}
    assert "violet" not in ended.out
    assert ENVIRON["UPSTREAM_KEY"] not in ended.out


def test_explain_says_it_in_words_and_needs_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shadow = {"attach": {"tags": ["team"]}, "output": {"forced": ["extra"], "mode": "shadow"}}
    policies = {**GOOD["policies"], "later": shadow}
    path, body = write(tmp_path, {**GOOD, "policies": policies}), request(tmp_path)
    assert main(["explain", str(path), "--request", str(body), "--key", "app"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "POST /v1/chat/completions for the model gpt goes to the upstream main.",
        "Policies that hold: all, later, team.",
    ]
    at = lines.index("  extra (team); looks at conversation, system, tool_def")
    assert lines[at + 1 : at + 4] == [
        "    everything waits for its verdict, at most 3 s",
        "    unsafe: record it, and pass",
        "    unknown: block",
    ]
    assert "    afterwards, in the shadow: its verdict is recorded, and nothing follows" in lines
    assert "  /messages/0/content: 15 characters; conversation scope, user, text" in lines
    assert "violet" not in "".join(lines)


def test_explain_reads_the_bodies_of_other_routes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, body = write(tmp_path, GOOD), write(tmp_path, {"model": "gpt", "input": ["hello"]}, "request.json")
    assert main(["explain", str(path), "--request", str(body), "--route", "/v1/embeddings"]) == 0
    out = capsys.readouterr().out
    assert "POST /v1/embeddings for the model gpt" in out
    assert "  /input/0: 5 characters; conversation scope, user, text" in out


def test_explain_without_a_key_says_that_nobody_is_served_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = request(tmp_path)
    assert main(["explain", str(write(tmp_path, GOOD)), "--request", str(body)]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "A caller without a key gets 401. Below is what holds for every key; --key NAME takes one of: app.",
        "",
        "POST /v1/chat/completions for the model gpt goes to the upstream main.",
    ]
    assert main(["explain", str(write(tmp_path, {**GOOD, "keys": {}})), "--request", str(body)]) == 0
    assert capsys.readouterr().out.startswith("POST /v1/chat/completions")


async def test_explain_without_a_key_and_with_an_added_supervisor(tmp_path: Path) -> None:
    path, body = write(tmp_path, GOOD), request(tmp_path, guardrails=["extra"])
    shown = json.loads((await run_command("explain", path, "--request", body, "--json", environ=ENVIRON)).out)
    assert shown["policies"] == ["all"]
    assert [row["supervisor"] for row in shown["supervisors"] if row["stage"] == "input"] == ["words", "extra"]


@pytest.mark.parametrize(("mode", "held"), [("window", {"keys": 190, "open": "all"}), ("hold", {"keys": "all"})])
async def test_explain_says_how_much_of_a_stream_is_held_back(tmp_path: Path, mode: str, held: dict[str, Any]) -> None:
    supervisors = {
        "keys": {"use": "rules", "presets": ["tokens"]},
        "open": {"use": "rules", "patterns": [{"name": "open", "regex": "a+b"}]},
    }
    output = {"forced": list(held), "stream": {"mode": mode, "window_chars": 300}}
    path = write(tmp_path, {**GOOD, "supervisors": supervisors, "policies": {"all": {"output": output}}})
    ended = await run_command("explain", path, "--request", request(tmp_path), "--json", environ=ENVIRON)
    assert json.loads(ended.out)["streams"] == {"mode": mode, "window_chars": 300, "held_back_chars": held}


@pytest.mark.parametrize(
    ("options", "fields", "said"),
    [
        (["--key", "nope"], {}, "keys: unknown key 'nope'; known: app"),
        ([], {"model": "other"}, "404 model_not_found: The model 'other' is not served here"),
        ([], {"guardrails": ["nope"]}, "400 unknown_guardrail: "),
        ([], {"messages": []}, "400 invalid_value: 'messages' must be a non-empty list"),
    ],
)
async def test_explain_says_what_is_wrong(
    tmp_path: Path, options: list[str], fields: dict[str, Any], said: str
) -> None:
    path, body = write(tmp_path, GOOD), request(tmp_path, **fields)
    ended = await run_command("explain", path, "--request", body, *options, environ=ENVIRON)
    assert ended.code == 2
    assert said in ended.err.splitlines()[0]


async def test_explain_needs_a_readable_request(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    ended = await run_command("explain", path, "--request", tmp_path / "nope.json", environ=ENVIRON)
    assert (ended.code, "nope.json" in ended.err, "Traceback" in ended.err) == (2, True, False)
    ended = await run_command("explain", path, "--request", write(tmp_path, "{", "bad.json"), environ=ENVIRON)
    assert ended.err.startswith("error: the proxy would answer 400 invalid_json: ")


async def test_the_schema_describes_the_config_and_every_kind_of_supervisor() -> None:
    ended = await run_command("schema")
    schema = json.loads(ended.out)
    assert ended.code == 0
    assert {"upstreams", "policies", "limits"} <= schema["properties"].keys()
    assert {"rules", "judge", "vote", "cascade"} <= schema["$defs"]["supervisors"].keys()


def test_the_program_knows_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["--help"], ["serve", "--help"], ["--version"]):
        with pytest.raises(SystemExit) as ended:
            main(args)
        assert ended.value.code == 0
    assert "guardrail-proxy" in capsys.readouterr().out
    with pytest.raises(SystemExit) as wrong:
        main(["sevre"])
    assert wrong.value.code == 2


async def test_a_request_that_is_not_there_is_named(tmp_path: Path) -> None:
    ended = await run_command(
        "explain", write(tmp_path, GOOD), "--request", str(tmp_path / "nope.json"), environ=ENVIRON
    )
    assert (ended.code, ended.err) == (2, f"error: cannot read {tmp_path / 'nope.json'}: No such file or directory\n")


@pytest.mark.parametrize("words", ["proxy.cli schema", "proxy.cli guard list", "evals.cli list datasets --json"])
async def test_a_reader_that_has_read_enough_is_no_failure(words: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # before anything is written, whatever else runs here
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(sys.executable, "-m", *words.split(), stdout=writing, stderr=pipe)
    os.close(writing)
    async with asyncio.timeout(PATIENCE_S):
        _, err = await child.communicate()
    assert (child.returncode, err) == (141, b"")
