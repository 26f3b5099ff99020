"""Spans that cannot be exported (O-22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import pytest

from proxy.tracing import export_spans


class Result(Enum):
    SUCCESS = 0
    FAILURE = 1


@dataclass
class Exporter:
    result: Result | Exception

    def export(self, spans: Sequence[object]) -> Result:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.mark.parametrize(
    ("result", "sent"), [(Result.SUCCESS, True), (Result.FAILURE, False), (TimeoutError("read timed out"), False)]
)
def test_an_exporter_that_raises_has_failed_and_no_more(result: Result | Exception, sent: bool) -> None:
    assert export_spans(Exporter(result), [object()]) is sent
