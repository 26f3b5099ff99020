"""What all hosted guards share: cutting, batches, limits, failures, spans (guards §8, GU-24, G-12, F-01)."""

from __future__ import annotations

import json
import ssl
from typing import Any, cast

import pytest
from pydantic import ValidationError

from supervisors.ask import ask, judged_stages
from supervisors.chat import ChatService
from supervisors.hosted.judging import is_too_long
from supervisors.plugins import build_supervisor, find_plugins
from supervisors.secret import Secret
from supervisors.testing import FakeContext, check_hosted, exchange
from supervisors.transport import HttpClient
from supervisors.types import Cause, Exchange, Label, Media, Segment, Span, Verdict
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.supervisors.hosted.samples import KEY, NOTHING, SAMPLES, body_of, build

EVERY = sorted(SAMPLES)


async def judge(
    use: str, *posts: tuple[int, object] | Exception, found: Exchange | None = None, **options: object
) -> Verdict:
    asked = await ask("h", build(use, **options), found or exchange("violet umbrella"), FakeContext(posts=posts))
    return asked.verdict


def test_every_hosted_guard_has_its_sample() -> None:
    hosted = {name for name, point in find_plugins().items() if point.value.startswith("supervisors.hosted.")}
    assert hosted == set(SAMPLES)


@pytest.mark.parametrize("use", EVERY)
async def test_on_the_wire_it_calls_its_address_with_its_credentials_and_reads_both_replies(use: str) -> None:
    sample = SAMPLES[use]
    async with FakeUpstream() as up, HttpClient(tls=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)) as client:
        guard = build(use, up.url.removesuffix("/v1"))
        for answer, label in ((sample.safe, Label.SAFE), (sample.unsafe, Label.UNSAFE)):
            up.script(Answer(json=answer))
            context = ChatService(client).context(5.0)
            verdict = (await ask("h", guard, exchange("a violet umbrella"), context)).verdict
            assert (verdict.label, verdict.cause) == (label, None)
        assert verdict.categories == sample.categories
        assert [(r.method, r.path) for r in up.received] == [("POST", sample.path)] * 2
        sent = up.received[0]
        assert "violet umbrella" in sent.body.decode()
        assert sent.header("content-type") == "application/json"
        assert KEY in json.dumps(sent.headers)
        assert KEY not in sent.body.decode()


@pytest.mark.parametrize("use", EVERY)
async def test_every_fault_is_unknown_with_its_cause(use: str) -> None:
    assert await check_hosted(build(use)) == []


@pytest.mark.parametrize("use", EVERY)
async def test_no_reply_with_a_member_less_or_of_another_type_is_safe_unless_it_still_says_so(use: str) -> None:
    """Break the unsafe reply in every place: what is left may be unsafe or unknown, never safe."""
    for broken in mutilate(SAMPLES[use].unsafe):
        verdict = await judge(use, (200, broken))
        assert verdict.label is not Label.SAFE or says_safe(use, broken), broken


def mutilate(value: object) -> list[object]:
    """Return the value with one part taken away or replaced, for every part."""
    found: list[object] = [None, "", 0, {}]
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        for key, member in members.items():
            found.append({name: inner for name, inner in members.items() if name != key})
            found += [{**members, key: inner} for inner in mutilate(member)]
    elif isinstance(value, list):
        entries = cast("list[object]", value)
        for index, entry in enumerate(entries):
            found.append([*entries[:index], *entries[index + 1 :]])
            found += [[*entries[:index], inner, *entries[index + 1 :]] for inner in mutilate(entry)]
    return found


def says_safe(use: str, reply: Any) -> bool:
    """Say whether what is left is what that service says of a harmless text."""
    match use:
        case "azure_text":
            return all(row["severity"] < 2 for row in reply["categoriesAnalysis"])
        case "bedrock_checks":
            rows = [row for check in reply["results"].values() for row in check["results"]]
            return all(row["severityScore"] < 0.5 for row in rows)
        case "detectors":
            return not reply[0] or bool(reply[0][0]["score"] == 0)
        case "systemone":
            return bool(reply["answers"]["violence"]["noul"] == 0)
        case _:
            return False


@pytest.mark.parametrize("use", EVERY)
def test_a_dump_shows_no_secret_and_an_unknown_option_is_refused(use: str) -> None:
    guard: Any = build(use)
    assert KEY not in guard.model_dump_json() + repr(guard)
    with pytest.raises(ValidationError, match="validation error"):
        build(use, shiny=True)


@pytest.mark.parametrize(("use", "name"), [(use, name) for use in EVERY for name in SAMPLES[use].required])
def test_without_its_credentials_it_is_refused_at_start(use: str, name: str) -> None:
    entry = SAMPLES[use].entry(use, "https://guard.example")
    with pytest.raises(ValueError, match="problem"):
        build_supervisor({key: value for key, value in entry.items() if key != name})
    with pytest.raises(ValueError, match="problem"):
        build_supervisor({**entry, name: "plain text"})


@pytest.mark.parametrize("use", EVERY)
async def test_a_long_text_is_cut_and_nothing_is_left_out(use: str) -> None:
    # G-12: the canary at the end is sent too, and one unsafe piece is enough.
    text = "".join(f"{number:05d} " for number in range(400)) + "canary"
    context = FakeContext(posts=[(200, SAMPLES[use].safe)])
    await ask("h", build(use, max_chars=600, overlap=100, parallel=1), exchange(text), context)
    sent = json.dumps([body for _, body, _ in context.posted])
    assert all(f"{number:05d}" in sent for number in range(400))
    assert "canary" in sent


async def test_the_last_of_many_pieces_decides_and_is_named() -> None:
    text = "x" * 1700
    replies = [(200, {"decision": word}) for word in ("allow", "allow", "block")]
    verdict = await judge("opencc", *replies, found=exchange(text), max_chars=600, overlap=0, parallel=1)
    assert (verdict.label, verdict.extras["chunk"], verdict.scope) == (Label.UNSAFE, 2, "conversation")


async def test_more_pieces_than_allowed_are_over_the_limit_and_nothing_is_sent() -> None:
    context = FakeContext(posts=[(200, {"decision": "allow"})])
    guard = build("opencc", max_chars=600, max_chunks=2)
    verdict = (await ask("h", guard, exchange("x" * 5000), context)).verdict
    assert (verdict.cause, verdict.detail, context.posted) == (Cause.OVER_LIMIT, "max_chunks", [])


@pytest.mark.parametrize("too_long", [(413, {}), (400, {"error": {"code": "InvalidRequestBody", "message": "x"}})])
async def test_what_the_service_finds_too_long_is_halved_once(too_long: tuple[int, object]) -> None:
    # GU-24: an over-long text is never "not flagged"
    text = "a" * 500 + " violet"
    context = FakeContext(posts=[too_long, (200, {"decision": "allow"}), (200, {"decision": "block"})])
    verdict = (await ask("h", build("opencc", overlap=10), exchange(text), context)).verdict
    assert verdict.label is Label.UNSAFE
    halves = [body_of(body)["text"] for _, body, _ in context.posted[1:]]
    assert halves[0] + halves[1][10:] == text
    again = await judge("opencc", too_long, (200, {"decision": "allow"}), too_long, found=exchange(text))
    assert (again.label, again.cause, again.detail) == (Label.UNKNOWN, Cause.OVER_LIMIT, "too_long")


def test_the_words_for_too_long_are_found_wherever_they_stand() -> None:
    assert is_too_long({"error": {"innererror": [{"message": "The text is Too Long."}]}})
    assert is_too_long("exceeds the maximum of 10000")
    assert not is_too_long({"error": {"message": "bad key"}})


async def test_one_failure_keeps_the_rest_from_being_safe_but_not_from_being_unsafe() -> None:
    found = exchange("one", "two", "three")
    posts: list[tuple[int, object]] = [(200, {"decision": "allow"}), (500, {}), (200, {"decision": "allow"})]
    assert (await judge("opencc", *posts, found=found, parallel=1)).cause is Cause.ERROR
    posts[2] = (200, {"decision": "block"})
    assert (await judge("opencc", *posts, found=found, parallel=1)).label is Label.UNSAFE


async def test_media_are_unsupported_and_no_text_is_skipped() -> None:
    # G-05
    image = Segment("/messages/0/content/0", "user", "media", "", media=Media("image/png", 1, "0" * 64))
    text = Segment("/messages/0/content/1", "user", "text", "hello")
    safe = (200, {"decision": "allow"})
    assert (await judge("opencc", safe, found=Exchange("i", "m", "input", (image, text)))).cause is Cause.UNSUPPORTED
    assert (await judge("opencc", safe, found=exchange(" "))).cause is Cause.SKIPPED


async def test_scopes_roles_and_turns_narrow_what_is_sent() -> None:
    for options, expected in (
        ({"scopes": ["system"]}, ["sys"]),
        ({"roles": ["assistant"]}, ["two"]),
        ({"turns": "last_user"}, ["three"]),
        ({}, ["one", "two", "three"]),
    ):
        context = FakeContext(posts=[(200, {"decision": "allow"})])
        await ask("h", build("opencc", parallel=1, **options), exchange("one", "two", "three", system="sys"), context)
        assert [body_of(body)["text"] for _, body, _ in context.posted] == expected


async def test_encoded_stretches_are_shown_decoded() -> None:
    context = FakeContext(posts=[(200, {"decision": "allow"})])
    await ask("h", build("opencc"), exchange("read dmlvbGV0IHVtYnJlbGxhIGNhbmFyeSB0ZXh0 now"), context)
    assert "violet umbrella canary text" in body_of(context.posted[0][1])["text"]


def detection(start: int, end: int) -> dict[str, object]:
    return {"start": start, "end": end, "detection_type": "pii", "score": 0.9}


async def test_a_match_is_marked_in_every_place_it_stands() -> None:
    found = exchange("mail a@b.example and a@b.example")
    verdict = await judge("detectors", (200, [[detection(5, 16)]]), found=found)
    path = "/messages/0/content"
    assert verdict.spans == (Span(path, 5, 16, "other"), Span(path, 21, 32, "other"))


async def test_the_text_a_detector_repeats_decides_over_its_offsets() -> None:
    found = exchange("\N{GRINNING FACE} mail a@b.example")  # offsets that count bytes or UTF-16 point elsewhere
    said = {**detection(10, 21), "text": "a@b.example"}
    verdict = await judge("detectors", (200, [[said]]), found=found)
    assert verdict.spans == (Span("/messages/0/content", 7, 18, "other"),)
    for row in ({**said, "text": "b@c.example"}, detection(7, 18)):  # not there; in which units is open
        other = await judge("detectors", (200, [[row]]), found=found)
        assert (other.label, other.spans) == (Label.UNSAFE, ())


async def test_a_match_is_marked_in_every_case_it_stands_in() -> None:  # a word of a block list
    path, found = "/messages/0/content", exchange("Umbrella, UMBRELLA")
    verdict = await judge("detectors", (200, [[{**detection(0, 8), "text": "umbrella"}]]), found=found)
    assert verdict.spans == (Span(path, 0, 8, "other"), Span(path, 10, 18, "other"))


async def test_spans_are_given_only_if_masking_them_leaves_nothing_bad_and_nothing_unjudged() -> None:
    text = "mail a@b.example"
    whole = await judge("detectors", (200, [[detection(5, 99)]]), found=exchange(text))  # no such place
    assert (whole.label, whole.spans) == (Label.UNSAFE, ())
    plain = await judge("detectors", (200, [[detection(5, 16)]]), found=exchange(text), redact=False)
    assert plain.spans == ()
    posts: list[tuple[int, object]] = [(200, [[detection(5, 16)]]), (500, {})]
    half = await judge("detectors", *posts, found=exchange(text, "x" * 700), max_chars=710, parallel=1)
    assert (half.label, half.spans) == (Label.UNSAFE, ())


async def test_many_texts_go_into_one_call_where_the_service_takes_them() -> None:
    context = FakeContext(posts=[(200, [NOTHING] * 3)])
    verdict = (await ask("h", build("detectors"), exchange("a", "b", "c"), context)).verdict
    assert (verdict.label, len(context.posted)) == (Label.SAFE, 1)
    fewer = await judge("detectors", (200, [NOTHING] * 2), found=exchange("a", "b", "c"))
    assert (fewer.cause, fewer.detail) == (Cause.UNPARSABLE, "missing_verdict")


async def test_a_stage_that_a_service_cannot_judge_is_declared() -> None:
    assert judged_stages(build("azure_shields")) == {"input"}
    assert judged_stages(build("jailbreak_detect")) == {"input"}
    assert judged_stages(build("bedrock")) == {"input", "output"}


def test_the_base_url_must_be_http() -> None:
    entry = {**SAMPLES["opencc"].entry("opencc", ""), "url": "ftp://x", "api_key": Secret("env:K", "k")}
    with pytest.raises(ValueError, match="problem") as caught:
        build_supervisor(entry)
    assert isinstance(caught.value.__cause__, ValidationError)
