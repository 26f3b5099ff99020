"""Adjust p values of a family of comparisons (Q-19)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

Adjustment = Literal["holm", "benjamini_hochberg"]


@dataclass(frozen=True, slots=True)
class AdjustedP:
    """A raw p value and its adjusted one."""

    raw: float
    adjusted: float


@dataclass(frozen=True, slots=True)
class Family:
    """All comparisons of one question, adjusted together; `size` is printed with them."""

    method: Adjustment
    size: int
    members: Mapping[str, AdjustedP]


def _check(p_values: Sequence[float]) -> None:
    for p in p_values:
        if not 0.0 <= p <= 1.0:
            msg = f"p value {p!r} is outside 0..1"
            raise ValueError(msg)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's adjusted p values in the given order.

    Source: Holm (1979), Scand J Statist 6, 65-70.
    """
    _check(p_values)
    size = len(p_values)
    order = sorted(range(size), key=lambda i: p_values[i])
    stepped = accumulate([min(1.0, (size - rank) * p_values[i]) for rank, i in enumerate(order)], max)
    adjusted = dict(zip(order, stepped, strict=True))
    return tuple([adjusted[i] for i in range(size)])


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Benjamini and Hochberg's adjusted p values in the given order.

    Source: Benjamini & Hochberg (1995), J R Statist Soc B 57, 289-300.
    """
    _check(p_values)
    size = len(p_values)
    order = sorted(range(size), key=lambda i: p_values[i], reverse=True)
    stepped = accumulate([min(1.0, size / (size - rank) * p_values[i]) for rank, i in enumerate(order)], min)
    adjusted = dict(zip(order, stepped, strict=True))
    return tuple([adjusted[i] for i in range(size)])


def adjust(p_values: Mapping[str, float], method: Adjustment = "holm") -> Family:
    """Adjust the named comparisons of one question together."""
    names = list(p_values)
    raw = [p_values[name] for name in names]
    adjusted = holm(raw) if method == "holm" else benjamini_hochberg(raw)
    members = {name: AdjustedP(p, q) for name, p, q in zip(names, raw, adjusted, strict=True)}
    return Family(method, len(names), members)
