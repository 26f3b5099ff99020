"""Where a config is read again from (operations O-05)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.config import parse_config
from proxy.reload import ConfigSource, Watched, is_passing, refuse_fixed
from supervisors.errors import ConfigError

MINIMAL: dict[str, Any] = {"upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}}}


def test_a_change_counts_once_when_the_file_is_at_rest() -> None:
    watched = Watched("a")
    looks = [watched.look(seen) for seen in ("a", "b", "c", "c", "c", None, "c", "c", "a", "a")]
    assert looks == [False, False, False, True, False, False, False, False, False, True]


def test_the_source_reads_the_file_anew_and_applies_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(MINIMAL))
    source = ConfigSource(path, lambda config: config.model_copy(update={"tasks": ("x",)}))
    assert source.read().tasks == ("x",)
    before = source.fingerprint()
    path.write_text(json.dumps({**MINIMAL, "expose": "none"}))
    assert source.fingerprint() != before
    assert source.read().expose == "none"
    path.unlink()
    assert source.fingerprint() is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"server": {"port": 1}}, "server.port"),
        ({"journal": {"path": "other.sqlite3"}}, "journal.path"),
        ({"journal": {"retention_days": 3}}, "journal.retention_days"),
    ],
)
def test_what_is_opened_once_needs_a_restart(change: dict[str, Any], named: str) -> None:
    old, new = (parse_config(json.dumps({**MINIMAL, **part}), {}) for part in ({}, change))
    with pytest.raises(ConfigError, match=f"{named}: cannot change while the proxy runs"):
        refuse_fixed(old, new)
    refuse_fixed(old, parse_config(json.dumps({**MINIMAL, "journal": {"input": "off"}}), {}))


def test_what_is_edited_before_it_was_read_is_a_change(tmp_path: Path) -> None:  # O-05
    path = tmp_path / "c.json"
    path.write_text(json.dumps(MINIMAL))
    source = ConfigSource(path)
    assert source.parsed == source.fingerprint()
    path.write_text(json.dumps({**MINIMAL, "expose": "none"}))
    assert source.parsed != source.fingerprint()
    source.read()
    assert source.parsed == source.fingerprint()


def test_only_what_the_system_is_short_of_may_pass() -> None:
    wrapped = ConfigError("cannot read c.yaml")
    wrapped.__cause__ = OSError(24, "Too many open files")
    found = [is_passing(error) for error in (OSError(28, "No space left"), wrapped, ConfigError("policies: wrong"))]
    assert found == [True, True, False]
