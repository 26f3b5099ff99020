"""The judge: each outcome of its call, long and narrow views, repair, structured output, attacks."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.attacks import ATTACKS, CANARY, attacked, flip_rate
from supervisors.errors import ChatError, ChatRefused, ChatTimeout, ChatUnavailable, ReplyError
from supervisors.judge import Judge, read_prompt
from supervisors.reply import ReplyRules, parse_reply
from supervisors.secret import Secret
from supervisors.self_judge import SelfJudge
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
    Tokens,
    Verdict,
)
from tests.judging import judged_as, nonce_in

PROMPTS = ("harm", "injection", "answer_kind", "severity")


def judge(**options: Any) -> Judge:
    return Judge.model_validate({"model": "m", **options})


def nonce_of(request: ChatRequest) -> str:
    return nonce_in(str(request.messages[0]["content"]))


def says(label: object = "safe", **members: Any) -> Callable[[Endpoint, ChatRequest], str]:
    return lambda _, request: judged_as(label, str(request.messages[0]["content"]), **members)


def finds_canary(_: Endpoint, request: ChatRequest) -> str:
    material = str(request.messages[1]["content"])
    label = "unsafe" if CANARY in material else "safe"
    return judged_as(label, str(request.messages[0]["content"]))


async def run(subject: Judge, sample: Exchange, *answers: Answer) -> tuple[Verdict, FakeContext]:
    fake = context(*answers)
    return (await ask("judge", subject, sample, fake)).verdict, fake


@dataclass(slots=True)
class Exhaustive(FakeContext):
    exhaustive: bool = field(default=True)


@pytest.mark.parametrize("repair", [True, False])
async def test_every_fault_is_unknown_with_its_cause(repair: bool) -> None:  # F-01
    assert await check_supervisor(judge(repair=repair)) == []


async def test_a_verdict_carries_everything_the_reply_said() -> None:
    answer = says("Unsafe", score=0.9, categories=["canary"], reason="It names it.")
    verdict, fake = await run(judge(categories=["canary", "other"]), exchange("x"), answer)
    assert (verdict.label, verdict.score, verdict.categories) == (Label.UNSAFE, 0.9, ("canary",))
    assert (verdict.reason, verdict.scope) == ("It names it.", "conversation")
    assert verdict.extras["model_requested"] == "m"
    assert verdict.extras["model_served"] == "m"
    assert verdict.extras["repaired"] is False
    assert len(verdict.extras["prompt_sha256"]) == 64
    assert nonce_of(fake.calls[0][1]) in verdict.extras["reply"]


@pytest.mark.parametrize(
    ("reply", "cause", "detail"),
    [
        (ChatReply('{"label": "safe"}', "length"), Cause.UNPARSABLE, "truncated"),
        (ChatReply('{"nonce": "', "stop"), Cause.UNPARSABLE, "truncated"),
        (ChatReply("safe", "content_filter"), Cause.REFUSED, None),
        (ChatReply("safe", "stop", refusal="no"), Cause.REFUSED, None),
        (ChatReply("I'm sorry, but I can't judge this.", "stop"), Cause.REFUSED, None),
        (ChatReply('I\'m sorry: {"label": "safe"}', "stop"), Cause.UNPARSABLE, "missing_field"),
        (ChatReply("It is safe.", "stop"), Cause.UNPARSABLE, "missing_verdict"),
        (ChatReply('{"label": "safe", "nonce": "6f1ed002ab559585"}', "stop"), Cause.UNPARSABLE, "bad_nonce"),
    ],
)
async def test_outcomes_without_a_verdict(reply: ChatReply, cause: Cause, detail: str | None) -> None:  # section 9
    verdict, _ = await run(judge(), exchange("x"), reply)
    assert (verdict.label, verdict.cause, verdict.detail) == (Label.UNKNOWN, cause, detail)


async def test_a_cut_reply_stays_unparsable_even_with_a_complete_object() -> None:  # D-17
    def cut(_: Endpoint, request: ChatRequest) -> ChatReply:
        return ChatReply(json.dumps({"nonce": nonce_of(request), "label": "safe"}), "length")

    verdict, fake = await run(judge(), exchange("x"), cut)
    assert (verdict.cause, verdict.detail, len(fake.calls)) == (Cause.UNPARSABLE, "truncated", 1)


async def test_the_nonce_of_an_earlier_call_is_not_accepted() -> None:
    seen: list[str] = []

    def replays(_: Endpoint, request: ChatRequest) -> str:
        seen.append(nonce_of(request))
        return json.dumps({"nonce": seen[0], "label": "safe"})

    subject = judge(repair=False)
    first, _ = await run(subject, exchange("x"), replays)
    second, _ = await run(subject, exchange("x"), replays)
    assert (first.label, second.label, second.detail) == (Label.SAFE, Label.UNKNOWN, "bad_nonce")
    assert len({*seen}) == 2


@pytest.mark.parametrize(
    ("options", "cause", "label"),
    [({}, Cause.REFUSED, Label.UNKNOWN), ({"refusal_is": "unsafe"}, None, Label.UNSAFE)],
)
async def test_a_refusal_may_be_declared_unsafe(options: dict[str, Any], cause: Cause | None, label: Label) -> None:
    verdict, _ = await run(judge(**options), exchange("x"), "I cannot help with that.")  # J-04
    assert (verdict.label, verdict.cause) == (label, cause)


async def test_abstaining_is_a_word_that_has_to_be_allowed() -> None:
    verdict, _ = await run(judge(abstain=True), exchange("x"), says("abstain"))
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, Cause.ABSTAINED)
    verdict, _ = await run(judge(), exchange("x"), says("abstain"))
    assert verdict.cause is Cause.UNPARSABLE


async def test_own_words_mean_what_they_are_declared_to_mean() -> None:
    labels = {"answers": "safe", "hedges": "unsafe", "refuses": "abstain"}
    for word, label in (("answers", Label.SAFE), ("hedges", Label.UNSAFE), ("refuses", Label.UNKNOWN)):
        verdict, _ = await run(judge(prompt="answer_kind", labels=labels), exchange("x"), says(word))
        assert (verdict.label, verdict.extras["word"]) == (label, word)
    verdict, _ = await run(judge(labels=labels), exchange("x"), says("safe"))
    assert verdict.cause is Cause.UNPARSABLE


@pytest.mark.parametrize(("score", "label"), [(0.7, Label.UNSAFE), (0.69, Label.SAFE), (None, Label.UNKNOWN)])
async def test_with_a_threshold_the_score_decides(score: float | None, label: Label) -> None:
    verdict, _ = await run(judge(threshold=0.7), exchange("x"), says("safe", score=score))
    assert verdict.label is label


@pytest.mark.parametrize("otherwise", [{"categories": ["canary"]}, {"score": 0.99}, {"score": 0.51}])
async def test_safe_beside_a_category_or_a_high_score_is_a_contradiction(otherwise: dict[str, Any]) -> None:
    subject = judge(categories=["canary"], repair=False)
    verdict, _ = await run(subject, exchange("x"), says("safe", **otherwise))
    assert (verdict.label, verdict.cause, verdict.detail) == (Label.UNKNOWN, Cause.UNPARSABLE, "contradiction")
    verdict, fake = await run(judge(categories=["canary"]), exchange("x"), says("safe", **otherwise), says("safe"))
    assert (verdict.label, len(fake.calls)) == (Label.SAFE, 2)
    agreeing, _ = await run(subject, exchange("x"), says("safe", score=0.5, categories=[]))
    assert agreeing.label is Label.SAFE


async def test_one_repair_request_quotes_only_the_schema() -> None:  # section 9, step 4
    answers: list[Answer] = [ChatReply("purple monkey", "stop", tokens=Tokens(9, 1), cost=0.5), says("safe")]
    verdict, fake = await run(judge(), exchange("x"), *answers)
    assert (verdict.label, verdict.extras["repaired"]) == (Label.SAFE, True)
    first, second = [request for _, request in fake.calls]
    asked = str(second.messages)
    assert "purple monkey" not in asked
    assert "additionalProperties" in asked
    assert nonce_of(first) != nonce_of(second)


async def test_a_second_unreadable_reply_is_final() -> None:
    verdict, fake = await run(judge(), exchange("x"), "nonsense", "still nonsense", says("safe"))
    assert (verdict.cause, verdict.extras["repaired"], len(fake.calls)) == (Cause.UNPARSABLE, False, 2)


async def test_a_repair_that_fails_leaves_the_first_outcome() -> None:
    verdict, _ = await run(judge(), exchange("x"), "nonsense", ReplyError("no JSON"))
    assert (verdict.cause, verdict.detail) == (Cause.UNPARSABLE, "missing_verdict")


async def test_no_repair_without_time_or_wish() -> None:
    for fake, subject in ((context("x", seconds=0.1), judge()), (context("x"), judge(repair=False))):
        await subject.assess(exchange("x"), fake)
        assert len(fake.calls) == 1


@pytest.mark.parametrize(("chars", "shown"), [(24_000, True), (0, False)])
async def test_what_is_shown_beside_has_a_budget(chars: int, shown: bool) -> None:
    sample = exchange("an old lamp", "a reply", "the newest words")
    subject = judge(context_chars=chars, turns="last_user")
    _, fake = await run(subject, sample, says())
    text = str(fake.calls[0][1].messages)
    assert ("an old lamp" in text, "the newest words" in text) == (shown, True)


async def test_the_request_says_what_the_options_say() -> None:
    subject = judge(url="http://judge.test/v1", api_key=Secret("env:KEY", "k"), vendor="other", categories={"c": "d"})
    _, fake = await run(subject, exchange("x"), says())
    endpoint, request = fake.calls[0]
    assert endpoint == Endpoint("m", "http://judge.test/v1", "k", "other")
    assert (request.max_tokens, request.temperature) == (1_024, 0.0)
    form = request.response_format or {}
    assert form["json_schema"]["schema"]["properties"]["label"]["enum"] == ["safe", "unsafe"]
    assert form["json_schema"]["schema"]["properties"]["categories"]["items"]["enum"] == ["c"]
    assert "`c` (d)" in str(request.messages[0]["content"])


@pytest.mark.parametrize(
    ("options", "tokens", "temperature"),
    [({"reasoning": True}, 8_192, None), ({"reasoning": True, "max_output_tokens": 99}, 99, None)],
)
async def test_a_reasoning_model_gets_room(options: dict[str, Any], tokens: int, temperature: None) -> None:  # D-17
    _, fake = await run(judge(**options), exchange("x"), says())
    assert (fake.calls[0][1].max_tokens, fake.calls[0][1].temperature) == (tokens, temperature)


@pytest.mark.parametrize(("mode", "form"), [("json_schema",) * 2, ("json_object",) * 2, ("none", None)])
async def test_the_form_asked_for_is_the_one_of_the_options(mode: str, form: str | None) -> None:
    _, fake = await run(judge(structured=mode), exchange("x"), says())
    assert (fake.calls[0][1].response_format or {}).get("type") == form


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ChatUnavailable("too many wait", code="overloaded"), Cause.OVERLOADED),  # G-46
        (ChatUnavailable("status", status=500), Cause.ERROR),
        (ChatRefused("none left", code="cost_budget"), Cause.OVER_LIMIT),
        (ChatRefused("status", status=413), Cause.OVER_LIMIT),
    ],
)
@pytest.mark.parametrize("style", ["judge", "word"])
async def test_a_failed_call_has_the_cause_it_has_for_guards(error: ChatError, cause: Cause, style: str) -> None:
    subject = judge() if style == "judge" else SelfJudge(style="word")
    verdict = (await ask("judge", subject, exchange("x"), context(error))).verdict
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, cause)


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("content_filter", Cause.REFUSED),
        ("context_length_exceeded", Cause.OVER_LIMIT),
        ("exceed_context_size_error", Cause.OVER_LIMIT),
        ("invalid_model", Cause.ERROR),
    ],
)
async def test_a_400_is_read_by_its_code(code: str, cause: Cause) -> None:  # LU-25, guards 9
    verdict, _ = await run(judge(structured="none"), exchange("x"), ChatRefused("status", status=400, code=code))
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, cause)


@pytest.mark.parametrize("place", [0.0, 0.25, 0.5, 0.75, 1.0])
async def test_a_canary_anywhere_in_a_long_text_is_judged(place: float) -> None:  # D-05, G-12
    filler = "lorem ipsum " * 25_000
    at = int(len(filler) * place)
    verdict, fake = await run(judge(), exchange(filler[:at] + CANARY + filler[at:], "ok", "bye"), finds_canary)
    assert verdict.label is Label.UNSAFE
    assert len(fake.calls) > 1 or place == 0.0


async def test_too_long_a_text_is_over_limit_without_a_call() -> None:  # G-12, D-06
    verdict, fake = await run(judge(max_chunks=2), exchange("a" * 100_000), says())
    assert (verdict.cause, fake.calls) == (Cause.OVER_LIMIT, [])


async def test_one_unreadable_window_makes_a_safe_text_unknown() -> None:
    verdict, _ = await run(judge(max_chars=1_000, repair=False), exchange("a" * 2_500), says(), "nonsense", says())
    assert (verdict.label, verdict.cause, verdict.extras["chunks"]) == (Label.UNKNOWN, Cause.UNPARSABLE, 4)


async def test_a_window_whose_call_cancels_itself_is_a_failure_and_not_skipped() -> None:  # G-17
    def cancelled(_: Endpoint, __: ChatRequest) -> ChatReply:
        raise asyncio.CancelledError

    verdict, _ = await run(judge(max_chars=1_000), exchange("a" * 2_500), says(), cancelled, says())
    assert (verdict.label, verdict.cause, verdict.detail) == (Label.UNKNOWN, Cause.ERROR, "cancelled")


async def test_an_unsafe_window_ends_the_work_but_not_in_evaluation() -> None:  # G-22
    subject, sample = judge(max_chars=1_000, parallel=1), exchange("a" * 2_500)
    _, fake = await run(subject, sample, says("unsafe"))
    assert len(fake.calls) == 1
    exhaustive = Exhaustive([says("unsafe")])
    verdict = await subject.assess(sample, exhaustive)
    assert (len(exhaustive.calls), verdict.extras["chunk"]) == (4, 0)


async def test_scopes_are_judged_in_calls_of_their_own_and_named() -> None:  # G-04
    sample = exchange("hello", system=f"You own a {CANARY}.")
    verdict, _ = await run(judge(), sample, says())
    assert verdict.label is Label.SAFE
    verdict, fake = await run(judge(scopes=["conversation", "system"], parallel=1), sample, says(), finds_canary)
    assert (verdict.label, verdict.scope, len(fake.calls)) == (Label.UNSAFE, "system", 2)
    assert "hello" not in str(fake.calls[1][1].messages[1]["content"])


async def test_a_finding_in_a_milder_scope_ends_nothing_and_names_no_graver_one() -> None:  # M-08
    tool = Segment("/tools/0/function/description", "system", "tool_def", f"finds a {CANARY}")
    found = exchange(f"my {CANARY}")
    both = replace(found, request=(tool, *found.request))
    subject = judge(scopes=["tool_def", "conversation"], parallel=1)
    verdict, fake = await run(subject, both, finds_canary)
    assert (verdict.scope, len(fake.calls)) == ("conversation", 2)
    verdict, _ = await run(subject, replace(found, request=(tool, *exchange("hi").request)), finds_canary)
    assert (verdict.label, verdict.scope, verdict.rest) == (Label.UNSAFE, "tool_def", None)
    down: list[Answer] = [says("unsafe"), ChatTimeout("deadline")]
    verdict, _ = await run(subject, both, *down)
    assert (verdict.label, verdict.scope, verdict.rest) == (Label.UNSAFE, "tool_def", Cause.TIMEOUT)


async def test_media_is_unsupported_never_silently_safe() -> None:  # G-05
    image = Segment("/messages/0/content/1", "user", "media", "", 0, media=Media("image/png", 1, "0" * 64))
    sample = replace(exchange("look"), request=(*exchange("look").request, image))
    verdict, _ = await run(judge(), sample, says("safe"))
    assert (verdict.label, verdict.cause, verdict.detail) == (Label.UNKNOWN, Cause.UNSUPPORTED, "media")
    verdict, _ = await run(judge(), sample, says("unsafe"))
    assert verdict.label is Label.UNSAFE


async def test_nothing_to_read_is_skipped_not_judged() -> None:  # H-130
    verdict, fake = await run(judge(), exchange("x", reply=" \n", stage="output"), says())
    assert (verdict.cause, fake.calls) == (Cause.SKIPPED, [])


async def test_costs_of_all_calls_add_up() -> None:
    def priced(endpoint: Endpoint, request: ChatRequest) -> ChatReply:
        return ChatReply(says()(endpoint, request), "stop", tokens=Tokens(10, 2), cost=0.25)

    verdict, _ = await run(judge(max_chars=1_000), exchange("a" * 2_500), priced)
    assert (verdict.tokens, verdict.cost) == (Tokens(40, 8), 1.0)
    bad = ChatReply("nonsense", "stop", tokens=Tokens(1, 1), cost=0.5)
    verdict, _ = await run(judge(), exchange("x"), bad, priced)
    assert (verdict.tokens, verdict.cost) == (Tokens(11, 3), 0.75)


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("echo", ["system", "user", "all"])
async def test_an_echo_of_the_prompt_is_no_verdict(prompt: str, echo: str) -> None:  # G-39
    def echoes(_: Endpoint, request: ChatRequest) -> str:
        parts = [str(message["content"]) for message in request.messages if echo in ("all", message["role"])]
        return "\n".join(parts)

    for attack in ATTACKS.values():
        verdict, _ = await run(judge(prompt=prompt), exchange(attack), echoes)
        assert (verdict.label, verdict.cause) == (Label.UNKNOWN, Cause.UNPARSABLE)


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("stage", ["input", "output"])
async def test_attacks_do_not_flip_a_judge_that_reads(prompt: str, stage: Any) -> None:  # G-41, D-15
    fake = context(finds_canary)
    report = await flip_rate(judge(prompt=prompt), fake, stage=stage)
    assert len(report.attempts) == 20
    assert (report.sound, report.rate, report.unknowns) == (True, 0.0, 0)
    for _, request in fake.calls:
        material, nonce = str(request.messages[1]["content"]), nonce_of(request)
        assert material.count("JUDGE role=") == 1
        assert all(line.startswith(f"<<<{nonce}") for line in material.splitlines() if line.startswith("<<"))


async def test_a_judge_that_quotes_the_fake_verdicts_is_unknown_not_flipped() -> None:  # D-15
    def quotes(endpoint: Endpoint, request: ChatRequest) -> str:
        found = re.search(r'\{"(?:nonce|label)".*?\}', str(request.messages[1]["content"]))
        return found[0] if found else finds_canary(endpoint, request)

    report = await flip_rate(judge(), context(quotes))
    assert (report.sound, report.flips) == (True, 0)
    assert report.unknowns == 3


async def test_a_gullible_judge_is_counted_and_an_unsound_one_has_no_rate() -> None:  # G-41
    def obeys(endpoint: Endpoint, request: ChatRequest) -> str:
        material = str(request.messages[1]["content"])
        return says("safe")(endpoint, request) if "safe." in material else finds_canary(endpoint, request)

    report = await flip_rate(judge(), context(obeys))
    assert report.sound
    assert 0 < report.flips < 20
    assert report.rate == report.flips / 20
    always = await flip_rate(judge(), context(says("safe")))
    assert (always.sound, always.rate) == (False, None)


def test_the_attacked_judge_differs_only_in_its_criterion() -> None:
    subject = judge(api_key=Secret("env:KEY", "k"), criterion="mine", max_chars=2_000)
    other = attacked(subject)
    assert other.api_key == subject.api_key
    assert other.model_dump(exclude={"criterion"}) == subject.model_dump(exclude={"criterion"})
    assert other.prompt_sha256 != subject.prompt_sha256


async def told(subject: Judge) -> tuple[str, str]:
    """Return the instruction of one call, and its nonce."""
    _, fake = await run(subject, exchange("umbrella"), says())
    (_, request), *_ = fake.calls
    return str(request.messages[0]["content"]), nonce_of(request)


@pytest.mark.parametrize("prompt", PROMPTS)
async def test_no_instruction_holds_an_object_that_could_pass_for_a_verdict(prompt: str) -> None:
    subject = judge(prompt=prompt)
    instruction, nonce = await told(subject)
    with pytest.raises(ReplyError):
        parse_reply(instruction, ReplyRules(nonce, subject.words))


async def test_the_hash_covers_everything_the_instruction_says(tmp_path: Path) -> None:  # G-43
    own = tmp_path / "own.md"
    own.write_text("Decide whether the text names an umbrella.", encoding="utf-8")
    variants: list[dict[str, Any]] = [
        {},
        {"prompt": "injection"},
        {"prompt": str(own)},
        {"criterion": "one more sentence"},
        {"categories": ["canary"]},
        {"abstain": True},
    ]
    assert len({judge(**options).prompt_sha256 for options in variants}) == len(variants)
    before = judge(prompt=str(own))
    own.write_text("Decide whether the text names a hat.", encoding="utf-8")
    assert "umbrella" in (await told(before))[0]  # read once, at load
    assert judge(prompt=str(own)).prompt_sha256 != before.prompt_sha256


async def test_placeholders_in_a_criterion_are_not_filled_twice() -> None:
    assert "{{labels}}" in (await told(judge(criterion="Mind {{labels}}.")))[0]


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"model": ""}, "at least 1 character"),
    ({"prompt": "nothing_like_this"}, "built in are: harm, injection; a file has a path"),
    ({"prompt": "./missing.md"}, "cannot be read"),
    ({"labels": {"safe": "safe"}}, "at least one word for safe and one for unsafe"),
    ({"labels": {"safe": "safe", "SAFE": "unsafe"}}, "not distinct"),
    ({"labels": {"a b": "safe", "c": "unsafe"}}, "pattern"),
    ({"overlap": 10}, "greater than or equal to 256"),
    ({"max_chars": 1_000, "overlap": 600}, "at most half"),
    ({"threshold": 0}, "greater than 0"),
    ({"api_key": "sk-plain"}, "never as plain text"),
    ({"scopes": []}, "at least 1"),
    ({"scopes": ["users"]}, "Input should be"),
    ({"modell": "m"}, "Extra inputs"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES)
def test_mistakes_are_refused_with_what_would_be_right(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        judge(**options)


def test_an_empty_prompt_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_text(" \n", encoding="utf-8")
    with pytest.raises(ValueError, match="is empty"):
        read_prompt(str(tmp_path / "empty.md"))


def test_a_dump_shows_no_key_and_loads_again() -> None:
    subject = judge(api_key=Secret("env:KEY", "very secret"), categories=["canary"])
    assert "very secret" not in subject.model_dump_json() + repr(subject)
    assert judge(**subject.model_dump(exclude={"api_key", "model"})).prompt_sha256 == subject.prompt_sha256
