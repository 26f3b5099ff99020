"""An upstream's own words about a failure reach nobody whose replies are judged (G-06, wire §4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proxy.failures import to_caller_error
from proxy.upstream_errors import UpstreamStatusError, timeout_error
from proxy.wire.sse import data_frame as sse_data
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import guarded, serving

CANARY = "violet umbrella"


def refusal(status: int = 400, code: str = "upstream_error", param: str | None = None) -> UpstreamStatusError:
    return UpstreamStatusError(
        CANARY, status=status, code=code, error_type="server_error", param=param, headers=(("retry-after", "3"),)
    )


def test_without_a_judge_the_scrubbed_words_stay() -> None:
    shown = to_caller_error(refusal(param="messages[0]"))
    assert (shown.message, shown.param, shown.headers) == (CANARY, "messages[0]", {"retry-after": "3"})


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (400, "upstream_error", "The model server refused the request with status 400."),
        (400, "context_length_exceeded", "The request is longer than the model's context."),
        (404, "model_not_found", "The model server does not know the model."),
        (429, "rate_limit_exceeded", "The model server takes no more requests for now."),
        (500, "upstream_error", "The model server failed with status 500."),
    ],
)
def test_with_a_judge_the_words_are_the_proxys_own(status: int, code: str, words: str) -> None:
    shown = to_caller_error(refusal(status, code), {"messages": []})
    assert (shown.status, shown.code, shown.message) == (status, code, words)
    assert shown.headers == {"retry-after": "3"}


@pytest.mark.parametrize(
    ("param", "left"), [("messages[3].content", "messages[3].content"), ("n", "n"), ("violet.umbrella", None)]
)
def test_a_param_stays_if_it_names_a_member_of_the_request(param: str, left: str | None) -> None:
    assert to_caller_error(refusal(param=param), {"messages": [], "n": 1}).param == left


def test_the_proxys_own_errors_stay_as_they_are() -> None:
    assert to_caller_error(timeout_error(), {}).message == "The model server did not answer in time."


ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/completions": {"prompt": "hi"},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5},
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", ROUTES)
async def test_no_words_of_the_model_server_leave_on_any_route(tmp_path: Path, route: str, stream: bool) -> None:
    error = {"message": f"Bad luck with a {CANARY}.", "type": "invalid_request_error", "param": f"x.{CANARY[:6]}"}
    late = [
        sse_data({"type": "error", "error": error}),
        sse_data({"type": "response.failed", "response": {"error": error}}),
    ]
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(status=400, headers={"retry-after": CANARY}, json={"error": error}))
        reply = await proxy.client.post(route, json={"model": "gpt", "stream": stream, **ROUTES[route]})
        assert reply.status_code == 400
        assert "violet" not in f"{reply.text} {reply.headers}"
        for frame in late if stream else ():
            up.script(Answer(frames=[frame]))
            reply = await proxy.client.post(route, json={"model": "gpt", "stream": True, **ROUTES[route]})
            assert "violet" not in reply.text
