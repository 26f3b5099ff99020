"""Which headers cross the proxy (W-17, W-18, X-05): a list of the allowed in both directions."""

from __future__ import annotations

import re
from functools import lru_cache

from supervisors.errors import ConfigError
from supervisors.transport import Headers

_NUMBER = r"\d{1,15}(?:\.\d{1,9})?"
_DURATION = rf"(?:{_NUMBER}(?:ns|us|µs|ms|s|m|h|d)?){{1,6}}"
_ISO_TIME = r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"
_HTTP_DATE = (
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} "
    r"\d\d:\d\d:\d\d GMT"
)
_LIMIT = re.compile(rf"-?{_DURATION}(?:;w={_NUMBER})?(?:, ?{_DURATION};w={_NUMBER}){{0,8}}|{_ISO_TIME}|{_HTTP_DATE}")
_TO_CALLER = {
    "content-type": re.compile(r"[\x20-\x7e]{1,200}"),  # rebuilt by every judged route
    "retry-after": re.compile(rf"{_NUMBER}|{_HTTP_DATE}"),
    "retry-after-ms": re.compile(_NUMBER),
    "x-should-retry": re.compile("true|false|[01]"),
    "openai-processing-ms": re.compile(_NUMBER),
    "openai-version": re.compile(r"\d{4}-\d\d-\d\d"),
}
"""What may reach the caller, and the form of each: nobody judges headers, so no words can stand in one."""

_LIMIT_NAME = re.compile(
    r"(?:x-ratelimit|anthropic-ratelimit|anthropic-priority)(?:-(?:limit|remaining|reset|used|requests?|tokens?|input"
    r"|output|unified|second|minute|hour|day|month|project|images?|audio|priority|free|over|usage|based|after|query"
    r"|queries|resets|time|renewal|[0-9]{1,2}[hd]|\d{1,5})){1,6}"
)
_LONGEST_NAME = 80
"""No name that may reach the caller is longer; of longer ones nothing is remembered."""
_VISIBLE_ASCII = re.compile(r"[\x20-\x7e]*")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

_NEVER_SENT = frozenset(
    {
        "accept-encoding",
        "authorization",
        "api-key",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-api-key",
        "x-real-ip",
    }
)
_NEVER_SENT_PREFIXES = ("x-forwarded-", "proxy-", "x-guardrail-")
CREDENTIALS = frozenset({"authorization", "api-key", "x-api-key"})
"""An operator may set these for an upstream, as secrets; a caller's are never passed on."""


_TRACE = frozenset({"traceparent", "tracestate"})
_OURS = "x-guardrail-depth"
"""What `proxy.bypass` lets stand; a caller's is refused before, on every judged route."""


def to_caller(headers: Headers) -> Headers:
    """Return the reply headers that a caller may see: of the list, and in the form that their documents give them."""
    return tuple(
        [
            (name, value)
            for name, value in headers
            if len(name) <= _LONGEST_NAME and (form := _form_of(name)) is not None and form.fullmatch(value)
        ]
    )


@lru_cache(256)
def _form_of(name: str) -> re.Pattern[str] | None:
    return _TO_CALLER.get(name) or (_LIMIT if _LIMIT_NAME.fullmatch(name) else None)


def to_upstream(
    path: str, headers: Headers, allowed: tuple[str, ...] | None, *, trace: bool = False
) -> list[tuple[str, str]]:
    """Return the caller's headers that are passed on.

    Args:
        path: route below the base URL; the defaults depend on it.
        headers: of the caller, in any case.
        allowed: names from the config, or None for the defaults of W-17.
        trace: W3C trace context is passed on, too.
    """
    wanted = _wanted(path.startswith("/messages"), allowed)
    if trace:
        wanted |= _TRACE
    found = [(lower, value) for name, value in headers if (lower := name.lower()) in wanted]
    if not found:
        return []
    for name, value in headers:
        if name.lower() == "connection":  # what it names is meant for the next hop only
            wanted -= {word.strip().lower() for word in value.split(",")}
    return [
        (name, value)
        for name, value in found
        if name in wanted and (name == _OURS or not _never_sent(name)) and _VISIBLE_ASCII.fullmatch(value)
    ]


@lru_cache(64)
def _wanted(of_messages: bool, allowed: tuple[str, ...] | None) -> frozenset[str]:
    if allowed is None:
        allowed = ("anthropic-version", "anthropic-beta") if of_messages else ("openai-beta",)
    return frozenset({name.lower() for name in allowed}) | {_OURS}


def check_request_header(name: str, setting: str, value: str | None = None) -> None:
    """Refuse a header in the config that must not be passed on or set.

    Args:
        name: header name in any case.
        setting: path for the error.
        value: fixed value, None when the caller's is to be passed on.

    Raises:
        ConfigError: not a header name, a value with control characters, or a name the proxy keeps for itself.
    """
    if not _NAME.fullmatch(name):
        msg = f"{name!r} is not a header name"
        raise ConfigError(msg, setting)
    if value is not None and not _VISIBLE_ASCII.fullmatch(value):
        msg = f"the value of {name!r} has characters outside visible ASCII"
        raise ConfigError(msg, setting)
    fixed = value is not None and name.lower() in CREDENTIALS
    if _never_sent(name.lower()) and not fixed:
        msg = f"the header {name!r} is never passed to an upstream; remove it from the list"
        raise ConfigError(msg, setting)


def _never_sent(name: str) -> bool:
    return name in _NEVER_SENT or name.startswith(_NEVER_SENT_PREFIXES)
