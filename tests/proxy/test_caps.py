"""What a request may ask of a model (X-07)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.caps import bound_reply, check_caps
from proxy.config import LimitsConfig
from proxy.wire.adapter import Adapter
from proxy.wire.chat import CHAT
from proxy.wire.completions import COMPLETIONS
from proxy.wire.errors import RequestError
from proxy.wire.messages import MESSAGES
from proxy.wire.responses import RESPONSES

CHAT_ROUTE, RESPONSES_ROUTE = "/v1/chat/completions", "/v1/responses"


@pytest.mark.parametrize(
    ("route", "wanted", "body", "bound"),
    [
        (CHAT_ROUTE, "max_tokens", {}, {"max_tokens": 9}),
        (CHAT_ROUTE, "max_completion_tokens", {}, {"max_completion_tokens": 9}),
        (CHAT_ROUTE, "max_tokens", {"max_completion_tokens": 3}, {"max_completion_tokens": 3}),
        (CHAT_ROUTE, "max_completion_tokens", {"max_tokens": 3}, {"max_tokens": 3}),
        (CHAT_ROUTE, "max_tokens", {"max_tokens": None}, {"max_tokens": 9}),
        (CHAT_ROUTE, "max_tokens", {"max_output_tokens": 3}, {"max_output_tokens": 3, "max_tokens": 9}),
        (CHAT_ROUTE, "max_tokens", {"n_predict": 3}, {"n_predict": 3, "max_tokens": 9}),
        ("/v1/completions", "max_completion_tokens", {}, {"max_tokens": 9}),
        (RESPONSES_ROUTE, "max_tokens", {}, {"max_output_tokens": 9}),
        (RESPONSES_ROUTE, "max_tokens", {"max_output_tokens": 3}, {"max_output_tokens": 3}),
        ("/v1/messages", "max_completion_tokens", {}, {"max_tokens": 9}),
        ("/v1/embeddings", "max_tokens", {}, {}),
    ],
)
def test_what_names_no_bound_gets_one_in_the_field_of_its_route(  # X-07, W-07
    route: str, wanted: str, body: dict[str, Any], bound: dict[str, Any]
) -> None:
    bound_reply(body, route, 9, wanted)
    assert body == bound


@pytest.mark.parametrize("name", ["n_predict", "max_new_tokens"])
@pytest.mark.parametrize("value", [10, -1, -2, "5", 5.5])
def test_a_servers_own_word_for_tokens_keeps_the_limit(name: str, value: object) -> None:
    with pytest.raises(RequestError) as caught:
        check_caps({name: value}, CHAT, LimitsConfig(max_tokens=9))
    assert (caught.value.status, caught.value.param) == (400, name)
    check_caps({name: value}, CHAT, LimitsConfig())
    check_caps({name: None}, CHAT, LimitsConfig(max_tokens=9))
    check_caps({name: 9}, CHAT, LimitsConfig(max_tokens=9))


@pytest.mark.parametrize("adapter", [CHAT, COMPLETIONS, MESSAGES, RESPONSES], ids=lambda adapter: adapter.route)
@pytest.mark.parametrize(
    "name", ["n", "best_of", "n_cmpl", "num_return_sequences", "candidate_count", "candidateCount"]
)
@pytest.mark.parametrize("value", [5, "5", 5.0, [5], True])
def test_no_word_for_several_replies_goes_beyond_the_limit_on_any_route(
    adapter: Adapter, name: str, value: object
) -> None:
    with pytest.raises(RequestError) as caught:
        check_caps({name: value}, adapter, LimitsConfig(max_choices=4))
    assert (caught.value.status, caught.value.param) == (400, name)
    check_caps({name: None}, adapter, LimitsConfig(max_choices=4))


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"])
def test_no_tokens_at_all_is_no_bound_where_there_is_a_limit(name: str) -> None:
    with pytest.raises(RequestError, match="must be a positive number"):
        check_caps({name: 0}, CHAT, LimitsConfig(max_tokens=9))
    check_caps({name: 0}, CHAT, LimitsConfig())


def test_what_a_route_counts_is_not_undone_by_the_word_for_it() -> None:
    with pytest.raises(RequestError, match="asks for 6 choices"):
        check_caps({"prompt": ["a", "b", "c"], "n": 2}, COMPLETIONS, LimitsConfig(max_choices=4))


@pytest.mark.parametrize("name", ["n", "best_of", "n_cmpl"])
def test_replies_are_counted_for_every_prompt(name: str) -> None:
    limits = LimitsConfig(max_choices=4)
    check_caps({"prompt": ["a", "b"], name: 2}, COMPLETIONS, limits)
    with pytest.raises(RequestError) as caught:
        check_caps({"prompt": ["a", "b", "c"], name: 2}, COMPLETIONS, limits)
    assert caught.value.param == name
    with pytest.raises(RequestError):
        check_caps({"prompt": ["a", "b", "c"], "n": 1, name: 2}, COMPLETIONS, limits)
