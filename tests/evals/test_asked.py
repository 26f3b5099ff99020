"""Which supervisors of a policy file are asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evals.asked import ask_only
from evals.client import BUILTIN_POLICIES, load_guard
from supervisors.errors import ConfigError

BODY: dict[str, Any] = {
    "supervisors": {"words": {}, "guard": {}, "judge": {}},
    "policies": {
        "a": {"input": {"forced": ["words", "guard"], "on_unsafe": "log"}, "output": {"optional": ["judge"]}},
        "b": {"attach": {"models": ["gpt"]}},
    },
}


def test_only_the_named_ones_are_asked_and_the_rest_stays() -> None:
    asked = ask_only(BODY, ["guard"])
    assert asked["policies"] == {
        "a": {"input": {"forced": ["guard"], "on_unsafe": "log"}, "output": {"optional": []}},
        "b": {"attach": {"models": ["gpt"]}},
    }
    assert asked["supervisors"] == BODY["supervisors"]
    assert ask_only(BODY, []) == BODY


def test_a_name_that_no_stage_asks_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"asks a supervisor 'gard'; there are: guard, judge, words; did you mean"):
        ask_only(BODY, ["gard"])


@pytest.mark.parametrize("body", [{}, {"policies": []}, {"policies": {"a": None}}, {"policies": {"a": {"input": 7}}}])
def test_what_is_not_of_the_right_shape_is_left_to_the_validation(body: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="no stage of the policy asks"):
        ask_only(body, ["guard"])


@pytest.mark.parametrize("name", ["supervisors", "judges"])
def test_every_row_of_the_published_table_can_be_asked_alone(name: str) -> None:
    file = BUILTIN_POLICIES / f"{name}.yaml"
    rows = load_guard(file, {}).policies()["default"].input.forced
    assert len(rows) >= 5
    for row in rows:
        alone = load_guard(file, {}, [row])
        assert alone.policies()["default"].input.forced == (row,)
        assert alone.exhaustive
    assert load_guard(file, {}).exhaustive  # nothing ends early where findings are only noted


def test_a_route_that_there_is_not_is_refused_in_a_guard_as_by_serve(tmp_path: Path) -> None:
    file = tmp_path / "guard.yaml"
    words = "{use: rules, keywords: [violet umbrella]}"
    attach = "attach: {routes: [/v1/chat/completion]}"
    file.write_text(f"supervisors: {{words: {words}}}\npolicies: {{p: {{{attach}, input: {{forced: [words]}}}}}}\n")
    with pytest.raises(ConfigError, match=r"guard\.yaml:2:\d+: policies\.p\.attach\.routes: .*did you mean '/v1"):
        load_guard(file, {})
