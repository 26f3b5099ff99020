"""The real `openai` SDK on the Responses route (wire §4, W-20, W-23; guarding S-09)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import APIError, AsyncOpenAI, BadRequestError, InternalServerError, NotFoundError
from pydantic import BaseModel

from supervisors.testing import Fails
from tests.e2e.fake_responses import SSE, call_events, frames, message, reasoning_events, response, stream, streamed
from tests.e2e.fake_responses import text_events as message_events
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import CANARY, guarded, policy, serving


@asynccontextmanager
async def client_of(up: FakeUpstream, folder: Path, **parts: Any) -> AsyncGenerator[AsyncOpenAI]:
    async with (
        serving(guarded(up, folder, **parts)) as proxy,
        AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="key", max_retries=0) as client,
    ):
        yield client


class Weather(BaseModel):
    sky: str


async def test_a_whole_reply_is_read_as_any_other(tmp_path: Path) -> None:
    async with FakeUpstream() as up, client_of(up, tmp_path) as client:
        up.script(Answer(json=response(message("All is well."))))
        reply = await client.responses.create(model="gpt", input="hello")
        assert (reply.status, reply.output_text) == ("completed", "All is well.")
        assert reply._request_id  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the documented name of the id


async def test_a_blocked_input_is_a_bad_request_with_its_code(tmp_path: Path) -> None:  # E-01, E-02
    async with FakeUpstream() as up, client_of(up, tmp_path) as client:
        for streams in (False, True):
            with pytest.raises(BadRequestError) as caught:
                await client.responses.create(model="gpt", input=CANARY, stream=streams)
            assert (caught.value.code, caught.value.param) == ("content_filter", "input")
            assert caught.value.type == "invalid_request_error"
            assert caught.value.request_id


async def test_a_blocked_reply_says_so_in_its_status(tmp_path: Path) -> None:  # W-20
    async with FakeUpstream() as up, client_of(up, tmp_path) as client:
        up.script(Answer(json=response(message(CANARY))))
        reply = await client.responses.create(model="gpt", input="hello")
        assert reply.status == "incomplete"
        assert reply.incomplete_details is not None
        assert reply.incomplete_details.reason == "content_filter"
        assert "content policy" in reply.output_text


async def test_a_blocked_reply_does_not_break_a_parser(tmp_path: Path) -> None:  # W-22
    async with FakeUpstream() as up, client_of(up, tmp_path) as client:
        up.script(Answer(json=response(message(CANARY))))
        reply = await client.responses.parse(model="gpt", input="hello", text_format=Weather)
        assert (reply.status, reply.output_parsed) == ("incomplete", None)


async def test_the_stream_helper_accumulates_a_safe_stream(tmp_path: Path) -> None:  # S-09
    async with FakeUpstream() as up, client_of(up, tmp_path) as client:
        items = [*reasoning_events(["Hm."]), *message_events(["All ", "is well."], 1), *call_events(["{}"], 2)]
        up.script(Answer(frames=frames(stream(*items)), headers=SSE))
        async with client.responses.stream(model="gpt", input="hello") as events:
            final = await events.get_final_response()
        assert final.output_text == "All is well."
        assert [item.type for item in final.output] == ["reasoning", "message", "function_call"]


async def test_the_stream_helper_sees_redacted_text_everywhere(tmp_path: Path) -> None:  # S-10, G-38
    stage = {"forced": ["words"], "on_unsafe": "redact", "stream": {"window_chars": 8, "overlap_chars": 20}}
    async with FakeUpstream() as up, client_of(up, tmp_path, policies=policy(output=stage)) as client:
        up.script(streamed("take a vio", "let umb", "rella along"))
        said: list[str] = []
        async with client.responses.stream(model="gpt", input="hello") as events:
            async for event in events:
                if event.type == "response.output_text.delta":
                    said.append(event.delta)
                elif event.type == "response.output_text.done":
                    assert event.text == "".join(said)
            final = await events.get_final_response()
        assert "".join(said) == final.output_text == "take a [REDACTED:canary] along"


@pytest.mark.parametrize("texts", [(CANARY, " at once"), ("All is well so far. ", "Take a violet", " umbrella")])
async def test_a_blocked_stream_is_read_from_its_incomplete_event(tmp_path: Path, texts: tuple[str, ...]) -> None:
    async with FakeUpstream() as up, client_of(up, tmp_path) as client:  # W-23, S-08
        up.script(streamed(*texts))
        async with client.responses.stream(model="gpt", input="hello") as events:
            seen = [event async for event in events]
            with pytest.raises(RuntimeError, match=r"response\.completed"):
                await events.get_final_response()
        last = seen[-1]
        assert last.type == "response.incomplete"
        assert last.response.incomplete_details is not None
        assert last.response.incomplete_details.reason == "content_filter"
        refusals = [event.delta for event in seen if event.type == "response.refusal.delta"]
        assert "content policy" in "".join(refusals)
        assert [event.sequence_number for event in seen] == list(range(len(seen)))


@pytest.mark.parametrize("texts", [(CANARY, " at once"), ('{"sky": "all of it is blue, and', ' a violet umbrella"}')])
async def test_a_blocked_stream_does_not_break_a_parser(tmp_path: Path, texts: tuple[str, ...]) -> None:  # W-22
    async with FakeUpstream() as up, client_of(up, tmp_path) as client:
        up.script(streamed(*texts))
        async with client.responses.stream(model="gpt", input="hello", text_format=Weather) as events:
            seen = [event async for event in events]
        assert seen[-1].type == "response.incomplete"


async def test_a_failure_mid_stream_is_an_error_event(tmp_path: Path) -> None:  # W-06
    async with FakeUpstream() as up, client_of(up, tmp_path) as client:
        up.script(streamed("All is well here, ", "really", " it is", abort_at=6))
        replies = await client.responses.create(model="gpt", input="hello", stream=True)
        seen = [event async for event in replies]
        last = seen[-1]
        assert last.type == "error"
        assert last.code == "upstream_error"


async def test_a_guard_that_is_down_is_a_server_error(tmp_path: Path) -> None:  # F-01
    rules = policy(output={"forced": ["words"]})
    broken = {"words": Fails(RuntimeError("down"))}
    async with FakeUpstream() as up, client_of(up, tmp_path, policies=rules, supervisors=broken) as client:
        for streams in (False, True):
            up.script(streamed("x") if streams else Answer(json=response(message("x"))))
            with pytest.raises(InternalServerError) as caught:
                await client.responses.create(model="gpt", input="hello", stream=streams)
            assert caught.value.code == "guardrail_unavailable"


async def test_a_stored_response_is_not_found(tmp_path: Path) -> None:  # M-09
    async with FakeUpstream() as up, client_of(up, tmp_path) as client:
        with pytest.raises(NotFoundError) as caught:
            await client.responses.retrieve("resp_1")
        assert caught.value.code == "unknown_route"
        assert isinstance(caught.value, APIError)
