"""Which policies a record falls under, and what its outcome may be, from the archived config alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proxy.reattach import check_attached, check_outcome, is_refused
from proxy.rows import to_json
from proxy.store.reach import Attached, KnownKey, Reach
from proxy.store.rules import Archive
from proxy.store.testing import ARCHIVE, record

REACH = Reach(
    {
        "all": Attached(),
        "kids": Attached(tags=("child",)),
        "large": Attached(models=("large*",)),
        "mine": Attached(keys=("app",)),
        "chat": Attached(routes=("/v1/chat/*",)),
    },
    {"0123456789ab": KnownKey("app"), "ba9876543210": KnownKey("school", ("child",))},
    {"words": "all"},
    frozenset({"/v1/files/{id}"}),
)


@pytest.mark.parametrize(
    ("model", "key_id", "route", "expected"),
    [
        ("small", "0123456789ab", "/v1/embeddings", ("all", "mine")),
        ("large-2", "ba9876543210", "/v1/chat/completions", ("all", "chat", "kids", "large")),
        ("small", None, "/v1/embeddings", ("all",)),
    ],
)
def test_policies_are_those_whose_dimensions_all_match(
    model: str, key_id: str | None, route: str, expected: tuple[str, ...]
) -> None:
    assert REACH.policies_of(model, key_id, route) == expected


def body(**changed: object) -> dict[str, Any]:
    return {**to_json(record(1)), **changed}


def test_a_key_of_no_config_and_a_record_without_one_are_found() -> None:
    assert not REACH.knows(None)
    assert not REACH.knows("ffffffffffff")
    assert Reach().knows(None)


def test_a_moderation_falls_under_the_policy_of_its_alias() -> None:
    archive = replace(ARCHIVE, reach=replace(ARCHIVE.reach, aliases={"words": "default"}))
    fits = body(kind="moderation", route="/v1/moderations", model="words")
    assert list(check_attached(fits, archive)) == []
    assert [field for field, _ in check_attached({**fits, "model": "other"}, archive)] == ["policy.names"]


def test_an_unguarded_record_is_of_a_declared_route_and_unjudged() -> None:
    archive = replace(ARCHIVE, reach=replace(ARCHIVE.reach, unguarded=frozenset({"/v1/files/{id}"})))
    bare: dict[str, Any] = {"policy": {"names": []}, "verdicts": [], "decisions": []}
    fits = body(kind="unguarded", route="/v1/files/{id}", **bare)
    assert list(check_attached(fits, archive)) == []
    assert [field for field, _ in check_attached({**fits, "verdicts": [{}]}, archive)] == ["kind"]


def test_a_check_may_be_about_one_stage_but_not_about_none() -> None:
    half = body(kind="check", prescribed={"input": ["rules", "panel"], "output": []})
    assert list(check_attached(half, ARCHIVE)) == []
    none = body(kind="check", prescribed={"input": [], "output": []})
    assert len(list(check_attached(none, ARCHIVE))) == 4


def test_an_interrupted_stream_has_policies_and_no_verdicts() -> None:
    assert list(check_attached(body(outcome="interrupted", prescribed={"input": [], "output": []}), ARCHIVE)) == []


def test_an_error_that_the_caller_saw_as_success_is_no_error() -> None:
    assert not is_refused(body())
    found = list(check_outcome(body(outcome="client_error")))
    assert found == [("outcome", "is client_error, and the caller got status 200")]
    cut = body(outcome="unavailable", stream=True, client={**body()["client"], "terminator": "error"})
    assert list(check_outcome(cut)) == []  # a stream that the end of the process cut


@pytest.mark.parametrize("kind", ["exchange", "check", "moderation"])
def test_a_caller_that_left_before_anybody_judged_owes_nobody_a_verdict(kind: str) -> None:  # O-13
    nothing: dict[str, Any] = {
        "policy": {"names": []},
        "prescribed": {"input": [], "output": []},
        "verdicts": [],
        "decisions": [],
        "upstream_call": {"called": False},
    }
    left = body(kind=kind, model="", outcome="cancelled", client={"status": 499}, **nothing)
    assert is_refused(left)
    assert list(check_attached(left, ARCHIVE)) == list(check_outcome(left)) == []
    assert not is_refused({**left, "upstream_call": {"called": True}})
    assert not is_refused({**left, "client": {"status": 200}})


def test_an_exchange_that_passed_with_a_token_is_of_an_opened_model_and_unjudged() -> None:  # G-42
    archive = replace(ARCHIVE, reach=replace(ARCHIVE.reach, bypass=("judge*",)))
    fits = body(task="bypass", model="judge-8b", policy={"names": []}, verdicts=[], decisions=[])
    assert list(check_attached(fits, archive)) == []
    assert [field for field, _ in check_attached(fits, ARCHIVE)] == ["task"]
    assert [field for field, _ in check_attached({**fits, "model": "gpt"}, archive)] == ["task"]
    judged = {**fits, "policy": {"names": ["default"]}}
    assert [field for field, _ in check_attached(judged, archive)] == ["task"]
    assert Archive.from_text(archive.to_text()).reach.bypass == ("judge*",)
    assert "bypass" not in ARCHIVE.to_text()
