from __future__ import annotations

import codecs

import pytest

from supervisors.readings import FUNCTION_WORDS, find_readings, focus, is_masked, join_spaced, reads_like_english
from supervisors.variants import DECODINGS, Layer, find_variants
from tests.timing import assert_linear

TEXT = "how do you find the violet umbrella that was left in the hall"
MASKED = {
    "zero-width": "\u200b".join(TEXT),
    "soft hyphen": TEXT.replace("o", "o\u00ad"),
    "homoglyphs": TEXT.translate(str.maketrans("ioea", "\u0456\u043e\u0435\u0430")),
    "fullwidth": "".join(chr(ord(c) + 0xFEE0) if c != " " else "\u3000" for c in TEXT),
    "mathematical": "".join(chr(0x1D41A + ord(c) - 97) if c != " " else c for c in TEXT),
    "struck through": TEXT.replace("l", "l\u0338"),
}
PLAIN = [
    "O\u00f9 est le caf\u00e9 d\u00e9j\u00e0 ferm\u00e9 \u00e0 K\u00f6ln ?",
    "\u041a\u0430\u043a \u0438\u0441\u043f\u0435\u0447\u044c \u0445\u043b\u0435\u0431?",
    "\u042f \u043b\u044e\u0431\u043b\u044e Python \u0438 C++, \u0432\u043e\u0442.",
    "\u03a0\u03ce\u03c2 \u03c6\u03c4\u03b9\u03ac\u03c7\u03bd\u03c9 \u03c8\u03c9\u03bc\u03af;",
    "\u0930\u094b\u091f\u0940 \u0915\u0948\u0938\u0947 \u092c\u0928\u093e\u090f\u0902",
    "A family: \U0001f468\u200d\U0001f469\u200d\U0001f467, \u00b5 = 3, x\u00b2 + y\u00b2",
    "for x0 in range(10): y1 = f(x0) if b2b else mp3  # covid19",
    "".join([f"{i:05d} or {i}, " for i in range(99)]),
    "The U.S.A. and the U.K., e.g. A. B. Smith",
]


def read(text: str) -> dict[str, str]:
    return {reading.transform: reading.text for reading in find_readings(Layer(text))}


@pytest.mark.parametrize("name", MASKED)
def test_a_masked_text_is_read_unmasked(name: str) -> None:
    assert is_masked(MASKED[name])
    assert read(MASKED[name])["norm"] == TEXT


@pytest.mark.parametrize("text", [*PLAIN, TEXT, ""])
def test_plain_text_of_any_script_has_no_second_reading(text: str) -> None:
    assert read(text) == {}


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("v i o l e t  u m b r e l l a", "violet umbrella"),
        ("see: v.i.o.l.e.t u-m-b-r-e-l-l-a, now", "see: violetumbrella, now"),
        ("a b c", "a b c"),
        ("1. one 2. two 3. three", "1. one 2. two 3. three"),
    ],
)
def test_spaced_letters_are_joined(text: str, joined: str) -> None:
    assert join_spaced(text) == joined


@pytest.mark.parametrize("gap", [" ", "  ", "   ", ".", "-", "_", "*", "|", "/", " - "])
@pytest.mark.parametrize("before", ["", "?", "\n", "\u6f22\u5b57 ", "so ", "("])
@pytest.mark.parametrize("after", ["", "?", "\n", " \u6f22\u5b57", " so", ")"])
def test_eight_letters_that_stand_apart_are_enough_whatever_is_around_them(before: str, gap: str, after: str) -> None:
    apart = join_spaced(before + gap.join("umbrella") + after)
    assert apart != before + gap.join("umbrella") + after
    seven = before + gap.join("parasol") + after
    assert join_spaced(seven) == seven


def test_letters_of_any_script_that_stand_apart_are_joined() -> None:
    assert (
        join_spaced(" ".join("\u0437\u043e\u043d\u0442\u0438\u043a\u0438\u0438"))
        == "\u0437\u043e\u043d\u0442\u0438\u043a\u0438\u0438"
    )


def test_turned_texts_are_read_when_that_makes_english_of_them() -> None:
    assert read(codecs.encode(TEXT, "rot13")) == {"rot13": TEXT}
    assert read(TEXT[::-1]) == {"reverse": TEXT}
    assert read(TEXT.replace("o", "0").replace("e", "3"))["leet"] == TEXT
    assert read(f"Answer what this says to me and to you: {codecs.encode(TEXT, 'rot13')}")["rot13"].endswith(TEXT)
    assert not reads_like_english("violet umbrella")
    assert len(FUNCTION_WORDS) == 40


PROSE = "The quick brown fox jumps over the lazy dog, and no one saw what it is that they are at in the park. " * 40


@pytest.mark.parametrize("name", ["rot13", "reverse", "leet"])
@pytest.mark.parametrize(
    ("before", "after"), [(PROSE, PROSE), ("please tell me what it says ", ""), ("", " is it for you")]
)
def test_a_turned_sentence_in_plain_prose_is_read_on_its_own(name: str, before: str, after: str) -> None:  # D-07
    turned = {
        "rot13": codecs.encode(TEXT, "rot13"),
        "reverse": TEXT[::-1],
        "leet": TEXT.translate(str.maketrans("eo", "30")),
    }
    found = read(f"{before}{turned[name]}{after}")
    assert list(found) == [name]
    assert TEXT in found[name].replace("\n", " ")
    assert len(found[name]) < len(TEXT) + 110


DISGUISED = {
    "url": "".join([f"%{ord(char):02X}" for char in TEXT]),
    "html": "".join([f"&#{ord(char)};" for char in TEXT]),
    "escape": "".join([f"\\u{ord(char):04x}" for char in TEXT]),
    "norm": MASKED["homoglyphs"],
    "squash": " ".join(TEXT.replace(" ", "")),
}


@pytest.mark.parametrize("name", DISGUISED)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_of_a_long_text_what_stands_around_a_disguise_is_read_again(name: str, place: int) -> None:
    text = PROSE * place + DISGUISED[name] + " " + PROSE * (2 - place)
    said = [focus(layer).text for layer in find_variants(text, DECODINGS).shown if layer.chain]
    said += [reading.text for layer in find_variants(text, DECODINGS).shown for reading in find_readings(layer)]
    assert any(TEXT.replace(" ", "") in one.replace(" ", "") for one in said)
    assert sum(map(len, said)) < 2_000 < len(text)


def test_plain_prose_of_any_length_is_not_read_again() -> None:
    assert read(PROSE * 20) == {}


@pytest.mark.parametrize(
    "unit", ["The quick brown fox. ", "\u0412\u043e\u0442 \u0442\u0430\u043a. ", "a b c d ", "x0 y1 ", "a\u0301"]
)
def test_readings_are_linear(unit: str) -> None:  # G-08
    assert_linear(lambda size: read(unit * (size // len(unit))), 25_000)
