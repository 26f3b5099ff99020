from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisors.confusables import CONFUSABLES
from supervisors.norm import find_alnum, map_norm, normalize, squash, unleet
from tests.timing import assert_cost

PHRASE = "violet umbrella"
SAME = {
    "zero-width split": "vi\u200bolet umb\u200crella",
    "homoglyph": "v\u0456\u043el\u0435t umbr\u0435ll\u0430",
    "fullwidth": "ｖｉｏｌｅｔ\u3000ｕｍｂｒｅｌｌａ",
    "newline": "violet\numbrella",
    "double space": "violet  umbrella",
    "tab": "violet\tumbrella",
    "soft hyphen": "vio\u00adlet UMBRELLA",
    "combining marks": "v\u0308i\u0301ole\u0302t umbrel\u0337la\u0301",
    "precomposed marks": "vïólêt ümbréllá",
    "a foreign mark": "vi\u0591olet umbrel\u05b0la",
    "bidi controls": "\u202eviolet\u202c umbrella",
    "variation selectors": "violet\ufe0f umbrella\U000e0101",
    "tag characters between": "vio\U000e0041let umbrella",
    "control characters": "vio\x00let umb\x08rella\x7f",
    "mathematical letters": "𝓋𝒾𝑜𝓁𝑒𝓉 𝗎𝗆𝖻𝗋𝖾𝗅𝗅𝖺",
    "a blank that is no letter": "vio\u2800let umb\u3164rella",
}


@pytest.mark.parametrize("name", SAME)
def test_disguises_of_a_phrase_fold_to_the_phrase(name: str) -> None:  # D-03
    assert normalize(SAME[name]) == PHRASE


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("around", ["{}", "I saw a {}, twice", "日本 {} مرحبا नमस्ते"])
def test_a_folded_phrase_maps_back_to_its_disguise(name: str, around: str) -> None:
    text = around.format(SAME[name])
    norm = normalize(text)
    start = norm.index(PHRASE)
    place = map_norm(text).locate(start, start + len(PHRASE))
    assert normalize(text[place.start : place.end]) == PHRASE


@pytest.mark.parametrize(
    ("text", "norm"),
    [
        ("Burn modern Illness", "burn modern illness"),  # ASCII is left alone: no skeleton
        ("Straße ﬁn", "strasse fin"),
        ("각 カﾞ कि", "각 ガ कि"),
        ("\u1112\u1161\u11ab ㅎㅏ", "한 하"),
        (" a ", " a "),
        ("\n\n", " "),
        ("", ""),
    ],
)
def test_other_text_stays_what_it_is(text: str, norm: str) -> None:
    assert normalize(text) == norm


def test_case_can_be_kept() -> None:
    assert normalize("\uff21\u200bKIA\u0410", fold_case=False) == "AKIAA"


def fold_as_the_specification_says(text: str) -> str:
    """Apply the steps of guarding §2 one after another to the whole text, slowly."""
    text = "".join([c for c in unicodedata.normalize("NFKC", text) if not is_unseen(c)]).casefold()
    kept: list[str] = []
    plain = False
    for char in unicodedata.normalize("NFD", text):
        if unicodedata.category(char).startswith("M"):
            if plain or is_generic(char):
                continue
        else:
            name = unicodedata.name(char, "")
            plain = char.isdigit() or name.startswith(("LATIN", "GREEK", "CYRILLIC"))
        kept.append(char)
    text = "".join([CONFUSABLES.get(c, c) for c in unicodedata.normalize("NFC", "".join(kept))]).casefold()
    out = ""
    for char in text:
        if not char.isspace():
            out += char
        elif not out.endswith(" "):
            out += " "
    return out


def is_unseen(char: str) -> bool:
    category, code = unicodedata.category(char), ord(char)
    listed = code in (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x2800, 0x3164, 0xFFA0)
    ranges = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF))
    control = category == "Cc" and not char.isspace()
    return category == "Cf" or listed or control or any(first <= code <= last for first, last in ranges)


def is_generic(char: str) -> bool:
    blocks = ((0x300, 0x36F), (0x483, 0x489), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF), (0xFE20, 0xFE2F))
    return any(first <= ord(char) <= last for first, last in blocks)


ODD = (
    "aeo é\u0301\u0308\u200b\u00ad\ufe0fﬁ\u0591ㅎㅏㄴ한\u11abｶﾞのが\u3099ａ\u00a0\u00a8ͺ\u0c02Σςß\u0345\u0130И\u0306"
    "\n\t\x00\x07अ़ाक्\U000e0061\u1160\u3164"
)
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from(ODD)), max_size=12)


@settings(max_examples=500, deadline=None)
@given(TEXTS)
def test_the_fast_folding_equals_the_specified_one(text: str) -> None:
    assert normalize(text) == fold_as_the_specification_says(text)


@settings(max_examples=500, deadline=None)
@given(TEXTS)
def test_every_range_of_norm_maps_to_text_that_folds_to_it(text: str) -> None:
    norm = normalize(text)
    offsets = map_norm(text)
    for start in range(len(norm)):
        place = offsets.locate(start, len(norm))
        assert 0 <= place.start < place.end <= len(text)
        assert norm[start:].strip() in normalize(text[place.start :])
        assert norm[start:].strip() in normalize(text[place.start : place.end])


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_squash_keeps_what_find_alnum_names(text: str) -> None:
    norm = normalize(text)
    assert squash(norm) == "".join([norm[i] for i in find_alnum(norm)])
    assert len(unleet(norm)) == len(norm)


def test_digits_and_signs_are_read_as_letters() -> None:
    assert unleet("0134578@$!") == "oieastbasi"


def test_every_confusable_is_reached_after_folding() -> None:
    for look_alike, plain in CONFUSABLES.items():
        assert plain.isascii()
        assert plain.isalnum()
        assert normalize(look_alike) in (plain, ""), (look_alike, plain)


@pytest.mark.parametrize("fold_case", [True, False])
def test_a_text_of_many_different_characters_folds_as_each_by_itself(fold_case: bool) -> None:
    chars = [chr(code) for code in (*range(0x20, 0xD800, 3), *range(0xE000, 0x2FFFF, 7))]
    few = [normalize(" ".join(chars[i : i + 100]), fold_case=fold_case).split() for i in range(0, len(chars), 100)]
    together = normalize(" ".join(chars), fold_case=fold_case).split()
    assert len(set(together)) > 20_000
    assert together == [word for words in few for word in words]


def test_many_different_characters_cost_little_more_than_few() -> None:  # G-08
    text = "".join([chr(code) for code in range(0x4E00, 0x9FFF)])
    assert_cost(lambda: normalize(text), 250)
    assert_cost(lambda: normalize("".join(map(chr, range(0x20000, 0x28000)))), 400)
