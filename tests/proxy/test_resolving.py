"""Supervisors that ask a model by a name nobody serves are found at start, wherever they are nested."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.checks import check_config
from proxy.config import Config
from proxy.resolving import owner_of

WRONG = {"use": "judge", "model": "judge-x"}
GUARD = {"use": "guard", "card": "llama-guard-3-8b"}
SAID = "unknown model 'judge-x'; known: assistant, judge-a; did you mean 'judge-a'?"


def errors(supervisor: dict[str, Any], **parts: Any) -> list[str]:
    tree = {
        "upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}},
        "models": {"assistant": {"upstream": "main"}, "judge-a": {"upstream": "main"}},
        "supervisors": {"harm": supervisor},
        "policies": {"p": {"input": {"forced": ["harm"]}}},
        **parts,
    }
    found = check_config(Config.model_validate(tree))
    return [f"{one.path}: {one.message}" for one in found if one.severity == "error"]


@pytest.mark.parametrize(
    ("supervisor", "path"),
    [
        (WRONG, "supervisors.harm.model"),
        ({**GUARD, "model": "judge-x"}, "supervisors.harm.model"),
        ({"use": "vote", "strategy": "any", "members": {"c": WRONG}}, "supervisors.harm.members.c.model"),
        (
            {"use": "cascade", "steps": [{"supervisor": {"use": "rules", "keywords": ["a"]}}, {"supervisor": WRONG}]},
            "supervisors.harm.steps.1.supervisor.model",
        ),
    ],
)
def test_an_unknown_model_is_named_with_its_path(supervisor: dict[str, Any], path: str) -> None:
    assert errors(supervisor) == [f"{path}: {SAID}"]


@pytest.mark.parametrize("url", ["ftp://x/v1", "http://user:pw@x/v1", "http://x/v1?a=b", "x"])
def test_a_wrong_address_of_a_judge_is_told_before_it_is_called(url: str) -> None:  # operations §2.2
    (said,) = errors({"use": "vote", "strategy": "any", "members": {"c": {**WRONG, "url": url}}})
    assert said.startswith("supervisors.harm.members.c.url: a base URL ")
    assert "pw" not in said


def test_a_guard_without_model_and_url_is_told_what_it_lacks() -> None:
    (said,) = errors(GUARD)
    assert said.startswith("supervisors.harm.model: give 'url', or one of the served models")


@pytest.mark.parametrize(
    "supervisor",
    [
        {**WRONG, "url": "http://127.0.0.1:1/v1"},
        {**WRONG, "vendor": "anthropic"},
        {**WRONG, "model": "judge-a"},
    ],
)
def test_a_model_that_can_be_reached_is_no_error(supervisor: dict[str, Any]) -> None:
    assert errors(supervisor) == []


def test_a_wildcard_serves_every_name() -> None:
    assert errors(WRONG, models={"*": {"upstream": "main"}}) == []


def test_nobody_can_judge_itself_in_a_moderation() -> None:
    (said,) = errors({"use": "self_judge"}, moderations={"aliases": {"words": "p"}})
    assert said.startswith("moderations.aliases.words: ")


def test_a_called_url_is_named_by_the_supervisors_it_belongs_to() -> None:
    hosted = {"use": "lakera", "url": "http://127.0.0.1:1/v2/"}
    supervisors = {
        "one": hosted,
        "panel": {"use": "vote", "strategy": "any", "members": {"a": hosted, "b": {**hosted, "url": "http://h/v2"}}},
        "words": {"use": "rules", "keywords": ["a"]},
    }
    tree = {"upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}}, "supervisors": supervisors}
    find = owner_of(Config.model_validate(tree))
    assert find("http://127.0.0.1:1/v2/guard?x=1") == "one,panel/a"
    assert find("http://h/v2/guard") == "panel/b"
    assert find("http://h/v22") is None
