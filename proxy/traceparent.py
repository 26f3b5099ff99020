"""W3C trace context: which trace an exchange belongs to, and the ids of its spans. Pure.

The ids follow from the record's id, so that the span of an upstream call has the id that was sent with it although
spans are only made once the exchange has ended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

HEADER: Final = "traceparent"
_CAME: Final = ":traceparent"
"""Where the caller's own value stands beside ours; no header can have this name."""
UPSTREAM: Final = "upstream"
"""Name of the span of the call of the model server."""
_FORM: Final = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


@dataclass(frozen=True, slots=True)
class Trace:
    """Where an exchange stands in a trace.

    Args:
        trace_id: not zero.
        parent_id: span of the caller, None when the trace begins here.
        sampled: its spans are exported.
    """

    trace_id: int
    parent_id: int | None
    sampled: bool


def read_trace(headers: Sequence[tuple[str, str]], record_id: str, sample: float) -> Trace:
    """Return the caller's trace, or one that begins here.

    Args:
        headers: of the caller, lower-case names.
        record_id: of the exchange.
        sample: share of the traces that begin here which is exported, 0 to 1; the caller decides about its own.
    """
    given = {name: value for name, value in headers if name in (_CAME, HEADER)}
    found = _FORM.fullmatch(given.get(_CAME, given.get(HEADER, "")).strip())
    if found is not None and (found[1] != "00" or found[5] is None):
        trace_id, parent_id = int(found[2], 16), int(found[3], 16)
        if trace_id and parent_id:
            return Trace(trace_id, parent_id, bool(int(found[4], 16) & 1))
    digest = sha256(record_id.encode()).digest()
    trace_id = int.from_bytes(digest[:16]) or 1
    return Trace(trace_id, None, int.from_bytes(digest[8:16]) < sample * 2**64)


def span_id(record_id: str, name: str) -> int:
    """Return the id of a span of an exchange, not zero."""
    return int.from_bytes(sha256(f"{record_id}/{name}".encode()).digest()[:8]) or 1


@dataclass(frozen=True, slots=True)
class Propagation:
    """Which upstreams are told the trace (O-22).

    Args:
        upstreams: configured names.
        sample: as in `read_trace`.
    """

    upstreams: frozenset[str] = frozenset()
    sample: float = 1.0

    def pass_on(self, headers: Sequence[tuple[str, str]], record_id: str, upstream: str) -> tuple[tuple[str, str], ...]:
        """Return the headers of a caller with the span of the upstream call as the parent of what is below it."""
        if upstream not in self.upstreams:
            return tuple(headers)
        trace = read_trace(headers, record_id, self.sample)
        value = f"00-{trace.trace_id:032x}-{span_id(record_id, UPSTREAM):016x}-{int(trace.sampled):02x}"
        came = next((given for name, given in headers if name == HEADER), "")
        return (*[pair for pair in headers if pair[0] != HEADER], (_CAME, came), (HEADER, value))
