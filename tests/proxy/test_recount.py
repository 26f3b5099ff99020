"""What the process took on and the journal does not have."""

from __future__ import annotations

import pytest

from proxy.recount import Series, find_unwritten


@pytest.mark.parametrize(
    ("accepted", "written", "lost", "failing", "told"),
    [
        (5, 5, 0, 0, []),
        (5, 3, 0, 0, []),
        (5, 3, 0, 1, ["2 records wait"]),
        (5, 3, 1, 1, ["1 records were given up", "1 records wait"]),
        (5, 4, 1, 0, ["1 records were given up"]),
    ],
)
def test_what_is_not_written_is_told(accepted: int, written: int, lost: int, failing: int, told: list[str]) -> None:
    samples: dict[Series, float] = {
        ("guardrail_records_accepted_total", ()): float(accepted),
        ("guardrail_records_total", ()): float(written),
        ("guardrail_records_lost_total", ()): float(lost),
        ("guardrail_store_failing", ()): float(failing),
    }
    found = list(find_unwritten(samples))
    assert [line.startswith(start) for line, start in zip(found, told, strict=True)] == [True] * len(told)
