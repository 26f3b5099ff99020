"""Wire §4: what a failure of a model server becomes, for every shape its body may have."""

from __future__ import annotations

import socket
import ssl

import pytest

from proxy.upstream_errors import RetryableError, UpstreamStatusError, from_chat, from_reply, from_transport
from supervisors.errors import ChatError, ChatRefused, ChatTimeout, ChatUnavailable, ReplyError
from supervisors.transport import HttpReply, TransportError, TransportFault

PLAIN = "The model server answered with status 400."


def rebuilt(body: bytes, status: int = 400) -> UpstreamStatusError:
    error = from_reply(HttpReply(status, (), body), ())
    assert isinstance(error, UpstreamStatusError)
    return error


@pytest.mark.parametrize(
    ("body", "message", "kind", "code", "param"),
    [
        (b'{"error":{"message":"no","type":"t","code":"c","param":"a.b[0]"}}', "no", "t", "c", "a.b[0]"),
        (b'{"error":{"message":"no","type":"t_x","code":400}}', "no", "t_x", "t_x", None),
        (
            b'{"error":{"message":"no","code":"400","param":"a b"}}',
            "no",
            "invalid_request_error",
            "upstream_error",
            None,
        ),
        (b'{"error":"no such model"}', "no such model", "invalid_request_error", "upstream_error", None),
        (b'{"message":"no"}', "no", "invalid_request_error", "upstream_error", None),
        (b'{"detail":"not found"}', "not found", "invalid_request_error", "upstream_error", None),
        (b'{"detail":[{"loc":["body"]}]}', PLAIN, "invalid_request_error", "upstream_error", None),
        (b'{"error":{"message":"{\'a\': 1}","type":5}}', PLAIN, "invalid_request_error", "upstream_error", None),
        (b'{"error":[1]}', PLAIN, "invalid_request_error", "upstream_error", None),
        (b'{"error":null}', PLAIN, "invalid_request_error", "upstream_error", None),
        (b"[1]", PLAIN, "invalid_request_error", "upstream_error", None),
        (b"<html>", PLAIN, "invalid_request_error", "upstream_error", None),
        (b"", PLAIN, "invalid_request_error", "upstream_error", None),
    ],
)
def test_every_shape_of_error_body_is_rebuilt(
    body: bytes, message: str, kind: str, code: str, param: str | None
) -> None:
    error = rebuilt(body)
    assert (str(error), error.error_type, error.param, error.code) == (message, kind, param, code)
    assert (error.status, error.headers) == (400, ())


@pytest.mark.parametrize(
    ("status", "kind"), [(404, "invalid_request_error"), (429, "rate_limit_error"), (500, "server_error")]
)
def test_without_a_type_the_usual_one_of_the_status_stands_in(status: int, kind: str) -> None:
    assert rebuilt(b"", status).error_type == kind


def test_only_a_server_that_says_it_is_loading_is_asked_again() -> None:  # LU-22
    loading = from_reply(HttpReply(503, (), b'{"error":{"message":"Loading model"}}'), ())
    assert isinstance(loading, RetryableError)
    assert loading.loading
    assert not isinstance(from_reply(HttpReply(500, (), b"Loading model"), ()), RetryableError)


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        ("timeout", 504, "timeout"),
        ("connect", 502, "connect"),
        ("reset", 502, "connect"),
        ("truncated", 502, "connect"),
        ("protocol", 502, "protocol"),
        ("too_large", 502, "protocol"),
        ("request", 502, "protocol"),
    ],
)
def test_every_fault_of_the_http_client_has_a_status(fault: TransportFault, status: int, kind: str) -> None:
    error = from_transport(TransportError("violet", fault))
    assert (error.status, error.kind, isinstance(error, RetryableError)) == (status, kind, fault == "connect")
    assert "violet" not in str(error)


@pytest.mark.parametrize(
    ("cause", "reason"),
    [(socket.gaierror(), "dns"), (ssl.SSLError(), "tls"), (OSError(), "connect"), (None, "connect")],
)
def test_why_there_is_no_connection_is_one_word(cause: Exception | None, reason: str) -> None:
    failed = TransportError("violet", "connect")
    failed.__context__ = cause
    assert from_transport(failed).reason == reason


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ChatTimeout("violet"), 504, "upstream_timeout"),
        (ReplyError("violet"), 502, "upstream_error"),
        (ChatRefused("violet", status=401), 502, "upstream_error"),
        (ChatRefused("violet", status=400, code="content_filter"), 400, "content_filter"),
        (ChatRefused("violet"), 502, "upstream_error"),
        (ChatUnavailable("violet", status=429, code="rate_limit_exceeded"), 429, "rate_limit_exceeded"),
        (ChatUnavailable("violet", status=503), 503, "upstream_error"),
        (ChatUnavailable("violet", code="connect"), 502, "upstream_error"),
    ],
)
def test_every_error_of_another_vendor_has_a_status(error: ChatError | ReplyError, status: int, code: str) -> None:
    ours = from_chat(error)
    assert (ours.status, ours.code) == (status, code)
    assert "violet" not in str(ours)
