"""Every setting of the config has a test of its effect, from YAML to the wire (O-04)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxy.config import Config
from supervisors.types import Cause

E2E = "tests/e2e/test_settings.py::"
HOSTILE = "tests/e2e/test_hostile.py::"
OVERLOAD = "tests/e2e/test_overload.py::"
RESPONSES = "tests/e2e/test_responses.py::"
SERVE = "tests/proxy/commands/test_serve.py::"
CAUSE_TEST = f"{E2E}test_each_cause_of_unknown_has_its_own_action"
CAUSES = [cause for cause in Cause if cause is not Cause.SKIPPED]
TESTS: Mapping[str, str] = {
    "expose": f"{E2E}test_expose",
    "journal.hmac_key": f"{E2E}test_the_journals_key_makes_digests_comparable",
    "journal.input": "tests/e2e/test_privacy.py::test_content_modes",
    "journal.output": "tests/e2e/test_privacy.py::test_content_modes",
    "journal.path": f"{E2E}test_the_journals_key_makes_digests_comparable",
    "journal.postgres": "tests/e2e/test_postgres.py::test_a_journal_in_postgres_from_the_config_to_verify_and_replay",
    "journal.on_record_failure": f"{E2E}test_a_journal_that_takes_no_records",
    "journal.content_days": "tests/proxy/test_journals.py::test_contents_are_erased_by_their_mode",
    "journal.replica": "tests/proxy/test_journals.py::test_records_name_the_instance",
    "journal.retention_days": "tests/proxy/test_verify.py::test_retention_leaves_a_journal_that_can_be_proven",
    "keys.*.admin": "tests/e2e/test_refusals.py::test_keys_open_what_they_may_and_nothing_else",
    "keys.*.check": "tests/e2e/test_refusals.py::test_keys_open_what_they_may_and_nothing_else",
    "keys.*.models": "tests/e2e/test_refusals.py::test_keys_open_what_they_may_and_nothing_else",
    "keys.*.sha256": "tests/e2e/test_refusals.py::test_keys_open_what_they_may_and_nothing_else",
    "keys.*.key": "tests/e2e/test_privacy.py::test_nothing_of_prompts_replies_and_keys_is_left_behind",
    "keys.*.routes": f"{E2E}test_keys_are_bound_to_routes_and_policies_to_keys_and_tags",
    "keys.*.tags": f"{E2E}test_keys_are_bound_to_routes_and_policies_to_keys_and_tags",
    "limits.judge_calls_per_request": f"{E2E}test_the_budget_of_judge_calls",
    "limits.judge_cost_usd_per_request": f"{E2E}test_the_cost_of_judge_calls_is_capped",
    "limits.judge_concurrency": f"{E2E}test_judge_calls_wait_for_a_place",
    "limits.judge_concurrency_per_model": f"{E2E}test_judge_calls_wait_for_a_place",
    "limits.max_body_bytes": f"{HOSTILE}test_bodies_beyond_the_limit_are_refused_while_reading",
    "limits.max_choices": f"{E2E}test_caps",
    "limits.max_in_flight": f"{HOSTILE}test_too_many_at_once_are_told_to_come_back",
    "limits.max_json_depth": f"{E2E}test_caps",
    "limits.max_reply_bytes": f"{E2E}test_a_reply_beyond_the_limit_is_a_502",
    "limits.max_tokens": f"{E2E}test_caps",
    "limits.request_timeout_s": f"{E2E}test_the_deadline_of_a_request",
    "models.*.model": f"{E2E}test_models_name_the_upstream_and_the_name_there",
    "models.*.price": "tests/evals/test_spending.py::test_what_judges_cost_stops_a_run_of_supervisors_alone",
    "models.*.upstream": f"{E2E}test_models_name_the_upstream_and_the_name_there",
    "policies.*.attach.keys": f"{E2E}test_keys_are_bound_to_routes_and_policies_to_keys_and_tags",
    "policies.*.attach.tags": f"{E2E}test_keys_are_bound_to_routes_and_policies_to_keys_and_tags",
    "policies.*.attach.models": f"{E2E}test_policies_are_attached_to_models_and_routes",
    "policies.*.attach.routes": f"{E2E}test_policies_are_attached_to_models_and_routes",
    "policies.*.on_block.input": f"{E2E}test_forms_and_words_of_a_block",
    "policies.*.on_block.output": f"{E2E}test_forms_and_words_of_a_block",
    "policies.*.on_block.message": f"{E2E}test_forms_and_words_of_a_block",
    "policies.*.output.block_scope": f"{E2E}test_block_scope",
    "policies.*.output.stream.mode": f"{E2E}test_stream_modes_and_windows",
    "policies.*.output.stream.window_chars": f"{E2E}test_stream_modes_and_windows",
    "policies.*.output.stream.overlap_chars": "tests/proxy/test_stream.py::test_no_chunking_lets_the_canary_out",
    "policies.*.output.stream.block_frame": f"{E2E}test_block_frames",
    "policies.*.output.stream.on_block": f"{E2E}test_what_happens_to_the_upstream_after_a_block",
    "policies.*.output.stream.max_buffer_bytes": f"{E2E}test_the_buffer_of_a_held_stream",
    "policies.*.output.stream.on_buffer_exceeded": f"{E2E}test_the_buffer_of_a_held_stream",
    "policies.*.output.stream.heartbeat_s": f"{E2E}test_heartbeats_while_text_is_held",
    "policies.*.output.stream.on_unstreamable": f"{E2E}test_a_supervisor_of_whole_texts_holds_the_stream",
    "policies.*.input.on_opaque": f"{RESPONSES}test_sealed_input_passes_unless_the_policy_blocks_it",
    "policies.*.output.on_opaque": (
        "tests/e2e/test_messages.py::test_redacted_thinking_passes_unless_the_policy_blocks_what_nobody_can_read"
    ),
    "policies.*.output.on_signed": "tests/e2e/test_messages.py::test_on_signed_block_blocks_the_reply",
    "policies.*.input.on_unseen_history": f"{RESPONSES}test_unseen_history_is_recorded_and_can_be_blocked",
    "policies.*.output.on_unseen_history": f"{RESPONSES}test_the_journal_holds_with_and_without_unseen_history",
    "bypass.accept": "tests/proxy/test_bypass.py::test_a_token_is_for_the_models_that_this_proxy_opens_and_no_others",
    "bypass.secret": "tests/e2e/test_bypass.py::test_the_call_of_a_judge_passes_another_proxy_unjudged",
    "bypass.ttl_s": "tests/e2e/test_bypass.py::test_a_caller_cannot_make_one_nor_use_one_again_later",
    "upstreams.*.bypass": "tests/e2e/test_bypass.py::test_without_a_token_the_judges_call_is_judged",
    "moderation_field": "tests/e2e/test_moderation_field.py::test_the_field_is_answered_and_never_sent_on",
    "moderations.aliases": "tests/e2e/test_moderations.py::test_aliases_are_policies",
    "unguarded_routes": "tests/e2e/test_unguarded.py::test_a_declared_route_passes_as_it_came_and_is_recorded",
    "server.allowed_hosts": f"{HOSTILE}test_only_configured_hosts_are_answered",
    "server.drain_grace_s": f"{SERVE}test_a_drain_ends_what_runs_and_flushes_records",
    "server.drain_timeout_s": f"{SERVE}test_what_outlasts_the_drain_ends_with_an_error_frame",
    "server.host": f"{SERVE}test_a_proxy_that_cannot_serve_says_why",
    "server.port": f"{SERVE}test_a_taken_port_is_exit_code_4",
    "supervisors.*.use": "tests/proxy/test_config.py::test_a_wrong_setting_is_named_by_its_path",
    "tasks": f"{E2E}test_tasks_are_words_from_the_list",
    "keys.*.max_in_flight": f"{OVERLOAD}test_a_key_has_its_number_at_a_time",
    "keys.*.requests_per_minute": f"{OVERLOAD}test_a_key_has_its_rate_on_every_route_that_judges",
    "limits.max_queue": f"{OVERLOAD}test_calls_wait_in_a_bounded_queue",
    "models.*.max_concurrency": f"{OVERLOAD}test_calls_wait_in_a_bounded_queue",
    "upstreams.*.max_concurrency": f"{OVERLOAD}test_calls_wait_in_a_bounded_queue",
    "upstreams.*.breaker_failures": f"{OVERLOAD}test_a_dead_server_is_left_alone_for_a_while",
    "upstreams.*.breaker_open_s": f"{OVERLOAD}test_a_dead_server_is_left_alone_for_a_while",
    "reload": "tests/e2e/test_reload.py::test_under_auto_the_file_alone_is_enough",
    "caches.*.max_entries": "tests/proxy/test_cache.py::test_the_longest_unused_is_forgotten_first",
    "caches.*.scope": "tests/e2e/test_cache.py::test_callers_share_only_what_the_config_lets_them",
    "caches.*.ttl_s": "tests/e2e/test_cache.py::test_a_kept_verdict_decides_like_a_new_one_and_shows",
    "places": f"{OVERLOAD}test_exchanges_wait_for_a_supervisor_in_a_bounded_queue",
    "journal.stream_notes": "tests/e2e/test_interrupted.py::test_a_killed_stream_is_recorded_at_the_next_start",
    "policies.*.input.allowed_tools": "tests/e2e/test_tools.py::test_only_allowed_tools_are_offered",
    "policies.*.output.allowed_tools": "tests/e2e/test_tools.py::test_only_allowed_tools_are_called",
    "policies.*.mcp_servers": "tests/e2e/test_tools.py::test_servers_of_the_callers_choice_need_a_policy",
    "tracing.export": "tests/e2e/test_tracing.py::test_an_exchange_becomes_a_trace_that_continues_the_callers",
    "tracing.endpoint": "tests/e2e/test_tracing.py::test_an_exchange_becomes_a_trace_that_continues_the_callers",
    "tracing.headers": "tests/e2e/test_tracing.py::test_the_metrics_of_the_conventions_are_exported",
    "tracing.sample": "tests/e2e/test_tracing.py::test_the_metrics_of_the_conventions_are_exported",
    "upstreams.*.propagate_trace": (
        "tests/e2e/test_tracing.py::test_without_tracing_nothing_of_it_is_imported_and_a_trace_passes_as_it_came"
    ),
    "upstreams.*.tokens_field": f"{E2E}test_the_bound_stands_in_the_field_that_the_server_takes",
    "upstreams.*.stream_usage": "tests/e2e/test_operations.py::test_usage_of_streams_is_for_those_who_asked",
    "upstreams.*.allow_link_local": "tests/proxy/test_checks.py::test_what_cannot_work_together_is_an_error",
    "upstreams.*.api_key": f"{E2E}test_what_an_upstream_is_sent",
    "upstreams.*.base_url": f"{E2E}test_models_name_the_upstream_and_the_name_there",
    "upstreams.*.forward_headers": f"{E2E}test_what_an_upstream_is_sent",
    "upstreams.*.headers": f"{E2E}test_models_name_the_upstream_and_the_name_there",
    "upstreams.*.idle_timeout_s": f"{E2E}test_an_upstream_that_falls_silent",
    "upstreams.*.timeout_s": f"{E2E}test_an_upstream_that_is_too_slow",
    "upstreams.*.max_connections": f"{E2E}test_connections_to_an_upstream_are_bounded",
    "upstreams.*.proxy": f"{E2E}test_an_upstream_behind_a_proxy",
    "upstreams.*.retries": f"{E2E}test_an_upstream_is_tried_again",
    "upstreams.*.vendor": "tests/e2e/test_messages.py::test_an_allowed_message_is_the_upstreams_bytes",
    "upstreams.*.use": "tests/proxy/test_config.py::test_a_wrong_setting_is_named_by_its_path",
    **{
        f"policies.*.{stage}.{name}": f"{E2E}{test}"
        for stage in ("input", "output")
        for name, test in {
            "forced": "test_each_action_on_unsafe_has_its_effect",
            "on_unsafe": "test_each_action_on_unsafe_has_its_effect",
            "mode": "test_modes_of_a_stage",
            "timeout_s": "test_a_stage_has_its_own_deadline",
            "exhaustive": "test_exhaustive_asks_everybody",
            "optional": "test_optional_supervisors_of_a_stage",
            "default_on": "test_optional_supervisors_of_a_stage",
            "opt_out": "test_optional_supervisors_of_a_stage",
            "scopes.*.on_unsafe": "test_scopes_have_actions_of_their_own",
        }.items()
    },
    **{
        f"policies.*.{stage}.on_unknown.{name}": CAUSE_TEST
        for stage in ("input", "output")
        for name in ("default", *[cause.value for cause in CAUSES])
    },
}
BELOW: Mapping[str, str] = {
    "journal.max_backlog": "tests/proxy/store/test_writer.py",
    "upstreams.*.connect_timeout_s": "tests/supervisors/transport/test_client.py",
}
"""Settings whose effect is tested on the part they are handed to, not yet from the file to the wire."""
LOCAL = {f"upstreams.*.{name}" for name in ("model", "path", "n_ctx", "slots", "threads")}
"""Settings of the local model, which needs the packages of the extra `local`."""


def settings_of(node: Mapping[str, Any], definitions: Mapping[str, Any], path: str = "") -> set[str]:
    """Return the dotted path of every setting of a JSON Schema; names chosen by the operator are `*`."""
    if "$ref" in node:
        return settings_of(definitions[node["$ref"].split("/")[-1]], definitions, path)
    found: set[str] = set()
    for choice in [*node.get("anyOf", ()), *node.get("oneOf", ())]:
        found |= settings_of(choice, definitions, path)
    for name, child in node.get("properties", {}).items():
        if name not in ("env", "file"):  # the two ways to write a secret
            inner = f"{path}.{name}" if path else name
            found |= settings_of(child, definitions, inner) or {inner}
    if isinstance(node.get("additionalProperties"), dict):
        found |= settings_of(node["additionalProperties"], definitions, f"{path}.*")
    return found


def test_every_setting_has_a_test_of_its_effect() -> None:  # O-04
    schema = Config.model_json_schema()
    assert settings_of(schema, schema["$defs"]) == {*TESTS, *BELOW, *LOCAL}
    root = Path(__file__).resolve().parents[2]
    for test in TESTS.values():
        file, name = test.split("::")
        assert f"def {name}(" in (root / file).read_text("utf-8"), test
    for file in BELOW.values():
        assert (root / file).is_file(), file
