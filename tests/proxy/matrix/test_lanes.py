"""Lanes: one way through the config for each set of policies."""

from __future__ import annotations

from typing import Any

from proxy.config import Config
from proxy.matrix.lanes import find_lanes

CHAT = "/v1/chat/completions"


def config(**parts: Any) -> Config:
    words = {"words": {"use": "rules", "keywords": ["canary"]}}
    up = {"main": {"base_url": "http://127.0.0.1:9/v1"}}
    return Config.model_validate({"upstreams": up, "supervisors": words, **parts})


def test_one_lane_for_equal_policies_and_one_for_each_difference() -> None:
    policies = {"all": {}, "some": {"attach": {"models": ["b*"]}}}
    models = {"a": {"upstream": "main"}, "a2": {"upstream": "main"}, "b1": {"upstream": "main"}}
    lanes = find_lanes(config(policies=policies, models=models), CHAT)
    assert [(lane.model, lane.plan.policies) for lane in lanes] == [("a", ("all",)), ("b1", ("all", "some"))]


def test_behind_a_wildcard_each_pattern_of_a_policy_is_tried() -> None:
    lanes = find_lanes(config(policies={"some": {"attach": {"models": ["gpt-*"]}}}), CHAT)
    assert {lane.plan.policies for lane in lanes} == {("some",), ()}


def test_a_key_that_may_not_use_the_route_gives_no_lane() -> None:
    keys = {"app": {"sha256": "a" * 64, "routes": ["/v1/embeddings"], "models": ["x"], "check": False}}
    served = {"x": {"upstream": "main"}, "y": {"upstream": "main"}}
    made = config(keys=keys, models=served)
    assert find_lanes(made, CHAT) == []
    assert find_lanes(made, "/v1/guardrails/check") == []
    assert [lane.model for lane in find_lanes(made, "/v1/embeddings")] == ["x"]


def test_only_servers_that_speak_messages_are_native() -> None:
    up = {"main": {"base_url": "http://127.0.0.1:9/v1", "vendor": "anthropic"}}
    assert find_lanes(config(upstreams=up), "/v1/messages")[0].native
    assert not find_lanes(config(upstreams=up), CHAT)[0].native
    assert not find_lanes(config(), "/v1/messages")[0].native


def test_each_alias_of_the_moderation_route_is_a_lane() -> None:
    made = config(policies={"a": {}, "b": {}}, moderations={"aliases": {"x": "a", "y": "b"}})
    assert [lane.model for lane in find_lanes(made, "/v1/moderations")] == ["x", "y"]
