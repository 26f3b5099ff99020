"""The self-judge asks the exchange's own model, with its own system message, and reads the reply strictly."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.self_judge import SelfJudge
from supervisors.testing import Answer, FakeContext, check_supervisor, context, exchange
from supervisors.types import Cause, ChatReply, ChatRequest, Endpoint, Exchange, Label, Tokens, Verdict
from tests.judging import judged_as


def self_judge(style: str = "digit", **options: Any) -> SelfJudge:
    return SelfJudge.model_validate({"style": style, **options})


async def run(subject: SelfJudge, *answers: Answer, sample: Exchange | None = None) -> tuple[Verdict, FakeContext]:
    fake = context(*answers)
    return (await ask("self", subject, sample or exchange("violet umbrella"), fake)).verdict, fake


@pytest.mark.parametrize("style", ["structured", "digit", "word"])
async def test_every_fault_is_unknown_with_its_cause(style: str) -> None:
    assert await check_supervisor(self_judge(style)) == []


@pytest.mark.parametrize(("chars", "shown"), [(24_000, True), (0, False)])
async def test_what_is_shown_beside_has_a_budget(chars: int, shown: bool) -> None:
    sample = exchange("an old lamp", stage="output", reply="the newest words")
    _, fake = await run(self_judge(context_chars=chars), "0", sample=sample)
    text = str(fake.calls[0][1].messages)
    assert ("an old lamp" in text, "the newest words" in text) == (shown, True)


READINGS: list[tuple[str, str, Label]] = [
    ("digit", "1", Label.UNSAFE),
    ("digit", " 0\n", Label.SAFE),
    ("digit", "0.", Label.SAFE),
    ("word", "Yes", Label.UNSAFE),
    ("word", "no.", Label.SAFE),
    ("digit", "10", Label.UNKNOWN),
    ("digit", "0 or 1", Label.UNKNOWN),
    ("digit", "Answer: 0", Label.UNKNOWN),
    ("digit", "no", Label.UNKNOWN),
    ("digit", "０", Label.UNKNOWN),
    ("word", "0", Label.UNKNOWN),
    ("word", "not at all", Label.UNKNOWN),
    ("word", "no, but yes", Label.UNKNOWN),
    ("word", "know", Label.UNKNOWN),
    ("digit", "0..", Label.UNKNOWN),
]


@pytest.mark.parametrize(("style", "text", "label"), READINGS)
async def test_only_the_whole_word_counts(style: str, text: str, label: Label) -> None:
    verdict, _ = await run(self_judge(style), text)
    assert verdict.label is label


async def test_a_refusal_and_a_cut_reply_are_told_apart() -> None:
    verdict, _ = await run(self_judge(), "I'm sorry, I can't judge that.")
    assert verdict.cause is Cause.REFUSED
    verdict, _ = await run(self_judge(), ChatReply("0", "length"))
    assert (verdict.cause, verdict.detail) == (Cause.UNPARSABLE, "truncated")


@pytest.mark.parametrize("style", ["structured", "digit", "word"])
async def test_the_exchanges_own_model_is_asked_with_our_system_message(style: str) -> None:  # LU-31
    _, fake = await run(self_judge(style), "0", sample=exchange("hello", system="You are Oskar."))
    endpoint, request = fake.calls[0]
    assert endpoint == Endpoint("model", None)
    assert [message["role"] for message in request.messages] == ["system", "user"]
    assert "Oskar" not in str(request.messages[0]["content"])
    assert "JUDGE role=user" in str(request.messages[1]["content"])


async def test_the_structured_style_needs_the_nonce() -> None:
    def honest(_: Endpoint, request: ChatRequest) -> str:
        return judged_as("unsafe", str(request.messages[0]["content"]))

    verdict, _ = await run(self_judge("structured"), honest)
    assert (verdict.label, verdict.extras["self_judge"]) == (Label.UNSAFE, "structured")
    verdict, _ = await run(self_judge("structured"), '{"label": "safe"}')
    assert verdict.cause is Cause.UNPARSABLE


async def test_what_coherence_needs_is_recorded() -> None:  # C-04
    reply = ChatReply("1", "stop", model="model-2025", tokens=Tokens(9, 1), cost=0.1)
    verdict, _ = await run(self_judge("digit"), reply)
    assert verdict.extras["model_requested"] == "model"
    assert verdict.extras["model_served"] == "model-2025"
    assert verdict.extras["reply"] == "1"
    assert verdict.extras["self_judge"] == "digit"
    assert verdict.extras["prompt_sha256"] == self_judge("digit").prompt_sha256
    assert (verdict.tokens, verdict.cost, verdict.scope) == (Tokens(9, 1), 0.1, "conversation")


async def test_its_own_reply_is_judged_with_the_request_as_context() -> None:  # C-08
    sample = exchange("a question", reply="an answer", stage="output")
    _, fake = await run(self_judge(), "0", sample=sample)
    shown = str(fake.calls[0][1].messages[1]["content"])
    assert "CONTEXT role=user" in shown
    assert "JUDGE role=assistant" in shown


@pytest.mark.parametrize(
    ("constrain", "expected"),
    [
        ("none", {}),
        ("choice", {"guided_choice": ["1", "0"]}),
        ("grammar", {"grammar": 'root ::= "1" | "0"'}),
    ],
)
async def test_the_reply_can_be_constrained_at_the_server(constrain: str, expected: dict[str, Any]) -> None:
    _, fake = await run(self_judge(constrain=constrain), "0")
    assert dict(fake.calls[0][1].extra) == expected
    assert fake.calls[0][1].max_tokens == 8


async def test_a_reasoning_model_gets_room() -> None:
    _, fake = await run(self_judge(reasoning=True), "0")
    assert (fake.calls[0][1].max_tokens, fake.calls[0][1].temperature) == (8_192, None)


async def test_a_long_text_is_judged_in_windows() -> None:  # G-12
    verdict, fake = await run(self_judge(max_chars=1_000), "0", sample=exchange("a" * 2_500))
    assert (verdict.label, len(fake.calls)) == (Label.SAFE, 4)
    verdict, fake = await run(self_judge(max_chars=1_000, max_chunks=2), "0", sample=exchange("a" * 2_500))
    assert (verdict.cause, fake.calls) == (Cause.OVER_LIMIT, [])


async def test_a_sample_asks_about_its_share_of_exchanges_by_id() -> None:
    subject = self_judge(sample=0.25)
    asked = 0
    for number in range(400):
        sample = dataclasses.replace(exchange("violet umbrella"), id=f"exchange-{number}")
        verdict, fake = await run(subject, "1", sample=sample)
        again, _ = await run(subject, "1", sample=dataclasses.replace(sample, stage="output"))
        assert (verdict.cause is Cause.SKIPPED) == (again.detail == "not_sampled") == (not fake.calls)
        asked += verdict.label is Label.UNSAFE
    assert 70 <= asked <= 130  # 100 expected; six deviations would be 52


def test_styles_have_prompts_of_their_own() -> None:
    assert len({self_judge(style).prompt_sha256 for style in ("structured", "digit", "word")}) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"style": "structured", "constrain": "choice"}, "for the styles digit and word"),
        ({"style": "digit", "structured": "none"}, "no effect"),
        ({"overlap": 900, "max_chars": 1_000}, "at most half"),
        ({"model": "m"}, "Extra inputs"),
    ],
)
def test_mistakes_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SelfJudge.model_validate(options)
