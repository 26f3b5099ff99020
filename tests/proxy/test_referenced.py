from __future__ import annotations

from pathlib import Path

from proxy.referenced import SecretSource
from supervisors.secret import Secret


def test_references_become_secrets_and_everything_else_stays(tmp_path: Path) -> None:  # O-01
    (tmp_path / "key").write_text("from a file\n")
    missing: list[str] = []
    tree = {"a": [{"env": "HERE"}, 1], "b": {"file": "key"}, "c": {"env": "HERE", "x": 2}}
    found = SecretSource({"HERE": "value"}, tmp_path, missing).resolve(tree)
    assert found == {
        "a": [Secret("env:HERE", "value"), 1],
        "b": Secret("file:key", "from a file"),
        "c": {"env": "HERE", "x": 2},
    }
    assert missing == []


def test_what_is_missing_has_a_line_and_a_stand_in_that_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    missing: list[str] = []
    tree = {"a": [{"env": "GONE"}, {"env": "$GONE"}], "b": {"file": "binary"}}
    found = SecretSource({}, tmp_path, missing).resolve(tree)
    assert found["a"][0].reference == "env:GONE"
    assert missing == [
        "a.0: the environment variable GONE is not set",
        "a.1: the environment variable $GONE is not set; write the name without $",
        "b: cannot read the secret file binary: it is not a text file",
    ]
