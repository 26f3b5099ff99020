"""The record of a request that ended before anybody judged it, when the journal takes none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from proxy.early import record_gone, record_refused
from proxy.keys import Caller
from proxy.prepare import Arrival
from proxy.record import Record
from proxy.wire.chat import CHAT
from proxy.wire.errors import RequestError
from supervisors.errors import StoreError


class Full:
    """Sinks whose journal is full."""

    def __init__(self) -> None:
        self.kept: list[Record] = []

    def refuse(self, record: Record) -> None:
        raise StoreError(record.id)

    def keep(self, record: Record, *, reserved: bool) -> None:
        assert not reserved
        self.kept.append(record)


@pytest.fixture
def full() -> Full:
    return Full()


@pytest.fixture
def runtime(full: Full) -> Any:
    return SimpleNamespace(sinks=full, version="test", catalogue=SimpleNamespace(tasks=("title",)))


ARRIVAL = Arrival("id", "request", CHAT, Caller(), {"x-guardrail-task": "title"}, 1.0, 1.0)


def test_an_error_without_a_record_names_none(runtime: Any, full: Full) -> None:
    error = RequestError(400, "invalid_json", "The body is not JSON.")
    record_refused(runtime, ARRIVAL, "", error)
    assert "x-guardrail-id" not in error.headers
    assert full.kept == []


def test_the_record_of_a_caller_that_is_gone_is_kept_or_counted_as_lost(runtime: Any, full: Full) -> None:
    record_gone(runtime, ARRIVAL, "m")
    assert [(one.outcome, one.client.status, one.task) for one in full.kept] == [("cancelled", 499, "title")]
