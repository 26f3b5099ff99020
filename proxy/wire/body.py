"""Strict parse of the bodies of requests and replies, and the fields a caller may never send (wire W-21, §2.3)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import orjson

from proxy.wire.errors import RequestError, invalid, unsupported

_LONG = 19
_LONG_NUMBER = re.compile(rb"\d{%d}" % _LONG)
_DIGITS = b"0123456789"
_INEXACT = re.compile(r"\d[\d.]{15}|\d[eE]")
"""A number that may not be written again as it is read: more digits than a double keeps, or an exponent."""
_ESCAPED_COLON = b"\\u003"

_DEEPEST_REPLY = 64
"""Levels of a reply or frame; those of the vendors have about ten."""

_DEEPEST_TEXT = 200
_TOO_DEEP = "the text is nested too deeply"

_FORBIDDEN_ANYWHERE = frozenset(
    {
        "api_base",
        "base_url",
        "api_key",
        "api_version",
        "custom_llm_provider",
        "proxies",
        "extra_headers",
        "extra_query",
    }
)
_FORBIDDEN_PREFIXES = ("vertex_", "aws_", "azure_", "litellm_")
_FORBIDDEN_TOP = frozenset(
    {"organization", "proxy", "extra_body", "mock_response", "fallbacks", "deployment_id", "config"}
)
_USUAL = frozenset({"model", "messages", "stream", "temperature", "max_tokens", "max_completion_tokens", "input"})
"""Fields of nearly every request, of which no name is forbidden and no value carries options."""
_DEEP_FIELDS = frozenset({"metadata", "extra_body", "config", "litellm_params", "model_config"})


def parse_body(raw: bytes, max_depth: int) -> dict[str, Any]:
    """Parse strictly: what two parsers could read differently is refused.

    Refused are: not JSON, invalid UTF-8, lone surrogates, NaN, duplicate keys at any level, integers beyond
    64 bits, nesting deeper than `max_depth`, trailing bytes, a top level that is no object.

    Raises:
        RequestError: 400 ``invalid_json``.
    """
    try:
        body: object = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _refusal(f"The body is not valid JSON: {error.msg} at byte {error.pos}.") from error
    if not isinstance(body, dict):
        raise _refusal(f"The body must be a JSON object, not {type(body).__name__}.")
    parsed = cast("dict[str, Any]", body)
    if raw.count(b"{") + raw.count(b"[") > max_depth and _depth_exceeds(parsed, max_depth):
        raise _refusal(f"The body is nested deeper than {max_depth} levels.")
    again = orjson.dumps(parsed)
    if again != raw and (_may_hide_a_key(raw, again) or _has_long_number(raw)):
        _parse_slowly(raw)
    return parsed


def parse_reply(raw: bytes) -> dict[str, Any]:
    """Parse a whole reply of a model server; anything but a sound object is its failure."""
    try:
        body: object = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise bad_reply() from error
    if not isinstance(body, dict) or is_unsound(raw, cast("object", body)):
        raise bad_reply()
    return cast("dict[str, Any]", body)


def keep_numbers(raw: bytes, body: dict[str, Any]) -> None:
    """Give a whole reply its long numbers back as they came, in place, before it is written again.

    They are kept as `load_exactly` keeps them, so nothing but text may be taken from it afterwards. To look for them
    costs more than to parse a reply, so one that goes on as it came is not asked.

    Args:
        raw: as it came.
        body: as `parse_reply` has read it; nothing of it edited yet.
    """
    if _has_long_number(raw):
        body.update(cast("dict[str, Any]", load_exactly(raw)))


def load_exactly(written: bytes | str) -> object:
    """Return the value of a JSON text; numbers that would be written otherwise again are kept as they are written.

    Such a number is an `orjson.Fragment`, which `orjson.dumps` writes as it came.

    Raises:
        ValueError: no JSON, or nested too deeply.
    """
    value: object = orjson.loads(written)
    text = written.decode() if isinstance(written, bytes) else written
    if is_too_deep(text, value):
        raise ValueError(_TOO_DEEP)
    if _INEXACT.search(text) is None:
        return value
    return json.loads(text, parse_int=_keep_integer, parse_float=orjson.Fragment)


def is_too_deep(text: str, value: object) -> bool:
    """Say whether a JSON text that a reply holds is nested deeper than can be written again: orjson writes 254 levels.

    Args:
        text: as it is written.
        value: what it says.
    """
    return text.count("{") + text.count("[") > _DEEPEST_TEXT and _depth_exceeds(value, _DEEPEST_TEXT)


def _keep_integer(digits: str) -> object:
    return int(digits) if len(digits) < _LONG else orjson.Fragment(digits)


def bad_reply() -> RequestError:
    """Return the 502 for a reply that is none of this route."""
    return RequestError(502, "upstream_error", "The model server sent a reply that the proxy cannot read.")


def is_unsound(raw: bytes, body: object) -> bool:
    """Say whether a reply or frame cannot be judged for sure.

    Either a key occurs twice in one object of `raw`, so that another parser could read what was not judged, or it is
    nested deeper than anybody here goes.
    """
    if raw.count(b"{") + raw.count(b"[") > _DEEPEST_REPLY and _depth_exceeds(body, _DEEPEST_REPLY):
        return True
    again = orjson.dumps(body)
    if again == raw or not _may_hide_a_key(raw, again):  # the same bytes: nothing was dropped
        return False
    try:
        json.loads(raw, object_pairs_hook=_refuse_duplicates)
    except (RequestError, RecursionError):
        return True
    return False


def _may_hide_a_key(raw: bytes, again: bytes) -> bool:
    """Say whether a duplicate key is possible in bytes that read as `again` does.

    A dropped member takes its colon along, and nothing else changes the number of colons between the bytes
    and their re-serialised form, unless a colon was written as an escape. So equal counts prove that no
    member was dropped, for the price of two byte counts.
    """
    if b"\\" in raw and _ESCAPED_COLON in raw:  # the search for one byte costs nothing, and most bodies have none
        return True
    return raw.count(b":") != again.count(b":")


def _has_long_number(raw: bytes) -> bool:
    """Say whether so many digits stand together that no 64-bit integer may hold them; few bodies have that many."""
    return len(raw) - len(raw.translate(None, _DIGITS)) >= _LONG and _LONG_NUMBER.search(raw) is not None


def _parse_slowly(raw: bytes) -> None:
    try:
        json.loads(raw, object_pairs_hook=_refuse_duplicates, parse_int=_refuse_long)
    except RecursionError as error:
        raise _refusal("The body is nested too deeply.") from error


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _refusal(f"The key {key[:64]!r} occurs twice in one object.")
        seen.add(key)


def _refuse_long(digits: str) -> int:
    value = int(digits) if len(digits) < 40 else 1 << 64
    if not -(1 << 63) <= value < 1 << 64:
        raise _refusal("An integer in the body does not fit into 64 bits.")
    return value


def _depth_exceeds(value: object, max_depth: int) -> bool:
    level: list[object] = [value]
    for _ in range(max_depth):
        level = [child for item in level for child in _children(item) if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def _children(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from cast("dict[str, object]", value).values()
    elif isinstance(value, list):
        yield from cast("list[object]", value)


def refuse_forbidden(body: dict[str, Any]) -> None:
    """Refuse addresses, credentials and provider switches, at the top and inside the fields that carry options.

    Raises:
        RequestError: 400 ``unsupported_parameter`` with the path.
    """
    for key, value in body.items():
        if key in _USUAL:
            continue
        if key in _FORBIDDEN_TOP or _is_forbidden(key):
            raise unsupported(key)
        if key in _DEEP_FIELDS:
            _refuse_inside(value, key)


def _refuse_inside(value: object, path: str) -> None:
    if isinstance(value, dict):
        for key, child in cast("dict[str, object]", value).items():
            if _is_forbidden(key):
                raise unsupported(f"{path}.{key}")
            _refuse_inside(child, f"{path}.{key}")
    elif isinstance(value, list):
        for index, child in enumerate(cast("list[object]", value)):
            _refuse_inside(child, f"{path}[{index}]")


def _is_forbidden(key: str) -> bool:
    word = key.lower()
    return word in _FORBIDDEN_ANYWHERE or word.startswith(_FORBIDDEN_PREFIXES)


def take_guardrails(body: dict[str, Any]) -> tuple[str, ...] | None:
    """Remove `guardrails` (and `metadata.guardrails`) from the body and return the names asked for.

    Returns:
        None when the field is absent, which differs from an empty list.

    Raises:
        RequestError: 400 ``invalid_guardrails`` for anything but a list of names: a caller may add, never weaken.
    """
    asked: list[str] | None = None
    metadata = body.get("metadata")
    holders = [body, cast("dict[str, Any]", metadata)] if isinstance(metadata, dict) else [body]
    for holder in holders:
        if "guardrails" in holder:
            asked = (asked or []) + _check_names(holder.pop("guardrails"))
    return tuple(dict.fromkeys(asked)) if asked is not None else None


def _check_names(value: object) -> list[str]:
    if isinstance(value, list):
        names = cast("list[object]", value)
        if all(isinstance(name, str) for name in names):
            return cast("list[str]", names)
    raise RequestError(
        400,
        "invalid_guardrails",
        "'guardrails' is a list of supervisor names to add; supervisors cannot be changed or disabled per request.",
        param="guardrails",
    )


def take_bool(body: dict[str, Any], name: str) -> bool:
    """Return a boolean field, false when absent or null.

    Raises:
        RequestError: 400 when it is anything else.
    """
    value = body.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise invalid(f"{name!r} must be true or false, not {type(value).__name__}.", name)


def _refusal(message: str) -> RequestError:
    return RequestError(400, "invalid_json", message)
