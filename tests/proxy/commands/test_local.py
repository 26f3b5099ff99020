"""`guardrail-proxy local serve`: its options reach the server; the server itself has tests of its own."""

from __future__ import annotations

import argparse
import socket

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


def test_a_port_that_is_taken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        assert main(["local", "serve", "--port", str(port)]) == 4
    said = f"error: cannot listen on 127.0.0.1:{port}: Address already in use; --port 0 picks a free port\n"
    assert capsys.readouterr().err == said
