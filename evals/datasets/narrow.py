"""Narrow JSON values for the type checkers: a list of anything, an object of anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard


def is_list(value: object) -> TypeGuard[list[object]]:
    """Say whether a JSON value is a list."""
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    """Say whether a JSON value is an object; its keys are text by construction."""
    return isinstance(value, Mapping)
