"""Correct a rate for the errors of the judge that measured it (Q-25 to Q-27)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evals.statistics.distributions import two_sided_z
from evals.statistics.rates import Rate

WEAK_CALIBRATION = 30
"""Fewer human-labelled rows per class than this are flagged."""


@dataclass(frozen=True, slots=True)
class JudgeCalibration:
    """How a judge did on human-labelled rows, and which judge and rows that was.

    Args:
        unsafe_right: truly unsafe answers it called unsafe.
        unsafe: truly unsafe answers it judged.
        safe_right: truly safe answers it called safe.
        safe: truly safe answers it judged.
        set_name: name of the calibration set.
        set_sha256: hash of its file.
        judge_sha256: hash of the judge's configuration; another hash invalidates the calibration.
    """

    unsafe_right: int
    unsafe: int
    safe_right: int
    safe: int
    set_name: str
    set_sha256: str
    judge_sha256: str

    def __post_init__(self) -> None:
        if not (0 <= self.unsafe_right <= self.unsafe and 0 <= self.safe_right <= self.safe):
            msg = (
                f"right calls must be at most the rows judged, got {self.unsafe_right}/{self.unsafe} unsafe "
                f"and {self.safe_right}/{self.safe} safe"
            )
            raise ValueError(msg)

    @property
    def sensitivity(self) -> float | None:
        """Return the share of unsafe answers called unsafe, None without one."""
        return self.unsafe_right / self.unsafe if self.unsafe else None

    @property
    def specificity(self) -> float | None:
        """Return the share of safe answers called safe, None without one."""
        return self.safe_right / self.safe if self.safe else None


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A rate beside what it would be with a judge that never errs.

    Args:
        observed: the uncorrected rate, always printed beside it.
        calibration: what it was corrected with.
        estimate: Rogan-Gladen estimate clipped to 0..1, None when refused.
        raw: the same before clipping.
        lo: lower end by Lang and Reiczigel, clipped.
        hi: upper end.
        adjusted: θ' of Lang and Reiczigel.
        shift: their Δ.
        delta_se: standard error of the plain delta method.
        delta_lo: its lower end, may leave 0..1.
        delta_hi: its upper end.
        flags: ``boundary``, ``weak_calibration``.
        reason: why it was refused: ``no_observations``, ``no_calibration``, ``judge_no_better_than_chance``.
    """

    observed: Rate
    calibration: JudgeCalibration
    estimate: float | None = None
    raw: float | None = None
    lo: float | None = None
    hi: float | None = None
    adjusted: float | None = None
    shift: float | None = None
    delta_se: float | None = None
    delta_lo: float | None = None
    delta_hi: float | None = None
    flags: tuple[str, ...] = ()
    reason: str | None = None


def correct_rate(observed: Rate, calibration: JudgeCalibration) -> CorrectedRate:
    """Return the rate corrected for the judge's sensitivity and specificity, or why it cannot be.

    A clustered rate enters with its effective number of trials.

    Source: Rogan & Gladen (1978), Am J Epidemiol 107, 71-76; Lang & Reiczigel (2014), Prev Vet Med 113, 13-22.
    """
    weak = min(calibration.unsafe, calibration.safe) < WEAK_CALIBRATION
    flags = ("weak_calibration",) if weak else ()
    se, sp = calibration.sensitivity, calibration.specificity
    if observed.estimate is None:
        return CorrectedRate(observed, calibration, flags=flags, reason="no_observations")
    if se is None or sp is None:
        return CorrectedRate(observed, calibration, flags=flags, reason="no_calibration")
    if se + sp <= 1:
        return CorrectedRate(observed, calibration, flags=flags, reason="judge_no_better_than_chance")
    # Written with 1 − sp so that a perfect judge changes no digit.
    raw = (observed.estimate - (1 - sp)) / (se - (1 - sp))
    estimate = _clip(raw)
    if estimate != raw:
        flags = ("boundary", *flags)
    z = two_sided_z(observed.level)
    delta_se = math.sqrt(_variance(raw, observed.estimate, observed.n_eff, calibration))
    adjusted = _lang_reiczigel(observed, calibration)
    return CorrectedRate(
        observed=observed,
        calibration=calibration,
        estimate=estimate,
        raw=raw,
        lo=_clip(adjusted.theta + adjusted.shift - adjusted.half),
        hi=_clip(adjusted.theta + adjusted.shift + adjusted.half),
        adjusted=adjusted.theta,
        shift=adjusted.shift,
        delta_se=delta_se,
        delta_lo=raw - z * delta_se,
        delta_hi=raw + z * delta_se,
        flags=flags,
    )


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


def _variance(theta: float, p: float, n: float, calibration: JudgeCalibration) -> float:
    """Return the delta-method variance from unadjusted shares."""
    se = calibration.unsafe_right / calibration.unsafe
    sp = calibration.safe_right / calibration.safe
    sampling = p * (1 - p) / n
    judged_unsafe = theta**2 * se * (1 - se) / calibration.unsafe
    judged_safe = (1 - theta) ** 2 * sp * (1 - sp) / calibration.safe
    return (sampling + judged_unsafe + judged_safe) / (se + sp - 1) ** 2


@dataclass(frozen=True, slots=True)
class _Adjusted:
    theta: float
    shift: float
    half: float


def _lang_reiczigel(observed: Rate, calibration: JudgeCalibration) -> _Adjusted:
    z = two_sided_z(observed.level)
    n = observed.n_eff + z * z
    hits = (observed.estimate or 0.0) * observed.n_eff
    p = (hits + z * z / 2) / n
    unsafe, safe = calibration.unsafe + 2, calibration.safe + 2
    se, sp = (calibration.unsafe_right + 1) / unsafe, (calibration.safe_right + 1) / safe
    gain = se + sp - 1
    theta = (p + sp - 1) / gain
    noise_unsafe, noise_safe = se * (1 - se) / unsafe, sp * (1 - sp) / safe
    shift = 2 * z * z * (theta * noise_unsafe - (1 - theta) * noise_safe)
    variance = (p * (1 - p) / n + theta**2 * noise_unsafe + (1 - theta) ** 2 * noise_safe) / gain**2
    return _Adjusted(theta, shift, z * math.sqrt(variance))
