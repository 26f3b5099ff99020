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
    value = "true" if name == "x-should-retry" else "7"
    assert to_caller(((name, value),)) == ((name, value),)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-tokens", "149984"),
        ("x-ratelimit-reset-requests", "1s"),
        ("x-ratelimit-reset-tokens", "6m0s"),
        ("x-ratelimit-reset-tokens", "7.66s"),
        ("x-ratelimit-remaining-tokens-usage-based", "12"),
        ("x-ratelimit-limit-tokens-minute", "4000"),
        ("x-ratelimit-limit", "100, 100;w=60"),
        ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:00Z"),
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-unified-5h-reset", "1767225600"),
        ("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"),
        ("openai-version", "2020-10-01"),
    ],
)
def test_every_documented_form_of_a_hint_passes(name: str, value: str) -> None:  # G-01
    assert to_caller(((name, value),)) == ((name, value),)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retry-after", "violet umbrella"),
        ("retry-after", "violet-umbrella"),
        ("openai-processing-ms", "violet"),
        ("openai-version", "violet"),
        ("x-should-retry", "violet"),
        ("x-ratelimit-remaining-tokens", "violet umbrella"),
        ("x-ratelimit-violet-umbrella", "1"),
        ("anthropic-ratelimit-requests-reset", "2026-01-01Tviolet"),
        ("content-type", "x" * 201),
    ],
)
def test_no_words_stand_in_a_hint(name: str, value: str) -> None:  # G-06
    assert to_caller(((name, value),)) == ()


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
