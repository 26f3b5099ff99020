"""The built-in checks behind `on_opaque: block`, `on_unseen_history: block` and `allowed_tools`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from supervisors.types import Capability, Cause, Context, Exchange, Segment, Verdict, safe, unknown, unsafe

TOOL_CATEGORY: Final = "tool_not_allowed"
_CALLED: Final = re.compile(
    r"(?:/tool_calls/\d+/(?:function|custom)|/function_call|^/(?:input|output)/\d+|/content/\d+)/name\Z"
)
"""Where a call names its tool, on every route."""
_OFFERED: Final = re.compile(r"/(?:tools|functions)/\d+(?:(?:/function|/custom)?/name|/type)\Z")
"""Where a request offers a tool: by its name, or by its type if it is one of the provider's own."""


_ENCRYPTED: Final = re.compile(r"/(?:encrypted_content|encrypted_stdout|encrypted_index|data|fingerprint)\Z")
"""Where encrypted members stand, on every route; what is no base64 there is judged as ``other`` and no better known."""


class OpaqueCheck:
    """Say `unknown/unsupported` when a segment is encrypted or compacted, `safe` otherwise (G-05)."""

    local = True
    capability: Capability = "windowed"

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Look for opaque segments; nothing else is judged."""
        if any(_is_encrypted(segment) for segment in exchange.judged):
            return unknown(Cause.UNSUPPORTED, detail="opaque")
        return safe()


def _is_encrypted(segment: Segment) -> bool:
    return segment.kind == "opaque" or (segment.kind == "other" and _ENCRYPTED.search(segment.path) is not None)


class HistoryCheck:
    """Say `unknown/unsupported`: it is asked only when the model sees older content that lives at the provider."""

    local = True
    capability: Capability = "windowed"

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge nothing: what was not sent here cannot be judged here."""
        return unknown(Cause.UNSUPPORTED, detail="unseen_history")


class ToolCheck:
    """Say `unsafe` when a tool is offered or called that is not allowed (X-18).

    Args:
        lists: of patterns; a tool must be in each of them.
    """

    local = True
    capability: Capability = "windowed"

    def __init__(self, lists: Sequence[Sequence[str]]) -> None:
        self._lists = lists

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Look at the names of tools; nothing else is judged."""
        if all(self._allows(name) for name in _tool_names(exchange.judged)):
            return safe()
        return unsafe(TOOL_CATEGORY, detail=TOOL_CATEGORY)

    def _allows(self, name: str) -> bool:
        return all(any(fnmatchcase(name, pattern) for pattern in patterns) for patterns in self._lists)


def _tool_names(segments: Sequence[Segment]) -> Iterator[str]:
    for segment in segments:
        wanted = _CALLED if segment.kind == "name" else _OFFERED if segment.kind == "tool_def" else None
        if wanted is not None and wanted.search(segment.path):
            yield segment.text
