"""`guardrail-proxy local serve`: its options reach the server; the server itself has tests of its own."""

from __future__ import annotations

import argparse

import pytest

from proxy.cli import main
from proxy.commands import local
from proxy.local import LocalSettings


def test_the_options_reach_the_server() -> None:
    parser = argparse.ArgumentParser()
    local.add_parser(parser.add_subparsers(dest="command", required=True))
    args = parser.parse_args(["local", "serve", "--slots", "3", "--threads", "2", "--port", "8765"])
    assert local.settings_of(args) == LocalSettings(slots=3, threads=2, port=8765)


@pytest.mark.parametrize("words", [("--slots", "0"), ("--threads", "two"), ("--port", "65536")])
def test_what_is_no_number_is_said(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["local", "serve", *words])
    assert ended.value.code == 2
    assert f"argument {words[0]}: '{words[1]}' is no " in capsys.readouterr().err
