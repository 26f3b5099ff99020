"""Refuse to pass what nobody can read: the supervisor behind `on_opaque: block`."""

from __future__ import annotations

from supervisors.types import Capability, Cause, Context, Exchange, Verdict, safe, unknown


class OpaqueCheck:
    """Say `unknown/unsupported` when a segment is encrypted or compacted, `safe` otherwise (G-05)."""

    local = True
    capability: Capability = "windowed"

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Look for opaque segments; nothing else is judged."""
        if any(segment.kind == "opaque" for segment in exchange.judged):
            return unknown(Cause.UNSUPPORTED, detail="opaque")
        return safe()
