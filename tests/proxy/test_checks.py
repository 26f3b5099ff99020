"""Settings that are right one by one and wrong together, and gaps in what is judged (operations §2.2, G-04)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from proxy.checks import check_config
from proxy.config import Config
from supervisors.secret import Secret
from supervisors.testing import Always, Finds

WORDS = {"use": "rules", "keywords": ["violet umbrella"]}
JUDGE = {"use": "judge", "model": "gpt"}
BASE: dict[str, Any] = {
    "upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}},
    "models": {"gpt": {"upstream": "main"}},
    "supervisors": {"words": WORDS, "judge": JUDGE},
}
DIGEST = "a" * 64


def findings(severity: str, **parts: Any) -> list[str]:
    config = Config.model_validate({**BASE, **parts})
    return [f"{one.path}: {one.message}" for one in check_config(config) if one.severity == severity]


def policy(**settings: Any) -> dict[str, Any]:
    return {"policies": {"p": settings}}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"server": {"host": "10.0.0.1"}}, "server.host: 10.0.0.1 is not loopback and no key is configured"),
        (
            {"supervisors": {"own": {"use": "self_judge", "sample": 0.1}}, **policy(input={"forced": ["own"]})},
            "p.input: own judges a sample only: what enforces cannot",
        ),
        (
            policy(input={"forced": ["words"], "mode": "parallel", "on_unsafe": "redact"}),
            "p.input.on_unsafe: redact is impossible",
        ),
        (
            policy(input={"forced": ["words"], "mode": "parallel", "scopes": {"system": {"on_unsafe": "redact"}}}),
            "p.input.scopes.system.on_unsafe: redact is impossible",
        ),
        (
            policy(output={"forced": ["words"], "stream": {"overlap_chars": 3}}),
            "p.output.stream.overlap_chars: words needs",
        ),
        (
            policy(attach={"models": ["gtp"]}),
            "attach.models: 'gtp' matches nothing; known: gpt; did you mean 'gpt'?",
        ),
        (policy(attach={"keys": ["app"]}), "policies.p.attach.keys: 'app' matches nothing; known: none"),
        (policy(attach={"tags": ["t"]}), "policies.p.attach.tags: 't' matches nothing; known: none"),
        (
            policy(on_block={"message": "No, {name}."}),
            "policies.p.on_block.message: unknown placeholder {name}; known: {policy}",
        ),
        (policy(on_block={"message": "No {}."}), "policies.p.on_block.message: unknown placeholder {}"),
        ({"keys": {"a": {"sha256": DIGEST}, "b": {"sha256": DIGEST}}}, "keys.b: this is the same key as keys.a"),
        ({"keys": {"a": {"sha256": DIGEST, "models": ["gtp*"]}}}, "keys.a.models: 'gtp*' matches nothing; known: gpt"),
        ({"keys": {"a b": {"sha256": DIGEST}}}, "keys: 'a b' must be made of letters"),
        ({"supervisors": {"a,b": WORDS}}, "supervisors: 'a,b' must be made of letters, digits and . _ - only"),
        ({"supervisors": {"panel/a": WORDS}}, "supervisors: 'panel/a' must be made of letters"),
        ({"policies": {"a\r\nb": {}}}, "policies: 'a\\r\\nb' must be made of letters"),
        ({"supervisors": {"opaque": WORDS}}, "supervisors.opaque: this name is reserved"),
        (
            {
                "supervisors": {"panel": {"use": "vote", "members": {"a": {**JUDGE, "timeout_s": 9}}}},
                "policies": {"p": {"input": {"forced": ["panel"], "timeout_s": 5}}},
            },
            "policies.p.input.timeout_s: panel/a may take 9 s but the stage ends after 5 s",
        ),
        (
            {
                "supervisors": {"slow": {**JUDGE, "timeout_s": 31}},
                "policies": {"p": {"output": {"optional": ["slow"]}}},
            },
            "policies.p.output.timeout_s: slow may take 31 s but the stage ends after 30 s",
        ),
        (
            {
                "supervisors": {"final": Always(capability="final")},
                "policies": {"p": {"output": {"forced": ["final"], "stream": {"on_unstreamable": "refuse"}}}},
            },
            "p.output.stream.mode: final judges whole replies only",
        ),
        (
            {"supervisors": {"j": {**JUDGE, "url": "http://127.0.0.1:8080/v1"}}},
            "supervisors.j: its model is reached through this",
        ),
        *[
            ({"upstreams": {"main": {"base_url": url}}, "models": {}}, "upstreams.main.base_url: ")
            for url in (
                "ftp://host/v1",
                "http://user:pass@127.0.0.1/v1",
                "http://127.0.0.1/v1#x",
                "http://127.0.0.1/v1?x=1",
                "http://169.254.169.254/v1",
                "http://0x7f.1/v1",
                "127.0.0.1:80",
                "",
            )
        ],
        (
            {"upstreams": {"main": {}}, "models": {}},
            "upstreams.main.base_url: an upstream that speaks OpenAI's protocol needs",
        ),
    ],
)
def test_what_cannot_work_together_is_an_error(parts: dict[str, Any], said: str) -> None:  # §2.2, X-03, X-17
    found = findings("error", **parts)
    assert any(said in line for line in found), found


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({}, "policies: no policy: everything passes unjudged"),
        (policy(), "policies.p: an empty policy lets everything through"),
        (
            policy(input={"forced": ["words"]}),
            "policies: coverage gap: no policy judges the output of all models on /v1/chat/completions: it passes",
        ),
        (
            policy(output={"forced": ["words"]}),
            "policies: coverage gap: no policy judges the input of all models on /v1/chat/completions: it passes",
        ),
        (
            policy(input={"forced": ["words"], "on_unknown": "log"}),
            "policies.p.input.on_unknown: a failed supervisor lets",
        ),
        (
            policy(input={"optional": ["words"], "opt_out": True}),
            "policies.p.input.opt_out: there is nothing to leave out",
        ),
        (
            policy(input={"forced": ["judge"]}),
            "p.input: coverage gap: no forced supervisor of this policy judges the scope system or tool_def",
        ),
        (
            {"supervisors": {"w": {**WORDS, "turns": "last_user"}}, **policy(input={"forced": ["w"]})},
            "supervisors.w.turns: coverage gap: only last_user is judged",
        ),
        (
            {"supervisors": {"w": {**WORDS, "roles": ["user"]}}, **policy(input={"forced": ["w"]})},
            "supervisors.w.roles: coverage gap",
        ),
    ],
)
def test_what_leaves_a_gap_is_a_warning(parts: dict[str, Any], said: str) -> None:  # G-04, G-18
    assert any(said in line for line in findings("warning", **parts)), findings("warning", **parts)
    assert findings("error", **parts) == []


def test_a_sound_config_has_no_finding() -> None:
    parts = policy(input={"forced": ["words"]}, output={"forced": ["words", "judge"]}, attach={"models": ["g*"]})
    assert findings("error", **parts) == findings("warning", **parts) == []


def test_a_supervisor_that_no_policy_names_is_a_warning_unless_it_is_a_member() -> None:
    warned = findings("warning", **policy(input={"forced": ["words"]}))
    assert next(line for line in warned if "no policy names it" in line).startswith("supervisors.judge: ")
    panel = {"words": WORDS, "panel": {"use": "vote", "strategy": "any", "members": {"w": WORDS, "j": JUDGE}}}
    warned = findings("warning", supervisors=panel, **policy(input={"forced": ["panel"]}))
    assert not any("no policy names it" in line for line in warned)


def test_a_supervisor_built_in_code_is_checked_too() -> None:
    assert findings("error", supervisors={"words": Finds("x")}, **policy(input={"forced": ["words"]})) == []


def test_names_of_models_served_by_a_wildcard_may_be_anything() -> None:
    assert findings("error", models={"*": {"upstream": "main"}}, **policy(attach={"models": ["gpt-*"]})) == []


@pytest.mark.parametrize(
    "judge",
    [
        {**JUDGE, "url": "http://127.0.0.1:8080/v1"},
        {**JUDGE, "url": "http://localhost:8080/v1"},
        {**JUDGE, "model": "again"},
        {"use": "vote", "strategy": "any", "members": {"a": {**JUDGE, "model": "again"}, "b": WORDS}},
    ],
)
def test_a_judge_behind_the_proxy_itself_is_refused(judge: dict[str, Any]) -> None:  # G-42, D-11
    parts = {
        "upstreams": {**BASE["upstreams"], "self": {"base_url": "http://127.0.0.1:8080/v1"}},
        "models": {**BASE["models"], "again": {"upstream": "self"}},
        "supervisors": {"judge": judge},
    }
    found = findings("error", **parts)
    assert any("reached through this proxy, which would judge the judge" in line for line in found), found
    assert findings("error", supervisors={"judge": {**JUDGE, "model": "gpt"}}) == []


def test_a_token_that_nobody_could_make_or_that_opens_nothing_is_refused() -> None:  # G-42
    other = {"base_url": "http://127.0.0.1:8081/v1", "bypass": True}
    upstreams = {**BASE["upstreams"], "other": other}
    assert any("upstreams.other.bypass: there is no secret" in line for line in findings("error", upstreams=upstreams))
    secret = Secret("env:BYPASS", "a secret of more than thirty-two characters")
    vendor = {**BASE["upstreams"], "other": {"vendor": "bedrock", "bypass": True}}
    found = findings("error", upstreams=vendor, bypass={"secret": secret, "accept": ["nobody"]}, tasks=["bypass"])
    assert [line.split(": ")[0] for line in found] == ["upstreams.other.bypass", "bypass.accept", "tasks"], found
    assert findings("error", upstreams=upstreams, bypass={"secret": secret, "accept": ["g*"]}) == []
    with pytest.raises(ValidationError, match="shorter than 32 characters"):
        findings("error", bypass={"secret": Secret("env:BYPASS", "short")})
