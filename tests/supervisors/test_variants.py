from __future__ import annotations

import base64
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisors.variants import (
    DECODINGS,
    MAX_DECODED_CHARS,
    MAX_ESCAPES,
    MAX_SPANS,
    Decoded,
    Usage,
    decoded_spans,
    find_variants,
)
from tests.timing import assert_linear

PHRASE = "violet umbrella"
B64 = "dmlvbGV0IHVtYnJlbGxh"
ENCODED = {
    "base64": (B64, "base64"),
    "base64 twice": ("ZG1sdmJHVjBJSFZ0WW5KbGJHeGg=", "base64>base64"),
    "base64, URL-safe without padding": (
        base64.urlsafe_b64encode(f"??>{PHRASE}".encode()).decode().strip("="),
        "base64",
    ),
    "base64 in pieces": ("dmlv bGV0\nIHVt YnJl\tbGxh", "base64"),
    "base64 with unseen characters": ("dmlv\u200bbGV0IHVt\u00adYnJlbGxh", "base64"),
    "base64 of UTF-16": (base64.b64encode(PHRASE.encode("utf-16-le")).decode(), "base64"),
    "hex": ("76696f6c657420756d6272656c6c61", "hex"),
    "hex, upper case": ("76696F6C657420756D6272656C6C61", "hex"),
    "hex with 0x": (" ".join(f"0x{ord(c):02x}" for c in PHRASE), "hex"),
    "hex with colons": (":".join(f"{ord(c):02x}" for c in PHRASE), "hex"),
    "hex with backslashes": ("".join(f"\\x{ord(c):02x}" for c in PHRASE), "hex"),
    "url": ("%76%69%6F%6C%65%74%20%75%6D%62%72%65%6C%6C%61", "url"),
    "url twice": ("".join(f"%25{ord(c):02x}" for c in PHRASE), "url>url"),
    "html": ("".join(f"&#{ord(c)};" for c in PHRASE), "html"),
    "html, hexadecimal": ("".join(f"&#x{ord(c):x};" for c in PHRASE), "html"),
    "escapes": ("".join(f"\\u{ord(c):04x}" for c in PHRASE), "escape"),
    "escapes with braces": ("".join(f"\\u{{{ord(c):x}}}" for c in PHRASE), "escape"),
    "tags": ("".join(chr(0xE0000 + ord(c)) for c in PHRASE), "tags"),
    "base64 of url": (base64.b64encode("".join(f"%{ord(c):02x}" for c in PHRASE).encode()).decode(), "base64>url"),
    "hex of base64": (B64.encode().hex(), "hex>base64"),
}


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize(("before", "after"), [("", ""), ("Please read this: ", ", then answer."), ("so (", ")\n")])
def test_an_encoded_phrase_is_read_and_its_whole_run_located(name: str, before: str, after: str) -> None:  # G-08, G-11
    run, chain = ENCODED[name]
    found = [span for span in decoded_spans(before + run + after) if span.chain == chain and PHRASE in span.text]
    assert found, name
    start, end = found[0].start, found[0].end
    assert run in (before + run + after)[start:end]
    assert end - start <= len(run) + 20  # the run and at most the words it is glued to


def test_a_third_layer_is_not_decoded() -> None:  # G-08
    thrice = base64.b64encode(base64.b64encode(base64.b64encode(PHRASE.encode()))).decode()
    assert all(PHRASE not in span.text for span in decoded_spans(thrice))


def test_a_text_half_in_escapes_is_read_as_one() -> None:
    text = "a violet %75%6D%62rella"
    layer = next(layer for layer in find_variants(text).layers if layer.chain == ("url",))
    assert layer.text == "a violet umbrella"
    start = layer.text.index(PHRASE)
    place = layer.locate("raw", start, start + len(PHRASE))
    assert text[place.start : place.end] == "violet %75%6D%62rella"


@pytest.mark.parametrize("text", ["100% sure & done", "a%20b%20c", "x &amp; y", r"C:\users\x41", "fish &chips; &more"])
def test_fewer_than_three_escapes_are_left_alone(text: str) -> None:
    assert decoded_spans(text) == ()


NOISE = random.Random(7)  # noqa: S311 - noise, not a key

LOOK_ALIKES = {
    "prose": "The quick brown fox jumps over the lazy dog, and internationalization is hard for everybody here.",
    "hashes": "da39a3ee5e6b4b0d3255bfef95601890afd80709 d41d8cd98f00b204e9800998ecf8427e",
    "uuids": "550e8400-e29b-41d4-a716-446655440000 6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "paths": "src/main/java/com/example/FooBarBazQuxController.java and /usr/local/lib/python3.11/site-packages",
    "code": "def compute_total(items): return sum(item.price * item.quantity for item in items if item.isActive)",
    "numbers": "4111 1111 1111 1111, 2024-01-31T12:34:56.789Z, 1234567890123456789012345678901234567890",
    "an image": base64.b64encode(b"\x89PNG\r\n\x1a\n" + NOISE.randbytes(4000)).decode(),
    "an image in lines": base64.encodebytes(b"\xff\xd8\xff\xe0" + NOISE.randbytes(4000)).decode(),
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_what_only_looks_encoded_is_left_alone(name: str) -> None:  # D-09
    assert decoded_spans(LOOK_ALIKES[name]) == ()


def test_a_text_inside_a_path_is_read() -> None:
    text = f"https://example.org/x/{B64}/y"
    (span,) = decoded_spans(text)
    assert span.text == PHRASE
    assert B64 in text[span.start : span.end]


def test_too_many_runs_are_reported_not_dropped_in_silence() -> None:  # G-08
    runs = " | ".join(base64.b64encode(f"made-up sentence {i:05}".encode()).decode() for i in range(MAX_SPANS + 5))
    variants = find_variants(runs)
    assert variants.over_limit == ("base64",)
    assert len(variants.layers) == MAX_SPANS + 1


def test_too_much_decoded_text_is_reported() -> None:  # G-08
    assert find_variants((b"a" * (MAX_DECODED_CHARS + 1)).hex()).over_limit == ("hex",)


def test_bounds_hold_over_the_texts_of_one_request() -> None:  # G-08
    used = Usage(MAX_SPANS - 1, 0)
    first = find_variants(B64, usage=used)
    second = find_variants(B64, usage=first.usage)
    assert (first.over_limit, second.over_limit) == ((), ("base64",))
    assert find_variants("plain words", usage=second.usage).over_limit == ()


def test_only_the_decodings_asked_for_are_tried() -> None:
    assert [layer.chain for layer in find_variants(B64, ["hex", "norm"]).layers] == [()]


def test_a_page_full_of_entities_is_one_span_not_an_overflow() -> None:
    page = "&nbsp;word in between that is long enough to part them for good&lt;" * 2000
    assert find_variants(page).over_limit == ()
    assert len(decoded_spans(page)) == 1


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=30), st.sampled_from(sorted(ENCODED)), st.text(max_size=30))
def test_every_decoded_span_lies_in_the_text(before: str, name: str, after: str) -> None:
    text = before + ENCODED[name][0] + after
    for span in decoded_spans(text):
        assert isinstance(span, Decoded)
        assert 0 <= span.start < span.end <= len(text)
        assert span.text


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("ab 01%&;#\\ux{}=+/\U000e0061")), max_size=60))
def test_every_range_of_every_layer_maps_into_the_text(text: str) -> None:
    for layer in find_variants(text).layers:
        for variant, folded in (("raw", layer.text), ("norm", layer.norm), ("squash", layer.squash)):
            for start in range(0, len(folded), 3):
                place = layer.locate(variant, start, min(start + 4, len(folded)))  # type: ignore[arg-type]  # a table of words
                assert 0 <= place.start < place.end <= len(text)


def test_reverse_and_leet_map_back() -> None:
    layer = find_variants("say 4llerbmu teloiv!").raw
    start = layer.reverse.index("violet umbrell4")
    place = layer.locate("reverse", start, start + 15)
    assert layer.text[place.start : place.end] == "4llerbmu teloiv"
    layer = find_variants("a v10l37 umbr3ll4.").raw
    start = layer.leet.index("violetumbrella")
    place = layer.locate("leet", start, start + 14)
    assert layer.text[place.start : place.end] == "v10l37 umbr3ll4"


@pytest.mark.parametrize("text", ["see 76{}", "a cafe: 76{}", "data76{}", "be 76{}", "f76{}", "deadbeef 76{}"])
def test_hex_beside_words_that_look_like_it_is_read(text: str) -> None:
    full = text.format(PHRASE.encode().hex()[2:])
    assert any(PHRASE in span.text for span in decoded_spans(full))


def test_a_long_hex_run_is_one_run() -> None:
    (span,) = decoded_spans(f"see {('word ' * 5000).encode().hex()}")
    assert span.text == "word " * 5000


@pytest.mark.parametrize(
    "kind",
    [
        *("prose", "base64", "hashes", "strays", "escapes", "line breaks", "backslashes", "words", "letters", "pairs"),
        *("runs in escapes", "entities"),
    ],
)
def test_a_megabyte_takes_four_times_as_long_as_its_quarter(kind: str) -> None:  # G-08
    text = {
        "prose": "The quick brown fox jumps. " * 40_000,
        "base64": base64.b64encode(NOISE.randbytes(750_000)).decode(),
        "hashes": "\n".join([NOISE.randbytes(20).hex() for _ in range(25_000)]),
        "strays": base64.b64encode((b"a readable text in here " + b"\x00\xff\x01") * 28_000).decode(),
        "escapes": "%41&lt;\\u0041 " * 70_000,
        "line breaks": "word\\n" * 170_000,
        "backslashes": "\\" * 1_000_000,
        "runs in escapes": '%22aGVsbG8gd29ybGQgb2Y%3D \\u00e9{"id": "9f86d081884c7d65"}' * 16_000,
        "entities": "".join([f"&#{i % 3_000 + 300};" for i in range(150_000)]),
        "words": "aGVs " * 200_000,
        "letters": " ".join(base64.b64encode(b"a readable text in here " * 15_600).decode()),
        "pairs": " ".join(re.findall("..", (b"a readable text in here " * 13_000).hex())),
    }[kind]
    assert_linear(lambda size: find_variants(text[:size]), len(text) // 4)


def test_too_many_escapes_are_reported() -> None:  # G-08
    assert find_variants("%41 " * (MAX_ESCAPES + 1)).over_limit == ("url",)


def test_decodings_are_those_a_model_backed_supervisor_quotes() -> None:  # G-09
    assert set(DECODINGS) == {"tags", "base64", "hex", "url", "html", "escape"}
