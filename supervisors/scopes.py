"""The order of the scopes, where a verdict covers findings in several of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from supervisors.types import Scope

SCOPES: Final[tuple[Scope, ...]] = ("conversation", "system", "tool_def")
"""All scopes, the gravest first: a finding in tool definitions is only logged by default (guarding §4)."""


def rank(scope: Scope | None) -> int:
    """Return a place in the order; a finding without a scope is one in the conversation."""
    return SCOPES.index(scope) if scope is not None else 0


def gravest(scopes: Iterable[Scope | None]) -> Scope | None:
    """Return the gravest of some scopes, for the verdict on all of them; None when there are none."""
    return min(scopes, key=rank, default=None)
