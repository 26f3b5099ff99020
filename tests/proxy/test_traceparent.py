"""W3C trace context: continued when it is well formed, begun otherwise (O-22)."""

from __future__ import annotations

import pytest

from proxy.traceparent import Propagation, Trace, read_trace, span_id
from proxy.upstream_headers import to_upstream

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(("flags", "sampled"), [("01", True), ("00", False), ("03", True)])
def test_the_callers_trace_is_continued_and_it_decides_about_sampling(flags: str, sampled: bool) -> None:  # O-22
    found = read_trace([("traceparent", f"00-{TRACE}-{PARENT}-{flags}")], "rec", 0.5)
    assert found == Trace(int(TRACE, 16), int(PARENT, 16), sampled)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "nonsense",
        f"00-{TRACE}-{PARENT}",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-01\nx: y",
    ],
)
def test_what_is_no_trace_context_begins_a_trace(value: str) -> None:
    found = read_trace([("traceparent", value)], "rec", 1.0)
    assert (found.parent_id, found.sampled, found.trace_id == int(TRACE, 16)) == (None, True, False)


def test_a_later_version_may_say_more() -> None:
    assert read_trace([("traceparent", f"01-{TRACE}-{PARENT}-01-more")], "rec", 0.0).parent_id == int(PARENT, 16)


def test_a_share_of_the_traces_that_begin_here_is_sampled() -> None:
    sampled = [read_trace((), f"rec-{number}", 0.25).sampled for number in range(2000)]
    assert 400 < sum(sampled) < 600
    assert not any(read_trace((), f"rec-{number}", 0.0).sampled for number in range(100))


def test_an_upstream_is_told_the_span_of_its_call() -> None:  # O-22
    headers = (("x", "y"), ("traceparent", f"00-{TRACE}-{PARENT}-01"))
    propagation = Propagation(frozenset({"main"}))
    assert propagation.pass_on(headers, "rec", "other") == headers
    told = f"00-{TRACE}-{span_id('rec', 'upstream'):016x}-01"
    passed = propagation.pass_on(headers, "rec", "main")
    assert dict(passed)["traceparent"] == told
    assert to_upstream("/chat/completions", passed, None, trace=True) == [("traceparent", told)]
    assert to_upstream("/chat/completions", passed, None) == []
    assert read_trace(passed, "rec", 1.0) == read_trace(headers, "rec", 1.0)
    begun = propagation.pass_on((), "rec", "main")
    assert read_trace(begun, "rec", 1.0) == read_trace((), "rec", 1.0)
