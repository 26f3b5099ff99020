"""litellm as an adapter: what it is given, what becomes of its replies, and of its errors."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from supervisors.chat import complete_with_vendor, stream_from_vendor
from supervisors.chat.vendors import MEANINGS, VendorCall, translate
from supervisors.errors import ChatError, ChatRefused, ChatTimeout, ChatUnavailable, GuardrailError, ReplyError
from supervisors.types import ChatRequest, Endpoint
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_chunks, chat_reply, sse
from tests.supervisors.chat.conftest import Desk
from tests.timing import AT_ONCE_S

pytestmark = pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning")  # litellm's own imports

BODY = {"messages": [{"role": "user", "content": "violet umbrella"}], "max_tokens": 5}


@pytest.fixture
async def up() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as server:
        yield server


def call(up: FakeUpstream, vendor: str = "hosted_vllm") -> VendorCall:
    url = up.origin if vendor == "anthropic" else up.url
    return VendorCall(vendor, "m", "chat", BODY, 30.0, url, "sk-violet-key")


async def fails(made: VendorCall) -> GuardrailError:
    try:
        await complete_with_vendor(made)
    except (ChatError, ReplyError) as error:
        return error
    pytest.fail("the call did not fail")


def test_importing_the_package_does_not_import_litellm() -> None:  # PF-03
    code = "import sys, supervisors.chat; print('litellm' in sys.modules, 'openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_what_is_shown_of_a_call_does_not_hold_the_key() -> None:
    assert "violet" not in repr(VendorCall("anthropic", "m", "chat", {}, 1.0, None, "sk-violet"))


@pytest.mark.slow
def test_every_exception_of_litellm_has_a_meaning() -> None:
    code = (
        "import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'\n"
        "import inspect, litellm.exceptions as e\n"
        "print(*[n for n, c in vars(e).items() if inspect.isclass(c) and issubclass(c, Exception)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert len(found) > 20
    assert found <= set(MEANINGS), f"give these a meaning: {found - set(MEANINGS)}"


@pytest.mark.parametrize("name", MEANINGS)
def test_every_meaning_is_one_of_our_errors(name: str) -> None:
    kind: type[Exception] = type(name, (Exception,), {"status_code": 418})
    ours = translate(type("Newer", (kind,), {})("https://host/ sk-violet"))
    assert isinstance(ours, ChatTimeout | ChatRefused | ChatUnavailable | ReplyError)
    assert "violet" not in str(ours)
    assert not inspect.isclass(ours)


def test_a_missing_package_of_a_vendor_is_named_as_such() -> None:
    ours = translate(ModuleNotFoundError("No module named 'boto3'"))
    assert isinstance(ours, ChatUnavailable)
    assert ours.code == "vendor_package_missing"


@pytest.mark.slow
async def test_a_reply_comes_in_openai_form_and_only_known_members_are_handed_on(up: FakeUpstream) -> None:
    steering = {"api_base": "http://127.0.0.1:1/", "metadata": {"a": 1}, "mock_response": "no", "seed": 3}
    reply = await complete_with_vendor(replace(call(up), body=BODY | steering))
    assert reply["choices"][0]["message"]["content"] == "Hello there."
    assert reply["usage"]["prompt_tokens"] == 7
    sent = up.received[0].json
    assert sent["seed"] == 3
    assert not {"api_base", "metadata", "mock_response"} & set(sent)
    assert up.received[0].header("authorization") == "Bearer sk-violet-key"


@pytest.mark.slow
async def test_another_protocol_is_translated_both_ways(up: FakeUpstream) -> None:
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hi."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 4, "output_tokens": 2},
    }
    up.script(Answer(json=answer))
    reply = await complete_with_vendor(call(up, "anthropic"))
    assert up.received[0].path == "/v1/messages"
    assert up.received[0].header("x-api-key") == "sk-violet-key"
    choice = reply["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hi.", "stop")
    assert reply["usage"]["completion_tokens"] == 2


@pytest.mark.slow
async def test_a_stream_comes_in_openai_chunks(up: FakeUpstream) -> None:
    up.script(Answer(frames=sse(*chat_chunks("violet", " umbrella"))))
    chunks = [chunk async for chunk in stream_from_vendor(call(up))]
    texts = [chunk["choices"][0]["delta"].get("content") for chunk in chunks if chunk["choices"]]
    assert "".join(text for text in texts if text) == "violet umbrella"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert up.received[0].json["stream"] is True


@pytest.mark.slow
async def test_leaving_a_vendors_stream_closes_the_connection(up: FakeUpstream) -> None:  # O-10
    up.script(Answer(frames=sse(*chat_chunks("violet", " umbrella")), hold_at=3))
    stream = stream_from_vendor(call(up))
    await anext(stream)
    left = asyncio.get_running_loop().time()
    await stream.aclose()
    received = await up.wait_finished()
    assert received.closed_at is not None
    assert received.closed_at - left < AT_ONCE_S


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ChatRefused),
        (401, ChatRefused),
        (403, ChatRefused),
        (404, ChatRefused),
        (422, ChatRefused),
        (429, ChatUnavailable),
        (500, ChatUnavailable),
        (503, ChatUnavailable),
    ],
)
async def test_statuses_of_a_vendor_become_our_errors_without_its_words(
    up: FakeUpstream, status: int, kind: type[Exception], capfd: pytest.CaptureFixture[str]
) -> None:
    up.script(*[Answer(status=status, json={"error": {"message": "see https://host/ sk-violet-key umbrella"}})] * 3)
    error = await fails(call(up))
    assert type(error) is kind
    assert "umbrella" not in str(error)
    assert len(up.received) == 1, "litellm must not retry by itself"
    shown = capfd.readouterr()
    assert "umbrella" not in shown.out + shown.err


@pytest.mark.slow
async def test_a_vendor_that_hangs_is_a_timeout(up: FakeUpstream) -> None:
    up.script(Answer(hold_at=-1))
    error = await fails(VendorCall("hosted_vllm", "m", "chat", BODY, 0.3, up.url, "k"))
    assert isinstance(error, ChatTimeout)


@pytest.mark.slow
async def test_a_vendor_that_does_not_exist_is_refused(up: FakeUpstream) -> None:
    assert isinstance(await fails(call(up, "no_such_vendor")), ChatRefused)


@pytest.mark.slow
async def test_a_judge_behind_a_vendor_is_asked_like_any_other(desk: Desk) -> None:
    desk.up.script(Answer(status=503, json={}), Answer(json=chat_reply("safe")))
    endpoint = Endpoint("m", desk.up.url, "sk-violet-key", "hosted_vllm", headers=(("x-tenant", "umbrella"),))
    reply = await desk.context(10.0).chat(endpoint, ChatRequest([{"role": "user", "content": "hi"}]))
    assert (reply.text, reply.attempts, reply.model) == ("safe", 2, "fake-model")
    assert [sent.header("x-tenant") for sent in desk.up.received] == ["umbrella", "umbrella"]
