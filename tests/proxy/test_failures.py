"""An upstream's own words about a failure reach nobody whose replies are judged (G-06, wire §4)."""

from __future__ import annotations

import pytest

from proxy.failures import to_caller_error
from proxy.upstream_errors import UpstreamStatusError, timeout_error

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
