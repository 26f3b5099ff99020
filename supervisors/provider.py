"""The filters of the model's own provider as a supervisor: `use: provider`. It makes no call (guards §9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict

from supervisors.signals import Signal, SignalSource
from supervisors.taxonomy import load_taxonomies
from supervisors.types import (
    Capability,
    Cause,
    Context,
    Exchange,
    Label,
    Stage,
    Verdict,
    unknown,
)

_TABLES: Final[dict[SignalSource, str]] = {
    "azure": "azure-openai",
    "openai": "openai",
    "gemini": "gemini",
    "bedrock": "bedrock",
    "anthropic": "own",
}


class Provider(BaseModel):
    """Read what the upstream's reply says of the provider's filters, about the prompt and about this choice.

    Args:
        detected: what a finding means that the provider let pass.
        refusal_is: what a refusal of the model means; ``none`` keeps it as a fact.
        always_reports: the provider reports its filters with every reply, so that a report without a finding is safe;
            without it, and without a report, the verdict is unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    capability: ClassVar[Capability] = "final"
    local: ClassVar[bool] = True
    stages: ClassVar[frozenset[Stage]] = frozenset({"output"})
    reads_signals: ClassVar[bool] = True

    use: Literal["provider"] = "provider"
    detected: Literal["unsafe", "safe"] = "unsafe"
    refusal_is: Literal["none", "unsafe"] = "none"
    always_reports: bool = False

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge by the signals alone."""
        if exchange.stage != "output":
            return unknown(Cause.UNSUPPORTED, detail="stage")
        own = [signal for signal in exchange.signals if signal.choice in (None, exchange.choice)]
        return self.judge(own)

    def judge(self, signals: Sequence[Signal]) -> Verdict:
        """Return the verdict on one choice and the prompt before it."""
        bad = ["filtered", *(["detected"] if self.detected == "unsafe" else [])]
        bad += ["refused"] if self.refusal_is == "unsafe" else []
        hits = [signal for signal in signals if signal.effect in bad]
        scores = [signal.score for signal in signals if signal.score is not None]
        extras: dict[str, object] = {"score_kind": "severity" if scores else "label"}
        if any(signal.effect == "refused" for signal in signals):
            extras["refusal"] = True
        if hits:
            extras |= {
                "raw_categories": list(dict.fromkeys(hit.name for hit in hits)),
                "sides": list(dict.fromkeys(hit.side for hit in hits)),
                "sources": list(dict.fromkeys(hit.source for hit in hits)),
            }
            risks = [hit.score for hit in hits if hit.score is not None]
            score = max(risks) if len(risks) == len(hits) else 1.0
            return Verdict(Label.UNSAFE, score=score, categories=_categories(hits), extras=extras)
        if any(signal.effect == "failed" for signal in signals):
            return unknown(Cause.ERROR, detail="filter_failed")
        sides = {signal.side for signal in signals if signal.effect in ("none", "detected")}
        if not (self.always_reports and sides == {"prompt", "response"}):
            return unknown(Cause.UNSUPPORTED, detail="no_signal")
        return Verdict(Label.SAFE, score=max(scores, default=0.0), extras=extras)


def _categories(hits: Sequence[Signal]) -> tuple[str, ...]:
    tables = load_taxonomies()
    found = [
        name for hit in hits if hit.effect != "refused" for name in tables[_TABLES[hit.source]].to_canonical([hit.name])
    ]
    named = [name for name in found if name != "other"]
    return tuple(dict.fromkeys(named or found))
