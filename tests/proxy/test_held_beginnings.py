"""No split of a long match lets a part of it out before the verdict, and no other text waits for it (S-01)."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.plan import Planner, Request
from proxy.policy import Policy
from proxy.stream import Gate
from proxy.wire.chat import CHAT
from supervisors.plugins import build_supervisor
from supervisors.rules import Rules
from supervisors.testing import Always
from tests.proxy.test_stream import CANARY, FRAMES, delta, plan_of, run_gate, text_of

BODY = base64.b64encode(random.Random(4).randbytes(240)).decode()  # noqa: S311 - a made-up key
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY[:64]}\n{BODY[64:]}\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6Ikpv" + "aG4" * 90 + "." + BODY[:43].replace("+", "-")
MEMO = "<<MEMO\n" + "Nobody outside may read that. " * 12 + "MEMO>>"
SECRETS = Rules(presets=("secrets",))
OWN = Rules.model_validate({"patterns": [{"name": "memo", "regex": r"(?s)<<MEMO\s.*?MEMO>>", "max_match_chars": 900}]})
CASES: Mapping[str, tuple[Rules, str]] = {"key": (SECRETS, KEY), "jwt": (SECRETS, JWT), "memo": (OWN, MEMO)}
BEFORE, AFTER = "All is well - or so they say. " * 9 + "Here it is: ", ". And on it goes, " * 20


@pytest.mark.parametrize("case", CASES)
def test_no_split_at_any_character_lets_a_part_of_it_out(case: str) -> None:
    rules, match = CASES[case]
    for at in range(1, len(match)):
        gate = Gate(plan_of(rules, window_chars=1), FRAMES, 0, 1)
        deltas = [BEFORE[:40], BEFORE[40:], match[:at], match[at:], AFTER]
        left = text_of(run_gate(gate, [*map(delta, deltas), delta("", "stop")]))
        assert gate.block is not None, at
        assert BEFORE.startswith(left), at


def _in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _in_url(text: str) -> str:
    return "".join([f"%{byte:02x}" for byte in text.encode()])


CODES: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "zero width": "\u200b".join,
    "fullwidth": lambda text: "".join([chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text]),
    "url": _in_url,
    "half url": lambda text: "".join([_in_url(char) if i % 3 == 2 else char for i, char in enumerate(text)]),
    "late url": lambda text: text[:-40] + _in_url(text[-40:]),
    "html": lambda text: "".join([f"&#{ord(char)};" for char in text]),
    "escape": lambda text: "".join([f"\\u{ord(char):04x}" for char in text]),
    "json": lambda text: json.dumps(text).replace("/", "\\/"),
    "json in json": lambda text: json.dumps({"a": json.dumps(text)}),
    "tags": lambda text: "".join([chr(0xE0000 + ord(char)) if " " <= char <= "~" else char for char in text]),
    "base64": _in_base64,
    "base64 lines": lambda text: "\n".join(re.findall(".{1,64}", _in_base64(text))),
    "hex": lambda text: text.encode().hex(),
    "combining": lambda text: "".join([f"{char}\u0301" if char.isalpha() else char for char in text]),
}


SHORT = {
    "key": (SECRETS, "-----BEGIN EC PRIVATE KEY-----\n" + BODY[:96] + "\n-----END EC PRIVATE KEY-----"),
    "memo": (OWN, "<<MEMO\n" + "Nobody may read that. " * 3 + "MEMO>>"),
}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("case", SHORT)
@given(
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=40),
    lead=st.integers(0, 400),
    window=st.integers(1, 600),
    mode=st.sampled_from(["window", "sentence"]),
)
@settings(max_examples=20, deadline=None)
def test_no_chunking_of_no_disguise_lets_a_part_of_it_out(
    case: str, code: str, sizes: list[int], lead: int, window: int, mode: str
) -> None:
    rules, match = SHORT[case]
    before = (BEFORE * 2)[-lead:] if lead else ""
    text, position, deltas = before + CODES[code](match) + AFTER, 0, list[str]()
    while position < len(text):
        size = sizes[len(deltas) % len(sizes)]
        deltas.append(text[position : position + size])
        position += size
    gate = Gate(plan_of(rules, window_chars=window, mode=mode), FRAMES, 0, 1)
    left = text_of(run_gate(gate, [*map(delta, deltas), delta("", "stop")]))
    assert gate.block is not None
    assert gate.late_spans == 0
    opening = CODES[code](match).partition("--" if case == "key" else "<<")[0] if code.startswith("json") else ""
    assert (before + opening).startswith(left)


def test_prose_code_and_certificates_wait_only_as_long_as_without_the_long_patterns() -> None:
    text = ("Some prose -- with dashes, `code = [1, 2]`, and\n-----BEGIN CERTIFICATE-----\nno key.\n" * 40)[:3000]
    frames = [delta(text[i : i + 10]) for i in range(0, len(text), 10)]
    left = {
        preset: text_of(run_gate(Gate(plan_of(Rules(presets=(preset,)), window_chars=1), FRAMES, 0, 1), frames))
        for preset in ("secrets", "tokens")
    }
    assert left["secrets"] == left["tokens"]
    assert len(text) - len(left["secrets"]) <= 2 * 190 + 20


def test_a_beginning_that_comes_to_nothing_is_judged_at_most_twice_and_released() -> None:  # S-02
    text = "It says <<MEMO and then nothing more that would end it. " + "Words and words go on. " * 400
    gate = Gate(plan_of(OWN, window_chars=300), FRAMES, 0, 1)
    left = text_of(run_gate(gate, [delta(text[i : i + 7]) for i in range(0, len(text), 7)]))
    assert gate.block is None
    assert len(left) > len(text) - 2 * 1000
    assert text_of(run_gate(gate, [delta("", "stop")])) == text[len(left) :]
    assert gate.assessments()[0].chars_judged <= 2 * len(text) + 600


def test_what_is_redacted_goes_as_a_whole_and_the_rest_stays() -> None:
    policy = Policy.model_validate(
        {"output": {"forced": ["words"], "on_unsafe": "redact", "stream": {"window_chars": 9}}}
    )
    plan = Planner({"default": policy}, {"words": SECRETS}).plan(Request("gpt", None, CHAT.route)).output
    gate = Gate(plan, FRAMES, 0, 1)
    text = BEFORE + KEY + AFTER
    left = text_of(run_gate(gate, [*[delta(text[i : i + 9]) for i in range(0, len(text), 9)], delta("", "stop")]))
    assert left == f"{BEFORE}[REDACTED:secrets.private_key]{AFTER}"
    assert gate.late_spans == 0


@pytest.mark.parametrize("schedule", ["windowed", "growth"])
@pytest.mark.parametrize("kind", ["vote", "cascade"])
def test_rules_in_a_panel_hold_back_what_they_need_whatever_the_others_do(kind: str, schedule: str) -> None:  # G-33
    rules, judge = Rules(keywords=(CANARY,), presets=("secrets.private_key",)), Always(capability=schedule)
    panels: Mapping[str, Mapping[str, Any]] = {
        "vote": {"use": "vote", "strategy": "any", "members": {"rules": rules, "judge": judge}},
        "cascade": {"use": "cascade", "steps": [{"supervisor": rules}, {"supervisor": judge}]},
    }
    panel = build_supervisor(panels[kind])
    for match in (CANARY, KEY[:200]):
        for lead in range(0, 40, 3):
            before = "so it goes " * 20 + "x " * lead
            deltas = [delta(char) for char in before + match + " and on and on"]
            gate = Gate(plan_of(panel, window_chars=16), FRAMES, 0, 1)
            left = text_of(run_gate(gate, [*deltas, delta("", "stop")]))
            assert gate.block is not None
            assert before.startswith(left)


def test_panels_of_judges_alone_hold_nothing_back() -> None:
    vote = build_supervisor(
        {"use": "vote", "strategy": "any", "members": {"a": Always(capability="growth"), "b": Always()}}
    )
    gate = Gate(plan_of(vote, window_chars=16), FRAMES, 0, 1)
    assert text_of(run_gate(gate, [delta("ab cde " * 9)])) == "ab cde " * 9
