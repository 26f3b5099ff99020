r"""Characters written as escapes, as whoever parses the text reads them: one ``\\u0076`` in JSON is enough."""

from __future__ import annotations

import asyncio
import html
import json
import random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisors.decoded import append_decoded
from supervisors.embedded.decode import VARIANTS, read_hidden
from supervisors.escapes import find_escapes, find_unit, holds_signs
from supervisors.offsets import replace_pieces
from supervisors.rules import Rules
from supervisors.scan import Scan, scan_segments
from supervisors.testing import context, exchange
from supervisors.types import Label, Segment
from supervisors.variants import MAX_ESCAPES, MAX_SPANS, Usage, decoded_spans, find_variants

CANARY = "violet umbrella"
RULES = Rules(keywords=(CANARY,))
EVERYTHING = Rules(keywords=(CANARY,), presets=("secrets", "pii", "injection"))


def said(text: str) -> str | None:
    found = find_escapes("escape", text, 100)
    return None if found is None else found.text


def scan(*texts: str, rules: Rules = RULES) -> Scan:
    segments = [Segment(f"/{i}", "user", "text", text, i) for i, text in enumerate(texts)]
    return scan_segments(segments, rules.matcher)


def mask(text: str) -> str:
    """Return a text without what was found in it."""
    for found in reversed(scan(text).findings):
        text = f"{text[: found.start]}[REDACTED:rules]{text[found.end :]}"
    return text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'{"a":"\u0076iolet umbrella"}', '{"a":"violet umbrella"}'),
        (r'{"a":"violet\numbrella"}', '{"a":"violet\numbrella"}'),
        (r"a\/b \"c\" \'d\' \b\f\n\r\t\\", "a/b \"c\" 'd' \b\f\n\r\t\\"),
        (r"\\u0076 \\n \\\u0076", r"\u0076 \n \v"),
        (r"\x76\u{69}\u006f", "vio"),
        (r"\ud83d\ude00 and \ud83dx", "\U0001f600 and \ufffdx"),
        (r"\d+\s*\(\w\) C:\Windows", None),
        ("plain", None),
        ("\\", None),
        (r"\u12", None),
    ],
)
def test_a_text_is_read_as_a_parser_reads_it(text: str, expected: str | None) -> None:  # G-08
    assert said(text) == expected


CHARS = st.characters(exclude_categories=["Cs"])
WRITTEN = st.lists(st.tuples(st.one_of(st.sampled_from('violet umbrella\\"/\n\t\b\x00'), CHARS), st.booleans()))


def write(char: str, *, escaped: bool) -> str:
    """Write a character as JSON allows."""
    plain = json.dumps(char, ensure_ascii=False)[1:-1]
    if not escaped:
        return plain
    units = char.encode("utf-16-be")
    return "".join([f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2)])


@settings(max_examples=200, deadline=None)
@given(WRITTEN)
def test_any_json_string_says_what_a_json_parser_says(chars: list[tuple[str, bool]]) -> None:  # G-08
    text = "".join([write(char, escaped=escaped) for char, escaped in chars])
    assert (said(text) or text) == json.loads(f'"{text}"')


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from('\\\\\\u007619ab{}x"/nt \ufdd0\ue000é'), max_size=60))
def test_the_pieces_make_the_same_text(text: str) -> None:
    found = find_escapes("escape", text, 100)
    if found is None:
        assert replace_pieces(text, ()) == text
    else:
        assert replace_pieces(text, found.pieces) == found.text


def escape_some(text: str, rng: random.Random, *, share: float) -> str:
    return "".join([write(char, escaped=rng.random() < share) for char in text])


AROUND = [
    "",
    "x",
    "Hello there",
    'a "quote" and \\ more',
    "é ü 漢字",
    "line\nbreak\ttab",
    "C:\\users\\new",
    "1/2",
    "😀",
]


@pytest.mark.parametrize("seed", range(120))
def test_a_canary_anywhere_in_json_is_found_and_goes_and_the_rest_stays(seed: int) -> None:  # G-08, G-11, G-37
    rng = random.Random(seed)  # noqa: S311 - a sample, not a key
    word = "".join(rng.choices("bcdfghklmnprstvwz", k=5)) + rng.choice([" ", "\n", "\t"]) + "umbrella"
    before, after = (f"{rng.choice(AROUND)} ", f" {rng.choice(AROUND)}") if rng.random() < 0.7 else ("", "")
    text = write_json(rng, before + word + after)
    rules = Rules(keywords=(word,))
    found = scan(text, rules=rules).findings
    assert len(found) == 1, text
    left = read_deep(f"{text[: found[0].start]}[REDACTED:rules]{text[found[0].end :]}")
    was = read_deep(text)
    assert word in was["a"]["b"]
    assert word not in left["a"]["b"]
    assert "[REDACTED:rules]" in left["a"]["b"]
    assert (left["n"], left["z"]) == (was["n"], was["z"])
    if "\\u" not in text:
        assert left["a"]["b"] == was["a"]["b"].replace(word, "[REDACTED:rules]")


def write_json(rng: random.Random, value: str) -> str:
    """Write a string with at least one escape as part of a JSON text, perhaps of one inside another, maybe in prose."""
    inner = escape_some(value, rng, share=rng.choice([0.05, 0.3, 1.0]))
    text = f'{{"n": [1, null], "a": {{"b": "{inner}"}}, "z": "{escape_some(rng.choice(AROUND), rng, share=0.2)}"}}'
    return json.dumps({"deep": text}, ensure_ascii=rng.random() < 0.5) if rng.random() < 0.4 else text


def read_deep(text: str) -> Any:
    value = json.loads(text)
    return json.loads(value["deep"]) if "deep" in value else value


@pytest.mark.parametrize(
    "text",
    [
        r'{"violet\u0020umbrella": 1}',
        r'Here it is: {"a": "\u0076iolet umbrella"}. Good luck.',
        r"```json" + "\n" + r'["violet\tumbrella"]' + "\n```",
        r"{'a': '\u0076iolet umbrella'}",
        r'{"a": "\u0076iolet umbrella", "a": "k"}',
        r'{"a": "\u0076iolet umbrella',
        r'"{\"a\": \"{\\\"b\\\": \\\"violet umbrella\\\"}\"}"',
        r'{"a": "vio\u200blet umb\u00adrella"}',
        r'{"a": "vio\blet umbrella"}',
        r'{"a": "VIOLET\u000aUMBRELL\u0041"}',
        r'{"a": "dmlvbGV0IHVtYnJlb\u0047xh"}',
    ],
)
def test_any_place_of_a_json_text_is_read(text: str) -> None:  # D-03
    assert scan(text).findings
    assert mask(text) != text
    assert not scan(mask(text)).findings


LOOK_ALIKES = {
    "windows paths": r"C:\users\u0041dmin\new\temp\bin\x41 \\server\share\folder\notes.txt D:\backup\readme",
    "latex": r"\begin{equation} \frac{\beta}{\rho} \nabla \times \text{B} = \mu_0 \vec{j} \right) \\ \end{equation}",
    "regexes": r"^\bfoo\b\s+(\d{3}-\d{4}|[\w.]+@[\w.]+\.com)\n?$ and \x41\t\r\n \u00e9+",
    "code": 'print("Hello\\nWorld\\t%s\\n" % name)\nre.sub(r"\\s+", "\\\\n", text)\nputs("a\\x00b")',
    "json": json.dumps({"text": "Café – naïve “quotes” 漢字 😀\nline two\ttab", "html": "<b>&amp;</b>", "p": "a/b"}),
    "shell": r"sed -e 's/\/usr\/bin/\/opt\/bin/g' | awk '{print $1 \"\t\" $2}'",
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_what_is_full_of_backslashes_is_not_flagged(name: str) -> None:  # D-09
    verdict = asyncio.run(EVERYTHING.assess(exchange(LOOK_ALIKES[name]), context("unused")))
    assert verdict.label is Label.SAFE


@pytest.mark.parametrize("text", [r'print("a\nb\tc\"d\"\\")', r'{"a": "caf\u00e9 \u2013"}', r"C:\users\x41\new"])
def test_models_are_not_shown_what_they_read_anyway(text: str) -> None:  # G-09
    assert len(find_variants(text).layers) > 1
    assert decoded_spans(text) == ()
    assert append_decoded(text) == text
    assert read_hidden(f"{text} and some more words", VARIANTS, Usage()).found == ()


@pytest.mark.parametrize("text", [r'{"a": "\u0076iolet umbrella"}', r'{"a": "violet\u0020umbrella\n"}'])
def test_models_are_shown_letters_and_spaces_that_nobody_need_escape(text: str) -> None:  # G-09
    assert ["violet" in span.text for span in decoded_spans(text)] == [True]
    assert '"violet' in append_decoded(text)[len(text) :]
    assert CANARY in read_hidden(text, VARIANTS, Usage()).found[0].text


def test_models_are_shown_what_is_hidden_and_not_each_line_break() -> None:  # G-09
    text = json.dumps({"code": "a line\n" * 300}) + r" \u0076\u0069\u006f"
    assert [span.text for span in decoded_spans(text)] == ["vio"]


def test_line_breaks_and_accents_in_json_use_up_no_bound() -> None:  # G-08
    text = json.dumps({"log": "one \u00e9 line\n" * (MAX_ESCAPES // 2)})
    assert scan(text.replace("\\u00e9", "\\/")).over_limit == ()
    many = [json.dumps({"log": f"line\ncaf\u00e9 {i}"}) for i in range(MAX_SPANS + 9)]
    assert scan(*many).over_limit == ()
    assert scan(*many[:-1], json.dumps("violet\numbrella")).findings


def test_letters_in_escapes_do() -> None:  # G-08
    assert scan("\\u0041 " * (MAX_ESCAPES + 1)).over_limit == ("escape",)
    assert scan("%41 " * (MAX_ESCAPES + 1) + r"violet\numbrella").findings  # what costs nothing is read all the same


@pytest.mark.parametrize(
    ("text", "back", "place"),
    [
        ("abc", 1, 2),
        (r"a\u0062c", 2, 1),
        (r"a\\u0062c", 2, 1),
        (r"a\u0062\u00", 1, 1),
        (r"a&#98;&#9", 1, 1),
        (r"a%62%", 1, 1),
        (r"x%5cu0062c", 2, 1),
        (r"ab\n", 1, 2),
        ("ab\U000e0063", 1, 2),
        (r"ab\u0063", 0, 8),
    ],
)
def test_a_place_in_what_is_said_is_found_in_the_text(text: str, back: int, place: int) -> None:  # guarding §7
    assert find_unit(text, lambda said: len(said) - back) == place


def test_signs_of_escapes() -> None:
    assert [holds_signs(text) for text in ("a\\", "%", "&", "\U000e0061", "é", "plain")] == [True] * 4 + [False] * 2


def test_a_structured_reply_is_valid_after_redaction() -> None:  # G-37
    assert orjson.loads(mask(r'{"a": "\"\u0076iolet umbrella\" \u00e9"}')) == {"a": '"[REDACTED:rules]" é'}


@pytest.mark.parametrize(
    "text",
    [
        "violet%20umbrella",
        "viole%74 umbrella",
        "violet&#32;umbrella",
        "v&#x69;olet umbrella",
        "vi&shy;olet umbrella",
        "violet&nbsp;umbrella",
    ],
)
def test_one_escape_of_a_url_or_a_page_hides_nothing_and_is_no_news_to_a_reader(text: str) -> None:  # D-03
    (found,) = scan(f"see {text} there").findings
    assert f"see {text} there"[found.start : found.end] == text
    assert not decoded_spans(f"see {text} there")
    assert not scan(f"see {text.replace('umbrella', 'umbrellas')} there").findings


ENTITIES = st.one_of(
    st.integers(0, 0x112000).map("&#{};".format),
    st.integers(0, 0x112000).map("&#x{:x};".format),
    st.integers(0, 0x300).map("&#X{:04X}".format),
    st.integers(0, 0x300).map("&#{}".format),
    st.sampled_from(["&amp;", "&notit;", "&nosuch;", "&lt;", "&a12;"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(ENTITIES, min_size=1, max_size=4), min_size=1, max_size=4))
def test_entities_say_what_a_browser_reads(runs: list[list[str]]) -> None:  # G-08
    found = find_escapes("html", " ".join(["".join(run) for run in runs]), 100)
    read = " ".join(["".join(map(html.unescape, run)) for run in runs])
    assert (" ".join(["".join(run) for run in runs]) if found is None else found.text) == read


@pytest.mark.parametrize("size", [511, 512, 513, 1_500])
def test_a_long_run_of_entities_is_read_to_its_end(size: int) -> None:
    found = find_escapes("html", "".join([f"&#{0x4E00 + i};" for i in range(size)]), 100)
    assert found is not None
    assert found.text == "".join([chr(0x4E00 + i) for i in range(size)])


@pytest.mark.parametrize(
    "text",
    [
        r"%5Cu0076iolet umbrella, \n",
        r"\u00%37%36iolet umbrella",
        r"\u0025\u0037\u0036iolet umbrella %20",
        "%26#118;iolet umbrella &amp;",
        "&#37;76iolet umbrella %20",
        r"&#92;u0076iolet umbrella \n",
    ],
)
def test_an_escape_that_another_one_spells_is_read(text: str) -> None:  # D-03
    assert scan(text).findings
