"""The verbs list, card, try, pull, verify and remove of ``guardrail-proxy guard`` (GU-07, PL-01, PL-05, PL-06)."""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.cli import main
from proxy.commands import guard
from proxy.hub import CONTENT_HOSTS
from supervisors.card import list_cards
from supervisors.encoder import list_encoders
from supervisors.in_process.cards import list_in_process
from tests.proxy.fake_hub import FakeHub, serve_hub

CARD = "protectai-injection-v2"


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    guard.add_parser(parser.add_subparsers(dest="command", required=True))
    return guard.run(parser.parse_args(["guard", *words]))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GUARDRAIL_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return tmp_path


def pull(hub: FakeHub, *words: str) -> int:
    return run("pull", CARD, "--hub", hub.url, "--accept-licence", "apache-2.0", *words)


def test_list_names_every_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    lines = capsys.readouterr().out.splitlines()
    names = ["embedded", *list_cards(), *list_encoders(), *list_in_process()]
    assert [line.split()[0] for line in lines] == ["card", *sorted(names)]
    assert "gated" in next(line for line in lines if line.startswith("llama-guard-3-8b"))


@pytest.mark.parametrize("name", ["llama-guard-3-8b", "duoguard-0.5b"])
def test_card_prints_a_card_that_can_be_read_again(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("card", name) == 0
    assert yaml.safe_load(capsys.readouterr().out)["name"] == name


def test_card_prints_the_embedded_one_and_refuses_an_unknown_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("card", "embedded") == 0
    assert "topical detector" in capsys.readouterr().out
    assert run("card", "violet") == 2
    assert "unknown card 'violet'" in capsys.readouterr().err


def verdicts(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_try_asks_the_embedded_guard_about_a_text_or_two_probes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("try", "How do I bake bread?") == 0
    assert [found["label"] for found in verdicts(capsys)] == ["safe"]
    assert run("try") == 0
    assert ["text" in found for found in verdicts(capsys)] == [True, True]


def test_try_asks_a_supervisor_of_a_config(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries = {
        "words": {"use": "rules", "keywords": ["violet umbrella"]},
        "embedded": {"use": "guard", "card": "embedded"},
    }
    tree = {"upstreams": {"main": {"base_url": "http://127.0.0.1:9/v1"}}, "supervisors": entries}
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(tree))
    asked = ("--config", str(file), "--name", "words")
    assert run("try", "a violet umbrella", *asked, "--stage", "output", "--prompt", "what?") == 0
    found = verdicts(capsys)[0]
    assert (found["label"], found["spans"]) == ("unsafe", [["/choices/0/message/content", 2, 17, "rules"]])
    assert run("try", "x", "--config", str(file)) == 2
    assert "--name says which supervisor: embedded, words" in capsys.readouterr().err
    assert run("try", "x", "--config", str(file), "--name", "none") == 2
    assert run("try", "x", "--config", str(file), "--name", "embedded", "--stage", "output") == 2
    assert "judges input only" in capsys.readouterr().err


def test_try_starts_the_local_model_that_a_judge_needs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = {
        "upstreams": {"own": {"use": "local", "path": str(folder / "violet.gguf")}},
        "models": {"small": {"upstream": "own"}},
        "supervisors": {"judge": {"use": "judge", "model": "small"}},
    }
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(tree))
    assert run("try", "x", "--config", str(file)) == 2
    assert f"upstreams.own.path: no such file: {folder / 'violet.gguf'}" in capsys.readouterr().err


def test_try_says_unknown_with_its_cause_and_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--card", "llama-guard-3-8b", "--set", "url=http://127.0.0.1:9/v1")
    assert run("try", "x", *where, "--timeout", "2") == 1
    assert verdicts(capsys)[0]["cause"] == "error"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "url"), "--set takes OPTION=VALUE"),
        (("--stage", "output"), "embedded judges input only, not output; leave out --stage output"),
        (("--card", "llama-gard-3-8b"), "guard: card: unknown card 'llama-gard-3-8b'; did you mean"),
        (("--name", "a"), "give --config FILE too"),
        (("--prompt", "p"), "judge one with --stage output"),
        (("--config", "x.yaml", "--card", CARD), "leave them out with --config"),
        (("--card", "llama-guard-3-8b", "--set", "shiny=1"), "unknown setting"),
        (("--set", "budget=["), "--set budget=[: the value is no YAML"),
        (("--set", "budget=&a [*a]"), "--set budget=&a [*a]: the value is no YAML"),
        (("--set", "budget=2020-01-01"), "budget '2020-01-01' is not a number"),
    ],
)
def test_try_refuses_what_does_not_go_together(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("try", "x", *words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_try_takes_a_time_that_can_be_waited(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("try", "x", "--timeout", seconds)
    assert f"{seconds!r} is no number of seconds above 0" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["try", "score"])
@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # a terminal's setting says which it is
def test_a_text_that_is_not_utf8_is_refused(
    verb: str, errors: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"violet \xff"), "utf-8", errors))
    assert run(verb, "-") == 2
    said = "guardrail-proxy guard: standard input is not UTF-8: no request could carry it, so there is nothing to judge"
    assert capsys.readouterr().err.splitlines() == [said]


def test_try_says_why_a_server_could_not_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--card", "toxic-roberta", "--set", "route=predict", "--set", "url=http://127.0.0.1:9")
    assert run("try", "x", *where, "--timeout", "2") == 1
    shown = capsys.readouterr()
    assert '"cause": "error"' in shown.out
    assert "Traceback" not in shown.err


def test_the_guard_in_the_package_needs_no_pull(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("pull", "embedded") == 0
    assert "embedded is in the package: nothing to pull" in capsys.readouterr().out
    assert not (folder / "guards.lock").exists()


def test_another_lock_is_another_set_of_guards(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "other").mkdir()
    lock = ("--lock", str(folder / "other" / "own.lock"))
    with serve_hub(FakeHub(commit="89b085cd330414d3e7d9dd787870f315957e1e9f")) as hub:
        assert pull(hub, *lock) == 0
    assert (folder / "other" / "own.lock").is_file()
    assert run("verify", *lock) == 0
    assert run("list", *lock) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith(CARD)}
    assert rows[CARD].endswith("yes")
    assert run("list") == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{CARD} "))
    assert not row.endswith("yes")
    assert run("remove", CARD, *lock) == 0
    assert run("verify", CARD, *lock) == 2


def test_hosts_of_bodies_are_added_to_those_known() -> None:
    parser = argparse.ArgumentParser()
    guard.add_parser(parser.add_subparsers(dest="command", required=True))
    words = ["guard", "pull", CARD]
    named = parser.parse_args([*words, "--content-host", "cdn.example", "--content-host", "other.example"])
    assert named.content_host == [*CONTENT_HOSTS, "cdn.example", "other.example"]
    assert parser.parse_args(words).content_host == list(CONTENT_HOSTS)


def test_verify_says_that_there_is_no_lock_and_that_a_lock_has_no_guard(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # PL-04
    assert run("verify") == 2
    assert "there is no guards.lock here: --lock FILE names another" in capsys.readouterr().err
    (folder / "guards.lock").write_text('{"version": 1, "guards": {}}')
    assert run("verify") == 0
    assert capsys.readouterr().out == "guards.lock locks no guard: there is nothing to compare\n"


def test_pull_verify_list_and_remove(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serve_hub(FakeHub(commit="89b085cd330414d3e7d9dd787870f315957e1e9f")) as hub:
        assert pull(hub) == 0
    out = capsys.readouterr().out
    assert "licence apache-2.0, not gated" in out
    assert "locked 4 files" in out
    assert run("verify") == 0
    assert run("list") == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{CARD} "))
    assert row.endswith("yes")
    (folder / "guards" / CARD / "onnx" / "model.onnx").write_bytes(b"another one")
    assert run("verify", CARD) == 1
    assert "are locked" in capsys.readouterr().err
    assert run("remove", CARD) == 0
    assert not (folder / "guards" / CARD).exists()
    assert run("remove", CARD) == 2


def test_a_hub_that_gives_another_commit_than_the_cards_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with serve_hub(FakeHub()) as hub:
        assert pull(hub) == 1
    assert "89b085cd330414d3e7d9dd787870f315957e1e9f was asked for" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["GUARDRAIL_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_nothing_is_asked(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, "1")
    with serve_hub(FakeHub()) as hub:
        assert pull(hub) == 3
        assert hub.asked == []
    assert f"{name} is set" in capsys.readouterr().err


def test_a_token_comes_from_the_environment_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve_hub(FakeHub(status=403)) as hub:
        assert pull(hub, "--token-env", "VIOLET_TOKEN") == 2
        monkeypatch.setenv("VIOLET_TOKEN", "hf_violet")
        assert pull(hub, "--token-env", "VIOLET_TOKEN") == 1
        assert hub.tokens == ["Bearer hf_violet"]
    assert "hf_violet" not in capsys.readouterr().err


@pytest.mark.parametrize("folder_name", ["/tmp/x", "../x"])  # noqa: S108 - refused
def test_a_folder_outside_is_refused(folder_name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serve_hub(FakeHub()) as hub:
        assert pull(hub, "--dir", folder_name) == 2
    assert "--dir is a folder below" in capsys.readouterr().err


def test_a_card_at_a_server_needs_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guard", "try", "hi", "--card", "llama-guard-3-8b"]) == 2
    assert "--set url=" in capsys.readouterr().err


def test_pull_takes_another_revision_and_bodies_from_hosts_that_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve_hub(FakeHub(commit="f" * 40)) as hub:
        assert pull(hub, "--revision", "v2-beta") == 0
        assert hub.asked[0].partition("?")[0].endswith("/revision/v2-beta")
        assert json.loads((folder / "guards.lock").read_text())["guards"][CARD]["revision"] == "f" * 40
        hub.redirect, hub.commit = "https://localhost:1", "e" * 40
        capsys.readouterr()
        assert pull(hub, "--revision", "main") == 1
        assert "redirects to localhost, which is no content host of it" in capsys.readouterr().err
        assert pull(hub, "--revision", "main", "--content-host", "localhost:1") == 1
        said = "the hub cannot be reached: ConnectError at localhost:1; --hub names a mirror"  # it was followed
        assert said in capsys.readouterr().err
