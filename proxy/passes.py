"""Verdicts of several passes over one growing text, folded into one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from supervisors.types import Cause, Verdict


def shift_spans(verdict: Verdict, offsets: Mapping[str, int]) -> Verdict:
    """Move spans from offsets in the judged window to offsets in the whole field."""
    if not verdict.spans or not any(offsets.values()):
        return verdict
    moved = [
        replace(span, start=span.start + offsets.get(span.path, 0), end=span.end + offsets.get(span.path, 0))
        for span in verdict.spans
    ]
    return replace(verdict, spans=tuple(moved))


_STRENGTH: Final = {"safe": 1, "unknown": 2, "unsafe": 3}


def join_passes(before: Verdict | None, now: Verdict) -> Verdict:
    """Combine the verdicts of two passes: unsafe over unknown over safe; skipped adds nothing."""
    if before is None or before.cause is Cause.SKIPPED:
        return now
    if now.cause is Cause.SKIPPED:
        return before
    worse = now if _STRENGTH[now.label] > _STRENGTH[before.label] else before
    if now.label == before.label == "unsafe":
        scores = [score for score in (before.score, now.score) if score is not None]
        return replace(
            worse,
            spans=tuple(dict.fromkeys((*before.spans, *now.spans))),
            categories=tuple(dict.fromkeys((*before.categories, *now.categories))),
            score=max(scores, default=None),
        )
    return worse if worse.label != "safe" or now.score is None else now
