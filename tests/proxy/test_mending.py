"""What is right in a file is checked however wrong the rest is, and no stand-in makes an error of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.checks import check_examined
from proxy.config import examine_config

BASE: dict[str, Any] = {
    "upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}},
    "models": {"gpt": {"upstream": "main"}},
    "keys": {"app": {"sha256": "a" * 64, "tags": ["team"]}},
    "supervisors": {"words": {"use": "rules", "keywords": ["canary"]}},
    "policies": {
        "all": {"attach": {"tags": ["team"]}, "input": {"forced": ["words"]}, "output": {"forced": ["words"]}}
    },
    "moderations": {"aliases": {"m": "all"}},
}
POLICY = BASE["policies"]["all"]


def findings(folder: Path, parts: dict[str, Any]) -> list[str]:
    file = folder / "c.json"
    file.write_bytes(orjson.dumps({**BASE, **parts}))
    examined = examine_config(file, {})
    assert examined.problems
    assert examined.config is None
    return [one.path for one in check_examined(examined)]


@pytest.mark.parametrize(
    "parts",
    [
        {"nope": 1},
        {"upstreams": {"main": {"base_url": 3}}},
        {"upstreams": {"main": {"vendor": [], "nope": 1}}},
        {"models": {"gpt": {"upstream": "gone"}}},
        {"models": {"gpt": 3}},
        {"keys": {"app": {"sha256": "x", "tags": ["team"]}}},
        {"keys": {"app": {"sha256": "a" * 64, "tags": 3}}},
        {"supervisors": {"words": {"use": "nope"}}},
        {"supervisors": {"words": {"use": "vote", "members": {"a": "gone"}}}},
        {"policies": {"all": {**POLICY, "input": {"forced": "words"}}}},
        {"policies": {"all": {**POLICY, "input": {"forced": ["gone", 3]}}}},
        {"policies": {"all": {**POLICY, "input": 3}}},
        {"policies": {"all": 3}},
        {"policies": {"all": {**POLICY, "output": {"forced": ["words"], "stream": {"overlap_chars": "x"}}}}},
        {"places": {"gone": 3}, "caches": {"gone": {}}},
        {"server": {"port": "x", "host": 3}},
        {"limits": 3},
        {"expose": "some"},
        {"bypass": {"secret": "plain"}, "upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1", "bypass": True}}},
        {"bypass": {"ttl_s": 999}},
        {"policies": [], "server": {"host": "192.0.2.1"}},
        {"keys": []},
        {"upstreams": {}},
    ],
)
def test_a_stand_in_is_never_found_wrong(tmp_path: Path, parts: dict[str, Any]) -> None:  # operations §2.2
    assert findings(tmp_path, parts) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"nope": 1},
        {"supervisors": {"words": {"use": "nope"}}},
        {"keys": {"app": {"sha256": "x"}}},
        {"tasks": 3},
        {"bypass": {}},
    ],
)
def test_what_does_not_fit_together_elsewhere_is_found(tmp_path: Path, wrong: dict[str, Any]) -> None:
    policy = {"input": {"forced": ["words"], "on_unsafe": "redact", "mode": "parallel"}}
    parts = {"policies": {"all": policy}, "moderations": {"aliases": {"m": "gone"}}}
    assert findings(tmp_path, {**wrong, **parts}) == ["policies.all.input.on_unsafe", "moderations.aliases.m"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"api_key": "sk-violet"},
        {"headers": {"authorization": "Bearer violet"}},
        {"timeout_s": -1, "retries": "many", "nope": 1},
        {"proxy": "http://violet", "max_concurrency": 0},
    ],
)
def test_another_wrong_setting_hides_no_wrong_address(tmp_path: Path, wrong: dict[str, Any]) -> None:
    upstreams = {"main": {"base_url": "ftp://127.0.0.1:1/v1", **wrong}}
    assert findings(tmp_path, {"upstreams": upstreams}) == ["upstreams.main.base_url"]


def test_a_plain_secret_of_a_supervisor_hides_nothing_else_of_it(tmp_path: Path) -> None:
    judge = {"use": "judge", "model": "gone", "api_key": "sk-violet"}
    parts = {"models": {"gpt": {"upstream": "main"}}, "supervisors": {"words": judge}}
    assert findings(tmp_path, parts) == ["supervisors.words.model"]


def test_secrets_that_are_missing_hide_nothing(tmp_path: Path) -> None:
    upstreams = {"main": {"base_url": "http://127.0.0.1:1/v1#x", "api_key": {"env": "GONE"}}}
    assert findings(tmp_path, {"upstreams": upstreams, "nope": 1}) == ["upstreams.main.base_url"]
