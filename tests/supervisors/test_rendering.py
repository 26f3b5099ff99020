"""Requests to guards (GU-04, GU-08, GU-11, GU-15, GU-18 to GU-20)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisors.card import list_cards, load_card
from supervisors.material import Call, Turn
from supervisors.rendering import Question, Wording, render
from supervisors.templates.template import compile_marks, fill, load_templates, neutralise
from supervisors.types import ChatRequest

PROMPT = Call("prompt", "what is {it} worth, 100 % sure?")
REPLY = Call("response", "a violet umbrella", (Turn("user", "what rains?"),))


def request(name: str, call: Call = PROMPT, question: Question | None = None, **wording: Any) -> ChatRequest:
    return render(load_card(name), call, question, replace(Wording(load_card(name).server), **wording)).request


def text_of(sent: ChatRequest) -> str:
    return sent.prompt or "\n".join(str(message["content"]) for message in sent.messages)


@pytest.mark.parametrize("name", list_cards())
def test_a_request_is_deterministic_and_holds_the_judged_text_literally(name: str) -> None:
    # GU-08, GU-19
    card = load_card(name)
    question = Question(card.fanout[0], "a criterion") if card.fanout else None
    for call in (PROMPT, REPLY):
        first, second = request(name, call, question), request(name, call, question)
        assert first == second
        assert first.temperature == 0.0
        assert call.text in text_of(first)
        assert (first.prompt is None) == (card.route == "chat")
        assert "{{" not in text_of(first)


@pytest.mark.parametrize("name", [name for name in list_cards() if load_card(name).judges != "prompt"])
def test_a_response_is_sent_with_its_prompt(name: str) -> None:
    # GU-20; x-guard judges one text and has no slot for it.
    if load_card(name).template == "x-guard":
        return
    card = load_card(name)
    question = Question(card.fanout[0], "a criterion") if card.fanout else None
    assert "what rains?" in text_of(request(name, REPLY, question))


def test_three_guards_of_one_card_differ_only_in_their_arguments() -> None:
    # GU-04: the template is applied once, whatever was built before.
    questions = [Question("harm", "first"), Question("violence", "second"), Question("harm", "first")]
    sent = [request("granite-guardian-4.1-8b", PROMPT, question) for question in questions]
    assert sent[0] == sent[2]
    assert text_of(sent[0]).replace("first", "second") == text_of(sent[1])
    assert text_of(sent[2]).count("<guardian>") == 1


def test_template_arguments_go_at_the_top_of_the_body_and_into_the_system_message_of_ollama() -> None:
    # GU-11
    question = Question("violence", "")
    sent = request("granite-guardian-3.1-8b", PROMPT, question)
    assert sent.extra == {"chat_template_kwargs": {"guardian_config": {"risk_name": "violence"}}}
    ollama = request("granite-guardian-3.1-8b", PROMPT, question, server="ollama")
    assert ollama.extra == {}
    assert ollama.messages[0] == {"role": "system", "content": "violence"}
    thinking = request("granite-guardian-3.3-8b", PROMPT, question)
    assert thinking.extra["chat_template_kwargs"] == {"guardian_config": {"criteria_id": "violence"}, "think": False}


def test_generation_prompt_is_left_out_for_llama_guard_on_vllm_only() -> None:
    # GU-12
    assert request("llama-guard-3-8b").extra == {"add_generation_prompt": False}
    assert request("llama-guard-3-8b", server="llamacpp").extra == {}
    assert request("qwen3guard-gen-4b").extra == {}


def test_the_one_billion_llama_guard_gets_parts_and_all_others_strings() -> None:
    # GU-18
    assert request("llama-guard-3-1b").messages == (
        {"role": "user", "content": [{"type": "text", "text": PROMPT.text}]},
    )
    assert request("llama-guard-3-8b").messages == ({"role": "user", "content": PROMPT.text},)


def test_turns_alternate_and_nothing_is_dropped_for_it() -> None:
    # GU-15
    call = Call("response", "d", (Turn("assistant", "a"), Turn("user", "b"), Turn("user", "c")))
    sent = request("llama-guard-3-8b", call).messages
    assert [(message["role"], message["content"]) for message in sent] == [
        ("user", "."),
        ("assistant", "a"),
        ("user", "b\n\nc"),
        ("assistant", "d"),
    ]


def test_marks_of_templates_inside_judged_text_are_broken_and_counted() -> None:
    # GU-19
    call = Call("prompt", "x [/INST] <|eot_id|> </guardian> <END CONVERSATION>", (Turn("user", "[INST]"),))
    card = load_card("llama-guard-1")
    rendered = render(card, call, None, Wording("vllm"))
    assert rendered.neutralised == 5
    assert rendered.text == "x [\u200b/INST] <\u200b|eot_id|> <\u200b/guardian> <\u200bEND CONVERSATION>"
    assert (rendered.request.prompt or "").count("[/INST]") == 1


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(["<|", "|>", "a", "[/INST]", "[", "INST]", "</guardian>", "<", ">", "{{prompt}}"])).map(
        "".join
    )
)
def test_no_mark_survives_whatever_it_is_made_of(text: str) -> None:
    pattern = compile_marks()
    broken, count = neutralise(text, pattern)
    assert pattern.search(broken) is None
    assert broken.replace("\u200b", "") == text
    assert len(broken) == len(text) + count


def test_slots_inside_a_value_are_not_filled() -> None:
    assert fill("a {{prompt}} b {{response}}", {"prompt": "{{response}}", "response": "r"}) == "a {{response}} b r"


def test_a_policy_replaces_the_cards_own_and_its_categories() -> None:
    own = text_of(request("nemotron-reasoning-4b", policy="No umbrellas."))
    assert "No umbrellas." in own
    assert "S1: Violence" not in own
    assert "S1: Violence" in text_of(request("nemotron-reasoning-4b"))
    assert "VIOLATION" in text_of(request("gpt-oss-safeguard-20b", policy="No umbrellas."))


def test_log_probabilities_are_asked_for_only_where_they_are_used() -> None:
    assert request("llama-guard-3-8b").top_logprobs == 20
    assert request("llama-guard-3-8b", logprobs=False).top_logprobs is None
    assert request("qwen3guard-gen-4b").top_logprobs is None
    assert request("yufeng-xguard-8b").top_logprobs == 10


def test_an_absent_response_is_an_empty_slot_or_the_word_of_the_model() -> None:
    # GU-20
    assert "AI assistant:\n\n\n---" in (request("wildguard").prompt or "")
    assert "AI assistant:\nNone\n" in (request("guardreasoner-8b").prompt or "")


@pytest.mark.parametrize("name", list(load_templates()))
def test_every_slot_of_a_template_is_filled(name: str) -> None:
    template = load_templates()[name]
    used = [card for card in list_cards() if load_card(card).template == name]
    assert used or name == "policy-own"
    assert template.route in ("chat", "completions")
