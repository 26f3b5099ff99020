"""The form of members that hold no text: ids, words, model names, counts; a value of another form is text (G-01). Pure.

A form admits what vendors really send and no sentence: no white space, ASCII, of limited length. A value outside its
form is not refused; it is judged as kind ``other``, like any string that nobody knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, cast

from proxy.wire.names import OF_USAGE
from supervisors.decoding import find_runs


def _any_of(words: str) -> re.Pattern[str]:
    """Return the form of a member that has one of these words, or none."""
    return re.compile("|".join([re.escape(word) for word in ["", *words.split()]]))


_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@|-]{0,128}")
_WORD: Final = re.compile(r"[A-Za-z0-9_.:-]{0,48}")
_MODEL: Final = re.compile(r"[A-Za-z0-9_.:/@+=~\[\]-]{0,128}")
_NUMBER: Final = re.compile(r"-?[0-9]{0,20}(\.[0-9]{1,12})?")
_OPAQUE: Final = re.compile(
    r"(?!.*(?<![A-Za-z0-9])[A-Za-z]?[a-z]{2,}[+/=_-]+[A-Za-z]?[a-z]{2,}(?![A-Za-z0-9]))[A-Za-z0-9+/=_-]*", re.DOTALL
)
"""Base64 or base64url in which no two plain words stand side by side, as in ``two-words``."""
_SIGNS: Final = re.compile(r"[+/=_-]+")
_SHORTEST_OPAQUE: Final = 40
"""Characters of 240 bits: nobody encrypts or signs into less, and a word or a password is shorter."""
_LONG_WORD: Final = 9
_LONG_NUMBER: Final = 8
"""Letters in a row, and digits, that stand between signs by accident in one ciphertext of 10 kB in a hundred."""
_LONG_RUN: Final = b"a" * 18
_MOSTLY: Final = 0.7
"""Share of lower-case letters, or of capitals, that base64 of random bytes has not got: its share of either is 0.41."""
_CASES: Final = (
    bytes(97 if 97 <= i <= 122 else 32 for i in range(256)),
    bytes(97 if 65 <= i <= 90 else 32 for i in range(256)),
)
"""Make lower-case letters, or capitals, ``a`` and anything else a space."""
_REASON: Final = _any_of(
    "stop length tool_calls tool_call content_filter function_call error abort cancelled canceled timeout unknown null"
    " end_turn max_tokens stop_sequence tool_use pause_turn refusal model_context_window_exceeded compaction guardrail"
    " eos eos_token end complete completed incomplete COMPLETE ERROR ERROR_TOXIC ERROR_LIMIT USER_CANCEL TOOL_CALL"
    " STOP STOP_SEQUENCE MAX_TOKENS MAX_TURNS SAFETY RECITATION LANGUAGE OTHER BLOCKLIST PROHIBITED_CONTENT SPII"
    " MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS IMAGE_SAFETY IMAGE_RECITATION NO_IMAGE"
    " FINISH_REASON_UNSPECIFIED guardrail_intervened content_filtered insufficient_system_resource sensitive"
    " network_error repetition model_length max_output_tokens load time_limit token_limit not_finished"
)
"""Why a model stops, as OpenAI, Anthropic, Google, Cohere, Bedrock, Mistral, DeepSeek, Z.ai, watsonx, vLLM, SGLang and
llama.cpp say it. Any other word may be one of the model's own."""
_STATUS: Final = _any_of(
    "in_progress completed incomplete failed cancelled canceled cancelling queued searching interpreting generating"
    " calling pending running success succeeded error ok done expired requires_action created processing timeout"
)
_TIER: Final = _any_of(
    "auto default flex priority scale standard standard_only batch on_demand performance fast provisioned reserved free"
)
_OBJECT: Final = _any_of(
    "chat.completion chat.completion.chunk chat.completions chat.completion.chunks chat_completion text_completion"
    " text_completion.chunk text.completion text.completion.chunk completion completion.chunk response"
    " response.compaction list embedding model message error conversation moderation rerank"
)
_USAGE: Final = re.compile(
    rf"{_STATUS.pattern}|{_TIER.pattern}|message|compaction|not_available|global|[a-z]{{2}}(-[a-z]{{4,9}}-[0-9]{{1,2}})?"
)
_PADDING: Final = re.compile(r"[A-Za-z0-9+/=_-]{0,64}")
_ROLE: Final = re.compile("assistant|user|system|developer|tool|function|model|critic|discriminator|")

FORMS: Final[Mapping[str, re.Pattern[str]]] = {
    **dict.fromkeys(("id", "tool_call_id", "call_id", "item_id", "file_id", "container_id", "caller_id"), _ID),
    **dict.fromkeys(("approval_request_id", "response_id", "created_by", "request_id", "tool_use_id"), _ID),
    **dict.fromkeys(("previous_response_id", "system_fingerprint"), _ID),
    "type": _WORD,
    **dict.fromkeys(("finish_reason", "stop_reason"), _REASON),
    "status": _STATUS,
    "service_tier": _TIER,
    "object": _OBJECT,
    **dict.fromkeys(("created", "created_at", "completed_at", "expires_at", "index"), _NUMBER),
    "model": _MODEL,
    "role": _ROLE,
    "obfuscation": _PADDING,
    "signature": _OPAQUE,
}
"""The form of each structural member, by its name."""
_TIMES: Final = re.compile(r"[0-9TZ:.+-]{0,40}")


OTHER: Final = "other"
"""What a record says of a member out of its form."""
_LONGEST_KEPT: Final = 128
_NUMBERS: Final = (int, float)


def is_opaque(text: str) -> bool:
    """Say whether a text can be what a vendor encrypts: base64 in which nothing reads, as it stands or decoded.

    Any other text is judged like one, and by everybody: a word, words joined to one, the base64 or hex of a sentence.
    """
    return not text or (_OPAQUE.fullmatch(text) is not None and not _reads(text))


def _reads(text: str) -> bool:
    if len(text) < _SHORTEST_OPAQUE:
        return True
    for case in _CASES:
        letters = text.encode().translate(case)
        if _LONG_RUN in letters or letters.count(b"a") > _MOSTLY * len(text):
            return True
    parts = _SIGNS.split(text)
    if any(part[1:].islower() and part.isalpha() for part in parts if len(part) >= _LONG_WORD):
        return True
    if any(part.isdecimal() for part in parts if len(part) >= _LONG_NUMBER):
        return True
    return any(True for kind in ("base64", "hex") for _ in find_runs(kind, text))


@lru_cache(4096)
def _fits(key: str, value: str) -> bool:
    form = FORMS[key]
    return form.fullmatch(value) is not None or (form is _NUMBER and _TIMES.fullmatch(value) is not None)


def fits(key: str, value: object) -> bool:
    """Say whether a structural member has its form; numbers and null have any.

    Args:
        key: one of `FORMS`.
        value: of the member.
    """
    if isinstance(value, str):
        if key == "signature":
            return is_opaque(value)
        return _fits(key, value) if len(value) <= _LONGEST_KEPT else FORMS[key].fullmatch(value) is not None
    return value is None or isinstance(value, _NUMBERS)


def is_usage(value: object) -> bool:
    """Say whether a report of usage holds nothing but documented names, numbers and words."""
    if isinstance(value, dict):
        if not OF_USAGE.issuperset(value):  # pyright: ignore[reportUnknownArgumentType] # JSON
            return False
        for child in cast("dict[str, object]", value).values():
            if child.__class__ is not int and not is_usage(child):
                return False
        return True
    if isinstance(value, list):
        return all(is_usage(child) for child in cast("list[object]", value))
    return value is None or isinstance(value, _NUMBERS) or (isinstance(value, str) and _is_usage_word(value))


@lru_cache(256)
def _is_usage_word(value: str) -> bool:
    return _USAGE.fullmatch(value) is not None


def in_form(key: str, value: object) -> str | None:
    """Return a member as records show it: as it is if it has its form, `OTHER` for any text or shape instead."""
    return value if value is None or (isinstance(value, str) and fits(key, value)) else OTHER


def model_of(body: Mapping[str, Any]) -> str:
    """Return the model that a body asks for, "" unless that is a string in the form of a name."""
    model = body.get("model")
    return model if isinstance(model, str) and fits("model", model) else ""


def counts_of(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a report of usage under documented names; the words in it are no usage."""
    return {
        key: child if child.__class__ is int else _counted(child)  # as nearly all are
        for key, child in usage.items()
        if key in OF_USAGE and not isinstance(child, str)
    }


def _counted(value: object) -> object:
    if isinstance(value, dict):
        return counts_of(cast("dict[str, Any]", value))
    if isinstance(value, list):
        return [_counted(child) for child in cast("list[object]", value) if not isinstance(child, str)]
    return value


def is_plain(body: Mapping[str, Any]) -> bool:
    """Say whether all that stands beside the choices of a reply or frame is documented and has its form.

    It nearly always is, and this is shorter than asking `fits` and `is_usage` of the members one by one.
    """
    if not _PLAIN.issuperset(body):
        return False
    get = body.get
    try:
        if not _are_formed(
            get("id"), get("object"), get("created"), get("model"), get("system_fingerprint"), get("service_tier")
        ):
            return False
    except TypeError:  # no text and no number: it cannot be hashed
        return False
    usage = get("usage")
    if usage is not None and not is_usage(usage):
        return False
    return "obfuscation" not in body or fits("obfuscation", body["obfuscation"])


@lru_cache(256)
def _are_formed(*values: object) -> bool:
    """Say whether the members that all frames of a reply share have their forms."""
    return all(fits(key, value) for key, value in zip(_SHARED, values, strict=True))


_SHARED: Final = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
_PLAIN: Final = frozenset({*_SHARED, "choices", "usage", "obfuscation"})


def formed(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members without those that have another form than the structure of a reply: nothing unjudged."""
    return {
        key: value for key, value in members.items() if (is_usage(value) if key == "usage" else _has_form(key, value))
    }


def _has_form(key: str, value: object) -> bool:
    return key not in FORMS or fits(key, value)
