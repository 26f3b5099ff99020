"""How far a growing text may be released: hold-back in visible characters, no cut runs, whole words (guarding §7)."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.frontier import clear_of_cuts, end_of_words, has_sentence, holdback_start, mask_piece
from proxy.plan import Planner, Request, StagePlan
from proxy.policy import Policy
from proxy.redact import Mark, mask
from proxy.stream import Gate
from proxy.wire.chat import CHAT
from proxy.wire.sse import SseParser, data_frame
from supervisors.ask import ask_all
from supervisors.norm import normalize
from supervisors.rules import Rules
from supervisors.testing import context
from supervisors.types import Exchange, Supervisor, Verdict

CANARY = "violet umbrella"


def plan_of(supervisor: Supervisor, window: int) -> StagePlan:
    stream = {"window_chars": window}
    policy = Policy.model_validate({"output": {"forced": ["words"], "stream": stream}})
    return Planner({"default": policy}, {"words": supervisor}).plan(Request("gpt", None, CHAT.route)).output


def never(name: str, verdict: Verdict) -> bool:
    return False


def released(supervisor: Supervisor, deltas: Sequence[str], window: int = 1) -> str:
    """Stream the deltas through a gate and return the text that left before the block."""

    async def run() -> str:
        frames, left = CHAT.open_frames(CHAT.new_head("id", 0, "gpt"), {}), ""
        gate = Gate(plan_of(supervisor, window), frames, 0, 1)
        ends = [(text, None) for text in deltas] + [("", "stop")]
        for text, finish in ends:
            delta = {"content": text} if text else {}
            frame = data_frame({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
            for chunk in frames.read(SseParser().feed(frame)[0]):
                gate.push(chunk)
            for asked in gate.due():
                exchange = Exchange("id", "gpt", "output", (), asked.segments, 0, complete=asked.complete)
                gate.take(asked, await ask_all(asked.named, exchange, context("unused"), never))
            for raw in gate.release():
                for chunk in frames.read(SseParser().feed(raw)[0]):
                    left += "".join([piece.text for piece in chunk.pieces])
        assert gate.block is not None, "the canary was not found at all"
        return left

    return asyncio.run(run())


RULES = Rules(keywords=(CANARY,))
ENCODED = base64.b64encode(f"my {CANARY} is here".encode()).decode()
DISGUISES = {
    "plain": CANARY,
    "zero width": "\u200b".join(CANARY),
    "braille blanks": "\u2800\u2800".join(CANARY),
    "hangul fillers": "\u3164\u115f\uffa0".join(CANARY),
    "controls": "\x01\x7f".join(CANARY),
    "tags": "\U000e0041".join(CANARY),
    "combining": "\u0301\u034f".join(CANARY),
    "wide spaces": "violet" + " \t\n" * 30 + "umbrella",
    "base64": ENCODED,
    "hex": CANARY.encode().hex(),
    "hex in pairs": " ".join([f"{ord(char):02x}" for char in CANARY]),
    "hex with 0x": ", ".join([f"0x{ord(char):02x}" for char in CANARY]),
    "base64 in pieces": " ".join(re.findall(".{1,4}", base64.b64encode(CANARY.encode()).decode())),
    "base64 in letters": " ".join(base64.b64encode(CANARY.encode()).decode()),
    "one escape": '{"a": "\\u0076iolet umbrella"}',
    "escaped space": '{"violet\\u0020umbrella": 1}',
    "escaped line break": '{"a": "violet\\numbrella"}',
    "escaped slashes": '{"a": "' + "\\/".join(CANARY) + '"}',
    "escapes": "".join([f"\\u{ord(char):04x}" for char in CANARY]),
    "escapes inside json inside json": "".join([f"\\\\u{ord(char):04x}" for char in CANARY]),
    "escaped zero width": "\\u200b\\u00ad".join(CANARY),
    "url": "".join([f"%{ord(char):02x}" for char in CANARY]),
    "html": "".join([f"&#{ord(char):07};" for char in CANARY]),
    "escapes in url": "".join([f"%5cu{ord(char):04x}" for char in CANARY]),
}


@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("disguise", DISGUISES)
def test_no_part_of_a_disguised_canary_leaves(disguise: str, size: int) -> None:  # S-01, D-03
    for lead in ("", "And so, ", "But now, as ever, "):
        text = f"{lead}All is well. {DISGUISES[disguise]} And on it goes for a while."
        left = released(RULES, [text[i : i + size] for i in range(0, len(text), size)])
        assert f"{lead}All is well. {{".startswith(left.replace('{"', "{"))


KEYWORD = Rules(keywords=("zwpq",), loose=True)
"""Too short to be looked for in disguises, so that what is held back is as short."""


@settings(max_examples=120, deadline=None)
@given(
    forms=st.lists(
        st.sampled_from(["{}", "\\u{:04x}", "\\\\u{:04x}", "\\u{{{:x}}}", "\\u200b{}"]), min_size=4, max_size=4
    ),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=9),
    lead=st.integers(0, 60),
    window=st.integers(1, 40),
)
def test_no_part_of_a_short_word_in_escapes_leaves(
    forms: list[str], sizes: list[int], lead: int, window: int
) -> None:  # S-01, guarding §7
    hidden = "".join(
        [form.format(char if form.endswith("{}") else ord(char)) for form, char in zip(forms, "zwpq", strict=True)]
    )
    before = ("and so on " * 6)[:lead] + '"b": '
    text, position, deltas = f"{before}{hidden}, and so it ends here", 0, list[str]()
    while position < len(text):
        size = sizes[len(deltas) % len(sizes)]
        deltas.append(text[position : position + size])
        position += size
    assert before.startswith(released(KEYWORD, deltas, window))


@pytest.mark.parametrize("lead", range(0, 48, 5))
@pytest.mark.parametrize("window", [16, 40, 100])
def test_an_encoded_run_is_judged_whole_wherever_the_windows_end(lead: int, window: int) -> None:  # guarding §7
    run = base64.b64encode(b"x" * (6 * lead) + f" {CANARY} ".encode() + b"y" * 60).decode()
    text = f"Look here {'a ' * lead}{run} and more words"
    left = released(RULES, [text[i : i + 4] for i in range(0, len(text), 4)], window)
    assert run[:16] not in left


def test_hangul_letters_count_as_the_syllables_they_join_to() -> None:  # guarding §7: counted in norm characters
    secret = "비밀열쇠고리"
    letters = "".join([chr(0x1107), chr(0x1175), chr(0x1106), chr(0x1175), chr(0x11AF)])
    text = f"이것은 {letters}열쇠고리 입니다 "
    left = released(Rules(keywords=(secret,), loose=True), list(text))
    assert chr(0x1107) not in left


@settings(max_examples=150, deadline=None)
@given(text=st.text("ab \u200b\u0301\u2800\x01é", max_size=40), holdback=st.integers(1, 12))
def test_the_hold_back_leaves_enough_visible_characters(text: str, holdback: int) -> None:
    start = holdback_start(text, len(text), holdback)
    assert start == 0 or len(normalize(text[start:])) >= holdback


@pytest.mark.parametrize(
    ("text", "holdback", "start"),
    [
        ("abcdef", 2, 4),
        ("abcdef", 0, 6),
        ("abcdef", 99, 0),
        ("ab\u200b\u200bcd", 3, 1),
        ("ab    cd", 3, 5),
        ("ab\u2800\u2800cd", 3, 1),
        ("ab\x01\x02cd", 3, 1),
        ("ab\u3164cd", 3, 1),
    ],
)
def test_hold_back_in_examples(text: str, holdback: int, start: int) -> None:
    assert holdback_start(text, len(text), holdback) == start


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("see dmlvbGV0IHVtYnJl", 20, 4),
        ("see dmlvbGV0IHVtYnJl", 10, 4),
        ("see dmlvbGV0IHVtYnJl then", 10, 4),
        ("see dmlvbGV0IHVtYnJl then", 22, 22),
        ("short word", 3, 3),
        ("e\u0301x", 1, 0),
        ("a\u200db", 1, 0),
        ("", 0, 0),
        ("x" * 5000, 4500, 4500),
    ],
)
def test_a_frontier_cuts_no_run_and_no_grapheme(text: str, position: int, expected: int) -> None:
    assert clear_of_cuts(text, position) == expected


def test_words_and_sentences() -> None:
    assert end_of_words("one two thr", 0) == 7
    assert end_of_words("onetwothr", 0) == 9
    assert end_of_words("one two thr", 8) == 11
    assert has_sentence("One. two", 0)
    assert not has_sentence("One. two", 4)
    assert not has_sentence("3.14", 0)
    assert has_sentence("終わり。", 0)


@settings(max_examples=150, deadline=None)
@given(
    text=st.text("abcdefgh", min_size=1, max_size=30),
    cuts=st.lists(st.integers(1, 6), max_size=20),
    spans=st.lists(st.tuples(st.integers(0, 29), st.integers(1, 6)), max_size=3),
)
def test_masking_piece_by_piece_is_masking_the_whole(
    text: str, cuts: list[int], spans: list[tuple[int, int]]
) -> None:  # S-10
    marks: list[Mark] = []
    for start, length in sorted(spans):
        if start < len(text) and (not marks or start > marks[-1].end):
            marks.append(Mark(start, min(start + length, len(text)), "x"))
    pieces: list[str] = []
    position = 0
    for cut in [*cuts, len(text)]:
        if position < len(text):
            pieces.append(mask_piece(text[position : position + cut], position, marks))
            position += cut
    assert "".join(pieces) == mask(text, marks)
