"""The embedded guard as a supervisor: two linear heads over hashed n-grams, in the package, no dependency.

It is a topical detector: texts about harmful subjects score high whatever the intent. English, prompts only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from supervisors.embedded.calibrate import parse_budget, prior_shift, read_thresholds
from supervisors.embedded.decode import VARIANTS, VariantName, read_hidden
from supervisors.embedded.features import MAX_WINDOWS, count_windows, norm_text
from supervisors.embedded.model import HeadName, Weights, calibrate_score, score_normalised
from supervisors.embedded.shipped import shipped_weights
from supervisors.embedded.views import has_unreadable, iterate_views, split_sentences
from supervisors.errors import ConfigError
from supervisors.foreign import OnLanguage, mind_language
from supervisors.offload import Offload, Stop
from supervisors.scopes import rank
from supervisors.types import Capability, Cause, Context, Exchange, Scope, Stage, Verdict, safe, unknown, unsafe
from supervisors.variants import Usage

EXCHANGE_FACTOR = 16
"""How many texts of the greatest length one exchange may have."""
EXCHANGE_WINDOWS = 4_096
"""Windows of one exchange at most: about five seconds of CPU."""
LOOP_CHARS = 2_000
"""Up to here an exchange costs about a millisecond and is judged on the loop, above it in a thread."""

_LANGUAGES = ("en",)
DEFAULT_BUDGETS: Mapping[HeadName, str] = {"harm": "0.05", "injection": "0.01"}
CATEGORIES: Mapping[HeadName, str] = {"harm": "other", "injection": "jailbreak"}


def _to_budget(value: object) -> object:
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


Budget = Annotated[str, BeforeValidator(_to_budget)]


@dataclass(slots=True)
class _Findings:
    """What the texts of one exchange have led to so far, and whether somebody waits for it."""

    stop: Stop
    logits: dict[HeadName, float] = field(default_factory=dict[HeadName, float])
    flagged: set[HeadName] = field(default_factory=set[HeadName])
    doubtful: bool = False
    margin: float = 0.0
    scope: Scope | None = None
    transform: str | None = None
    windows: int = 0
    over_limit: bool = False
    usage: Usage = field(default_factory=Usage)


class EmbeddedGuard(BaseModel):
    """Judge prompts with the embedded weights.

    Args:
        heads: which heads speak: ``harm`` (plainly harmful request), ``injection`` (jailbreak wrapping).
        budget: false-positive budget on the calibration set, one for all heads or one a head. Shipped: 0.05, 0.02,
            0.01, 0.002; a thresholds file may hold others. Default harm 0.05, injection 0.01.
        abstain: looser budget, one for all heads or one a head: what it flags and `budget` does not is
            ``unknown/abstained``, so that a cascade asks its next step. None never abstains.
        thresholds: file made by ``guardrail-proxy guard calibrate``, instead of the shipped thresholds.
        prior: expected share of harmful prompts in the traffic; shifts the score, never the label.
        scopes: scopes that are judged, each on its own.
        variants: decoded forms that are judged as further texts.
        on_language: what becomes of text clearly in another language than English: ``judge`` judges it like any other,
            ``abstain`` makes it ``unknown/abstained``. Only the second looks, so that the first costs nothing.
        granularity: ``sentence`` judges every sentence too: finds one harmful sentence in a long text, where it is
            diluted otherwise, and raises false alarms with every sentence of a harmless one.
        max_windows: windows of 2,000 characters a text may have; of a longer one the verdict is
            ``unknown/over_limit``. Every window is one more chance of a false alarm, and costs a millisecond or two.
            An exchange may have 16 texts of this length, and 4,096 windows at most.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    local: ClassVar[bool] = True
    stages: ClassVar[frozenset[Stage]] = frozenset({"input"})
    capability: ClassVar[Capability] = "final"

    heads: tuple[HeadName, ...] = Field(default=("harm", "injection"), min_length=1)
    budget: Budget | dict[HeadName, Budget] | None = None
    abstain: Budget | dict[HeadName, Budget] | None = None
    thresholds: Path | None = None
    prior: float | None = Field(default=None, gt=0, lt=1)
    scopes: frozenset[Scope] = Field(default=frozenset[Scope]({"conversation"}), min_length=1)
    variants: frozenset[VariantName] = VARIANTS
    granularity: Literal["segment", "sentence"] = "segment"
    on_language: OnLanguage = "judge"
    max_windows: int = Field(default=MAX_WINDOWS, ge=1, le=MAX_WINDOWS)

    _weights: Weights = PrivateAttr()
    _limits: dict[HeadName, float] = PrivateAttr()
    _doubts: dict[HeadName, float] = PrivateAttr()
    _shifts: dict[HeadName, float] = PrivateAttr()

    @model_validator(mode="after")
    def _load(self) -> Self:
        try:
            self._weights = shipped_weights()
            self._limits = {head: self._find_limit(head, self.budget) for head in self.heads}
            self._doubts = self._find_doubts()
        except ConfigError as error:
            raise ValueError(str(error)) from error
        self._shifts = {head: self._find_shift(head) for head in self.heads}
        return self

    @cached_property
    def _offload(self) -> Offload:
        return Offload()

    def _find_doubts(self) -> dict[HeadName, float]:
        """Return the logits above which a head abstains."""
        if self.abstain is None:
            return {}
        doubts: dict[HeadName, float] = {}
        for head in self.heads:
            if not isinstance(self.abstain, dict) or head in self.abstain:
                doubts[head] = self._find_limit(head, self.abstain)
        for head, z in doubts.items():
            if z >= self._limits[head]:
                msg = f"abstain of head {head} must be a larger budget than its budget, so that something lies between"
                raise ConfigError(msg)
        return doubts

    def _find_limit(self, head: HeadName, chosen: str | dict[HeadName, str] | None) -> float:
        budget = chosen.get(head) if isinstance(chosen, dict) else chosen
        wanted = parse_budget(budget or DEFAULT_BUDGETS[head])
        known = self._known_thresholds().get(head, {})
        for text, z in known.items():
            if Fraction(text) == wanted:
                return z
        msg = f"head {head} has no threshold for budget {budget or DEFAULT_BUDGETS[head]}; it has {', '.join(known)}"
        raise ConfigError(msg)

    def _known_thresholds(self) -> Mapping[HeadName, Mapping[str, float]]:
        header = self._weights.header
        if self.thresholds is None:
            return {head: info.thresholds for head, info in header.heads.items()}
        own = read_thresholds(self.thresholds)
        if own.weights_sha256 != header.weights_sha256:
            msg = f"{self.thresholds} was calibrated with other weights; run 'guardrail-proxy guard calibrate' again"
            raise ConfigError(msg)
        return own.thresholds

    def _find_shift(self, head: HeadName) -> float:
        info = self._weights.header.heads[head]
        share = info.positives / (info.positives + info.negatives)
        return 0.0 if self.prior is None else prior_shift(self.prior, share)

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every text of the request; the highest logit a head counts."""
        if self.on_language == "judge":
            return await self._assess(exchange)
        return await mind_language("abstain", _LANGUAGES, exchange, partial(self._assess, exchange))

    async def _assess(self, exchange: Exchange) -> Verdict:
        if exchange.stage not in self.stages:
            return unknown(Cause.UNSUPPORTED, detail="prompt_only")
        if exchange.chars <= LOOP_CHARS:
            return self.judge(exchange)
        return await self._offload.run_pieces(exchange.chars, partial(self.judge, exchange))

    def judge(self, exchange: Exchange, stop: Stop | None = None) -> Verdict:
        """Judge in the calling thread, as long as somebody waits; pure."""
        found = _Findings(stop or Stop())
        seen: set[str] = set()
        for view in iterate_views(exchange.judged, self.scopes):
            for transform, text in self._with_hidden(view.text, found):
                normalised = norm_text(text)
                if normalised and normalised not in seen:
                    seen.add(normalised)
                    self._score(normalised, view.scope, transform, found, bounded=not view.joined)
        return self._conclude(found, unsupported=has_unreadable(exchange.judged, self.scopes))

    def _with_hidden(self, text: str, found: _Findings) -> Iterable[tuple[str | None, str]]:
        yield None, text
        readings = read_hidden(text, self.variants, found.usage)
        found.usage = readings.usage
        found.over_limit |= readings.over_limit
        for reading in readings.found:
            yield reading.transform, reading.text
        if self.granularity == "sentence":
            for sentence in split_sentences(text):
                yield None, sentence

    def _score(self, normalised: str, scope: Scope, transform: str | None, found: _Findings, *, bounded: bool) -> None:
        windows = count_windows(len(normalised))
        most = min(EXCHANGE_FACTOR * self.max_windows, EXCHANGE_WINDOWS)
        if (bounded and windows > self.max_windows) or found.windows + windows > most:
            found.over_limit = True
            return
        found.windows += windows
        logits = score_normalised(self._weights, normalised, found.stop.check)
        for head in self.heads:
            z = logits[head]
            found.logits[head] = max(z, found.logits.get(head, z))
            margin = z - self._limits[head]
            found.doubtful = found.doubtful or z > self._doubts.get(head, z)
            if margin > 0:
                found.flagged.add(head)
                if (rank(scope), -margin) < (rank(found.scope), -found.margin) or found.scope is None:
                    found.margin, found.scope, found.transform = margin, scope, transform

    def _conclude(self, found: _Findings, *, unsupported: bool) -> Verdict:
        score = max(self._to_scores(found.logits).values(), default=None)
        if found.flagged:
            categories = [CATEGORIES[head] for head in self.heads if head in found.flagged]
            rest = Cause.OVER_LIMIT if found.over_limit else Cause.UNSUPPORTED if unsupported else None
            verdict = unsafe(*categories, score=score, transform=found.transform)
            verdict = replace(verdict, scope=found.scope, rest=rest)
        elif found.over_limit:
            verdict = unknown(Cause.OVER_LIMIT, detail="windows")
        elif unsupported:
            verdict = unknown(Cause.UNSUPPORTED, detail="media")
        elif not found.logits:
            return safe(detail="empty")
        elif found.doubtful:
            verdict = replace(unknown(Cause.ABSTAINED, detail="band"), score=score)
        else:
            verdict = safe(score=score)
        scores = {CATEGORIES[head]: score for head, score in self._to_scores(found.logits).items()}
        return replace(verdict, extras={"logits": dict(found.logits), "scores": scores})

    def _to_scores(self, logits: Mapping[HeadName, float]) -> Mapping[HeadName, float]:
        heads = self._weights.header.heads
        return {head: calibrate_score(heads[head], z, self._shifts[head]) for head, z in logits.items()}
