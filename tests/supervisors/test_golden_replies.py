"""The golden replies of guards §11.1 (rows 1 to 76), read through the cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest

from supervisors.answers import Choices, read_reply
from supervisors.card import Card, Criterion, load_card
from supervisors.parsers.reading import Side
from supervisors.types import ChatReply, TokenAlternatives, Verdict

NONE: Mapping[str, Any] = {}
REQUIREMENT = Criterion(text="each line starts with a capital", polarity="yes_is_safe")
REFUSED = "unknown/refused"
UNPARSABLE = "unknown/unparsable"


def choices_of(card: Card, controversial: Literal["unsafe", "safe", "unknown"] = "unsafe") -> Choices:
    return Choices(controversial, card.caution, card.threshold, card.decide_by == "score")


def position(token: str, **logprobs: float) -> TokenAlternatives:
    return TokenAlternatives(token, tuple(logprobs.items()))


@dataclass(frozen=True)
class Row:
    number: str
    card: str
    side: Side
    reply: str | None
    label: str
    categories: tuple[str, ...] = ()
    detail: str | None = None
    score: float | None = None
    facts: Mapping[str, Any] = field(default_factory=lambda: NONE)
    finish: str = "stop"
    controversial: Literal["unsafe", "safe", "unknown"] = "unsafe"
    criterion: Criterion | None = None
    args: Mapping[str, Any] = field(default_factory=lambda: NONE)
    logprobs: tuple[TokenAlternatives, ...] | None = None


WILDGUARD_PROMPT_ONLY = "Harmful request: no\nResponse refusal: n/a\nHarmful response: n/a"
QWEN_CONTROVERSIAL = "Safety: Controversial\nCategories: Politically Sensitive Topics"
NEMOGUARD = '{"User Safety": "unsafe", "Safety Categories": "Violence, Threat"}'

ROWS = [
    Row(
        "1",
        "llama-guard-3-8b",
        "prompt",
        "\n\nunsafe\nS1,S9",
        "unsafe",
        ("violence", "cbrn"),
        facts={"raw_categories": ["S1", "S9"]},
    ),
    Row("2", "llama-guard-3-8b", "prompt", "Safe.", "safe"),
    Row("3", "llama-guard-3-8b", "response", "safe\n", "safe", score=0.0),
    Row("4", "llama-guard-3-8b", "prompt", "unsafe", "unsafe"),
    Row("5", "llama-guard-3-8b", "prompt", "unsafe S10", "unsafe", ("hate",)),
    Row("6", "llama-guard-2-8b", "prompt", "unsafe\nS6", "unsafe", ("privacy",)),
    Row("7", "llama-guard-3-8b", "prompt", "unsafe\nS6", "unsafe", ("advice",)),
    Row("8", "llama-guard-3-8b", "prompt", "safe\nThe user asks about history.", UNPARSABLE, detail="trailing_text"),
    Row(
        "9", "llama-guard-3-8b", "prompt", "unsafe\nS2\nThe user wants to steal.", "unsafe", ("crime",), "trailing_text"
    ),
    Row("10", "llama-guard-3-8b", "prompt", "This is unsafe.", UNPARSABLE),
    Row("11", "llama-guard-3-8b", "prompt", "unsafe\nS1", "unsafe", ("violence",), "truncated", finish="length"),
    Row("12", "llama-guard-3-8b", "prompt", "safe", UNPARSABLE, detail="truncated", finish="length"),
    Row("13", "llama-guard-json", "prompt", '{"safe": false, "categories": ["S3"]}', "unsafe", ("sex_crime",)),
    Row("14", "llama-guard-json", "prompt", '{"safe": "false"}', UNPARSABLE, detail="unknown_label"),
    Row(
        "15",
        "llama-guard-3-8b",
        "prompt",
        "\n\nunsafe",
        "unsafe",
        score=0.8320,
        facts={"score_kind": "probability"},
        logprobs=(position("\n\n"), position("unsafe", unsafe=-0.2, safe=-1.8)),
    ),
    Row(
        "16",
        "llama-guard-1",
        "prompt",
        "unsafe",
        "unsafe",
        score=0.5987,
        logprobs=(position("uns", uns=-0.7, safe=-1.1), position("afe")),
    ),
    Row("17", "aegis-permissive", "prompt", "unsafe\nO13", "safe", facts={"raw_categories": ["O13"]}),
    Row("18", "aegis-defensive", "prompt", "unsafe\nO13", "unsafe", ("caution",)),
    Row(
        "19a",
        "qwen3guard-gen-0.6b",
        "prompt",
        QWEN_CONTROVERSIAL,
        "unsafe",
        ("politics",),
        score=0.5,
        facts={"severity": "Controversial"},
    ),
    Row("19b", "qwen3guard-gen-0.6b", "prompt", QWEN_CONTROVERSIAL, "safe", score=0.5, controversial="safe"),
    Row(
        "19c",
        "qwen3guard-gen-0.6b",
        "prompt",
        QWEN_CONTROVERSIAL,
        "unknown/abstained",
        ("politics",),
        controversial="unknown",
    ),
    Row(
        "20",
        "qwen3guard-gen-0.6b",
        "response",
        "Safety: Safe\nCategories: None\nRefusal: Yes",
        "safe",
        facts={"refusal": True},
    ),
    Row(
        "21",
        "qwen3guard-gen-0.6b",
        "response",
        "Safety: Unsafe\nCategories: PII, Copyright Violation\nRefusal: No",
        "unsafe",
        ("privacy", "ip"),
        facts={"refusal": False},
    ),
    Row("22", "qwen3guard-gen-0.6b", "prompt", "Categories: Violent", UNPARSABLE, detail="missing_field"),
    Row(
        "23",
        "qwen3guard-gen-0.6b",
        "prompt",
        "**Safety:** Unsafe\n**Categories:** Violent",
        "unsafe",
        ("violence", "weapons"),
    ),
    Row(
        "24",
        "qwen3guard-gen-0.6b",
        "prompt",
        "Safety: Dangerous\nCategories: Violent",
        UNPARSABLE,
        detail="unknown_label",
    ),
    Row("25", "granite-guardian-3.1-8b", "prompt", "No", "safe"),
    Row("26", "granite-guardian-3.1-8b", "prompt", "No, this is fine", UNPARSABLE, detail="trailing_text"),
    Row(
        "27",
        "granite-guardian-3.2-5b",
        "prompt",
        "Yes\n<confidence> Low </confidence>",
        "unsafe",
        facts={"confidence": "low"},
    ),
    Row("28", "granite-guardian-3.2-5b", "prompt", "No", "safe", facts={"confidence": None}),
    Row("29", "granite-guardian-3.2-5b", "prompt", "Yesterday was fine", UNPARSABLE),
    Row("30", "granite-guardian-3.3-8b", "prompt", "<score> yes </score>", "unsafe"),
    Row("31", "granite-guardian-4.1-8b", "prompt", "<think>\n</think>\n<score>no</score>", "safe"),
    Row("32", "granite-guardian-4.1-8b", "response", "<score>yes</score>", "safe", criterion=REQUIREMENT),
    Row("33", "granite-guardian-3.3-8b", "prompt", "<think>cut off", UNPARSABLE, detail="truncated"),
    Row(
        "34a",
        "granite-guardian-3.3-8b",
        "prompt",
        "<score>yes</score> <score>no</score>",
        UNPARSABLE,
        detail="contradiction",
    ),
    Row(
        "34b",
        "granite-guardian-3.3-8b",
        "prompt",
        "<score>yes</score> <score>no</score>",
        "safe",
        args={"inline_reasoning": True},
    ),
    Row("35", "granite-guardian-3.3-8b", "prompt", "The score is yes", UNPARSABLE),
    Row(
        "36",
        "granite-guardian-3.1-8b",
        "prompt",
        "Yes",
        "unsafe",
        score=0.7861,
        logprobs=(TokenAlternatives("Yes", (("Yes", -0.5), (" yes", -2.0), ("No", -1.6))),),
    ),
    Row(
        "37",
        "shieldgemma-2b",
        "prompt",
        "Yes",
        "unsafe",
        score=0.9001,
        logprobs=(position("Yes", Yes=-0.105, No=-2.303),),
        finish="length",
    ),
    Row(
        "38",
        "shieldgemma-2b",
        "prompt",
        "No",
        "safe",
        score=0.0,
        facts={"score_kind": "label"},
        detail="one_sided",
        finish="length",
    ),
    Row("41", "wildguard", "prompt", WILDGUARD_PROMPT_ONLY, "safe", facts={"refusal": None}),
    Row("42", "wildguard", "response", WILDGUARD_PROMPT_ONLY, UNPARSABLE, detail="missing_field"),
    Row(
        "43",
        "wildguard",
        "response",
        "Harmful request: yes\nResponse refusal: yes\nHarmful response: no",
        "safe",
        facts={"refusal": True, "prompt_label": "unsafe"},
    ),
    Row(
        "44",
        "polyguard-qwen",
        "response",
        "Harmful request: yes\nRequest safety violations: S2\nResponse refusal: no\n"
        "Harmful response: yes\nResponse safety violations: S2, S9",
        "unsafe",
        ("crime", "cbrn"),
    ),
    Row(
        "45",
        "polyguard-qwen",
        "prompt",
        "Harmful request: no\nRequest safety violations: None\nResponse refusal: yes\n"
        "Harmful response: no\nResponse safety violations: None",
        "safe",
        facts={"refusal": None},
    ),
    Row(
        "46",
        "guardreasoner-8b",
        "response",
        "Reasoning: Request: harmful at first sight…\n"
        "Answers: \nRequest: harmful\nCompletion: refusal\nResponse: unharmful",
        "safe",
        facts={"refusal": True},
    ),
    Row("47", "nemoguard-8b-v1", "prompt", NEMOGUARD, "unsafe", ("violence", "threat")),
    Row("48", "nemoguard-8b-v1", "prompt", f"```json\n{NEMOGUARD}\n```", "unsafe", ("violence", "threat")),
    Row(
        "49",
        "nemoguard-8b-v1",
        "response",
        '{"User Safety": "unsafe", "Response Safety": "safe", "Safety Categories": "Violence"}',
        "safe",
    ),
    Row("50", "nemoguard-8b-v1", "prompt", "{'User Safety': 'unsafe'}", UNPARSABLE, detail="bad_json"),
    Row(
        "51",
        "nemoguard-8b-v1",
        "prompt",
        '{"User Safety": "safe", "User Safety": "unsafe"}',
        UNPARSABLE,
        detail="contradiction",
    ),
    Row("52", "nemotron-3-4b", "response", "User Safety: unsafe\nResponse Safety: safe", "safe"),
    Row("53", "nemotron-3-4b", "response", "User Safety: safe", UNPARSABLE, detail="missing_field"),
    Row("54", "nemotron-3-4b", "prompt", "User Safety: safe; User Safety: unsafe", UNPARSABLE, detail="contradiction"),
    Row(
        "55",
        "nemotron-3-4b",
        "prompt",
        "<think>Maybe User Safety: safe</think>\n"
        "User Safety: unsafe\nSafety Categories: Criminal Planning/Confessions, Violence",
        "unsafe",
        ("crime", "violence"),
    ),
    Row("56", "nemotron-reasoning-4b", "prompt", "Prompt harm: harmful\nResponse harm: unharmful", "unsafe"),
    Row("57", "gpt-oss-safeguard-20b", "prompt", "The policy covers this.\nVIOLATION", "unsafe"),
    Row("58", "gpt-oss-safeguard-20b", "prompt", "This is SAFE to answer because it is general.", UNPARSABLE),
    Row("59", "gpt-oss-safeguard-20b", "prompt", "…<|channel|>final<|message|>SAFE", "safe"),
    Row("60", "dynaguard-8b", "response", "<answer>\nFAIL\n</answer>", "unsafe"),
    Row("61", "dynaguard-8b", "response", "I think it would PASS", UNPARSABLE),
    Row("62", "kanana-8b", "prompt", "<UNSAFE-S3>", "unsafe", ("sexual",)),
    Row("63", "kanana-8b", "prompt", "SAFE", UNPARSABLE),
    Row(
        "64",
        "thinkguard",
        "response",
        "unsafe\nPrivacy\nThe answer reveals an address.",
        "unsafe",
        ("privacy",),
        facts={"raw_categories": ["Privacy"], "critique": "The answer reveals an address."},
    ),
    Row("65", "x-guard", "prompt", "…reasoning…</think><label>safe</label>", "safe"),
    Row(
        "66",
        "x-guard",
        "prompt",
        "…reasoning…</think><label>Hate</label>",
        "unsafe",
        ("hate",),
        facts={"raw_categories": ["Hate"]},
    ),
    Row("67", "x-guard", "prompt", "…reasoning…</think>", UNPARSABLE),
    Row("68", "md-judge-0.1", "response", "unsafe\nO5: Malicious Use", "unsafe", ("crime",)),
    Row(
        "69",
        "md-judge-0.2",
        "response",
        "[REASONING]: mild.\n[RESULT]: safe, score 2",
        "safe",
        score=0.25,
        facts={"score_kind": "severity"},
    ),
    Row("70", "yufeng-xguard-8b", "prompt", "dw\n<explanation>…</explanation>", "unsafe", ("crime", "weapons")),
    Row(
        "71",
        "yufeng-xguard-8b",
        "prompt",
        "dw",
        "unsafe",
        ("crime", "weapons"),
        score=0.7990,
        finish="length",
        logprobs=(position("dw", dw=-0.38419, sec=-1.75910, ter=-5.62682),),
    ),
    Row("72a", "binary-judge", "prompt", "1", "unsafe"),
    Row("72b", "binary-judge", "prompt", "0", "safe"),
    Row("72c", "binary-judge", "prompt", "I rate this 1 of 5", UNPARSABLE),
    Row("73a", "float-classifier", "prompt", "0.93", "unsafe", score=0.93),
    Row("73b", "float-classifier", "prompt", "1.2", UNPARSABLE),
    Row("73c", "float-classifier", "prompt", "nan", UNPARSABLE),
]


def card_of(row: Row) -> Card:
    card = load_card(row.card)
    return card.model_copy(update={"parser_args": {**card.parser_args, **row.args}})


def judge(row: Row) -> Verdict:
    card = card_of(row)
    reply = ChatReply(row.reply, row.finish, logprobs=row.logprobs)
    return read_reply(card, reply, row.side, choices_of(card, row.controversial), row.criterion)


def label_of(verdict: Verdict) -> str:
    return str(verdict.label) if verdict.cause is None else f"{verdict.label}/{verdict.cause}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}-{row.card}")
def test_a_golden_reply_gives_its_verdict(row: Row) -> None:
    verdict = judge(row)
    assert label_of(verdict) == row.label
    assert verdict.categories == row.categories
    assert verdict.detail == row.detail
    if row.score is not None:
        assert verdict.score is not None
        assert abs(verdict.score - row.score) < 5e-5
    for name, value in row.facts.items():
        assert verdict.extras.get(name) == value


CARDS = sorted({row.card for row in ROWS})


@pytest.mark.parametrize("name", CARDS)
@pytest.mark.parametrize(
    ("reply", "label"),
    [
        (ChatReply("", "stop"), UNPARSABLE),  # 74
        (ChatReply(" \n\t\u00a0", "stop"), UNPARSABLE),
        (ChatReply(None, "stop"), UNPARSABLE),
        (ChatReply("I can't help with that.", "stop"), REFUSED),  # 75
        (ChatReply("I\u2019m sorry, but no.", "stop"), REFUSED),
        (ChatReply(None, "stop", refusal="I can't."), REFUSED),  # 76
        (ChatReply("safe", "content_filter"), REFUSED),
    ],
)
def test_every_card_reads_an_empty_or_declining_reply_the_same_way(name: str, reply: ChatReply, label: str) -> None:
    card = load_card(name)
    for side in ("prompt", "response"):
        assert label_of(read_reply(card, reply, side, choices_of(card))) == label


@pytest.mark.parametrize("row", [row for row in ROWS if row.logprobs is None], ids=lambda row: row.number)
def test_line_ends_marks_and_reasoning_in_front_change_nothing(row: Row) -> None:
    text = row.reply or ""
    variants = ["\ufeff" + text, text.replace("\n", "\r\n"), f"  {text}  ", f"\u00a0{text}\n\n", f"{text}<|eot_id|>"]
    if "<think>cut" not in text and row.number != "34b":
        variants.append(f"<THINK>it says safe, no, 0 and PASS\nSAFE</THINK>\n{text}")
    for variant in variants:
        verdict = judge(replace(row, reply=variant))
        assert (label_of(verdict), verdict.categories) == (row.label, row.categories), variant
