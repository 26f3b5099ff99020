"""Tokens of other proxies' judges: made with the secret only, for one model, for a while, and for one hop (G-42)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.bypass import DEPTH_HEADER, TOKEN_HEADER, Bypass, make_token
from proxy.call import Call
from proxy.plan import Plan, StagePlan
from proxy.wire.chat import CHAT
from proxy.wire.errors import RequestError
from proxy.wire.moderation_field import FieldAsk

SECRET = "s" * 32
NOW = 1_800_000_000.0
TAKES = Bypass(SECRET, 30, ("judge*",), clock=lambda: NOW)
JUDGED = Plan(("default",), StagePlan("input"), StagePlan("output"))


def call(model: str = "judge", **changed: Any) -> Call:
    return Call("id", "request", CHAT, {}, False, model, "main", JUDGED, "0" * 64, None, None, 0.0, 0.0, **changed)


def token(secret: str = SECRET, model: str = "judge", until: int = int(NOW) + 30, depth: int = 1) -> Mapping[str, str]:
    return {TOKEN_HEADER: make_token(secret, model, until, depth)}


def test_a_token_that_holds_lets_one_call_pass_unjudged_and_carries_its_depth_on() -> None:
    passed = TAKES.admit(call(headers=(("accept", "*/*"),)), token())
    assert passed.plan.prescribed == ()
    assert passed.plan.policies == ()
    assert passed.task == "bypass"
    assert passed.headers == (("accept", "*/*"), (DEPTH_HEADER, "1"))


def test_a_call_without_a_token_stays_what_it_was() -> None:
    plain = call()
    assert TAKES.admit(plain, {"accept": "*/*"}) is plain


def test_what_a_signer_makes_is_taken_by_whoever_has_the_secret() -> None:
    sign = Bypass(SECRET, 30, clock=lambda: NOW).signer("judge-2")
    assert sign is not None
    assert TAKES.admit(call("judge-2"), dict([sign()])).task == "bypass"
    assert Bypass().signer("judge") is None


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        (token(secret="t" * 32), 403, "none that this proxy takes"),  # forged
        (token(model="judge-2"), 403, "none that this proxy takes"),  # made for another judge
        (token(until=int(NOW) - 1), 403, "has expired"),
        (token(until=int(NOW) + 600), 403, "lives longer than the 30 s"),
        (token(depth=2), 400, "has passed one proxy"),
        ({DEPTH_HEADER: "1"}, 400, "has passed one proxy"),
        ({**token(), DEPTH_HEADER: "1"}, 400, "has passed one proxy"),
        ({TOKEN_HEADER: ""}, 403, "none that this proxy takes"),
        ({TOKEN_HEADER: "1.1.1800000010." + "0" * 64}, 403, "none that this proxy takes"),
        ({TOKEN_HEADER: "1.1.١٨." + "0" * 64}, 403, "none that this proxy takes"),
    ],
)
def test_a_token_that_does_not_hold_is_refused(headers: Mapping[str, str], status: int, words: str) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        TAKES.admit(call(), headers)
    assert caught.value.status == status


def test_a_token_is_for_the_models_that_this_proxy_opens_and_no_others() -> None:
    with pytest.raises(RequestError, match="none that this proxy takes"):
        TAKES.admit(call("gpt"), token(model="gpt"))
    with pytest.raises(RequestError, match="none that this proxy takes"):
        Bypass(SECRET, 30, clock=lambda: NOW).admit(call(), token())


def test_a_token_can_be_repeated_until_it_expires_and_not_after() -> None:
    clock = iter([NOW + 29, NOW + 30, NOW + 31])
    takes = Bypass(SECRET, 30, ("judge",), clock=lambda: next(clock))
    takes.admit(call(), token())
    takes.admit(call(), token())
    with pytest.raises(RequestError, match="has expired"):
        takes.admit(call(), token())


def test_a_judges_call_asks_for_no_moderation_beside_its_answer() -> None:
    with pytest.raises(RequestError, match="moderation"):
        TAKES.admit(call(moderation=FieldAsk("words", "default")), token())


@given(st.integers(0, 76), st.characters(codec="ascii", categories=("L", "N", "P")))
def test_no_change_of_a_single_character_makes_another_token(at: int, char: str) -> None:
    good = token()[TOKEN_HEADER]
    changed = good[:at] + char + good[at + 1 :]
    if changed == good:
        return
    with pytest.raises(RequestError):
        TAKES.admit(call(), {TOKEN_HEADER: changed})
