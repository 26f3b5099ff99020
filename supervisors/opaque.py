"""Refuse to pass what cannot be read here: the checks behind `on_opaque: block` and `on_unseen_history: block`."""

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


class HistoryCheck:
    """Say `unknown/unsupported`: it is asked only when the model sees older content that lives at the provider."""

    local = True
    capability: Capability = "windowed"

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge nothing: what was not sent here cannot be judged here."""
        return unknown(Cause.UNSUPPORTED, detail="unseen_history")
