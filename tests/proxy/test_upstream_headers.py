"""W-17, W-18, X-05: which headers cross the proxy."""

from __future__ import annotations

import pytest

from proxy.upstream_headers import check_request_header, to_caller, to_upstream
from supervisors.errors import ConfigError


@pytest.mark.parametrize(
    "name",
    [
        "content-type",
        "x-ratelimit-remaining-requests",
        "openai-processing-ms",
        "anthropic-ratelimit-tokens-reset",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
    ],
)
def test_hints_of_the_upstream_reach_the_caller(name: str) -> None:
    assert to_caller(((name, "7"),)) == ((name, "7"),)


@pytest.mark.parametrize(
    "name",
    [
        "connection",
        "keep-alive",
        "transfer-encoding",
        "content-length",
        "content-encoding",
        "set-cookie",
        "server",
        "via",
        "location",
        "x-forwarded-for",
        "openai-organization",
        "x-request-id",
        "access-control-allow-origin",
        "x-guardrail-decision",
        "strict-transport-security",
    ],
)
def test_everything_else_stays_behind(name: str) -> None:
    assert to_caller(((name, "7"),)) == ()


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\0b", "é", "\x7f"])
def test_values_with_odd_characters_stay_behind_both_ways(value: str) -> None:
    assert to_caller((("retry-after", value),)) == ()
    assert to_upstream("/messages", (("anthropic-beta", value),), None) == []


@pytest.mark.parametrize(
    ("path", "passed"),
    [
        ("/messages", {"anthropic-version", "anthropic-beta"}),
        ("/chat/completions", {"openai-beta"}),
        ("/responses", {"openai-beta"}),
    ],
)
def test_the_defaults_are_those_of_the_route(path: str, passed: set[str]) -> None:
    headers = (("Anthropic-Version", "1"), ("anthropic-beta", "2"), ("OpenAI-Beta", "3"), ("Idempotency-Key", "4"))
    assert {name for name, _ in to_upstream(path, headers, None)} == passed


def test_a_list_in_the_config_replaces_the_defaults() -> None:
    headers = (("OpenAI-Beta", "3"), ("Idempotency-Key", "4"))
    assert to_upstream("/responses", headers, ("idempotency-key",)) == [("idempotency-key", "4")]
    assert to_upstream("/responses", headers, ()) == []


def test_a_header_named_by_connection_is_not_passed_on() -> None:
    headers = (("connection", "close, OpenAI-Beta"), ("openai-beta", "3"))
    assert to_upstream("/responses", headers, None) == []


@pytest.mark.parametrize("name", ["authorization", "Cookie", "Host", "X-Forwarded-Proto", "x-guardrail-add", "te"])
def test_headers_that_are_never_passed_on_cannot_be_listed(name: str) -> None:
    with pytest.raises(ConfigError):
        check_request_header(name, "forward_headers")
    assert to_upstream("/responses", ((name, "1"),), (name,)) == []


def test_an_operator_may_set_another_form_of_credentials() -> None:
    check_request_header("api-key", "extra_headers", "value")
    with pytest.raises(ConfigError):
        check_request_header("api-key", "forward_headers")
