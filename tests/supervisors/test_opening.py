"""What of a growing text waits because a long match may have begun, and what need not."""

from __future__ import annotations

import pytest

from supervisors.cascade import Cascade
from supervisors.rules import Rules
from supervisors.vote import Vote

HEAD = "-----BEGIN RSA PRIVATE KEY-----"
SECRETS = Rules(presets=("secrets",))


def test_secrets_hold_back_what_their_short_patterns_need_and_tokens_the_same() -> None:
    assert SECRETS.holdback_chars() == Rules(presets=("tokens",)).holdback_chars() == 190
    assert Rules(presets=("secrets.private_key",)).holdback_chars() == 128
    assert Rules(presets=("secrets.npm_token",)).holdback_chars() == 40


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("Nothing of the kind.", 20),
        ("Dashes --", 7),
        (f"Here: {HEAD}", 6),
        (f"Here: {HEAD}\nMIIEpAIBAAKCAQEA", 6),
        (f"Here: {HEAD} and it is no key", 54),
        ("Here: -----BEGIN CERTIFICATE-----\nMII", 37),
        ("A token: eyJhbGciOi", 9),
        ("The eyes", 8),
        ("Here: \u200b-\u200b-\u200b---BEGIN RSA PRIV", 7),
        ("Here: －－－－－ＢＥＧＩＮ　ＲＳＡ", 6),
        ("Here: -----BEGIN  RSA\n\nPRIVATE", 6),
        (f"Here: {HEAD[:20]}%", 6),
        (f"Here: {HEAD[:20]}&#x5", 6),
        ("Up to 90% of it", 15),
        ("See a%20link, which waits", 5),
        ("Cut \\u00e9 off", 4),
    ],
)
def test_only_a_possible_beginning_waits(text: str, start: int) -> None:  # guarding §7
    assert SECRETS.first_open(text) == start


def test_what_follows_an_escape_waits_as_long_as_the_longest_match_and_no_longer() -> None:
    text = "See a%20link" + " and so on" * 500
    assert SECRETS.first_open(text) == len(text) - 4096


def test_a_rule_of_ones_own_waits_from_its_beginning_for_as_long_as_it_says() -> None:
    rules = Rules.model_validate({"patterns": [{"name": "memo", "regex": r"<<MEMO[\s\S]*?>>", "max_match_chars": 900}]})
    assert rules.holdback_chars() == 128
    assert rules.first_open("so <<ME") == 3
    assert rules.first_open("so <<MEMO 1") == 3
    assert rules.first_open("so <<MEMO 1" + "x" * 700) == 3
    assert rules.first_open("so <<MEMO 1" + "x" * 2000) == 2011  # longer than any match of it
    assert rules.first_open("so <<MINUTES") == 12


def test_rules_that_turn_the_text_around_or_are_not_understood_hold_back_their_length() -> None:
    loose = {"name": "memo", "regex": "memo[a-z]{0,900}", "loose": True}
    flags = {"name": "memo", "regex": "me(?i)mo[0-9]{0,900}"}
    for pattern in (loose, flags):
        rules = Rules.model_validate({"patterns": [pattern]})
        assert rules.holdback_chars() == 904
        assert rules.first_open("memo") == 4


def test_composites_wait_for_whichever_member_waits_longest() -> None:
    words = Rules(keywords=("violet umbrella",))
    vote = Vote.model_validate({"strategy": "any", "members": {"a": words, "b": SECRETS}})
    cascade = Cascade.model_validate({"steps": [{"supervisor": words}, {"supervisor": SECRETS}]})
    for composite in (vote, cascade):
        assert composite.first_open("see -----BEG") == 4
        assert composite.holdback_chars() == 190
