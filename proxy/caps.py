"""What a request may ask of a model: choices, tokens, and numbers that are numbers (X-07)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from proxy.config import LimitsConfig
from proxy.wire.adapter import Adapter
from proxy.wire.errors import invalid

_TOKEN_COUNTS: Final = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})
_NUMBERS: Final = _TOKEN_COUNTS | {"temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed"}
"""Fields that are numbers on every route that has them; a word there is the caller's mistake, not content."""
_SERVERS_OWN: Final = frozenset({"n_predict", "max_new_tokens"})
"""Other words for `max_tokens` that some servers prefer to it; read only where there is a limit to keep."""
_CHOICES: Final = frozenset({"n", "n_cmpl", "best_of", "num_return_sequences", "candidate_count", "candidateCount"})
"""Fields that make a model server generate several replies, on whatever route a server reads them."""
_WORDS: Final[Mapping[type, str]] = {str: "a text", bool: "true or false", list: "a list", dict: "an object"}
_BOUNDS: Final[Mapping[str, tuple[str, ...]]] = {
    "/v1/chat/completions": ("max_tokens", "max_completion_tokens"),
    "/v1/completions": ("max_tokens",),
    "/v1/responses": ("max_output_tokens",),
    "/v1/messages": ("max_tokens",),
}
"""The fields that bound a reply, by route; a server takes one of them."""


def check_caps(body: Mapping[str, Any], adapter: Adapter, limits: LimitsConfig) -> None:
    """Raise 400 when the caller asks for more choices or tokens than the proxy allows (X-07)."""
    _check_choices(body, adapter.choice_count(body), limits.max_choices)
    for name, wanted in body.items():
        if name in _NUMBERS and wanted is not None:
            _check_number(name, wanted, limits.max_tokens)
    if limits.max_tokens is not None:
        for name in _SERVERS_OWN:
            if body.get(name) is not None:
                _check_number(name, body[name], limits.max_tokens)


def _check_choices(body: Mapping[str, Any], choices: int, most: int) -> None:
    """Raise 400 for more replies than allowed: each field counts for every prompt of the request."""
    if choices <= most and _CHOICES.isdisjoint(body):
        return
    counts = {name: _count(name, body) for name in body if name in _CHOICES}
    prompts = max(1, choices // max(1, counts.get("n", 1)))
    for name, count in {"n": choices, **{name: prompts * count for name, count in counts.items()}}.items():
        if count > most:
            raise invalid(f"The request asks for {count} choices; at most {most} are allowed.", name)


def _count(name: str, body: Mapping[str, Any]) -> int:
    value: object = body[name]
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(f"{name!r} must be a whole number, not {_WORDS.get(type(value), repr(value))}.", name)
    return value


def _check_number(name: str, value: object, max_tokens: int | None) -> None:
    """Raise 400 for what is no number, and for a number of tokens that is none or too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(f"{name!r} must be a number, not {_WORDS.get(type(value), 'null')}.", name)
    if name not in _TOKEN_COUNTS | _SERVERS_OWN:
        return
    if not isinstance(value, int):
        raise invalid(f"{name!r} must be a whole number of tokens, not {value!r}.", name)
    # To llama servers 0 and -1 are "no limit".
    if (value < 0 and value != -1) or (value <= 0 and max_tokens is not None):
        raise invalid(f"{name!r} is {value}; it must be a positive number of tokens.", name)
    if max_tokens is not None and value > max_tokens:
        raise invalid(f"{name!r} is {value}; at most {max_tokens} tokens are allowed.", name)


def bound_reply(body: dict[str, Any], route: str, max_tokens: int, wanted: str) -> None:
    """Bound the reply to a request that leaves its length to the server; one that bounds it stays as it is (W-07).

    Args:
        body: of a request whose own numbers have been checked; edited.
        route: whose field it is.
        max_tokens: the limit.
        wanted: the field that the model server takes on the chat route.
    """
    names = _BOUNDS.get(route, ())
    if not names or any(body.get(name) is not None for name in names):
        return
    body[wanted if wanted in names else names[0]] = max_tokens
