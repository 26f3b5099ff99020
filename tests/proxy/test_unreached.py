"""What no policy judges is said before anybody is served (G-18)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from proxy.config import Config
from proxy.unreached import find_unreached

WORDS = {"use": "rules", "keywords": ["violet umbrella"]}


def unreached(policies: dict[str, Any], **parts: Any) -> list[tuple[str, str]]:
    tree = {
        "upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}},
        "models": {"a": {"upstream": "main"}, "b": {"upstream": "main"}},
        "supervisors": {"words": WORDS},
        "policies": policies,
        **parts,
    }
    return [(one.path, one.message.partition("; ")[0]) for one in find_unreached(Config.model_validate(tree))]


def gap(said: str) -> tuple[str, str]:
    return "policies", f"coverage gap: no policy judges {said}: it passes unjudged"


def test_a_side_that_nobody_judges_is_named_once_for_all_models() -> None:
    forced = {"forced": ["words"]}
    assert unreached({"p": {"input": forced}}) == [gap("the output of all models on /v1/chat/completions")]
    assert unreached({"p": {"input": forced}, "q": {"output": forced}}) == []
    assert unreached({"p": {"input": forced, "output": {**forced, "mode": "shadow"}}}) == []  # watched, as was meant


def test_only_the_models_that_have_the_gap_are_named() -> None:
    both = {"input": {"forced": ["words"]}, "output": {"forced": ["words"]}}
    policies = {
        "p": {"attach": {"models": ["a"]}, **both},
        "q": {"attach": {"models": ["b"]}, "output": both["output"]},
    }
    assert unreached(policies) == [gap("the input of b on /v1/chat/completions")]


def test_a_supervisor_that_callers_may_add_judges_nothing_by_itself() -> None:
    forced = {"forced": ["words"]}
    optional: dict[str, Any] = {"input": forced, "output": {"optional": ["words"]}}
    assert unreached({"p": optional}) == [gap("the output of all models on /v1/chat/completions")]
    optional = {"input": forced, "output": {"optional": ["words"], "default_on": True}}
    assert unreached({"p": optional}) == []


def test_a_key_without_a_side_is_said_and_a_model_without_a_policy_by_its_name() -> None:
    keys = {name: {"sha256": sha256(name.encode() * 20).hexdigest(), "tags": [name]} for name in ("x", "y")}
    both = {"input": {"forced": ["words"]}, "output": {"forced": ["words"]}}
    policies = {"p": {"attach": {"tags": ["x"]}, **both}, "q": {"attach": {"tags": ["y"]}, "input": both["input"]}}
    assert unreached(policies, keys=keys) == [gap("the output of all models on /v1/chat/completions for some keys")]
    assert [path for path, _ in unreached({"p": {"attach": {"models": ["a"]}, **both}})] == ["models.b"]
