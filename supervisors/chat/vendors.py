"""Vendors that do not speak OpenAI's protocol, through litellm: the only file that imports it, on first use."""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, cast

from supervisors.errors import ChatRefused, ChatTimeout, ChatUnavailable, GuardrailError, ReplyError

_NOTHING = {"role": "user", "content": "none"}

Route = Literal["chat", "completions", "embeddings"]
_Meaning = Literal["timeout", "refused", "unavailable", "reply"]

_FIELDS = frozenset(
    [
        "audio",
        "dimensions",
        "encoding_format",
        "frequency_penalty",
        "function_call",
        "functions",
        "input",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "modalities",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "stream_options",
        "suffix",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    ]
)
"""Body members handed to litellm. A list of the allowed, because others (`api_base`, `metadata` …) steer litellm."""

MEANINGS: Mapping[str, tuple[_Meaning, str | None]] = {
    "Timeout": ("timeout", None),
    "AuthenticationError": ("refused", "authentication_error"),
    "CallerCredentialAuthenticationError": ("refused", "authentication_error"),
    "PermissionDeniedError": ("refused", "permission_error"),
    "NotFoundError": ("refused", "not_found_error"),
    "BadRequestError": ("refused", "invalid_request_error"),
    "InvalidRequestError": ("refused", "invalid_request_error"),
    "ImageFetchError": ("refused", "invalid_request_error"),
    "VectorStoreSearchError": ("refused", "invalid_request_error"),
    "MalformedRequestFieldError": ("refused", "invalid_request_error"),
    "UnsupportedEndpointError": ("refused", "unsupported_endpoint"),
    "EndpointNotSupportedByModelError": ("refused", "unsupported_endpoint"),
    "UnprocessableEntityError": ("refused", "invalid_request_error"),
    "ContextWindowExceededError": ("refused", "context_length_exceeded"),
    "PaymentRequiredError": ("refused", "payment_required"),
    "RejectedRequestError": ("refused", "content_filter"),
    "ContentPolicyViolationError": ("refused", "content_filter"),
    "UnsupportedParamsError": ("refused", "unsupported_parameter"),
    "LiteLLMUnknownProvider": ("refused", "unknown_vendor"),
    "ModelNotMappedError": ("refused", "model_not_found"),
    "BudgetExceededError": ("refused", "budget_exceeded"),
    "GuardrailRaisedException": ("refused", "content_filter"),
    "BlockedPiiEntityError": ("refused", "content_filter"),
    "ModifyResponseException": ("refused", "content_filter"),
    "SensitiveDataRouteException": ("refused", "content_filter"),
    "RateLimitError": ("unavailable", "rate_limit_exceeded"),
    "CallerCredentialRateLimitError": ("unavailable", "rate_limit_exceeded"),
    "ServiceUnavailableError": ("unavailable", None),
    "MidStreamFallbackError": ("unavailable", None),
    "BadGatewayError": ("unavailable", None),
    "InternalServerError": ("unavailable", None),
    "APIConnectionError": ("unavailable", "connect"),
    "APIError": ("unavailable", None),
    "OpenAIError": ("unavailable", None),
    "MockException": ("unavailable", None),
    "APIResponseValidationError": ("reply", "bad_shape"),
    "JSONSchemaValidationError": ("reply", "bad_shape"),
}
"""Every exception of `litellm.exceptions` by name; a test fails when a release brings one that is not here."""

_OTHERS = (ImportError, OSError, ValueError, TypeError, LookupError, AttributeError)
"""What litellm lets through from its vendors' code, for want of one base class."""


@dataclass(frozen=True, slots=True)
class VendorCall:
    """One call of a model through litellm.

    Args:
        vendor: litellm's provider word, e.g. ``anthropic``.
        model: model id of the vendor.
        route: which of OpenAI's routes the body is for.
        body: in OpenAI form; members that litellm does not need are left out.
        timeout_s: for the whole call, of a stream for its first chunk.
        url: the vendor's base URL if not the usual one.
        api_key: secret value.
        headers: sent with the request.
    """

    vendor: str
    model: str
    route: Route
    body: Mapping[str, Any]
    timeout_s: float
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


async def complete_with_vendor(call: VendorCall) -> dict[str, Any]:
    """Return the whole reply in OpenAI form.

    Raises:
        ChatError: one of its three kinds, without the vendor's words.
        ReplyError: litellm could not read the vendor's reply.
    """
    until = asyncio.get_running_loop().time() + call.timeout_s
    litellm = await _load_until(until)
    try:
        async with asyncio.timeout_at(until):
            return _to_plain(await _start(litellm, call, stream=False))
    except TimeoutError:
        raise _timeout() from None
    except _catchable(litellm) as error:
        raise translate(error) from None  # litellm's messages carry URLs and bodies


async def stream_from_vendor(call: VendorCall) -> AsyncGenerator[dict[str, Any]]:
    """Yield the chunks of a streamed reply in OpenAI form.

    Raises:
        ChatError: as `complete_with_vendor`, also in the middle.
        ReplyError: as `complete_with_vendor`.
    """
    until = asyncio.get_running_loop().time() + call.timeout_s
    litellm = await _load_until(until)
    try:
        async with asyncio.timeout_at(until):
            chunks = await _start(litellm, call, stream=True)
        async with aclosing(chunks):  # so that a caller who leaves closes the vendor's connection
            async for chunk in chunks:
                yield _to_plain_chunk(_to_plain(chunk))
    except TimeoutError:
        raise _timeout() from None
    except _catchable(litellm) as error:
        raise translate(error) from None


def translate(error: Exception) -> GuardrailError:
    """Turn an error of litellm into one of ours by the most specific class name in `MEANINGS`."""
    names = [kind.__name__ for kind in type(error).__mro__]
    meaning, code = next((MEANINGS[name] for name in names if name in MEANINGS), ("unavailable", "vendor"))
    if isinstance(error, ImportError):
        code = "vendor_package_missing"
    raw: object = getattr(error, "status_code", None)
    status = raw if isinstance(raw, int) else None
    if meaning == "unavailable" and status is not None and 400 <= status < 500 and status not in (408, 429):
        meaning = "refused"  # litellm has no class for some statuses and raises the general one
    match meaning:
        case "timeout":
            return _timeout()
        case "refused":
            return ChatRefused("the vendor refused the request", status=status, code=code)
        case "reply":
            return ReplyError("the vendor's reply could not be read", detail=code or "bad_shape")
        case "unavailable":
            return ChatUnavailable("the vendor could not be used", status=status, code=code)


def _timeout() -> ChatTimeout:
    return ChatTimeout("the vendor did not answer within the deadline", code="timeout")


async def _load_until(until: float) -> Any:
    if load_litellm.cache_info().currsize:
        return load_litellm()
    try:
        async with asyncio.timeout_at(until):
            return await asyncio.to_thread(load_litellm)  # seconds of imports must not hold the loop
    except TimeoutError:
        raise _timeout() from None


@cache
def load_litellm() -> Any:
    """Import litellm, quietly. Call it in a thread at start-up where a vendor is configured; otherwise on first use."""
    # Read by litellm while it is imported; without it the import fetches a price list from the network.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # noqa: TID251 - written, not read; see above
    import litellm  # noqa: PLC0415 - on first use: it costs seconds and about 200 MB

    warnings.filterwarnings("ignore", message=".*`ReadOnly` qualifier", category=UserWarning)  # a page of its imports
    module: Any = litellm
    module.suppress_debug_info = True  # otherwise it prints to stdout
    module.turn_off_message_logging = True
    module.telemetry = False
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # its lines quote bodies, which never go to a log
    # A call that goes nowhere pulls in what litellm imports late: 0.3 s that would otherwise hold the loop.
    module.completion(model="openai/none", api_key="none", messages=[_NOTHING], mock_response="none", num_retries=0)
    return module


def _catchable(litellm: Any) -> tuple[type[Exception], ...]:
    found = [getattr(litellm.exceptions, name, None) for name in MEANINGS]
    return (*[kind for kind in found if kind is not None], *_OTHERS)


async def _start(litellm: Any, call: VendorCall, *, stream: bool) -> Any:
    start = {"chat": litellm.acompletion, "completions": litellm.atext_completion, "embeddings": litellm.aembedding}
    fields: dict[str, Any] = {name: value for name, value in call.body.items() if name in _FIELDS}
    if stream:
        fields["stream"] = True
    options = {"api_key": call.api_key, "api_base": call.url, "timeout": call.timeout_s}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if call.headers:
        given["extra_headers"] = dict(call.headers)
    model = f"{call.vendor}/{call.model}"
    return await start[call.route](model=model, max_retries=0, num_retries=0, drop_params=True, **given, **fields)


def _to_plain(reply: Any) -> dict[str, Any]:
    plain: dict[str, Any] = reply.model_dump(mode="json")
    hidden: object = getattr(reply, "_hidden_params", None)
    cost: object = cast("dict[str, object]", hidden).get("response_cost") if isinstance(hidden, dict) else None
    usage: object = plain.get("usage")
    if isinstance(usage, dict) and isinstance(cost, (int, float)):
        usage["cost"] = cost
    return plain


def _to_plain_chunk(chunk: dict[str, Any]) -> dict[str, Any]:
    """Leave out the null members that litellm adds to every delta."""
    if chunk.get("usage") is None:
        chunk.pop("usage", None)
    choices: list[dict[str, Any]] = chunk.get("choices") or []
    for choice in choices:
        choice.setdefault("finish_reason", None)
        delta: dict[str, Any] = choice.get("delta") or {}
        choice["delta"] = {name: value for name, value in delta.items() if value is not None}
    return chunk
