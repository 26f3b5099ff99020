"""Which policies apply and what they merge to: the strictest wins, whatever the order (guarding G-15 to G-18)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from proxy.merging import strictest
from proxy.plan import Plan, Planner, Request, choose, matches
from proxy.policy import Attach, Policy, StagePolicy
from proxy.wire.errors import RequestError
from supervisors.testing import Always
from supervisors.types import Cause, Supervisor

SUPERVISORS: Mapping[str, Supervisor] = {name: Always() for name in ("a", "b", "c")}
ROUTE = "/v1/chat/completions"


def planner(**policies: dict[str, Any]) -> Planner:
    return Planner({name: Policy.model_validate(entry) for name, entry in policies.items()}, SUPERVISORS)


def plan(policies: Mapping[str, dict[str, Any]], asked: tuple[str, ...] | None = None, **where: Any) -> Plan:
    fields: dict[str, Any] = {"model": "gpt", "key": None, "route": ROUTE, **where}
    return planner(**policies).plan(Request(asked=asked, **fields))


def both_orders(one: dict[str, Any], other: dict[str, Any]) -> Plan:
    """Merge two policies, assert that their order in the file does not matter, and return the plan."""
    plans = [plan({"p": one, "q": other}), plan({"q": other, "p": one})]
    assert plans[0] == plans[1]
    swapped = plan({"p": other, "q": one})
    assert swapped.input.rules.keys() == plans[0].input.rules.keys()
    return plans[0]


ORDERS: Sequence[tuple[str, Sequence[str]]] = [
    ("on_unsafe", ("log", "redact", "block")),
    ("mode", ("shadow", "parallel", "blocking")),
]
PAIRS = [(field, one, other, order) for field, order in ORDERS for one, other in itertools.product(order, order)]


@pytest.mark.parametrize(("field", "one", "other", "order"), PAIRS)
def test_the_stricter_setting_of_a_supervisor_wins(field: str, one: str, other: str, order: Sequence[str]) -> None:
    merged = both_orders(*[{"input": {"forced": ["a"], field: word}} for word in (one, other)]).input  # G-16
    stricter = max(one, other, key=order.index)
    if field == "on_unsafe":
        assert merged.rules["a"].on_unsafe == stricter
    else:
        assert [mode for mode in ("blocking", "parallel", "shadow") if getattr(merged, mode)] == [stricter]


STREAM_ORDERS: Mapping[str, Sequence[Any]] = {
    "mode": ("observe", "window", "sentence", "hold"),
    "on_buffer_exceeded": ("window", "block"),
    "on_unstreamable": ("hold", "refuse"),
    "on_block": ("drain", "cancel"),
    "block_frame": ("refusal", "error"),
    "window_chars": (500, 20),
    "overlap_chars": (None, 300, 400),
    "max_buffer_bytes": (5000, 100),
    "heartbeat_s": (30.0, 2.0),
}
STREAM_PAIRS = [(f, one, other) for f, order in STREAM_ORDERS.items() for one, other in itertools.product(order, order)]


@pytest.mark.parametrize(("field", "one", "other"), STREAM_PAIRS)
def test_the_stricter_stream_setting_wins(field: str, one: Any, other: Any) -> None:  # G-16
    merged = both_orders(*[{"output": {"forced": ["a"], "stream": {field: value}}} for value in (one, other)])
    order = STREAM_ORDERS[field]
    assert getattr(merged.output.stream, field) == max(one, other, key=order.index)


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.SKIPPED])
@pytest.mark.parametrize(("one", "other"), list(itertools.product(("block", "log"), repeat=2)))
def test_a_cause_blocks_if_any_policy_says_so(cause: Cause, one: str, other: str) -> None:  # G-16, G-17
    stages = [{"forced": ["a"], "on_unknown": {"default": "log", cause.value: word}} for word in (one, other)]
    rule = both_orders({"input": stages[0]}, {"input": stages[1]}).input.rules["a"]
    assert rule.on_unknown.action(cause) == ("block" if "block" in (one, other) else "log")


SCOPED: Sequence[tuple[dict[str, Any], Mapping[str, str]]] = [
    ({}, {"conversation": "block", "system": "block", "tool_def": "log"}),
    ({"on_unsafe": "log"}, {"conversation": "log", "system": "log", "tool_def": "log"}),
    ({"scopes": {"system": {"on_unsafe": "log"}}}, {"conversation": "block", "system": "log", "tool_def": "log"}),
    (
        {"scopes": {"tool_def": {"on_unsafe": "block"}}},
        {"conversation": "block", "system": "block", "tool_def": "block"},
    ),
    (
        {"scopes": {"conversation": {"on_unsafe": "redact"}}},
        {"conversation": "redact", "system": "block", "tool_def": "log"},
    ),
    ({"mode": "shadow"}, {"conversation": "log", "system": "log", "tool_def": "log"}),
]


@pytest.mark.parametrize(("one", "other"), list(itertools.product(range(len(SCOPED)), repeat=2)))
def test_the_stricter_action_of_each_scope_wins(one: int, other: int) -> None:  # G-04, G-16
    settings = [SCOPED[one], SCOPED[other]]
    rule = both_orders(*[{"input": {"forced": ["a"], **entry}} for entry, _ in settings]).input.rules["a"]
    for scope in ("conversation", "system", "tool_def"):
        words = [expected[scope] for _, expected in settings]
        assert rule.unsafe_action(cast("Any", scope)) == max(words, key=("log", "redact", "block").index)


def test_supervisors_are_the_union_and_timeouts_the_smallest() -> None:  # G-16
    merged = both_orders(
        {"input": {"forced": ["a"], "timeout_s": 3}, "output": {"forced": ["c"]}},
        {"input": {"forced": ["b", "a"], "timeout_s": 2}, "output": {"forced": ["a"], "block_scope": "response"}},
    )
    assert set(merged.input.names) == {"a", "b"}
    assert set(merged.output.names) == {"a", "c"}
    assert merged.input.timeout_s == 2
    assert merged.output.block_scope == "response"
    assert dict(merged.input.policies).keys() == {"p", "q"}


def test_a_shadow_policy_changes_nothing_of_an_enforcing_one() -> None:  # guarding §5
    quiet = {"output": {"forced": ["a"], "stream": {"mode": "observe", "window_chars": 900}, "timeout_s": 9}}
    shadow = {"output": {"forced": ["b"], "mode": "shadow", "timeout_s": 1, "block_scope": "response"}}
    merged = both_orders(quiet, shadow).output
    assert (merged.stream.mode, merged.stream.window_chars, merged.timeout_s) == ("observe", 900, 9)
    assert merged.block_scope == "choice"
    assert merged.rules["a"].enforce
    assert not merged.rules["b"].enforce


@pytest.mark.parametrize(("one", "other"), list(itertools.product(("refusal", "error"), repeat=2)))
def test_block_forms_merge(one: str, other: str) -> None:  # wire §5
    merged = both_orders({"on_block": {"input": one, "output": one}}, {"on_block": {"input": other, "output": other}})
    assert merged.on_block.input == merged.on_block.output == ("error" if "error" in (one, other) else "refusal")


def test_a_message_of_ones_own_wins_over_the_default() -> None:  # G-16: not by the order in the file
    assert both_orders({}, {"on_block": {"message": "No."}}).on_block.message == "No."
    assert both_orders({"on_block": {"message": "No."}}, {}).on_block.message == "No."


@pytest.mark.parametrize(
    ("settings", "asked", "chosen"),
    [
        ({"forced": ["a"]}, None, ("a",)),
        ({"forced": ["a"]}, (), ("a",)),
        ({"forced": ["a"], "optional": ["b"]}, None, ("a",)),
        ({"forced": ["a"], "optional": ["b"]}, ("b",), ("a", "b")),
        ({"forced": ["a"], "optional": ["b", "c"]}, ("c",), ("a", "c")),
        ({"forced": ["a"], "optional": ["b"], "default_on": True}, None, ("a", "b")),
        ({"forced": ["a"], "optional": ["b"], "default_on": True}, (), ("a", "b")),
        ({"forced": ["a"], "optional": ["b"], "default_on": True, "opt_out": True}, (), ("a",)),
        ({"forced": ["a"], "optional": ["b", "c"], "default_on": True, "opt_out": True}, ("c",), ("a", "b", "c")),
        ({"forced": ["a"], "optional": ["a"]}, None, ("a",)),
    ],
)
def test_who_runs(settings: dict[str, Any], asked: tuple[str, ...] | None, chosen: tuple[str, ...]) -> None:  # G-15
    assert choose(StagePolicy.model_validate(settings), asked) == chosen


def test_nothing_a_caller_asks_for_removes_a_forced_supervisor() -> None:  # G-15, X-18
    policies = {
        "p": {"input": {"forced": ["a"], "optional": ["b", "c"], "default_on": True, "opt_out": True}},
        "q": {"input": {"optional": ["a", "b"], "opt_out": True}},
    }
    base = plan(policies).input
    for size in range(4):
        for asked in itertools.permutations(("a", "b", "c"), size):
            merged = plan(policies, asked).input
            assert "a" in dict(merged.blocking)
            assert merged.rules["a"].on_unsafe == base.rules["a"].on_unsafe
            assert merged.timeout_s == base.timeout_s


@pytest.mark.parametrize("name", ["nope", "A", "a ", "a,b", "*", "", "x" * 500])
def test_an_unknown_name_is_refused_with_the_list_of_known_ones(name: str) -> None:  # wire §2.4
    with pytest.raises(RequestError) as caught:
        plan({"p": {"input": {"forced": ["a"], "optional": ["b"]}}}, (name,))
    assert (caught.value.status, caught.value.code) == (400, "unknown_guardrail")
    assert caught.value.message.endswith("the ones you may add are: b.")
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("attach", "where", "expected"),
    [
        ({}, {}, True),
        ({"models": ["gpt"]}, {}, True),
        ({"models": ["gpt-*"]}, {"model": "gpt-4"}, True),
        ({"models": ["gpt-*"]}, {"model": "GPT-4"}, False),
        ({"models": ["other"]}, {}, False),
        ({"keys": ["app"]}, {"key": "app"}, True),
        ({"keys": ["app"]}, {"key": None}, False),
        ({"keys": ["*"]}, {"key": None}, True),
        ({"routes": ["/v1/chat/*"]}, {}, True),
        ({"routes": ["/v1/embeddings"]}, {}, False),
        ({"tags": ["x"]}, {"tags": ("x", "y")}, True),
        ({"tags": ["x"]}, {"tags": ("y",)}, False),
        ({"tags": ["x"]}, {}, False),
        ({"models": ["gpt"], "keys": ["app"]}, {"key": "other"}, False),
    ],
)
def test_all_given_dimensions_must_match(attach: dict[str, Any], where: dict[str, Any], expected: bool) -> None:
    fields: dict[str, Any] = {"model": "gpt", "key": None, "route": ROUTE, **where}
    assert matches(Attach.model_validate(attach), Request(**fields)) is expected


def test_plans_of_many_names_do_not_fill_the_memory() -> None:  # X-07
    made = Planner({"p": Policy()}, {}, max_cached=10)
    for number in range(100):
        made.plan(Request(f"model-{number}", None, ROUTE))
    huge = Request("m" * 1_000_000, None, ROUTE)
    assert made.plan(huge) is not made.plan(huge)
    small = Request("m", None, ROUTE)
    assert made.plan(small) is made.plan(small)


def test_one_policy_alone() -> None:  # W-35
    made = planner(p={"attach": {"models": ["other"]}, "input": {"forced": ["a"]}}, q={"input": {"forced": ["b"]}})
    assert made.plan_only("p").input.names == ("a",)
    with pytest.raises(RequestError, match="known are: p, q"):
        made.plan_only("nope")


def test_what_may_be_added() -> None:  # W-36
    made = planner(p={"input": {"forced": ["a"], "optional": ["b"]}, "output": {"optional": ["a", "b"]}})
    rows = made.addable(Request("gpt", None, ROUTE))
    assert rows == (("a", ("input", "output"), False), ("b", ("input", "output"), True))


def test_opaque_content_is_checked_where_a_policy_blocks_on_it() -> None:  # G-05
    merged = both_orders({"input": {"forced": ["a"], "on_opaque": "block"}}, {"input": {"forced": ["a"]}})
    assert "opaque" in merged.input.names


def test_strictest_of_nothing_is_the_mildest() -> None:
    assert strictest(("x", "y"), ()) == "x"
