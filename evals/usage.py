"""What a line keeps of a reply's own words: documented token counts and short texts (H-126)."""

from __future__ import annotations

from collections.abc import Mapping

from evals.journal import JsonObject
from evals.statistics.jsonable import Json

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_DETAILS: Mapping[str, tuple[str, ...]] = {
    "prompt_tokens_details": ("cached_tokens", "audio_tokens"),
    "completion_tokens_details": (
        "reasoning_tokens",
        "audio_tokens",
        "accepted_prediction_tokens",
        "rejected_prediction_tokens",
    ),
}
"""The documented counts.

Source: OpenAI API reference, "The chat completion object", `usage`.
"""
_MOST = 2**53
"""Counts beyond it are no counts: JSON numbers are exact up to here."""
_WORD = 200


def token_counts(value: Json) -> JsonObject | None:
    """Return the documented counts in a `usage`, empty when it tells none of them; None when it is no object."""
    if not isinstance(value, dict):
        return None
    kept = _counts(value, _COUNTS)
    for name, members in _DETAILS.items():
        inner = value.get(name)
        found = _counts(inner, members) if isinstance(inner, dict) else {}
        if found:
            kept[name] = found
    return kept


def usage_behind(record: JsonObject) -> JsonObject | None:
    """Return the token counts of an answer nobody saw: None when no model was asked, empty when it told none."""
    usage = token_counts(record.get("usage"))
    call = record.get("upstream_call")
    asked = isinstance(call, dict) and call.get("called") is True
    return {} if usage is None and asked else usage


def _counts(value: JsonObject, names: tuple[str, ...]) -> JsonObject:
    return {name: count for name in names if (count := _count(value.get(name))) is not None}


def _count(value: Json) -> int | None:
    """Return a count; what is negative, not finite or beyond what JSON holds exactly is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        return None
    return int(value)


def total_of(usage: JsonObject) -> int | None:
    """Return the tokens in and out of kept counts, None when they do not tell both."""
    used_in, used_out = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    return _count(usage.get("total_tokens")) if used_in is None or used_out is None else used_in + used_out


def short(value: Json) -> str | None:
    """Return a text of a reply, cut where it is longer than a word or a name is; None for anything else."""
    return value[:_WORD] if isinstance(value, str) else None
