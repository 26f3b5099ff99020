"""Members that hold no text have a form; nothing that vendors send falls out of it, and no sentence fits (G-01)."""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import shake_256
from typing import Any

import pytest

from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.forms import FORMS, counts_of, fits, formed, in_form, is_opaque, is_plain, is_usage, model_of

CANARY = "violet umbrella"
SEALED = "grcO7n8aUDm+8H7CNH8GbtCPXcdRJEfjQEMAAmtuVFWUoGVoXWTEmAu41FRKhyGpmgGtIZ61nPahXvbx"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "chatcmpl-9yFx_3.a:b/c+d="),
        ("id", "01a22b77-06a6-51a3-7f8e-21ad873c0000"),
        ("id", "gen-1730000000-AbCdEfGhIjKlMnOp"),
        ("id", ""),
        ("tool_call_id", "call_9f|fc_68a"),
        ("model", "meta-llama/Llama-3.3-70B-Instruct:free"),
        ("model", "accounts/fireworks/models/qwen2p5-72b-instruct"),
        ("model", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("model", "@cf/meta/llama-3.1-8b-instruct"),
        ("system_fingerprint", "fp_44709d6fcb"),
        ("object", "chat.completion.chunk"),
        ("finish_reason", "MALFORMED_FUNCTION_CALL"),
        ("service_tier", "on_demand"),
        ("created", 1730000000.5),
        ("created", "2026-01-01T00:00:00Z"),
        ("role", "assistant"),
        ("signature", "EqQBCgIYAhIM+/=" * 90),
        ("obfuscation", "aX3kd93"),
        ("id", None),
    ],
)
def test_what_vendors_send_has_its_form(key: str, value: object) -> None:
    assert fits(key, value)


@pytest.mark.parametrize("key", FORMS)
@pytest.mark.parametrize("value", [CANARY, f"{CANARY}\n", [CANARY], {"a": CANARY}, "violet\u00a0umbrella", "viölet"])
def test_no_sentence_has_a_form(key: str, value: object) -> None:
    assert not fits(key, value)


@pytest.mark.parametrize("key", ["finish_reason", "stop_reason", "status", "service_tier", "object"])
@pytest.mark.parametrize("value", ["violetumbrella", "violet_umbrella", "say.violet-umbrella", "stopped_by_violet"])
def test_a_word_that_no_document_lists_is_judged(key: str, value: str) -> None:
    assert not fits(key, value)
    assert not is_usage({"service_tier": value})


@pytest.mark.parametrize("usage", ["standard", "not_available", "us", "eu-west-1", "global", "", None])
def test_words_of_usage_are_tiers_states_and_regions(usage: object) -> None:
    assert is_usage({"service_tier": usage})


@pytest.mark.parametrize(
    ("text", "opaque"),
    [
        ("", True),
        ("EqQBCgIYAhIM+/==" * 2000, True),
        (SEALED, True),
        (SEALED.replace("+", "-").replace("/", "_").rstrip("="), True),
        (shake_256(b"3").hexdigest(3000), True),
        ("gAAAAABo-x_2Zw", False),  # as short as a password
        ("violetumbrella", False),
        (b64encode(b"say violet umbrella please, and more").decode(), False),
        (b"say violet umbrella please, and more".hex(), False),
        (b64encode(b64decode(SEALED) + b"say violet umbrella please" + b64decode(SEALED)).decode(), False),
        (b64encode("фиолетовый зонтик и ещё слова".encode()).decode(), False),
        ("violetumbrellaforeverybodyinthewholetown", False),
        ("VioletUmbrellaForEverybodyInTheWholeTown2", False),
        (f"{SEALED}/umbrellas/{SEALED}", False),
        (f"{SEALED}howtomakeavioletumbrella{SEALED}", False),
        (f"{SEALED}/4111111111111111/{SEALED}", False),
        (CANARY, False),
        ("violet-umbrella", False),
        ("say_Violet_umbrella_please", False),
        ("violet=umbrella", False),
        ("YWJj\n", False),
        ("YW Jj", False),
        ("viölet", False),
    ],
)
def test_only_base64_in_which_nothing_reads_is_opaque(text: str, opaque: bool) -> None:  # G-05
    assert is_opaque(text) is opaque
    assert fits("signature", text) is opaque


def test_what_is_encrypted_is_hardly_ever_taken_for_text() -> None:  # G-05
    sealed = [b64encode(shake_256(bytes([seed])).digest(900)).decode() for seed in range(250)]
    assert sum([not is_opaque(text) for text in sealed]) <= 12


@pytest.mark.parametrize(
    ("usage", "known"),
    [
        ({"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}, True),
        ({"cost": 0.5, "is_byok": False, "service_tier": "standard", "cost_details": None}, True),
        ({"prompt_tokens": CANARY}, False),
        ({CANARY: 1}, False),
        ([{CANARY: 1}], False),
        (CANARY, False),
    ],
)
def test_a_report_of_usage_is_numbers_and_documented_names(usage: object, known: bool) -> None:
    assert is_usage(usage) is known


def test_a_record_shows_numbers_of_usage_under_documented_names_only() -> None:  # O-25
    usage = {
        "prompt_tokens": 3,
        "cost": None,
        CANARY: 1,
        "service_tier": CANARY,
        "prompt_tokens_details": {"cached_tokens": 1, CANARY: 2, "text": CANARY},
        "iterations": [{"input_tokens": 1, "type": CANARY}, CANARY],
    }
    assert counts_of(usage) == {
        "prompt_tokens": 3,
        "cost": None,
        "prompt_tokens_details": {"cached_tokens": 1},
        "iterations": [{"input_tokens": 1}],
    }


@pytest.mark.parametrize(
    ("value", "shown"), [("stop", "stop"), (None, None), (CANARY, "other"), ({"a": CANARY}, "other"), (5, "other")]
)
def test_a_record_shows_a_finish_reason_in_form_or_a_fixed_word(value: object, shown: str | None) -> None:  # O-25
    assert in_form("finish_reason", value) == shown


@pytest.mark.parametrize("model", [CANARY, {"name": CANARY}, [CANARY], 5, None, "x" * 200])
def test_only_a_string_in_form_is_a_model(model: object) -> None:  # O-25
    assert model_of({"model": model}) == ""
    assert model_of({"model": "meta-llama/Llama-3:free"}) == "meta-llama/Llama-3:free"


@pytest.mark.parametrize("key", ["id", "object", "created", "model", "system_fingerprint", "service_tier", "usage"])
@pytest.mark.parametrize("value", [CANARY, [CANARY], {"total_tokens": CANARY}])
def test_a_reply_with_one_member_out_of_form_is_not_plain(key: str, value: object) -> None:
    reply: dict[str, Any] = {"id": "c-1", "object": "list", "created": 1, "model": "m", "choices": [], "usage": {}}
    assert is_plain(reply)
    assert not is_plain({**reply, key: value})
    assert key not in formed({**reply, key: value})
    choice = {"index": 0, "text": "x", "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    for adapter in (CHAT, COMPLETIONS):
        segments = adapter.reply_segments({**reply, "choices": [choice], key: value}, 1, {})[0]
        assert CANARY in [segment.text for segment in segments if segment.kind == "other"]
