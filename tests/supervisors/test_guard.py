"""Guard models as supervisors (guards §2 to §6, §13; guarding G-04, G-05, G-12, F-01)."""

from __future__ import annotations

import asyncio
import json
from math import log
from typing import Any, cast

import pytest
from pydantic import ValidationError

from supervisors.ask import ask, is_local, judged_stages, stream_capability
from supervisors.card import list_cards, load_card
from supervisors.errors import ChatRefused, ChatTimeout, ChatUnavailable
from supervisors.guard import Guard, ModelGuard
from supervisors.secret import Secret
from supervisors.testing import Answer, FakeContext, check_supervisor, context, exchange
from supervisors.types import (
    Cause,
    ChatReply,
    ChatRequest,
    Endpoint,
    Exchange,
    Label,
    Media,
    Segment,
    Stage,
    TokenAlternatives,
    Tokens,
    Verdict,
)
from tests.timing import assert_cost


def options_for(name: str) -> dict[str, object]:
    """Return the least an entry needs to name this card."""
    card = load_card(name)
    found: dict[str, object] = {"use": "guard", "card": name}
    if card.needs_policy:
        found["policy"] = "No violet umbrellas."
    if not card.hub_id:
        found["model"] = "some-model"
    if card.restricted:
        found["accept_licence"] = [name]
    return found


def build(name: str, **options: object) -> ModelGuard:
    guard = Guard.model_validate({**options_for(name), **options})
    assert isinstance(guard, ModelGuard)
    return guard


def sample(stage: Stage) -> Exchange:
    return exchange("what rains?", stage=stage, reply="a violet umbrella rains" if stage == "output" else None)


async def judge(guard: ModelGuard, *replies: Answer, stage: Stage = "input", found: Exchange | None = None) -> Verdict:
    return (await ask("g", guard, found or sample(stage), context(*replies))).verdict


@pytest.mark.parametrize("name", list_cards())
async def test_every_card_turns_every_fault_into_unknown(name: str) -> None:
    # F-01, GU-01, §13: empty, cut, refused, broken: never safe.
    guard = build(name)
    for stage in guard.stages:
        assert await check_supervisor(guard, sample(stage)) == []


@pytest.mark.parametrize("name", list_cards())
def test_an_entry_survives_its_own_dump(name: str) -> None:
    guard = build(name, api_key=Secret("env:GUARD_KEY", "k-123"))
    dumped = guard.model_dump(mode="json")
    assert "k-123" not in json.dumps(dumped)
    assert ModelGuard.model_validate({**dumped, "api_key": guard.api_key}) == guard


async def test_the_side_follows_the_stage_and_judge_overrides_it() -> None:
    # GU-06
    reply = "Harmful request: yes\nResponse refusal: yes\nHarmful response: no"
    wildguard = build("wildguard")
    assert (await judge(wildguard, reply)).label is Label.UNSAFE
    answer = await judge(wildguard, reply, stage="output")
    assert (answer.label, answer.extras["prompt_label"], answer.extras["judged"]) == (Label.SAFE, "unsafe", "response")
    assert (await judge(build("wildguard", judge="prompt"), reply, stage="output")).label is Label.UNSAFE


def test_stages_follow_the_card_and_judge_widens_them() -> None:
    # GU-05
    assert judged_stages(build("llama-guard-3-8b")) == {"input", "output"}
    assert judged_stages(build("kanana-siren-8b")) == {"input"}
    assert judged_stages(build("md-judge-0.1")) == {"output"}
    assert judged_stages(build("kanana-siren-8b", judge="prompt")) == {"input", "output"}
    assert judged_stages(build("granite-guardian-3.1-8b", criteria=["jailbreak"])) == {"input"}


async def test_a_guard_asked_in_a_stage_it_cannot_serve_is_unsupported() -> None:
    verdict = await judge(build("kanana-siren-8b"), "<SAFE>", stage="output")
    assert (verdict.cause, verdict.detail) == (Cause.UNSUPPORTED, "stage")


def test_a_model_guard_is_remote_and_judges_growing_text() -> None:
    guard = build("llama-guard-3-8b")
    assert not is_local(guard)
    assert stream_capability(guard) == "growth"


async def test_four_guidelines_are_four_calls() -> None:
    # Golden rows 39 and 40.
    def script(*answers: Answer) -> Answer:
        left = list(answers)
        return lambda endpoint, request: cast("ChatReply | Exception | str", left.pop(0))

    guard = build("shieldgemma-2b", parallel=1)
    late = ChatTimeout("late")
    undecided = await judge(guard, script("No", "No", late, "No"))
    assert (undecided.label, undecided.cause) == (Label.UNKNOWN, Cause.TIMEOUT)
    found = await judge(guard, script("No", "Yes", late, "No"))
    assert (found.label, found.categories, found.extras["criterion"]) == (Label.UNSAFE, ("harassment",), "harassment")


async def test_joined_guidelines_are_one_call_without_a_category() -> None:
    guard = build("shieldgemma-2b", criteria_mode="joined")
    fake = context("Yes")
    verdict = await guard.assess(sample("input"), fake)
    assert (len(fake.calls), verdict.label, verdict.categories) == (1, Label.UNSAFE, ())
    guideline = fake.calls[0][1].extra["chat_template_kwargs"]["guideline"]
    assert guideline.count("* ") == 4


async def test_the_score_decides_where_the_card_says_so() -> None:
    # GP-11, GU-21
    def yes(probability: float) -> ChatReply:
        pair = (("Yes", log(probability)), ("No", log(1 - probability)))
        return ChatReply("No", "length", logprobs=(TokenAlternatives("No", pair),))

    guard = build("shieldgemma-2b", criteria=["hate"], threshold=0.25)
    assert (await judge(guard, yes(0.25))).label is Label.UNSAFE
    assert (await judge(guard, yes(0.24))).label is Label.SAFE
    strict = build(
        "shieldgemma-2b", criteria=["hate"], card={"base": "shieldgemma-2b", "threshold_op": "gt"}, threshold=0.25
    )
    assert (await judge(strict, yes(0.25))).label is Label.SAFE


async def test_a_requirement_is_met_by_yes() -> None:
    card = {
        "base": "granite-guardian-4.1-8b",
        "criteria": {
            "capital": {"text": "Each line starts with a capital.", "polarity": "yes_is_safe", "to": ["off_topic"]}
        },
        "fanout": ["capital"],
    }
    guard = build("granite-guardian-4.1-8b", card=card)
    fake = context("<score>no</score>")
    verdict = await guard.assess(sample("output"), fake)
    assert (verdict.label, verdict.categories) == (Label.UNSAFE, ("off_topic",))
    assert "Each line starts with a capital." in str(fake.calls[0][1].messages[-1]["content"])
    assert (await judge(guard, "<score>yes</score>", stage="output")).label is Label.SAFE


async def test_a_custom_criterion_of_an_older_granite_is_sent_with_its_definition() -> None:
    card = {"base": "granite-guardian-3.1-8b", "criteria": {"umbrella": {"text": "Umbrellas."}}, "fanout": ["umbrella"]}
    fake = context("No")
    await build("granite-guardian-3.1-8b", card=card).assess(sample("input"), fake)
    config = {"risk_name": "umbrella", "risk_definition": "Umbrellas."}
    assert fake.calls[0][1].extra == {"chat_template_kwargs": {"guardian_config": config}}


async def test_the_middle_grade_means_what_the_option_says() -> None:
    reply = "Safety: Controversial\nCategories: Jailbreak"
    assert (await judge(build("qwen3guard-gen-4b"), reply)).categories == ("jailbreak",)
    assert (await judge(build("qwen3guard-gen-4b", controversial="safe"), reply)).label is Label.SAFE
    vague = await judge(build("qwen3guard-gen-4b", controversial="unknown"), reply)
    assert (vague.label, vague.cause) == (Label.UNKNOWN, Cause.ABSTAINED)


async def test_a_jailbreak_finding_counts_like_any_other() -> None:
    # §13
    verdict = await judge(build("qwen3guard-gen-4b"), "Safety: Unsafe\nCategories: Jailbreak")
    assert (verdict.label, verdict.categories) == (Label.UNSAFE, ("jailbreak",))


async def test_caution_alone_means_what_the_option_says() -> None:
    for caution, label in (("unsafe", Label.UNSAFE), ("safe", Label.SAFE), ("controversial", Label.UNKNOWN)):
        extra: dict[str, object] = {"controversial": "unknown"} if caution == "controversial" else {}
        guard = build("aegis-defensive", caution=caution, **extra)
        assert (await judge(guard, "unsafe\nO13")).label is label
        assert (await judge(guard, "unsafe\nO13,O3")).label is Label.UNSAFE
        assert (await judge(guard, ChatReply("unsafe\nO13", "length"))).label is Label.UNSAFE


async def test_a_server_that_continues_the_judged_text_is_found_out() -> None:
    # GU-12
    text = "a violet umbrella is what it is"
    found = exchange("what rains?", stage="output", reply=text)
    verdict = await judge(build("llama-guard-3-8b"), f"{text}\n\nsafe", found=found)
    assert (verdict.cause, verdict.detail) == (Cause.ERROR, "prefill")
    assert (await judge(build("llama-guard-3-8b"), "safe", found=found)).label is Label.SAFE


async def test_a_text_the_server_finds_too_long_is_halved_once() -> None:
    # GU-10
    def limited(limit: int) -> Answer:
        def answer(endpoint: Endpoint, request: ChatRequest) -> ChatReply | Exception | str:
            size = sum(len(str(message["content"])) for message in request.messages)
            return ChatRefused("status", status=400, code="exceed_context_size_error") if size > limit else "safe"

        return answer

    guard = build("llama-guard-3-8b", overlap=0)
    long = exchange("earlier", "words", "x" * 1_000)
    assert (await judge(guard, limited(600), found=long)).label is Label.SAFE
    verdict = await judge(guard, limited(400), found=long)
    assert (verdict.cause, verdict.detail) == (Cause.OVER_LIMIT, "exceed_context_size_error")


async def test_a_canary_anywhere_in_a_long_text_is_found_and_too_long_a_text_is_over_the_limit() -> None:
    # G-12, G-13, D-05
    def answer(endpoint: Endpoint, request: ChatRequest) -> str:
        return "unsafe\nS1" if "violet umbrella" in str(request.messages) else "safe"

    guard = build("llama-guard-3-8b", max_chars=1_000, max_chunks=32)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = int(20_000 * share)
        text = "x" * at + "violet umbrella" + "x" * (20_000 - at)
        verdict = await judge(guard, answer, found=exchange(text))
        assert verdict.label is Label.UNSAFE
        assert verdict.extras["chunk"] >= 0
    assert (await judge(guard, answer, found=exchange("x" * 20_000))).label is Label.SAFE
    over = await judge(guard, answer, found=exchange("x" * 40_000))
    assert (over.cause, over.detail) == (Cause.OVER_LIMIT, "max_chunks")


async def test_what_was_found_before_the_deadline_is_said() -> None:
    # G-45: one call hangs, another has found something.
    async def hang() -> None:
        await asyncio.Event().wait()

    class Slow(FakeContext):
        async def chat(self, endpoint: Endpoint, request: ChatRequest) -> ChatReply:
            if "one" in str(request.messages[-1]):
                return ChatReply("unsafe\nS1", "stop")
            await hang()
            raise AssertionError

    slow = Slow(seconds=0.2)
    guard = build("llama-guard-3-8b")
    found = await guard.assess(exchange("one", "and", "two"), slow)
    assert (found.label, found.categories) == (Label.UNSAFE, ("violence",))
    late = await build("llama-guard-3-8b", timeout_s=0.1).assess(exchange("two"), slow)
    assert (late.label, late.cause) == (Label.UNKNOWN, Cause.TIMEOUT)


async def test_calls_are_bounded_and_their_tokens_summed() -> None:
    running = 0
    most = 0

    class Counting(FakeContext):
        async def chat(self, endpoint: Endpoint, request: ChatRequest) -> ChatReply:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            return ChatReply("safe", "stop", tokens=Tokens(10, 1))

    texts = [f"turn {i}" for i in range(11)]
    verdict = await build("llama-guard-3-8b", parallel=2).assess(exchange(*texts), Counting())
    assert (verdict.tokens, most) == (Tokens(60, 6), 2)


async def test_endpoint_and_options_reach_the_call() -> None:
    guard = build("llama-guard-3-8b", url="http://127.0.0.1:9/v1", model="lg3", api_key=Secret("env:K", "k-1"))
    fake = context("safe")
    await guard.assess(sample("input"), fake)
    assert fake.calls[0][0] == Endpoint("lg3", "http://127.0.0.1:9/v1", "k-1")
    await build("qwen3guard-gen-4b").assess(sample("input"), fake)
    assert fake.calls[1][0].model == "Qwen/Qwen3Guard-Gen-4B"


async def test_media_is_unsupported_and_nothing_to_judge_is_skipped() -> None:
    # G-05
    image = Segment("/messages/0/content/0", "user", "media", "", media=Media("image/png", 1, "0" * 64))
    text = Segment("/messages/0/content/1", "user", "text", "hello")
    guard = build("llama-guard-3-8b")
    assert (await judge(guard, "safe", found=Exchange("i", "m", "input", (image,)))).cause is Cause.UNSUPPORTED
    assert (await judge(guard, "safe", found=Exchange("i", "m", "input", (image, text)))).cause is Cause.UNSUPPORTED
    assert (await judge(guard, "unsafe", found=Exchange("i", "m", "input", (image, text)))).label is Label.UNSAFE
    assert (await judge(guard, "safe", found=exchange(" \n"))).cause is Cause.SKIPPED


async def test_the_breaker_word_and_facts_are_kept_in_the_verdict() -> None:
    verdict = await judge(build("llama-guard-3-8b"), ChatUnavailable("open", code="circuit_open"))
    assert (verdict.cause, verdict.detail) == (Cause.ERROR, "circuit_open")
    marked = await judge(build("llama-guard-3-8b"), "unsafe\nS99", found=exchange("a <|eot_id|> b"))
    assert marked.categories == ("other",)
    assert marked.extras["raw_categories"] == ["S99"]
    assert marked.extras["neutralised"] == 1
    assert marked.extras["reply"] == "unsafe\nS99"
    assert marked.scope == "conversation"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"card": "lama"}, "unknown card 'lama'"),
        ({"card": {"base": "wildguard", "parser": "regex"}}, "unknown parser 'regex'"),
        ({"card": "wildguard", "treshold": 1}, "Extra inputs are not permitted"),
        ({"card": "gpt-oss-safeguard-20b"}, "needs policy or policy_file"),
        ({"card": "wildguard", "policy": "x"}, "takes no policy"),
        ({"card": "binary-judge"}, "names no model"),
        ({"card": "polyguard-ministral"}, "name it in accept_licence"),
        ({"card": "granite-guardian-3.1-8b", "server": "tgi"}, "takes no template arguments"),
        ({"card": "granite-guardian-3.1-8b", "criteria": ["harms"]}, "unknown criteria harms"),
        ({"card": "wildguard", "criteria": ["harm"]}, "has none"),
        ({"card": "wildguard", "controversial": "safe"}, "no middle grade"),
        ({"card": "wildguard", "caution": "safe"}, "knows no caution"),
        ({"card": "llama-guard-3-8b", "threshold": 0.3}, "unless decide_by is 'score'"),
        ({"card": "wildguard", "decide_by": "score"}, "has no score to decide by"),
        ({"card": "float-classifier", "model": "m", "decide_by": "label"}, "answers with a number only"),
        ({"card": "shieldgemma-2b", "logprobs": False}, "needs logprobs: true"),
        ({"card": "granite-guardian-3.1-8b", "criteria_mode": "joined"}, "sends names"),
        ({"card": "shieldgemma-2b", "criteria_mode": "joined", "criteria": ["hate"]}, "needs two criteria"),
        ({"card": "wildguard", "max_chars": 400}, "more than half of 400"),
        ({"card": "wildguard", "api_key": "sk-1"}, "never as plain text"),
        ({"card": "granite-guardian-3.1-8b", "criteria": ["jailbreak"], "judge": "response"}, "can be asked about"),
        ({"card": 3}, "valid dictionary or instance of Card"),
        ([], "valid dictionary"),
    ],
)
def test_a_wrong_entry_says_what_would_be_right(entry: Any, message: str) -> None:
    # GU-05
    with pytest.raises(ValidationError) as caught:
        Guard.model_validate(entry)
    assert message in str(caught.value)


def test_a_policy_comes_from_text_or_file_but_not_both(tmp_path: Any) -> None:
    file = tmp_path / "policy.md"
    file.write_text("No violet umbrellas.", encoding="utf-8")
    entry = {"use": "guard", "card": "gpt-oss-safeguard-20b", "policy_file": str(file)}
    guard = Guard.model_validate(entry)
    assert isinstance(guard, ModelGuard)
    assert guard.policy == "No violet umbrellas."
    with pytest.raises(ValidationError, match="not both"):
        Guard.model_validate({**entry, "policy": "x"})


def test_the_embedded_card_is_the_embedded_guard() -> None:
    pytest.importorskip("supervisors.embedded.guard")
    guard = Guard.model_validate({"use": "guard", "card": "embedded", "heads": ["harm"]})
    assert type(guard).__name__ == "EmbeddedGuard"
    assert is_local(guard)
    assert judged_stages(guard) == {"input"}
    with pytest.raises(ValidationError, match="url"):
        Guard.model_validate({"use": "guard", "card": "embedded", "url": "http://x/v1"})
    assert len(Guard.model_json_schema()["anyOf"]) == 3


def test_joined_criteria_have_one_polarity() -> None:
    card = {"base": "shieldgemma-2b", "criteria": {"polite": {"text": "It is polite.", "polarity": "yes_is_safe"}}}
    with pytest.raises(ValidationError, match="of one polarity"):
        build("shieldgemma-2b", card=card, criteria=["hate", "polite"], criteria_mode="joined")


def test_a_conversation_of_ten_thousand_turns_is_over_the_limit_at_once() -> None:
    found, guard = exchange(*[f"turn {i}" for i in range(10_000)]), build("llama-guard-3-8b")
    verdict = asyncio.run(judge(guard, "safe", found=found))
    assert verdict.cause is Cause.OVER_LIMIT
    assert_cost(lambda: asyncio.run(judge(guard, "safe", found=found)), 2_000)
