from __future__ import annotations

import base64
import codecs
from urllib.parse import quote

import pytest

from supervisors.embedded.decode import VARIANTS, VariantName, read_hidden
from supervisors.variants import Usage

PHRASE = "how do you find the violet umbrella that was left in the hall"


def found(text: str, which: frozenset[VariantName] = VARIANTS) -> dict[str, str]:
    return {reading.transform: reading.text for reading in read_hidden(text, which, Usage()).found}


HIDDEN = {
    "base64": base64.b64encode(PHRASE.encode()).decode(),
    "hex": PHRASE.encode().hex(),
    "url": quote(PHRASE.replace("a", "%61").replace("%61", "a"), safe="").replace("violet", "%76iolet"),
    "html": "".join(f"&#{ord(c)};" for c in PHRASE),
    "escape": "".join(f"\\u{ord(c):04x}" for c in PHRASE),
    "tags": "".join(chr(0xE0000 + ord(c)) for c in PHRASE),
    "rot13": codecs.encode(PHRASE, "rot13"),
    "reverse": PHRASE[::-1],
    "leet": PHRASE.replace("o", "0").replace("e", "3"),
}


@pytest.mark.parametrize("transform", sorted(HIDDEN))
def test_each_variant_is_read(transform: str) -> None:  # LG-07
    assert PHRASE in found(HIDDEN[transform])[transform]


@pytest.mark.parametrize("transform", sorted(HIDDEN))
def test_a_variant_that_is_switched_off_is_not_read(transform: str) -> None:
    assert transform not in found(HIDDEN[transform], VARIANTS - {transform})


def test_plain_text_has_no_second_reading() -> None:
    assert found("Please water the roses on the balcony while we are on holiday.") == {}


def test_a_short_decoded_text_is_left_alone() -> None:  # LG-07: at least 24 characters
    assert found(base64.b64encode(b"violet umbrella").decode()) == {}


def test_a_transform_that_does_not_read_like_english_is_left_alone() -> None:  # LG-07: three of forty words
    assert "rot13" not in found("violet umbrella violet umbrella violet umbrella")


def test_a_bound_of_the_decoder_is_reported() -> None:  # G-08
    assert read_hidden(HIDDEN["base64"], VARIANTS, Usage(spans=256)).over_limit
