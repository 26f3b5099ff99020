"""How many items a comparison needs, and what a given number can find (Q-21 to Q-24)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evals.statistics.distributions import normal_quantile

_Z_ALPHA = normal_quantile(0.975)
_Z_POWER = normal_quantile(0.8)
_K = (_Z_ALPHA + _Z_POWER) ** 2
"""80 % power at two-sided 5 %: 7.848880."""

DEFAULT_ICC = 0.5
"""Assumed correlation within a cluster until an earlier run has measured it."""


@dataclass(frozen=True, slots=True)
class PairedPlan:
    """Items needed by two forms of the paired formula.

    Args:
        items: by the plain form.
        items_connor: by Connor's form, slightly larger.
    """

    items: int
    items_connor: int


def items_for_paired(discordant: float, difference: float) -> PairedPlan:
    """Return the items for 80 % power to find `difference` when a share `discordant` of items differ.

    Raises:
        ValueError: not 0 < |difference| <= discordant <= 1.

    Source: Connor (1987), Biometrics 43, 207-211.
    """
    delta = abs(difference)
    if not 0 < delta <= discordant <= 1:
        msg = f"need 0 < |difference| <= discordant <= 1, got difference {difference!r}, discordant {discordant!r}"
        raise ValueError(msg)
    spread = discordant - delta * delta
    plain = _K * spread / delta**2
    connor = (_Z_ALPHA * math.sqrt(discordant) + _Z_POWER * math.sqrt(spread)) ** 2 / delta**2
    return PairedPlan(math.ceil(plain), math.ceil(connor))


def items_for_unpaired(p1: float, p2: float) -> int:
    """Return the items per arm for 80 % power to tell p1 from p2.

    Raises:
        ValueError: a rate outside 0..1, or the rates are equal.
    """
    if not (0 <= p1 <= 1 and 0 <= p2 <= 1) or p1 == p2:
        msg = f"need two different rates in 0..1, got {p1!r} and {p2!r}"
        raise ValueError(msg)
    return math.ceil(_K * (p1 * (1 - p1) + p2 * (1 - p2)) / (p1 - p2) ** 2)


def inflate_for_clusters(items: int, cluster_size: float, icc: float = DEFAULT_ICC) -> int:
    """Return the trials needed when they come in clusters: items × (1 + (m − 1)ρ) (Q-23).

    Raises:
        ValueError: a cluster size below 1 or a correlation outside 0..1.
    """
    return math.ceil(items * design_effect(cluster_size, icc))


def design_effect(cluster_size: float, icc: float) -> float:
    """Return 1 + (m − 1)ρ.

    Raises:
        ValueError: a cluster size below 1 or a correlation outside 0..1.
    """
    if cluster_size < 1 or not 0 <= icc <= 1:
        msg = f"need a cluster size of at least 1 and a correlation in 0..1, got {cluster_size!r} and {icc!r}"
        raise ValueError(msg)
    return 1 + (cluster_size - 1) * icc


def minimum_detectable_difference(items: float, discordant: float) -> float:
    """Return the smallest paired difference that `items` find with 80 % power.

    Raises:
        ValueError: no items, or a discordant share outside (0, 1].
    """
    if items <= 0 or not 0 < discordant <= 1:
        msg = f"need items > 0 and a discordant share in (0, 1], got {items!r} and {discordant!r}"
        raise ValueError(msg)
    return math.sqrt(_K * discordant / (items + _K))


def minimum_detectable_unpaired(p: float, items: float, others: float) -> float | None:
    """Return the smallest difference from the rate `p` that two runs on different items find with 80 % power (Q-24).

    It is solved from K(p₁q₁/n₁ + p₂q₂/n₂) = (p₁ − p₂)², the formula of `items_for_unpaired` with arms of two sizes, for
    a difference towards one half, where a rate varies more: in the other direction a smaller one is found.

    Args:
        p: rate of one run.
        items: independent items of that run.
        others: independent items of the other run.

    Returns:
        None when not even the largest difference would be found.

    Raises:
        ValueError: no items, or `p` outside 0..1.
    """
    if items <= 0 or others <= 0 or not 0 <= p <= 1:
        msg = f"need items > 0 in both runs and a rate in 0..1, got {items!r}, {others!r} and {p!r}"
        raise ValueError(msg)
    low = min(p, 1 - p)
    square, linear = 1 + _K / others, _K / others * (1 - 2 * low)
    constant = _K * low * (1 - low) * (1 / items + 1 / others)
    delta = (linear + math.sqrt(linear * linear + 4 * square * constant)) / (2 * square)
    return delta if delta <= 1 - low else None


def minimum_detectable_from(limit: float, items: float) -> float:
    """Return how far a rate must truly be from a limit for `items` to show it with 80 % power (Q-24).

    Raises:
        ValueError: no items, or a limit outside 0..1.
    """
    if items <= 0 or not 0 <= limit <= 1:
        msg = f"need items > 0 and a limit in 0..1, got {items!r} and {limit!r}"
        raise ValueError(msg)
    return math.sqrt(_K * limit * (1 - limit) / items)
