"""The `moderation` field of a request: what it may ask for, and the member that answers it (W-15)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire.errors import RequestError
from proxy.wire.moderation_field import FieldAsk, FieldMode, FieldSettings, Judged, take_field, to_member
from supervisors.types import Assessment, Cause, safe, unsafe

SETTINGS = FieldSettings("answer", {"omni": "default"})


@pytest.mark.parametrize(
    ("policy", "tightened"),
    [
        (None, ()),
        ({"input": None, "output": None}, ()),
        ({"input": {"mode": "score"}}, ()),
        ({"input": {"mode": "block"}}, ("input",)),
        ({"output": {"mode": "block"}, "input": {"mode": "block"}}, ("input", "output")),
        ({"input": {"mode": "score"}, "output": {"mode": "block"}}, ("output",)),
    ],
)
def test_the_field_is_taken_out_and_read(policy: object, tightened: tuple[str, ...]) -> None:  # W-15
    body: dict[str, Any] = {"model": "m", "moderation": {"model": "omni", "policy": policy}}
    ask = take_field(body, SETTINGS)
    assert body == {"model": "m"}
    assert ask == FieldAsk("omni", "default", tightened)  # type: ignore[arg-type] # words of the table


def test_null_asks_for_nothing_and_forward_leaves_the_field() -> None:
    body: dict[str, Any] = {"moderation": None}
    assert take_field(body, SETTINGS) is None
    assert body == {}
    body = {"moderation": {"model": "theirs"}}
    assert take_field(body, FieldSettings("forward")) is None
    assert body == {"moderation": {"model": "theirs"}}


@pytest.mark.parametrize(
    ("value", "mode", "param"),
    [
        ({"model": "omni"}, "refuse", "moderation"),
        (True, "answer", "moderation"),
        ({}, "answer", "moderation.model"),
        ({"model": "other"}, "answer", "moderation.model"),
        ({"model": ["omni"]}, "answer", "moderation.model"),
        ({"model": "omni", "mode": "block"}, "answer", "moderation.mode"),
        ({"model": "omni", "policy": "block"}, "answer", "moderation.policy"),
        ({"model": "omni", "policy": {"both": {"mode": "block"}}}, "answer", "moderation.policy"),
        ({"model": "omni", "policy": {"input": "block"}}, "answer", "moderation.policy.input.mode"),
        ({"model": "omni", "policy": {"output": {"mode": "off"}}}, "answer", "moderation.policy.output.mode"),
    ],
)
def test_anything_else_is_refused_with_its_path(value: object, mode: FieldMode, param: str) -> None:  # W-15
    with pytest.raises(RequestError) as refused:
        take_field({"moderation": value}, FieldSettings(mode, SETTINGS.aliases))
    assert (refused.value.status, refused.value.param) == (400, param)


def test_known_verdicts_are_results_and_one_unknown_is_an_error() -> None:  # W-15
    good, bad = Judged([Assessment("a", safe())], None), Judged([Assessment("a", unsafe("hate"))], None)
    member = to_member("omni", [good, bad])
    assert (member["type"], member["model"]) == ("moderation_results", "omni")
    assert [(row["type"], row["flagged"], row["model"]) for row in member["results"]] == [
        ("moderation_result", False, "omni"),
        ("moderation_result", True, "omni"),
    ]
    vague = Judged([], Cause.TIMEOUT)
    assert to_member("omni", [good, vague])["code"] == "timeout"
    assert to_member("omni", [])["code"] == "skipped"
