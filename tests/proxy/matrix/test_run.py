"""The coverage matrix through the real application: what it finds, and that it does find gaps (guarding §11, M-01)."""

from __future__ import annotations

import os
from typing import Any

import pytest

from proxy.commands.matrix import built_in
from proxy.config import Config
from proxy.matrix.cells import Outcome
from proxy.matrix.report import has_failed
from proxy.matrix.run import ROUTES, Matrix, run_matrix
from supervisors.testing import Always
from supervisors.types import Cause, unknown

CHAT = "/v1/chat/completions"
WORDS = {"use": "rules", "keywords": ["canary"]}
UP = {"main": {"base_url": "http://127.0.0.1:9/v1"}}


def config(**parts: Any) -> Config:
    return Config.model_validate({"upstreams": UP, "supervisors": {"words": WORDS}, **parts})


def both(**rules: Any) -> dict[str, Any]:
    return {"default": {"input": {"forced": ["words"], **rules}, "output": {"forced": ["words"], **rules}}}


def outcomes(matrix: Matrix, **wanted: str) -> set[Outcome]:
    return {cell.outcome for cell in matrix.cells if wanted.items() <= cell.row().items()}


async def test_no_cell_is_silent_in_a_sample_of_every_route_and_kind_of_supervisor() -> None:  # M-01 to M-23
    matrix = await run_matrix(built_in(), every=13)
    assert not has_failed(matrix)
    assert {cell.place.route for cell in matrix.cells} == set(ROUTES)
    assert {cell.supervisor for cell in matrix.cells} == {"words", "judge", "guard", "panel"}
    assert {cell.delivery for cell in matrix.cells} == {"whole", "stream", "split"}
    assert {Outcome.CAUGHT, Outcome.UNKNOWN} <= {cell.outcome for cell in matrix.cells}


@pytest.mark.slow
@pytest.mark.skipif("GUARDRAIL_MATRIX" not in os.environ, reason="GUARDRAIL_MATRIX=1 runs all cells")  # noqa: TID251
async def test_no_cell_of_the_whole_matrix_is_silent() -> None:  # M-01 to M-23
    matrix = await run_matrix(built_in())
    assert len(matrix.cells) > 5000
    assert not has_failed(matrix)


async def test_a_supervisor_set_to_look_at_the_last_turn_only_leaves_gaps() -> None:  # M-13
    words = {**WORDS, "turns": "last_user"}
    matrix = await run_matrix(config(supervisors={"words": words}, policies=both()), [CHAT], every=5)
    assert not has_failed(matrix)
    assert Outcome.NOT_IN_SCOPE in outcomes(matrix, stage="input", turn="first")
    assert outcomes(matrix, stage="output") <= {Outcome.CAUGHT, Outcome.UNKNOWN}


async def test_a_stage_without_a_supervisor_is_silent() -> None:
    rules = {"default": {"input": {"forced": ["words"]}}}
    matrix = await run_matrix(config(policies=rules), [CHAT], every=9)
    assert outcomes(matrix, stage="input", supervisor="words", turn="last") == {Outcome.CAUGHT}
    assert outcomes(matrix, stage="output") == {Outcome.SILENT}
    assert outcomes(matrix, stage="output", supervisor="-") == {Outcome.SILENT}


async def test_what_a_policy_only_logs_is_flagged_and_what_it_redacts_is_caught() -> None:  # D-08b
    logged = await run_matrix(config(policies=both(on_unsafe="log")), [CHAT], every=9)
    assert outcomes(logged, kind="text") == {Outcome.FLAGGED}
    redacted = await run_matrix(config(policies=both(on_unsafe="redact")), [CHAT], every=3)
    assert outcomes(redacted, kind="text") == {Outcome.CAUGHT}
    assert not has_failed(logged)
    assert not has_failed(redacted)


async def test_shadow_mode_and_unknown_verdicts_are_seen() -> None:
    parts: dict[str, Any] = {"supervisors": {"words": WORDS}, "policies": both(mode="shadow")}
    matrix = await run_matrix(config(**parts), ["/v1/completions"])
    assert outcomes(matrix, kind="text") == {Outcome.FLAGGED}
    assert outcomes(matrix, shape="tokens") == {Outcome.UNKNOWN}


async def test_one_supervisor_may_look_where_another_does_not() -> None:
    user = {**WORDS, "roles": ["user"]}
    policies = {"a": {"input": {"forced": ["words", "user"]}, "output": {"forced": ["words"]}}}
    matrix = await run_matrix(config(supervisors={"words": WORDS, "user": user}, policies=policies), [CHAT], every=4)
    assert not has_failed(matrix)
    assert outcomes(matrix, stage="input", role="system", supervisor="user") == {Outcome.ELSEWHERE}


async def test_a_config_that_blocks_everything_proves_nothing() -> None:
    stuck = config(supervisors={"words": {"use": "rules", "keywords": ["weather"]}}, policies=both())
    matrix = await run_matrix(stuck, ["/v1/embeddings"])
    assert has_failed(matrix)
    assert matrix.unsound


async def test_every_set_of_policies_is_walked_with_a_key_that_leads_there() -> None:
    keys = {"app": {"sha256": "a" * 64, "tags": ["team"]}, "ops": {"sha256": "b" * 64, "routes": ["/v1/embeddings"]}}
    policies = {**both(), "team": {"attach": {"tags": ["team"]}, "input": {"forced": ["words"]}}}
    matrix = await run_matrix(config(keys=keys, policies=policies), ["/v1/embeddings"])
    assert {cell.policies for cell in matrix.cells} == {("default", "team"), ("default",)}
    assert not has_failed(matrix)


async def test_a_supervisor_that_cannot_be_scripted_has_a_stand_in() -> None:
    parts: dict[str, Any] = {"supervisors": {"words": Always(unknown(Cause.ERROR))}, "policies": both()}
    matrix = await run_matrix(config(**parts), ["/v1/embeddings"])
    assert matrix.stand_ins == ["words"]
    assert outcomes(matrix, kind="text") == {Outcome.CAUGHT}
    assert outcomes(matrix, kind="media") == {Outcome.UNKNOWN}


async def test_a_guard_of_the_conversation_is_not_silent_about_system_text() -> None:  # G-04, guarding §11
    policies = {"a": {"input": {"forced": ["words"]}, "output": {"forced": ["rules"]}}}
    supervisors = {"words": {"use": "guard", "card": "embedded"}, "rules": WORDS}
    matrix = await run_matrix(config(supervisors=supervisors, policies=policies), [CHAT, "/v1/messages"], every=2)
    assert not has_failed(matrix)
    assert outcomes(matrix, stage="input", role="system", kind="text") == {Outcome.NOT_IN_SCOPE}
    assert outcomes(matrix, stage="input", kind="tool_def") == {Outcome.NOT_IN_SCOPE}
    assert Outcome.NOT_IN_SCOPE not in outcomes(matrix, stage="input", role="user", kind="text")
