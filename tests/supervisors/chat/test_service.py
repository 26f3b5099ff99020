"""The model calls of supervisors over HTTP, against a scripted backend."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import orjson
import pytest

from supervisors.chat import BreakerState, Budget, ChatService, ChatSettings
from supervisors.errors import ChatError, ChatRefused, ChatTimeout, ChatUnavailable, ConfigError, ReplyError
from supervisors.judge import Judge
from supervisors.testing import exchange
from supervisors.types import Cause, ChatRequest, Context, Endpoint, Exchange, Verdict, safe
from tests.e2e.fake_upstream import Answer, FakeUpstream, Received, chat_reply
from tests.supervisors.chat.conftest import Desk
from tests.timing import AT_ONCE_S

SCHEMA = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": {"type": "object"}}}


def refuse(status: int, **members: object) -> Answer:
    return Answer(status=status, json={"error": {"message": "see https://host/secret", **members}})


async def fails(desk: Desk, request: ChatRequest | None = None, seconds: float = 5.0) -> ChatError | ReplyError:
    try:
        await desk.ask(request, seconds)
    except (ChatError, ReplyError) as error:
        return error
    pytest.fail("the call did not fail")


# What is sent and what comes back


async def test_a_chat_goes_to_the_chat_route_with_key_and_parameters(desk: Desk) -> None:
    request = ChatRequest([{"role": "user", "content": "violet"}], max_tokens=5, top_logprobs=4, extra={"seed": 1})
    reply = await desk.ask(request)
    sent = desk.up.received[0]
    assert (sent.method, sent.path) == ("POST", "/v1/chat/completions")
    assert sent.header("authorization") == "Bearer sk-violet-umbrella"
    assert sent.json == {
        "model": "judge",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": "violet"}],
        "temperature": 0.0,
        "logprobs": True,
        "top_logprobs": 4,
        "seed": 1,
    }
    assert (reply.text, reply.attempts) == ("Hello there.", 1)


async def test_a_prompt_goes_to_the_legacy_route(desk: Desk) -> None:
    reply = await desk.ask(ChatRequest(prompt="violet", temperature=None, top_logprobs=3))
    sent = desk.up.received[0]
    assert sent.path == "/v1/completions"
    assert sent.json == {"model": "judge", "prompt": "violet", "max_tokens": 1024, "logprobs": 3}
    assert reply.text == " there."


async def test_without_a_key_no_authorization_is_sent(desk: Desk) -> None:
    endpoint = Endpoint("judge", desk.up.url + "/")
    await desk.context().chat(endpoint, ChatRequest(prompt="x"))
    assert desk.up.received[0].header("authorization") is None
    assert desk.up.received[0].path == "/v1/completions"


async def test_the_headers_of_an_endpoint_go_along_and_stand_in_for_ours(desk: Desk) -> None:
    headers = (("api-key", "violet"), ("Authorization", "Basic umbrella"))
    endpoint = Endpoint("judge", desk.up.url, "sk-other", sign=lambda: ("x-token", "t"), headers=headers)
    await desk.context().chat(endpoint, ChatRequest())
    sent = desk.up.received[0]
    assert [sent.header(name) for name in ("api-key", "authorization", "x-token")] == ["violet", "Basic umbrella", "t"]
    assert [name.lower() for name, _ in sent.headers].count("authorization") == 1
    assert "violet" not in repr(endpoint)


async def test_max_completion_tokens_takes_the_place_of_max_tokens(desk: Desk) -> None:
    await desk.ask(ChatRequest(extra={"max_completion_tokens": 9}))
    assert "max_tokens" not in desk.up.received[0].json


async def test_text_that_utf8_cannot_carry_is_sent_escaped(desk: Desk) -> None:
    await desk.ask(ChatRequest(prompt="\ud800"))
    assert b'"\\ud800"' in desk.up.received[0].body


async def test_an_alias_is_looked_up(desk: Desk) -> None:
    def resolve(endpoint: Endpoint) -> Endpoint:
        assert endpoint == Endpoint("judge-alias")
        return Endpoint("real-model", desk.up.url)

    service = ChatService(desk.client, resolve=resolve)
    await service.context(5.0).chat(Endpoint("judge-alias"), ChatRequest())
    assert desk.up.received[0].json["model"] == "real-model"
    assert service.breaker_states == {"judge-alias": BreakerState.CLOSED}


async def test_a_model_that_is_no_alias_is_a_config_error(desk: Desk) -> None:
    with pytest.raises(ConfigError, match="no alias"):
        await desk.context().chat(Endpoint("nobody"), ChatRequest())


async def test_an_endpoint_whose_url_could_lead_elsewhere_is_a_config_error(desk: Desk) -> None:
    with pytest.raises(ConfigError, match="user info"):
        await desk.context().chat(Endpoint("judge", "http://me:umbrella@127.0.0.1/v1"), ChatRequest())


async def test_a_hosted_guard_is_posted_json_and_answers_json(desk: Desk) -> None:
    desk.up.script(Answer(json={"flagged": True}), refuse(401))
    context = desk.context()
    status, body = await context.post(f"{desk.up.url}/check", {"text": "violet"}, {"x-key": "k"})
    assert (status, body) == (200, {"flagged": True})
    assert desk.up.received[0].header("x-key") == "k"
    assert desk.up.received[0].header("content-type") == "application/json"
    assert (await context.post(f"{desk.up.url}/check", {}, {}))[0] == 401
    assert list(desk.service.refused_by.values()) == [401]
    assert not [name for name in desk.service.breaker_states if desk.up.url in name]


async def test_a_hosted_guard_that_refuses_in_html_has_refused(desk: Desk) -> None:
    desk.up.script(Answer(status=403, body=b"<html>"))
    with pytest.raises(ChatRefused) as caught:
        await desk.context().post(f"{desk.up.url}/check", {}, {})
    assert caught.value.status == 403


# The fault table (guarding §14)

JSON_TYPE = {"content-type": "application/json"}
ANSWER = orjson.dumps(chat_reply("safe"))

FAULTS: Mapping[str, tuple[Answer, type[Exception], str | None]] = {
    "400": (refuse(400, code="invalid_value"), ChatRefused, "invalid_value"),
    "401": (refuse(401, code="invalid_api_key"), ChatRefused, "invalid_api_key"),
    "403": (refuse(403), ChatRefused, None),
    "404 with a number for a code": (refuse(404, code=404, type="not_found_error"), ChatRefused, "not_found_error"),
    "400 in html": (Answer(status=400, body=b"<html>"), ChatRefused, None),
    "redirect": (Answer(status=302, headers={"location": "http://127.0.0.1:1/"}), ChatUnavailable, "redirect"),
    "not HTTP": (Answer(raw=b"violet\r\n\r\n"), ChatUnavailable, "protocol"),
    "empty": (Answer(body=b"", headers=JSON_TYPE), ReplyError, "empty"),
    "blank": (Answer(body=b" \n", headers=JSON_TYPE), ReplyError, "empty"),
    "wrong content type": (Answer(body=b"{}", headers={"content-type": "text/html"}), ReplyError, "content_type"),
    "invalid JSON": (Answer(body=b'{"choices": [', headers=JSON_TYPE), ReplyError, "bad_json"),
    "truncated": (Answer(body=b'{"choices": []}', headers=JSON_TYPE, split=8, end_at=1), ReplyError, "truncated"),
    "10 MB": (Answer(body=b" " * 10_000_000 + ANSWER, headers=JSON_TYPE), ReplyError, "too_large"),
    "a key twice": (Answer(body=ANSWER[:-1] + b',"choices":[]}', headers=JSON_TYPE), ReplyError, "duplicate_key"),
    "a key twice inside": (
        Answer(body=ANSWER.replace(b'"content":', b'"content":"unsafe","c\\u006fntent":'), headers=JSON_TYPE),
        ReplyError,
        "duplicate_key",
    ),
    "error in a 200": (refuse(200), ReplyError, "no_choices"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_every_fault_is_the_error_of_the_table_at_the_first_attempt(desk: Desk, name: str) -> None:
    answer, kind, word = FAULTS[name]
    desk.up.script(answer)
    caught = await fails(desk)
    assert type(caught) is kind
    assert (caught.detail if isinstance(caught, ReplyError) else caught.code) == word
    assert len(desk.up.received) == 1
    assert desk.calls[0].attempts == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
async def test_a_failure_that_may_pass_is_tried_once_more(desk: Desk, status: int) -> None:  # G-48
    desk.up.script(refuse(status), Answer())
    assert (await desk.ask()).attempts == 2
    desk.up.script(refuse(status), refuse(status))
    caught = await fails(desk)
    assert isinstance(caught, ChatUnavailable)
    assert caught.status == status
    assert len(desk.up.received) == 4


async def test_a_reset_is_tried_once_more(desk: Desk) -> None:
    desk.up.script(Answer(abort_at=-1), Answer())
    assert (await desk.ask()).attempts == 2


async def test_nobody_listening_is_unavailable(desk: Desk) -> None:
    async with FakeUpstream() as gone:
        endpoint = Endpoint("judge", gone.url)
    with pytest.raises(ChatUnavailable) as caught:
        await desk.context().chat(endpoint, ChatRequest())
    assert caught.value.code == "connect"
    assert desk.calls[0].attempts == 2


async def test_a_wait_that_the_deadline_does_not_allow_is_not_begun(desk: Desk) -> None:
    busy = Answer(status=429, json={}, headers={"retry-after": "60"})
    desk.up.script(busy)
    begun = asyncio.get_running_loop().time()
    assert isinstance(await fails(desk), ChatUnavailable)
    assert asyncio.get_running_loop().time() - begun < AT_ONCE_S


async def test_the_wait_the_backend_asks_for_is_kept(desk: Desk) -> None:
    desk.up.script(Answer(status=429, json={}, headers={"retry-after-ms": "400"}), Answer())
    await desk.ask()
    assert desk.up.received[1].at - desk.up.received[0].at >= 0.4


@pytest.mark.parametrize(
    "answer", [Answer(hold_at=-1), Answer(body=b" " * 999, headers=JSON_TYPE, split=1, frame_delay_s=0.02)]
)
async def test_a_backend_that_hangs_or_drips_is_a_timeout_in_time(desk: Desk, answer: Answer) -> None:
    desk.up.script(answer)
    begun = asyncio.get_running_loop().time()
    assert isinstance(await fails(desk, seconds=0.2), ChatTimeout)
    assert 0.1 < asyncio.get_running_loop().time() - begun < AT_ONCE_S


async def test_a_deadline_in_the_past_sends_nothing(desk: Desk) -> None:
    assert isinstance(await fails(desk, seconds=0.0), ChatTimeout)
    assert desk.up.received == []
    assert desk.context(-1.0).remaining_s == 0.0


@pytest.mark.parametrize("name", FAULTS)
async def test_no_error_and_no_log_line_holds_url_key_or_content(
    desk: Desk, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    desk.up.script(FAULTS[name][0])
    caught = await fails(desk)
    for secret in ("umbrella", "127.0.0.1", "http", "secret"):
        assert secret not in f"{caught} {caught.args}".lower().replace("not http/1.1", "")
        assert secret not in caplog.text
    assert caught.__cause__ is None


# Forms of the reply: LU-23


@pytest.mark.parametrize("status", [400, 500, 501])
async def test_a_backend_without_schemas_gets_simpler_forms_and_this_is_remembered(desk: Desk, status: int) -> None:
    desk.up.script(refuse(status), refuse(status), Answer(), Answer())
    assert (await desk.ask(ChatRequest(response_format=SCHEMA))).attempts == 3
    assert (await desk.ask(ChatRequest(response_format=SCHEMA))).attempts == 1
    forms = [received.json.get("response_format") for received in desk.up.received]
    assert forms == [SCHEMA, {"type": "json_object"}, None, None]


async def test_a_backend_that_took_a_schema_once_is_not_suspected_again(desk: Desk) -> None:
    desk.up.script(Answer(), refuse(400), Answer())
    await desk.ask(ChatRequest(response_format=SCHEMA))
    assert isinstance(await fails(desk, ChatRequest(response_format=SCHEMA)), ChatRefused)
    await desk.ask(ChatRequest(response_format=SCHEMA))
    assert desk.up.received[-1].json["response_format"] == SCHEMA


async def test_a_prompt_that_is_too_long_is_not_blamed_on_the_form(desk: Desk) -> None:  # LU-25
    desk.up.script(refuse(400, code=400, type="exceed_context_size_error"))
    caught = await fails(desk, ChatRequest(response_format=SCHEMA))
    assert isinstance(caught, ChatRefused)
    assert caught.code == "exceed_context_size_error"
    assert len(desk.up.received) == 1


async def test_a_backend_that_is_simply_broken_is_asked_three_times_and_not_remembered(desk: Desk) -> None:  # F-13
    desk.up.script(*[refuse(500)] * 3, Answer())
    assert isinstance(await fails(desk, ChatRequest(response_format=SCHEMA)), ChatUnavailable)
    assert len(desk.up.received) == 3
    await desk.ask(ChatRequest(response_format=SCHEMA))
    assert desk.up.received[-1].json["response_format"] == SCHEMA


@pytest.mark.parametrize(("status", "requests"), [(500, 3), (400, 3), (503, 2)])
async def test_a_judge_whose_server_is_broken_costs_one_call_of_the_budget(
    desk: Desk, status: int, requests: int
) -> None:  # F-13, G-50
    desk.up.script(*[refuse(status)] * 6)
    judge, budget = Judge(model="judge", url=desk.up.url), Budget(calls=2)
    for round_of_questions in (1, 2):  # nor does it cost more the second time
        found = await desk.context(budget=budget).ask("judge", judge, exchange("violet umbrella"))
        assert found.verdict.cause is Cause.ERROR
        assert (len(desk.up.received), budget.calls) == (round_of_questions * requests, 2 - round_of_questions)


async def test_two_judges_of_one_server_find_out_once_which_form_it_takes(desk: Desk) -> None:  # LU-23
    desk.up.script(refuse(400), refuse(400), *[Answer(json=chat_reply("no verdict"))] * 2)
    for _ in range(2):
        judge = Judge(model="judge", url=desk.up.url, repair=False)
        await desk.context().ask("judge", judge, exchange("violet umbrella"))
    forms = [received.json.get("response_format", {}).get("type") for received in desk.up.received]
    assert forms == ["json_schema", "json_object", None, None]


# Breaker, semaphore, budget


async def test_five_failures_open_the_breaker_and_calls_end_at_once(desk: Desk) -> None:  # G-47, F-09
    desk.use(ChatSettings(retries=0))
    desk.up.script(*[refuse(503)] * 5)
    for _ in range(5):
        await fails(desk)
    caught = await fails(desk)
    assert isinstance(caught, ChatUnavailable)
    assert caught.code == "circuit_open"
    assert len(desk.up.received) == 5
    assert desk.service.breaker_states == {"judge": BreakerState.OPEN}
    assert [call.outcome for call in desk.calls] == ["unavailable"] * 6


@pytest.mark.parametrize(
    "answer",
    [*[refuse(status) for status in (400, 408, 429, 500, 501)], Answer(body=b"x"), Answer(abort_at=-1)],
)
async def test_what_one_text_can_bring_about_does_not_open_the_breaker(desk: Desk, answer: Answer) -> None:
    desk.use(ChatSettings(retries=0))
    desk.up.script(*[answer] * 6)
    for _ in range(6):
        await fails(desk)
    assert desk.service.breaker_states == {"judge": BreakerState.CLOSED}
    assert desk.service.failing == frozenset()
    assert (await desk.ask()).text == "Hello there."


async def test_a_403_speaks_against_the_proxy_only_before_the_first_answer(desk: Desk) -> None:
    desk.up.script(refuse(403), Answer(), refuse(403), refuse(401))
    await fails(desk)
    assert desk.service.failing == {"judge"}
    await desk.ask()
    await fails(desk)  # the backend's own filter may have refused one text
    assert (desk.service.failing, desk.service.refused_by) == (frozenset(), {"judge": 403})
    await fails(desk)
    assert desk.service.failing == {"judge"}


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_hosted_guard_that_never_took_a_call_fails_for_everybody(desk: Desk, status: int) -> None:  # F-01, F-05
    desk.up.script(refuse(400), refuse(status), Answer(json={}), refuse(status))
    failing: list[bool] = []
    for _ in range(4):
        await desk.context().post(f"{desk.up.url}/check", {}, {})
        failing.append(bool(desk.service.failing))
    assert failing == [False, True, False, status == 401]  # once it took a call, a 403 may be about one text
    assert list(desk.service.refused_by.values()) == [status]


async def test_no_connection_and_timeouts_open_the_breaker(desk: Desk) -> None:
    desk.use(ChatSettings(breaker_failures=2, retries=0))
    desk.up.script(refuse(504), Answer(hold_at=-1))
    await fails(desk)
    assert isinstance(await fails(desk, seconds=0.1), ChatTimeout)
    assert desk.service.breaker_states == {"judge": BreakerState.OPEN}


async def test_a_probe_after_the_pause_closes_the_breaker(desk: Desk) -> None:
    desk.use(ChatSettings(retries=0, breaker_failures=1, breaker_open_s=0.0))
    desk.up.script(refuse(502), Answer(hold_at=-1))
    await fails(desk)
    async with asyncio.TaskGroup() as group:
        probe = group.create_task(desk.ask())
        await desk.up.wait_received(2)
        caught = await fails(desk)  # one probe at a time
        desk.up.release()
    assert isinstance(caught, ChatUnavailable)
    assert caught.code == "circuit_open"
    assert probe.result().text == "Hello there."
    assert desk.service.breaker_states == {"judge": BreakerState.CLOSED}


async def test_a_breaker_is_logged_once_when_it_opens_and_once_when_it_closes(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.use(ChatSettings(retries=0, breaker_failures=2, breaker_open_s=0.0))
    desk.up.script(*[refuse(502)] * 3)
    for _ in range(3):  # two failures, and a probe that fails as well
        await fails(desk)
    await desk.ask()
    await desk.ask()
    shown = [(line.getMessage(), vars(line)["dependency"]) for line in caplog.records]
    assert shown == [
        ("dependency fails and is not called for a while", "judge"),
        ("dependency answers again", "judge"),
    ]


async def test_a_cancelled_call_closes_its_connection_and_says_nothing_about_the_backend(desk: Desk) -> None:  # G-49
    desk.use(ChatSettings(breaker_failures=1))
    desk.up.script(Answer(hold_at=-1))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(desk.ask())
        await desk.up.wait_received()
        task.cancel()
        left = asyncio.get_running_loop().time()
    received = await desk.up.wait_finished()
    assert received.closed_at is not None
    assert received.closed_at - left < AT_ONCE_S
    assert desk.service.breaker_states == {"judge": BreakerState.CLOSED}
    assert desk.calls[0].outcome == "cancelled"


async def test_calls_wait_for_a_slot_and_the_queue_is_bounded(desk: Desk) -> None:  # G-46
    desk.use(ChatSettings(max_concurrency=1, max_waiting=1))
    desk.up.script(Answer(hold_at=-1))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(desk.ask()) for _ in range(2)]
        await desk.up.wait_received(1)
        full = await fails(desk)
        desk.up.release()
    assert isinstance(full, ChatUnavailable)
    assert full.code == "overloaded"
    assert [task.result().text for task in tasks] == ["Hello there."] * 2


async def test_a_slot_that_does_not_come_in_time_is_a_timeout_and_no_failure_of_the_backend(desk: Desk) -> None:
    desk.use(ChatSettings(max_concurrency=1, breaker_failures=1))
    desk.up.script(Answer(hold_at=-1))
    async with asyncio.TaskGroup() as group:
        group.create_task(desk.ask())
        await desk.up.wait_received(1)
        assert isinstance(await fails(desk, seconds=0.1), ChatTimeout)
        desk.up.release()
    assert desk.service.breaker_states == {"judge": BreakerState.CLOSED}


class Asks:
    """A supervisor that makes one call and is content with any answer."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Call the model once."""
        await context.chat(self.endpoint, ChatRequest())
        return safe()


async def test_a_budget_that_is_used_up_is_unknown_over_limit(desk: Desk) -> None:  # G-50
    context = desk.context(budget=Budget(calls=2))
    verdicts = [(await context.ask("a", Asks(desk.endpoint), exchange("hi"))).verdict for _ in range(3)]
    assert [verdict.cause for verdict in verdicts] == [None, None, Cause.OVER_LIMIT]
    assert verdicts[2].detail == "call_budget"
    assert len(desk.up.received) == 2


async def test_a_cost_cap_counts_what_backends_report(desk: Desk) -> None:  # G-50
    def dear(_: Received) -> Answer:
        return Answer(json=chat_reply() | {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.6}})

    desk.up.script(dear, dear)
    context = desk.context(budget=Budget(cost_usd=1.0))
    verdicts = [(await context.ask("a", Asks(desk.endpoint), exchange("hi"))).verdict for _ in range(3)]
    assert [verdict.detail for verdict in verdicts] == [None, None, "cost_budget"]
    assert verdicts[2].cause is Cause.OVER_LIMIT


async def test_a_prompt_too_long_for_the_judge_is_unknown_over_limit(desk: Desk) -> None:  # LU-25
    desk.up.script(refuse(400, code=400, type="exceed_context_size_error"), refuse(400, code="invalid_value"))
    found = [(await desk.context().ask("a", Asks(desk.endpoint), exchange("hi"))).verdict for _ in range(2)]
    assert [verdict.cause for verdict in found] == [Cause.OVER_LIMIT, Cause.ERROR]


async def test_a_backend_that_refuses_our_key_is_named_until_it_answers(desk: Desk) -> None:  # F-05
    desk.up.script(refuse(401), Answer())
    await fails(desk)
    assert desk.service.refused_by == {"judge": 401}
    await desk.ask()
    assert desk.service.refused_by == {}


async def test_every_call_is_reported_without_content(desk: Desk) -> None:
    await desk.ask()
    call = desk.calls[0]
    assert (call.dependency, call.outcome, call.attempts, call.tokens is not None) == ("judge", "ok", 1, True)
    assert call.seconds > 0
    assert "umbrella" not in repr(call)
