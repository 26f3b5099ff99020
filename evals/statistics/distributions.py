"""Quantiles and tails of the distributions the intervals need, without scipy."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_STANDARD = NormalDist()
_TINY = 1e-300
_TERMS = 100_000


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return _STANDARD.inv_cdf(probability)


def two_sided_z(level: float) -> float:
    """Return the z of a two-sided interval at `level` (1.959964 at .95).

    Raises:
        ValueError: `level` is not strictly between 0 and 1.
    """
    check_level(level)
    return _STANDARD.inv_cdf(0.5 + level / 2)


def check_level(level: float) -> None:
    """Refuse a confidence level outside (0, 1).

    Raises:
        ValueError: with the value and what would be right.
    """
    if not 0.0 < level < 1.0:
        msg = f"confidence level {level!r} is not strictly between 0 and 1, e.g. 0.95"
        raise ValueError(msg)


def _guard(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Evaluate the continued fraction of the incomplete beta function (modified Lentz)."""
    c = 1.0
    d = 1.0 / _guard(1.0 - (a + b) * x / (a + 1.0))
    h = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / _guard(1.0 + even * d)
        c = _guard(1.0 + even / c)
        h *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1.0 / _guard(1.0 + odd * d)
        c = _guard(1.0 + odd / c)
        step = d * c
        h *= step
        if abs(step - 1.0) < 1e-16:
            break
    return h


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b) for a, b > 0 and x in 0..1."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    front = math.exp(log_front)
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(a, b, x) / a
    return 1.0 - front * _beta_fraction(b, a, 1.0 - x) / b


@lru_cache(maxsize=4096)
def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return x with I_x(a, b) = `probability`, by bisection down to neighbouring floats."""
    lo, hi = 0.0, 1.0
    while True:
        mid = (lo + hi) / 2
        if not lo < mid < hi or hi - lo < 1e-17:
            return mid
        if incomplete_beta(a, b, mid) < probability:
            lo = mid
        else:
            hi = mid


def t_quantile(probability: float, df: int) -> float:
    """Return the quantile of Student's t distribution for `probability` in (.5, 1).

    Raises:
        ValueError: `df` is below 1 or the probability is outside (.5, 1).
    """
    if df < 1 or not 0.5 < probability < 1.0:
        msg = f"t quantile needs df >= 1 and a probability in (.5, 1), got df {df!r}, probability {probability!r}"
        raise ValueError(msg)
    x = beta_quantile(2 * (1 - probability), df / 2, 0.5)
    return math.sqrt(df * (1 - x) / x)


def binomial_probabilities(n: int, p: float) -> tuple[float, ...]:
    """Return P(X = 0), …, P(X = n) for X binomial(n, p)."""
    if p in (0.0, 1.0):
        certain = 0 if p == 0.0 else n
        return tuple([1.0 if k == certain else 0.0 for k in range(n + 1)])
    log_p, log_q = math.log(p), math.log1p(-p)
    log_n = math.lgamma(n + 1)
    logs = [log_n - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * log_p + (n - k) * log_q for k in range(n + 1)]
    return tuple([math.exp(value) for value in logs])
