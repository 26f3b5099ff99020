from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.importing.litellm import Imported, import_litellm

MODELS = "model_list: [{model_name: m, litellm_params: {model: openai/m, api_key: os.environ/OPENAI_API_KEY}}]\n"
RULES = "guardrail: litellm_content_filter, blocked_words: [{keyword: violet umbrella, action: BLOCK}]"


def run(text: str, folder: Path = Path()) -> Imported:
    return import_litellm(yaml.safe_load(MODELS + text), folder)


def one(params: str, name: str = "g") -> Imported:
    return run(f"guardrails: [{{guardrail_name: {name}, litellm_params: {{{params}}}}}]")


def unmapped(imported: Imported) -> list[str]:
    return [note.path for note in imported.report.notes if note.outcome == "unmapped"]


def entry(imported: Imported, name: str = "g") -> Any:
    return imported.config["supervisors"][name]


def policy(imported: Imported, name: str = "g") -> Any:
    return imported.config["policies"][name]


@pytest.mark.parametrize(
    ("mode", "stages"),
    [
        ("pre_call", {"input": {"forced": ["g"], "on_unsafe": "block"}}),
        ("during_call", {"input": {"forced": ["g"], "mode": "parallel", "on_unsafe": "block"}}),
        ("post_call", {"output": {"forced": ["g"], "on_unsafe": "block"}}),
        (
            "logging_only",
            {
                stage: {"forced": ["g"], "mode": "shadow", "on_unsafe": "log", "on_unknown": "log"}
                for stage in ("input", "output")
            },
        ),
        (
            "[pre_call, post_call]",
            {stage: {"forced": ["g"], "on_unsafe": "block"} for stage in ("input", "output")},
        ),
    ],
)
def test_modes_are_stages(mode: str, stages: dict[str, Any]) -> None:
    found = one(f"{RULES}, mode: {mode}, default_on: true")
    assert policy(found) == stages
    assert found.report.complete


@pytest.mark.parametrize("mode", ["pre_mcp_call", "during_mcp_call", "post_mcp_call", "realtime_input_transcription"])
def test_modes_without_counterpart_are_unmapped(mode: str) -> None:
    found = one(f"{RULES}, mode: [pre_call, {mode}]")
    assert unmapped(found) == ["guardrails[0].litellm_params.mode"]
    assert policy(found) == {"input": {"optional": ["g"], "on_unsafe": "block"}}


def test_modes_by_tag_are_policies_by_tag() -> None:
    found = one(f"{RULES}, default_on: true, mode: {{tags: {{eu: post_call}}, default: pre_call}}")
    assert policy(found, "g-eu")["attach"] == {"tags": ["eu"]}
    assert list(policy(found, "g-eu")) == ["attach", "output"]
    assert list(policy(found)) == ["input"]


def test_without_default_on_a_guardrail_is_optional() -> None:
    assert policy(one(f"{RULES}, mode: pre_call"))["input"]["optional"] == ["g"]


def test_a_content_filter_is_rules_an_action_each(tmp_path: Path) -> None:
    (tmp_path / "words.yaml").write_text("blocked_words: [{keyword: red kettle, action: MASK}]", "utf-8")
    found = run(
        """
guardrails:
  - guardrail_name: g
    litellm_params:
      guardrail: litellm_content_filter
      mode: pre_call
      patterns:
        - {pattern_type: prebuilt, pattern_name: us_ssn, action: BLOCK}
        - {pattern_type: prebuilt, pattern_name: email, action: MASK}
        - {pattern_type: regex, pattern: 'EMP-[0-9]{5}', name: employee, action: MASK}
      blocked_words: [{keyword: violet umbrella, action: BLOCK, description: canary}]
      blocked_words_file: words.yaml
""",
        tmp_path,
    )
    assert entry(found) == {"use": "rules", "presets": ["pii.ssn"], "keywords": ["violet umbrella"]}
    assert entry(found, "g-rules-redact") == {
        "use": "rules",
        "presets": ["pii.email"],
        "patterns": [{"name": "employee", "regex": "EMP-[0-9]{5}", "ignore_case": True, "category": "employee"}],
        "keywords": ["red kettle"],
    }
    assert policy(found)["input"]["on_unsafe"] == "block"
    assert policy(found, "g-redact")["input"] == {"optional": ["g-rules-redact"], "on_unsafe": "redact"}
    assert found.report.complete


@pytest.mark.parametrize(
    ("member", "path"),
    [
        ("patterns: [{pattern_type: prebuilt, pattern_name: flight_number, action: BLOCK}]", ".patterns[0]"),
        ("patterns: [{pattern_type: regex, pattern: '(?<=a)b', action: BLOCK}]", ".patterns[0].pattern"),
        ("patterns: [{pattern_type: regex, pattern: 'b', action: WARN}]", ".patterns[0].action"),
        ("categories: [{category: harmful_violence, enabled: true, action: BLOCK}]", ".categories[0]"),
        ("blocked_words_file: nowhere.yaml", ".blocked_words_file"),
        ("stream_scope: streaming", ".stream_scope"),
        ("violation_message_template: 'No: {guardrail_name}'", ".violation_message_template"),
        ("on_sensitive_data: route", ".on_sensitive_data"),
        ("end_session_after_n_fails: 3", ".end_session_after_n_fails"),
        ("a_setting_of_tomorrow: 1", ".a_setting_of_tomorrow"),
    ],
)
def test_what_has_no_counterpart_is_reported_by_its_path(member: str, path: str) -> None:
    found = one(f"{RULES}, mode: pre_call, {member}")
    assert unmapped(found) == [f"guardrails[0].litellm_params{path}"]
    assert entry(found)["keywords"] == ["violet umbrella"]


def test_a_guardrail_of_another_kind_is_unmapped_and_left_out() -> None:
    found = one("guardrail: aporia, mode: pre_call, api_key: os.environ/APORIA")
    assert unmapped(found) == ["guardrails[0]"]
    assert "supervisors" not in found.config


def test_moderation_keeps_model_address_and_key() -> None:
    found = one(
        "guardrail: openai_moderation, mode: pre_call, model: omni-moderation-latest, "
        "api_base: 'https://x.example/v1', api_key: os.environ/MOD_KEY, "
        "timeout: 3, max_input_chars: 9000, max_concurrent_decision_calls: 2"
    )
    assert entry(found) == {
        "use": "moderation",
        "model": "omni-moderation-latest",
        "url": "https://x.example/v1",
        "api_key": {"env": "MOD_KEY"},
        "timeout_s": 3,
        "max_chars": 9000,
        "parallel": 2,
        "scopes": ["conversation", "system"],
    }
    assert found.report.complete


def test_a_key_in_plain_text_is_not_copied() -> None:
    found = one("guardrail: openai_moderation, mode: pre_call, api_key: sk-plain-text")
    assert unmapped(found) == ["guardrails[0].litellm_params.api_key"]
    assert "sk-plain-text" not in str(found)
    assert "write into its entry below supervisors, api_key: {env: NAME}" in str(found)


def test_a_key_in_plain_text_is_told_where_it_goes() -> None:
    tree = {
        "model_list": [
            {"model_name": "a", "litellm_params": {"model": "openai/a", "api_key": "os.environ/A"}},
            {"model_name": "b", "litellm_params": {"model": "openai/b", "api_key": "sk-plain-text"}},
        ],
        "general_settings": {"master_key": "sk-plain-text"},
    }
    found = import_litellm(tree, Path())
    said = [line.partition("and write ")[2] for line in found.report.lines() if "plain text" in line]
    assert said == ["upstreams.upstream2.api_key: {env: NAME}", "keys.master.key: {env: NAME}"]
    assert found.config["upstreams"]["upstream1"]["api_key"] == {"env": "A"}
    assert "sk-plain-text" not in str(found)


def test_azure_keeps_its_severities() -> None:
    found = one(
        "guardrail: azure/text_moderations, mode: pre_call, api_base: 'https://x.example', api_key: os.environ/AZ, "
        "severity_threshold: 4, severity_threshold_by_category: {Hate: 2}"
    )
    assert entry(found)["use"] == "azure_text"
    assert (entry(found)["severity_threshold"], entry(found)["severity_thresholds"]) == (4, {"Hate": 2})


def test_a_judge_of_quality_becomes_one_of_risk() -> None:
    found = one(
        "guardrail: llm_as_a_judge, mode: post_call, judge_model: m, overall_threshold: 70, on_failure: log, "
        "criteria: [{name: tone, weight: 60, description: It is polite.}, {name: facts, weight: 40}]"
    )
    assert (entry(found)["model"], entry(found)["threshold"]) == ("m", 0.3)
    assert "tone (60%): It is polite; facts (40%): facts." in entry(found)["criterion"]
    assert policy(found)["output"]["on_unsafe"] == "log"
    assert found.report.complete


def test_presidio_entities_are_our_patterns_or_presidio() -> None:
    found = one(
        "guardrail: presidio, mode: pre_call, pii_entities_config: {CREDIT_CARD: MASK, PERSON: MASK, US_SSN: BLOCK, "
        "PL_PESEL: MASK}, presidio_score_thresholds: {ALL: 0.7}, output_parse_pii: true, "
        "presidio_analyzer_api_base: 'http://x'"
    )
    assert entry(found) == {"use": "rules", "presets": ["pii.card"]}
    assert entry(found, "g-presidio-redact")["entities"] == ["PERSON"]
    assert entry(found, "g-presidio-redact")["threshold"] == 0.7
    assert entry(found, "g-rules-block") == {"use": "rules", "presets": ["pii.ssn"]}
    assert [path.rpartition(".")[2] for path in unmapped(found)] == ["output_parse_pii", "PL_PESEL"]


def test_hidden_secrets_are_redacted() -> None:
    found = one("guardrail: hide-secrets, mode: pre_call, default_on: true")
    assert entry(found) == {"use": "rules", "presets": ["secrets"]}
    assert policy(found)["input"]["on_unsafe"] == "redact"


@pytest.mark.parametrize(
    ("member", "options"),
    [
        ("skip_system_message_in_guardrail: true", {"scopes": ["conversation"]}),
        ("scan_only_tool_results: true", {"scopes": ["conversation"], "kinds": ["tool_result"]}),
        ("skip_tool_message_in_guardrail: true", {"roles": ["user", "assistant", "system", "developer"]}),
        ("experimental_use_latest_role_message_only: true", {"turns": "last_user"}),
    ],
)
def test_narrowing_options_keep_their_meaning(member: str, options: dict[str, Any]) -> None:
    found = one(f"{RULES}, mode: pre_call, {member}")
    assert options.items() <= entry(found).items()
    assert found.report.complete


@pytest.mark.parametrize(
    ("member", "stage"),
    [
        ("unreachable_fallback: fail_open", {"on_unknown": {"default": "block", "error": "log", "timeout": "log"}}),
        ("fail_on_error: false", {"on_unknown": {"default": "block", "error": "log", "timeout": "log"}}),
        ("unreachable_fallback: fail_closed", {}),
        ("mask_response_content: true", {"on_unsafe": "redact"}),
        ("streaming_buffer_until_moderated: true", {"stream": {"mode": "hold"}}),
        ("streaming_end_of_stream_only: true", {"stream": {"mode": "hold"}}),
        ("streaming_buffer_release_on_scan: true", {"stream": {"mode": "window"}}),
        ("only_scan_new_messages: true", {}),
        ("run_in_parallel: true", {}),
    ],
)
def test_stage_options_keep_their_meaning(member: str, stage: dict[str, Any]) -> None:
    found = one(f"{RULES}, mode: post_call, {member}")
    assert policy(found)["output"] == {"optional": ["g"], "on_unsafe": "block", **stage}
    assert found.report.complete


def test_masking_beside_the_call_is_written_as_blocking() -> None:
    found = one(f"{RULES}, mode: during_call, mask_request_content: true")
    assert policy(found)["input"] == {"optional": ["g"], "on_unsafe": "redact"}


def test_a_message_is_kept() -> None:
    found = one(f"{RULES}, mode: pre_call, violation_message_template: Not here.")
    assert policy(found)["on_block"] == {"message": "Not here."}


def test_the_same_name_twice_is_tried_in_order() -> None:
    params = "guardrail: openai_moderation, mode: pre_call, api_key: os.environ/"
    entries = [f"{{guardrail_name: g, litellm_params: {{{params}{key}}}}}" for key in "AB"]
    text = f"guardrails: [{', '.join(entries)}]"
    found = run(text)
    assert (entry(found)["use"], entry(found)["strategy"]) == ("vote", "first_available")
    assert [member["api_key"] for member in entry(found)["members"].values()] == [{"env": "A"}, {"env": "B"}]
    other = run(text.replace("pre_call, api_key: os.environ/B", "post_call, api_key: os.environ/B"))
    assert unmapped(other) == ["guardrails[1]"]


GUARDS = f"""
guardrails:
  - {{guardrail_name: a, litellm_params: {{{RULES}, mode: pre_call}}}}
  - {{guardrail_name: b, litellm_params: {{{RULES}, mode: post_call}}}}
"""


def test_nothing_overwrites_what_ends_up_with_the_same_name() -> None:
    names = ("a b", "a-b", "p-g", "g")
    listed = ", ".join([f'{{guardrail_name: "{name}", litellm_params: {{{RULES}, mode: pre_call}}}}' for name in names])
    text = """
policies: {p: {guardrails: {add: [g]}}, "p-g": {pipeline: {mode: pre_call, steps: [{guardrail: g}]}}}
policy_attachments: [{policy: p, models: [m]}, {policy: p, keys: [k]}, {policy: p-g}]
"""
    found = run(f"guardrails: [{listed}]\n{text}")
    assert list(found.config["supervisors"]) == ["a-b", "a-b-2", "p-g", "g", "p-g-pipeline"]
    policies = {name: one.get("attach") for name, one in found.config["policies"].items()}
    own = dict.fromkeys(["a-b", "a-b-2", "p-g", "g"])
    assert policies == {**own, "p-g-2": {"models": ["m"]}, "p-g-3": {"keys": ["k"]}, "p-g-4": None}
    renamed = [note.path for note in found.report.notes if "something else is called" in note.text]
    assert renamed == ["a-b", "p-g", "p-g", "p-g"]


def test_tags_that_are_written_alike_have_a_policy_each() -> None:
    found = one(f'{RULES}, default_on: true, mode: {{tags: {{"e u": post_call, "e-u": pre_call}}}}')
    assert [one["attach"] for one in found.config["policies"].values()] == [{"tags": ["e u"]}, {"tags": ["e-u"]}]


def test_policies_are_flattened_and_attached() -> None:
    found = run(
        GUARDS
        + """
policies:
  base: {description: all, guardrails: {add: [a, b]}}
  some: {inherit: base, guardrails: {remove: [b]}, condition: {model: "gpt-4.*"}}
  idle: {guardrails: {add: [a]}}
policy_attachments:
  - {policy: base, scope: "*", priority: 1}
  - {policy: some, keys: [app], tags: [eu]}
"""
    )
    assert policy(found, "base-a") == {"input": {"forced": ["a"], "on_unsafe": "block"}}
    assert policy(found, "base-b") == {"output": {"forced": ["b"], "on_unsafe": "block"}}
    assert policy(found, "some-a")["attach"] == {"keys": ["app"], "tags": ["eu"], "models": ["gpt-4*"]}
    assert "some-b" not in found.config["policies"]
    assert found.report.complete


@pytest.mark.parametrize(
    ("policies", "attachment", "path"),
    [
        ("p: {guardrails: {add: [a]}}", "{policy: p, teams: [red]}", "policy_attachments[0].teams"),
        ("p: {guardrails: {add: [a]}}", "{policy: p, default: true}", "policy_attachments[0].default"),
        ("p: {guardrails: {add: [a]}}", "{policy: q}", "policy_attachments[0]"),
        ("p: {guardrails: {add: [zzz]}}", "{policy: p}", "policies.p"),
        ("p: {inherit: p, guardrails: {add: [a]}}", "{policy: p}", "policies.p.inherit"),
        ("p: {guardrails: {add: [a]}, condition: {model: 'gpt-(4|5)'}}", "{policy: p}", "policies.p.condition.model"),
    ],
)
def test_policies_that_say_more_than_ours_can_are_unmapped(policies: str, attachment: str, path: str) -> None:
    found = run(f"{GUARDS}\npolicies: {{{policies}}}\npolicy_attachments: [{attachment}]\n")
    assert unmapped(found) == [path]


def test_a_pipeline_is_a_cascade() -> None:
    found = run(
        GUARDS
        + """
policies:
  p:
    pipeline:
      mode: pre_call
      steps:
        - {guardrail: a, on_pass: allow, on_fail: next}
        - {guardrail: b, on_pass: allow, on_fail: modify_response, on_error: block, modify_response_message: Sorry.}
policy_attachments: [{policy: p, scope: "*"}]
"""
    )
    assert entry(found, "p-pipeline") == {
        "use": "cascade",
        "steps": [
            {"supervisor": "a", "on_safe": "safe", "on_unsafe": "next", "on_unknown": "next"},
            {"supervisor": "b", "on_safe": "safe", "on_unsafe": "unsafe", "on_unknown": "unknown"},
        ],
    }
    assert policy(found, "p") == {
        "input": {"forced": ["p-pipeline"]},
        "on_block": {"input": "refusal", "message": "Sorry."},
    }
    assert found.report.complete


def test_models_become_upstreams() -> None:
    found = import_litellm(
        yaml.safe_load(
            """
model_list:
  - {model_name: gpt, litellm_params: {model: openai/gpt-4o, api_key: os.environ/A, timeout: 30, num_retries: 2, r: 5}}
  - {model_name: own, litellm_params: {model: hosted_vllm/llama, api_base: "http://127.0.0.1:8000/v1"}}
  - {model_name: claude, litellm_params: {model: anthropic/claude-x, api_key: os.environ/B}}
  - {model_name: gpt, litellm_params: {model: azure/gpt-4o}}
general_settings: {master_key: os.environ/MASTER, database_url: x}
litellm_settings: {callbacks: [presidio], cache: true}
"""
        ),
        Path(),
    )
    upstreams = found.config["upstreams"]
    assert upstreams["upstream1"] == {
        "base_url": "https://api.openai.com/v1",
        "api_key": {"env": "A"},
        "timeout_s": 30.0,
        "retries": 2,
    }
    assert upstreams["upstream2"] == {"base_url": "http://127.0.0.1:8000/v1"}
    assert upstreams["upstream3"] == {"vendor": "anthropic", "api_key": {"env": "B"}}
    assert found.config["models"]["own"] == {"upstream": "upstream2", "model": "llama"}
    assert found.config["keys"] == {"master": {"key": {"env": "MASTER"}, "admin": True}}
    assert unmapped(found) == ["model_list[3]", "litellm_settings.callbacks"]


def test_every_supervisor_of_a_presidio_guardrail_is_named_by_a_policy() -> None:
    wanted = "{EMAIL_ADDRESS: MASK, CREDIT_CARD: BLOCK, PERSON: MASK}"
    found = one(f"guardrail: presidio, mode: pre_call, default_on: true, pii_entities_config: {wanted}")
    assert policy(found)["input"] == {"forced": ["g", "g-presidio-redact"], "on_unsafe": "redact"}
    assert policy(found, "g-block")["input"] == {"forced": ["g-rules-block"], "on_unsafe": "block"}
    said = "\n".join(found.report.lines())
    assert "EMAIL_ADDRESS → rules with the presets pii.email, on_unsafe: redact" in said
    assert "CREDIT_CARD → rules with the presets pii.card, on_unsafe: block" in said
    assert "PERSON → use: presidio, on_unsafe: redact; needs the extra" in said


def test_lakera_is_lakera() -> None:
    params = "guardrail: lakera_v2, mode: pre_call, default_on: true, api_base: 'https://x.example', project_id: p1"
    found = one(f"{params}, breakdown: true, api_key: os.environ/LAKERA_API_KEY")
    wanted = {"use": "lakera", "api_key": {"env": "LAKERA_API_KEY"}, "url": "https://x.example/v2", "project_id": "p1"}
    assert {name: entry(found)[name] for name in wanted} == wanted
    assert policy(found)["input"] == {"forced": ["g"], "on_unsafe": "block"}
    assert found.report.complete


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gaurdrails: []", "unmapped: gaurdrails: no setting of a LiteLLM config that we know, so it was not read"),
        ("gaurdrails: []", "did you mean 'guardrails'?"),
        ("router_settings: {}", "unmapped: guardrails: the file has none"),
        ("guardrails: []", "unmapped: guardrails: the file has none"),
    ],
)
def test_a_file_that_is_not_understood_is_not_complete(text: str, said: str) -> None:
    found = run(text)
    assert not found.report.complete
    assert said in "\n".join(found.report.lines())
