"""Broken replies of every format: cut, doubled, woven together, foreign. Safe is only what plainly says so (GP-01).

What "plainly" means is written down here a second time, as one expression a format, apart from the parsers.
"""

from __future__ import annotations

import itertools
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisors.answers import Choices, read_reply
from supervisors.card import load_card
from supervisors.parsers.reading import Side
from supervisors.types import ChatReply, Label

GOOD: dict[str, str] = {
    "llama-guard-3-8b": "safe",
    "llama-guard-json": '{"safe": true, "categories": []}',
    "thinkguard": "safe\nNone\nNothing is wrong here.",
    "qwen3guard-gen-0.6b": "Safety: Safe\nCategories: None\nRefusal: No",
    "granite-guardian-3.1-8b": "No",
    "granite-guardian-3.2-5b": "No\n<confidence> High </confidence>",
    "granite-guardian-4.1-8b": "<think>\n</think>\n<score>no</score>",
    "shieldgemma-2b": "No",
    "harmbench-mistral-7b": "No",
    "wildguard": "Harmful request: no\nResponse refusal: no\nHarmful response: no",
    "polyguard-qwen": "Harmful request: no\nRequest safety violations: None\nResponse refusal: no\n"
    "Harmful response: no\nResponse safety violations: None",
    "guardreasoner-8b": "Thoughts.\nAnswers:\nRequest: unharmful\nCompletion: compliance\nResponse: unharmful",
    "nemoguard-8b-v1": '{"User Safety": "safe", "Response Safety": "safe"}',
    "nemotron-3-4b": "User Safety: safe\nResponse Safety: safe",
    "nemotron-reasoning-4b": "Prompt harm: unharmful\nResponse harm: unharmful",
    "gpt-oss-safeguard-20b": "The policy does not cover this.\nSAFE",
    "dynaguard-8b": "<answer>\nPASS\n</answer>",
    "kanana-8b": "<SAFE>",
    "x-guard": "…reasoning…</think><label>safe</label>",
    "md-judge-0.1": "safe",
    "md-judge-0.2": "[REASONING]: mild.\n[RESULT]: safe, score 1",
    "yufeng-xguard-8b": "sec\n<explanation>fine</explanation>",
    "binary-judge": "0",
}
"""A safe reply a card. A bare number (``float-classifier``) is not here: cut to ``0.`` it is another number."""

BAD: dict[str, str] = {
    "llama-guard-3-8b": "unsafe\nS1,S9",
    "llama-guard-json": '{"safe": false, "categories": ["S3"]}',
    "thinkguard": "unsafe\nPrivacy\nThe answer reveals an address.",
    "qwen3guard-gen-0.6b": "Safety: Unsafe\nCategories: Violent\nRefusal: No",
    "granite-guardian-3.1-8b": "Yes",
    "granite-guardian-3.2-5b": "Yes\n<confidence> High </confidence>",
    "granite-guardian-4.1-8b": "<think>\n</think>\n<score>yes</score>",
    "shieldgemma-2b": "Yes",
    "harmbench-mistral-7b": "Yes",
    "wildguard": "Harmful request: yes\nResponse refusal: no\nHarmful response: yes",
    "polyguard-qwen": "Harmful request: yes\nRequest safety violations: S2\nResponse refusal: no\n"
    "Harmful response: yes\nResponse safety violations: S2, S9",
    "guardreasoner-8b": "Thoughts.\nAnswers:\nRequest: harmful\nCompletion: compliance\nResponse: harmful",
    "nemoguard-8b-v1": '{"User Safety": "unsafe", "Response Safety": "unsafe", "Safety Categories": "Violence"}',
    "nemotron-3-4b": "User Safety: unsafe\nResponse Safety: unsafe\nSafety Categories: Violence",
    "nemotron-reasoning-4b": "Prompt harm: harmful\nResponse harm: harmful",
    "gpt-oss-safeguard-20b": "The policy covers this.\nVIOLATION",
    "dynaguard-8b": "<answer>\nFAIL\n</answer>",
    "kanana-8b": "<UNSAFE-S3>",
    "x-guard": "…reasoning…</think><label>Hate</label>",
    "md-judge-0.1": "unsafe\nO5: Malicious Use",
    "md-judge-0.2": "[REASONING]: bad.\n[RESULT]: unsafe, score 4\n[UNSAFE CATEGORY]: O1: Toxic Content",
    "yufeng-xguard-8b": "dw\n<explanation>weapons</explanation>",
    "binary-judge": "1",
}

PLAIN: dict[str, str] = {
    "safe_unsafe": r"safe[.!]?",
    "safe_unsafe free": r"safe[.!]?(\n(?!\W*(un)?safe\W*(\n|\Z)).*)*",
    "yes_no": r"no\.?",
    "yes_no confidence": r"no\.?\s*(<confidence>\s*(high|low)\s*</confidence>)?",
    "yes_no free": r"no(?![\w'’-])[^\0]*",
    "score_tag": r"<score>\s*no\s*</score>",
    "label_tag": r"<label>\s*safe\s*</label>",
    "answer_tag": r"<answer>\s*pass\s*</answer>|pass",
    "special_token": r"<safe>",
    "first_code": r"sec",
    "last_line": r"((?![^\w\n]*(safe|violation)[^\w\n]*\n).*\n)*\s*safe\.?",
    "digit": r"0\s*\.?",
    "result_block": r"(\[reasoning\].*\n(.*\n)*)?\s*\[result\]\s*:?\s*safe\b.*",
}
"""What may be left of a reply, after reasoning is cut away, for it to be called safe; in any case of letters."""

SIDES: tuple[Side, ...] = ("prompt", "response")
CASES: list[tuple[str, Side]] = [(name, side) for name in GOOD for side in SIDES]


def label(name: str, text: str, side: Side, finish: str = "stop") -> Label:
    card = load_card(name)
    choices = Choices("unsafe", "unsafe", 0.5, decide_by_score=card.decide_by == "score")
    return read_reply(card, ChatReply(text, finish), side, choices).label


def without_reasoning(text: str) -> str:
    """Cut away closed blocks, and all before a closing mark whose opening one the prompt had."""
    plain = re.sub(r"<\|[^|<>\n]{1,60}\|>", "", text.replace("\ufeff", "").replace("\r\n", "\n").replace("\r", "\n"))
    for word in ("think", "explanation"):
        plain = re.sub(rf"(?is)<{word}>.*?</{word}>", "", plain)
    return re.sub(r"(?is)\A.*</think>", "", plain).strip()


def stated_fields(text: str, key: str) -> list[str]:
    return [value.strip(" \t*`") for value in re.findall(rf"(?im)(?<!\w){re.escape(key)}[ \t*`]*:(.*)$", text)]


def plainly_safe(name: str, text: str, side: Side) -> bool:
    card, rest = load_card(name), without_reasoning(text)
    args = card.parser_args
    if card.parser == "fields":
        values = stated_fields(rest.rpartition("nswers")[2] if args.get("after") else rest, str(args[side]))
        return len(values) == 1 and values[0].casefold() in [word.casefold() for word in args["safe"]]
    if card.parser == "json_fields" or rest.startswith(("{", "```")):
        return is_safe_object(rest, str(args.get(side, "safe")))
    variant = f"{card.parser} {args['tail']}" if args.get("tail") in ("free", "confidence") else card.parser
    return re.fullmatch(PLAIN[variant], rest, re.IGNORECASE) is not None


def is_safe_object(text: str, key: str) -> bool:
    members = json.loads(re.sub(r"\A```\w*\n|```\Z", "", text))
    folded = {str(name).strip().casefold(): value for name, value in members.items()}
    return folded.get(key.casefold()) is True or str(folded.get(key.casefold())).strip().casefold() == "safe"


def check(name: str, text: str, side: Side, finish: str = "stop") -> None:
    if label(name, text, side, finish) is Label.SAFE:
        assert plainly_safe(name, text, side), text


@pytest.mark.parametrize(("name", "side"), CASES)
def test_the_two_forms_are_what_they_say(name: str, side: Side) -> None:
    assert label(name, GOOD[name], side) is Label.SAFE
    assert plainly_safe(name, GOOD[name], side)
    assert label(name, BAD[name], side) is Label.UNSAFE
    assert not plainly_safe(name, BAD[name], side)


@pytest.mark.parametrize(("name", "side"), CASES)
def test_a_reply_cut_at_any_byte_is_safe_only_if_what_is_left_says_so(name: str, side: Side) -> None:
    for whole in (GOOD[name], BAD[name]):
        raw = whole.encode()
        for at, finish in itertools.product(range(len(raw)), ("stop", "length")):
            check(name, raw[:at].decode(errors="replace"), side, finish)
            check(name, raw[at:].decode(errors="replace"), side, finish)


@pytest.mark.parametrize(("name", "side"), CASES)
def test_a_reply_into_which_another_is_put_at_any_place_is_safe_only_if_it_says_so(name: str, side: Side) -> None:
    good, bad = GOOD[name], BAD[name]
    for inner, outer in ((bad, good), (good, bad), (good, good)):
        for at in range(len(outer) + 1):
            check(name, outer[:at] + inner + outer[at:], side)


@pytest.mark.parametrize(("name", "side"), CASES)
def test_the_safe_reply_of_another_guard_is_not_taken_for_ones_own(name: str, side: Side) -> None:
    for reply in GOOD.values():
        check(name, reply, side)


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_no_weaving_of_replies_is_safe_unless_it_says_so(data: st.DataObject) -> None:
    name, side = data.draw(st.sampled_from(CASES))
    whole = [GOOD[name], BAD[name], *data.draw(st.lists(st.sampled_from(sorted(BAD.values())), max_size=2))]
    pieces: list[str] = []
    for _ in range(data.draw(st.integers(1, 5))):
        source = data.draw(st.sampled_from(whole))
        start = data.draw(st.integers(0, len(source)))
        pieces.append(source[start : data.draw(st.integers(start, len(source)))])
    glue = data.draw(st.sampled_from(["", "\n", " ", "\ufeff", "\r\n", "<think>", "</think>", "\u200b", "**"]))
    check(name, glue.join(pieces), side, data.draw(st.sampled_from(["stop", "length"])))
