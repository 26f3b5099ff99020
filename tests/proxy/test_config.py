"""Every way a config file can be wrong, with the setting and what would be right (operations §2, R-05)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proxy.config import Config, canonical_config, config_version, load_config, parse_config
from supervisors.errors import ConfigError, MissingError

MINIMAL: dict[str, Any] = {"upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}}}
KEY = "k" * 40


def problem(text: str | dict[str, Any], **environ: str) -> str:
    """Return what is said about a config that is refused."""
    written = text if isinstance(text, str) else json.dumps(text)
    with pytest.raises(ConfigError) as caught:
        parse_config(written, environ)
    return str(caught.value)


def judge(**options: Any) -> dict[str, Any]:
    return {"use": "judge", "model": "m", **options}


def panel(**options: Any) -> dict[str, Any]:
    return {"use": "vote", "strategy": "majority", "members": {"a": judge(), "b": judge()}, **options}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "the config:1:6: not valid YAML: while parsing a flow sequence"),
        ("a: 1\n b: 2", "the config:2:3: not valid YAML"),
        ("upstreams:\n  a: 1\n  a: 2\n", "the key 'a' occurs twice"),
        ("upstreams:\n  a: 1\n  a: 2\n", "the config:3:3: "),
        ("? [1, 2]\n: x\n", "a key must be a word"),
        ("- 1\n", "the file must hold a mapping with at least 'upstreams'"),
        ("", "the file must hold a mapping"),
        ("just text", "the file must hold a mapping"),
        ("a: !!python/object:os.system x", "not valid YAML"),
        ("a: *nope", "undefined alias"),
        ('{"upstreams": {"a": {}, "a": {}}}', "the key 'a' occurs twice"),
        ("{}", "upstreams: this setting is required"),
        ("\0", "not valid YAML"),
    ],
)
def test_a_file_that_is_no_config_is_refused_with_its_place(text: str, said: str) -> None:  # §2.1, §2.2
    assert said in problem(text)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"upstreams": {}}, "at least one upstream is needed"),
        ({"upstreams": [1]}, "upstreams: must be a mapping"),
        ({"upstreams": {"main": {"base": "x"}}}, "upstreams.main.base: unknown setting"),
        ({"upstreams": {"main": {"use": "ftp"}}}, "upstreams.main: Input tag 'ftp' found using 'use' does not match"),
        ({"nope": 1}, "nope: unknown setting"),
        ({"server": {"port": 70000}}, "server.port: Input should be less than or equal to 65535"),
        ({"server": {"prot": 1}}, "server.prot: unknown setting"),
        ({"limits": {"max_json_depth": 1}}, "limits.max_json_depth: Input should be greater than or equal to 4"),
        ({"expose": "some"}, "expose: Input should be 'full', 'decision' or 'none'"),
        ({"models": {"m": {"upstream": "nope"}}}, "models.m.upstream: unknown upstream 'nope'; known: main"),
        (
            {"policies": {"p": {"input": {"forced": ["x"]}}}},
            "policies.p.input.forced: unknown supervisor 'x'; known: none",
        ),
        ({"policies": {"p": {"output": {"optional": ["x"]}}}}, "policies.p.output.optional: unknown supervisor 'x'"),
        (
            {"policies": {"p": {"input": {"mode": "fast"}}}},
            "policies.p.input.mode: Input should be 'blocking', 'parallel'",
        ),
        ({"policies": {"p": {"middle": {}}}}, "policies.p.middle: unknown setting"),
        (
            {"policies": {"p": {"output": {"stream": {"mode": "x"}}}}},
            "policies.p.output.stream.mode: Input should be 'hold'",
        ),
        (
            {"policies": {"p": {"input": {"on_unknown": {"eror": "log"}}}}},
            "policies.p.input.on_unknown.eror: unknown setting",
        ),
        (
            {"policies": {"p": {"input": {"on_unknown": "skip"}}}},
            "policies.p.input.on_unknown.default: Input should be 'block'",
        ),
        ({"policies": {"p": {"input": {"scopes": {"all": {}}}}}}, "policies.p.input.scopes.all"),
        (
            {"supervisors": {"s": {}}},
            "supervisors.s: unknown supervisor kind None; installed are: azure_shields, azure_text",
        ),
        (
            {"supervisors": {"s": {"use": "jugde"}}},
            "supervisors.s: unknown supervisor kind 'jugde'; did you mean 'judge'? installed are: azure_shields",
        ),
        ({"supervisors": {"s": 3}}, "supervisors.s: a supervisor is a mapping with the word 'use', not int"),
        ({"supervisors": [1]}, "supervisors: must be a mapping"),
        ({"supervisors": {"p": panel(strategy="best")}}, "supervisors.p.strategy: Input should be 'any', 'all'"),
        (
            {"supervisors": {"p": panel(members={"b": {"use": "judge"}})}},
            "supervisors.p.members.b.model: this setting is required",
        ),
        (
            {"supervisors": {"p": panel(members={"b": "x"})}},
            "p.members.b: unknown supervisor 'x'; known: p",
        ),
        ({"supervisors": {"p": panel(members={"b": "p"})}}, "a supervisor cannot contain itself: p > p"),
        (
            {"supervisors": {"p": panel(members={"a": "q"}), "q": panel(members={"a": "p"})}},
            "supervisors.p.members.a.members.a: a supervisor cannot contain itself: p > q > p",
        ),
        ({"supervisors": {"p": panel(strategy="quorum", count=3)}}, "supervisors.p: count 3 can never be reached by 2"),
        ({"supervisors": {"p": panel(min_answers=3)}}, "supervisors.p: min_answers 3 is more than the 2 member(s)"),
        ({"supervisors": {"r": {"use": "rules"}}}, "supervisors.r: a rules supervisor looks for nothing"),
        (
            {"supervisors": {"r": {"use": "rules", "patterns": [{"name": "x", "regex": "(?=a)"}]}}},
            "supervisors.r.patterns.0",
        ),
        ({"keys": {"k": {}}}, "keys.k: give either 'key' ({env: NAME}) or 'sha256', not both"),
        ({"keys": {"k": {"key": "plain"}}}, "keys.k.key: a secret is written as {env: NAME} or {file: PATH}"),
        ({"keys": {"k": {"sha256": "xyz"}}}, "keys.k.sha256: String should match pattern"),
        ({"keys": {"k": {"key": {"env": "SHORT"}}}}, "keys.k: the key at env:SHORT is shorter than 32 characters"),
        ({"server": {"host": {"env": "SHORT"}}}, "server.host: Input should be a valid string"),
    ],
)
def test_a_wrong_setting_is_named_by_its_path(parts: dict[str, Any], said: str) -> None:  # §2.2, R-05, O-03
    assert said in problem({**MINIMAL, **parts}, SHORT="too-short-to-be-a-key")


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"input": ["nope"]}, "policies.default.input.forced: unknown supervisor 'nope'; known: none"),
        ({"input": {"supervisors": [1]}}, "input.supervisors: 'supervisors' maps names to supervisors"),
        ({"input": ["x"], "policies": {"default": {}}}, "top-level 'input' and 'output' are the policy 'default'"),
        ({"input": ["x"], "policies": [1]}, "top-level 'input' and 'output' are the policy 'default'"),
        ({"input": 3}, "policies.default.input: must be a mapping"),
        ({"on_block": {"input": "refusal"}}, "on_block: unknown setting"),
        (
            {"input": {"supervisors": {"p": panel(members={"b": {"use": "judge"}})}}},
            "p.members.b.model: this setting is required",
        ),
        ({"input": {"forced": 3, "supervisors": {"w": judge()}}}, "policies.default.input"),
        (
            {"supervisors": [1], "input": {"supervisors": {"w": judge()}}},
            "supervisors: must be a mapping",
        ),
        (
            {"supervisors": {"w": judge()}, "input": {"supervisors": {"w": judge(model="other")}}},
            "input.supervisors.w: the name 'w' stands for two different supervisors",
        ),
        (
            {"input": {"supervisors": {"w": judge()}}, "output": {"supervisors": {"w": judge(model="other")}}},
            "output.supervisors.w: the name 'w' stands for two different supervisors",
        ),
    ],
)
def test_the_short_form_is_checked_like_the_long_one(parts: dict[str, Any], said: str) -> None:  # guarding §4
    assert said in problem({**MINIMAL, **parts})


def test_the_short_form_is_the_policy_default_with_everything_forced() -> None:  # guarding §4
    words = {"use": "rules", "keywords": ["violet umbrella"]}
    short = parse_config(
        json.dumps(
            {
                **MINIMAL,
                "input": {"supervisors": {"words": words}, "on_unsafe": "log"},
                "output": ["words"],
                "on_block": {"message": "No."},
            }
        )
    )
    stages = {"input": {"forced": ["words"], "on_unsafe": "log"}, "output": {"forced": ["words"]}}
    policy = {**stages, "on_block": {"message": "No."}}
    long = parse_config(json.dumps({**MINIMAL, "supervisors": {"words": words}, "policies": {"default": policy}}))
    assert short == long


def test_members_and_steps_may_be_named() -> None:
    words = {"use": "rules", "keywords": ["violet umbrella"]}
    steps = [{"supervisor": "words"}, {"supervisor": "both"}]
    tree = {
        **MINIMAL,
        "supervisors": {
            "words": words,
            "both": panel(members={"a": "words"}),
            "line": {"use": "cascade", "steps": steps},
        },
    }
    written = {**words}
    inline = {
        **MINIMAL,
        "supervisors": {
            "words": words,
            "both": panel(members={"a": written}),
            "line": {
                "use": "cascade",
                "steps": [{"supervisor": written}, {"supervisor": panel(members={"a": written})}],
            },
        },
    }
    assert parse_config(json.dumps(tree)) == parse_config(json.dumps(inline))


def test_every_missing_secret_is_named_and_none_is_shown(tmp_path: Path) -> None:  # §2.2, O-01
    (tmp_path / "empty").write_text("\n")
    tree = {
        "upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1", "api_key": {"env": "UPSTREAM"}}},
        "keys": {"a": {"key": {"env": "HERE"}}, "b": {"key": {"env": "GONE"}}, "c": {"key": {"file": "nope"}}},
        "journal": {"hmac_key": {"file": "empty"}},
    }
    with pytest.raises(MissingError) as caught:
        parse_config(json.dumps(tree), {"HERE": KEY, "GONE": ""}, tmp_path)
    assert sorted(str(caught.value).splitlines()) == [
        "journal.hmac_key: the secret file empty is empty",
        "keys.b.key: the environment variable GONE is not set",
        "keys.c.key: cannot read the secret file nope: No such file or directory",
        "upstreams.main.api_key: the environment variable UPSTREAM is not set",
    ]
    assert KEY not in str(caught.value)


def test_names_settings_and_secrets_are_reported_together(tmp_path: Path) -> None:  # §2.2
    tree = {
        **MINIMAL,
        "nope": 1,
        "models": {"m": {"upstream": "x"}},
        "keys": {"a": {"key": {"env": "GONE"}}},
        "policies": {"p": {"input": {"forced": ["y"]}}},
    }
    (tmp_path / "c.json").write_text(json.dumps(tree))
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.json", {})
    assert [line.split(": ")[:2] for line in str(caught.value).splitlines()] == [
        [f"{tmp_path / 'c.json'}:1:{json.dumps(tree).index(key) + 1}", place]
        for key, place in {
            '"nope"': "nope",
            '"upstream"': "models.m.upstream",
            '"key"': "keys.a.key",
            '"forced"': "policies.p.input.forced",
        }.items()
    ]


def test_what_cannot_be_expanded_hides_nothing_else() -> None:  # §2.2
    tree: dict[str, Any] = {
        **MINIMAL,
        "nope": 1,
        "caches": {"z": {}},
        "supervisors": {"p": panel(members={"a": "p"}), "q": panel(members={"b": "gone"}), "r": {"use": "rules"}},
        "input": {"supervisors": [1]},
        "output": ["y"],
    }
    assert [line.split(": ")[0] for line in problem(tree).splitlines()] == [
        "input.supervisors",
        "supervisors.p.members.a",
        "supervisors.q.members.b",
        "supervisors.r",
        "nope",
        "policies.default.output.forced",
        "caches.z",
    ]


def test_an_error_of_yaml_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("a: 1\n b: 2")
    with pytest.raises(ConfigError, match=r"^/.*c\.yaml:2:3: not valid YAML: mapping values are not allowed here$"):
        load_config(tmp_path / "c.yaml", {})


def test_all_unknown_names_are_reported_at_once() -> None:  # §2.2: one line a problem
    tree = {**MINIMAL, "models": {"m": {"upstream": "x"}}, "policies": {"p": {"input": {"forced": ["y", "z"]}}}}
    assert len(problem(tree).splitlines()) == 3


def test_secrets_come_from_the_environment_and_from_files_beside_the_config(tmp_path: Path) -> None:  # O-01
    (tmp_path / "secret").write_text(f"{KEY}\n")
    keys = {"a": {"key": {"env": "CALLER"}}, "b": {"key": {"file": "secret"}}}
    (tmp_path / "c.yaml").write_text(json.dumps({**MINIMAL, "keys": keys}))
    config = load_config(tmp_path / "c.yaml", {"CALLER": "c" * 32})
    assert config.keys["a"].digest == sha256(b"c" * 32).hexdigest()
    assert config.keys["b"].digest == sha256(KEY.encode()).hexdigest()


def test_no_dump_of_a_config_holds_a_secret() -> None:
    keys = {"a": {"key": {"env": "CALLER"}}}
    config = parse_config(
        json.dumps({**MINIMAL, "keys": keys, "journal": {"hmac_key": {"env": "CALLER"}}}), {"CALLER": KEY}
    )
    for text in (repr(config), str(config), config.model_dump_json(), canonical_config(config).decode()):
        assert KEY not in text
    assert b'"env":"CALLER"' in canonical_config(config)


def test_json_is_a_config_file_too(tmp_path: Path) -> None:  # §2.1
    path = tmp_path / "c.json"
    path.write_text(json.dumps(MINIMAL, indent="\t"))
    assert load_config(path).upstreams == parse_config(json.dumps(MINIMAL)).upstreams


def test_a_file_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nope\.yaml: No such file"):
        load_config(tmp_path / "nope.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml is not UTF-8"):
        load_config(tmp_path / "latin.yaml")


def test_the_version_follows_the_content_and_not_the_writing() -> None:  # §2.1
    one = parse_config(json.dumps({**MINIMAL, "tasks": ["a"], "expose": "full"}))
    other = parse_config(json.dumps({"tasks": ["a"], **MINIMAL}))
    assert config_version(one) == config_version(other)
    assert len(config_version(one)) == 64
    changed = Config.model_validate({**MINIMAL, "tasks": ["b"]})
    assert config_version(changed) != config_version(one)


def test_the_version_is_that_of_the_file_whatever_the_command_line_says() -> None:
    read = parse_config(json.dumps({**MINIMAL, "server": {"port": 7}}), {})
    served = read.model_copy(update={"server": read.server.overridden({"port": 0, "host": "::1"})})
    twice = served.model_copy(update={"server": served.server.overridden({"port": 9})})
    assert (served.server.port, served.server.host, twice.server.port) == (0, "::1", 9)
    assert config_version(twice) == config_version(served) == config_version(read)
    other = parse_config(json.dumps({**MINIMAL, "server": {"port": 8}}), {})
    assert config_version(other) != config_version(read)


def test_a_single_upstream_without_models_serves_every_name() -> None:
    assert dict(parse_config(json.dumps(MINIMAL)).served_models())["*"].upstream == "main"
    two = {"upstreams": {name: {"base_url": "http://127.0.0.1:1/v1"} for name in ("a", "b")}}
    assert dict(parse_config(json.dumps(two)).served_models()) == {}


def test_the_version_is_the_same_in_every_process(tmp_path: Path) -> None:  # O-06: sets have an order of their own
    file = tmp_path / "config.yaml"
    file.write_text(
        "upstreams: {main: {base_url: http://127.0.0.1:9/v1}}\nsupervisors: {harm: {use: guard, card: embedded}}\n"
    )
    command = [sys.executable, "-m", "proxy.cli", "validate", str(file)]
    versions = {
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout  # noqa: TID251
        for seed in ("1", "2", "3")
    }
    assert len(versions) == 1


@pytest.mark.parametrize("word", ["sk-1234", "changeme", ""])
def test_the_digest_of_a_placeholder_is_no_key(word: str) -> None:  # O-03
    keys = {"a": {"sha256": sha256(word.encode()).hexdigest()}}
    assert "keys.a: this is the digest of a known placeholder" in problem({**MINIMAL, "keys": keys})
