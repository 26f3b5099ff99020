from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from evals.statistics.jsonable import to_json
from supervisors.types import Label


@dataclass(frozen=True)
class _Result:
    value: float
    parts: tuple[float, ...]


def test_what_is_no_number_becomes_null() -> None:
    plain = to_json({"a": math.nan, "b": [math.inf, -math.inf, np.float64(0.5)], "c": _Result(math.nan, (1.0,))})
    assert plain == {"a": None, "b": [None, None, 0.5], "c": {"value": None, "parts": [1.0]}}
    assert "NaN" not in json.dumps(plain, allow_nan=False)


def test_enums_dates_and_sets_have_a_stable_form() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    assert to_json({Label.SAFE: moment, "set": {"b", "a"}, "flag": True}) == {
        "safe": "2026-01-02T00:00:00+00:00",
        "set": ["a", "b"],
        "flag": True,
    }


def test_a_value_without_a_json_form_is_named() -> None:
    with pytest.raises(TypeError, match="has no JSON form"):
        to_json(Path("x"))
