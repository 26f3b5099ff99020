"""Base64 and hex beside words and numbers that look like some: each run is read alone too, and words have edges."""

from __future__ import annotations

import base64
import json
import random
import re
from urllib.parse import quote

import pytest

from supervisors.decoding import find_runs
from supervisors.rules import Rules
from supervisors.scan import Finding, scan_segments
from supervisors.types import Segment
from supervisors.variants import MAX_LAYERS, decoded_spans, find_variants
from tests.timing import assert_cost

CANARY = "violet umbrella"
B64 = base64.b64encode(CANARY.encode()).decode()
HEX = CANARY.encode().hex()


def find(text: str, *keywords: str) -> tuple[Finding, ...]:
    rules = Rules(keywords=keywords or (CANARY,))
    return scan_segments([Segment("/a", "user", "text", text, 0)], rules.matcher).findings


@pytest.mark.parametrize(
    "text",
    [
        f"{B64} end of text",
        f"{B64} c1de",
        f"c1de {B64} end",
        "aGVs dmlv bGV0 IHVt YnJl bGxh c1de",
        f"aGVs {B64}/xx",
        f"x/{B64} end of text",
        "aGVs dmlvbGV0 IHVtYnJlbGxh/xx",
        f'{{"a": "{B64}", "c": [1, {{"d": "e"}}]}}',
        f"{HEX} 42 times",
        f"42 {HEX}",
        f"4242 {HEX} 7a",
        f"id 6 {HEX}, 7a",
        " ".join(re.findall("..", HEX)) + " 42 times",
        f"{HEX} ff00ff {b'a longer text than that'.hex()}",
        f"{b'a longer text than that'.hex()} 7{HEX}",
    ],
)
def test_what_stands_beside_a_run_does_not_hide_it(text: str) -> None:  # D-03
    assert find(text)
    for found in find(text):
        assert not find(f"{text[: found.start]}[REDACTED:rules]{text[found.end :]}") or len(find(text)) > 1


@pytest.mark.parametrize("tail", ["", "!", "??"])
def test_an_end_that_stands_in_words_of_its_own_is_read(tail: str) -> None:
    run = base64.b64encode(f"say {CANARY}{tail} now".encode()).decode().rstrip("=")
    for size in range(1, 9):
        for after in ("", " of a", " c1de", ", day"):
            text = " ".join(re.findall(f".{{1,{size}}}", run)) + after
            assert find(text, f"{CANARY}{tail} now"), text


def test_redaction_takes_the_run_and_not_its_neighbours() -> None:  # G-11, G-37
    value = {"a": B64, "c": [1, {"d": "e"}]}
    for text in (json.dumps(value), json.dumps(value, separators=(",", ":"))):
        (found,) = find(text)
        left = json.loads(f"{text[: found.start]}[REDACTED:rules]{text[found.end :]}")
        assert left == {**value, "a": "[REDACTED:rules]"}
    (found,) = find(f"c1de {B64}== end")
    assert (found.start, found.end) == (5, 5 + len(B64) + 2)


def test_a_phrase_over_several_words_takes_all_of_them() -> None:  # G-11
    text = "see dmlv bGV0\nIHVt YnJl\tbGxh"
    (found,) = find(text)
    assert (found.start, found.end) == (4, len(text))


def test_models_are_shown_each_run_once() -> None:  # G-09
    for text in (f"{B64} a", f"{B64} end of text", f"x {HEX} 42 times", f"{HEX[:16]} {HEX[16:]}"):
        shown = decoded_spans(text)
        assert len(shown) == 1
        assert CANARY in shown[0].text


def test_all_texts_in_one_run_of_hex_are_read() -> None:
    parts = [CANARY.encode().hex(), "fff3", b"another text".hex(), "ff7", b"one more text here".hex()]
    (run,) = find_runs("hex", "".join(parts))
    assert run.text.split("\n") == [CANARY, "another text", "one more text here"]


def test_too_many_readings_are_over_the_limit() -> None:  # G-08
    text = f"{B64} a c a | " * MAX_LAYERS
    assert find_variants(text).over_limit == ("base64",)
    assert len(find_variants(text).layers) <= MAX_LAYERS + 1


PROSE = re.findall(
    r"\S+",
    """
can be decoded but first read it before you go every day for you abcd c1de and then some end of text file
number easy base64 dear all fine cafe code data face feed beef babe decide added bed beta The World x y z
1234 42 7a 0x41 ff deadbeef DEAD 00 3132 a b
""",
)
SEAMS = (" ", " ", " ", "\n", ", ", ". ", ": ", " - ", "; ", "\t")


def cut(rng: random.Random, text: str, *sizes: int) -> list[str]:
    parts: list[str] = []
    while text:
        size = rng.choice(sizes)
        parts.append(text[:size])
        text = text[size:]
    return parts


def encode(rng: random.Random, text: str) -> str:
    digits, code = text.encode().hex(), base64.b64encode(text.encode()).decode()
    bare = code.rstrip("=")
    forms = (
        lambda: code,
        lambda: bare,
        lambda: base64.urlsafe_b64encode(text.encode()).decode(),
        lambda: " ".join(cut(rng, bare, 4)),
        lambda: "\n".join(cut(rng, code, rng.choice([8, 12, 20]))),
        lambda: rng.choice([" ", "\n", ". ", "\r\n"]).join(cut(rng, bare, 3, 4, 5, 7, 9)),
        lambda: base64.b64encode(code.encode()).decode(),
        lambda: base64.b64encode(digits.encode()).decode(),
        lambda: digits,
        digits.upper,
        lambda: f"0x{digits}",
        lambda: rng.choice([" ", ":", "-"]).join(cut(rng, digits, 2)),
        lambda: " ".join([f"0x{pair}" for pair in cut(rng, digits, 2)]),
        lambda: "".join([f"\\x{pair}" for pair in cut(rng, digits, 2)]),
        lambda: "\n".join(cut(rng, digits, rng.choice([4, 8, 16]))),
        lambda: code.encode().hex(),
    )
    return rng.choice(forms)()


def word(rng: random.Random) -> str:
    """Return a word: of prose, readable base64, digits that may be hex, a number, letters."""
    kinds = (
        lambda: rng.choice(PROSE),
        lambda: base64.b64encode("".join(rng.choices("abcdefghij klmn", k=rng.choice([3, 6, 9]))).encode()).decode(),
        lambda: "".join(rng.choices("abcdef0123456789", k=rng.choice([2, 2, 3, 4, 6]))),
        lambda: str(rng.randrange(10 ** rng.randrange(1, 9))),
        lambda: "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(1, 9))),
    )
    return rng.choice(kinds)()


def surround(rng: random.Random, run: str) -> str:
    before = "".join([word(rng) + rng.choice(SEAMS) for _ in range(rng.randrange(5))])
    after = "".join([rng.choice(SEAMS) + word(rng) for _ in range(rng.randrange(5))])
    forms = (
        lambda: before + run + after,
        lambda: f'{before}"{run}"{after}',
        lambda: f"{before}({run}){after}",
        lambda: json.dumps({"k": run, word(rng) + "_": [rng.randrange(99), {word(rng): word(rng)}]}),
        lambda: json.dumps({word(rng) + "_": before, "k": run, "z": after}, separators=(",", ":")),
    )
    return rng.choice(forms)()


@pytest.mark.parametrize("seed", range(20))
def test_any_run_among_any_words_is_read(seed: int) -> None:  # D-03
    for i in range(60):
        rng = random.Random(f"{seed} {i}")  # noqa: S311 - a sample, not a key
        letters = "bcdfghjklmnpqrstvwxz"
        canary = "".join(rng.choices(letters, k=5)) + " " + "".join(rng.choices(letters, k=rng.randrange(6, 12)))
        text = surround(rng, encode(rng, rng.choice(["", "say "]) + canary + rng.choice(["", "!", " x"])))
        assert find(text, canary), (canary, text)


@pytest.mark.parametrize("before", ["x", "xy", "xyz", "key", "Q9"])
@pytest.mark.parametrize("after", ["", "x", "."])
def test_a_short_run_glued_to_letters_is_searched_and_not_shown(before: str, after: str) -> None:  # D-03
    text = f"see {before}{B64}{after} there"
    (found, *_) = find(text)
    assert text[found.start : found.end].startswith(before)
    assert not [said for said in decoded_spans(text) if CANARY in said.text] or after == "."


def test_random_identifiers_say_nothing() -> None:
    source = random.Random(5)  # noqa: S311 - texts, not keys
    names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    ids = [f"chatcmpl-{''.join(source.choices(names, k=29))}" for _ in range(4_000)]
    assert sum([1 for each in ids for _ in find_runs("base64", each)]) <= 1


@pytest.mark.parametrize("gap", [" ", ":", "-", "\n"])
def test_a_few_readable_bytes_in_a_row_of_noise_are_read(gap: str) -> None:
    row = bytes([0x80, 0x91, *b"violet", 0x92, 0x83, 0x94, 0xE5, 0xC6, 0xD7])
    assert [run.text for run in find_runs("hex", row.hex(gap))] == [" v i o l e t "]
    assert not list(find_runs("hex", (row[:7] + row[8:]).hex(gap)))


# -- what it costs (G-08) ------------------------------------------------------------------------------------------

WORDS = ("violet", "bread", "how", "do", "you", "find", "the", "left", "in", "hall", "with", "keys", "water", "oven")
KILOBYTES = 100
PHRASE = "the oven and the bread in the hall"


def _runs(seed: int, size: int, split: int = 0) -> str:
    """Return base64 runs of some characters of text each, cut into pieces of so many characters."""
    source = random.Random(seed)  # noqa: S311 - texts, not keys
    runs: list[str] = []
    while sum(map(len, runs)) < KILOBYTES * 1_000:
        said = " ".join(source.choices(WORDS, k=size))[:size]
        run = base64.b64encode(said.encode()).decode()
        runs.append(" ".join(re.findall(f".{{1,{split}}}", run)) if split else run)
    return " ".join(runs)[: KILOBYTES * 1_000]


def _noise(form: str, seed: int) -> str:
    source = random.Random(seed)  # noqa: S311 - texts, not keys
    return "".join(
        [form.format(source.randbytes(8).hex()) for _ in range(KILOBYTES * 1_000 // len(form.format("0" * 16)))]
    )


COSTLY = {
    "short runs": _runs(1, 15),
    "runs": _runs(2, 30),
    "long runs": _runs(3, 750),
    "runs in single characters": _runs(4, 30, 1),
    "runs in threes": _runs(5, 30, 3),
    "runs in fours": _runs(6, 30, 4),
    "runs in tens": _runs(7, 30, 10),
    "runs of runs": base64.b64encode(_runs(8, 30)[: KILOBYTES * 750].encode()).decode(),
    "hashes": _noise("{} ", 9),
    "a dump": re.sub(
        "(.{32})", lambda row: f"00000000  {' '.join(re.findall('..', row[1]))}\n", _noise("{}", 10)[:60_000]
    ),
    "bytes": " ".join([f"0x{byte:02x}," for byte in b"the oven and the bread " * 600]),
    "string escapes": "".join([f"\\x{byte:02x}" for byte in b"the oven and the bread " * 1_000]),
    "json lines": "\n".join(
        [
            json.dumps({"id": row, "url": f"/find?q={quote(PHRASE)}&n={i}", "text": f'{PHRASE}\né "{i}"'})
            for i, row in enumerate(_noise("{} ", 11).split()[:400])
        ]
    ),
    "entities": "".join([f"&#{byte};" for byte in b"the oven and the bread " * 1_000]),
    "hex of hex": (b"the oven and the bread " * 1_000).hex().encode().hex(),
}


@pytest.mark.parametrize("run", [HEX, B64])
@pytest.mark.parametrize("escape", ["%{:02x}", "&#{};", "\\u{:04x}"])
def test_a_run_with_an_escape_in_it_is_found_beside_the_same_without(run: str, escape: str) -> None:  # G-11
    for at in (0, 9, len(run) - 1):
        spelt = run[:at] + escape.format(ord(run[at])) + run[at + 1 :]
        text = f"id={run}; é {spelt}, {run}."
        places = {text[found.start : found.end] for found in find(text)}
        assert len(find(text)) == 3
        assert any(spelt in place for place in places)


@pytest.mark.parametrize("kind", COSTLY)
def test_no_kind_of_run_costs_more_than_its_share(kind: str) -> None:  # G-08
    """Allow 20 ms of 100 kB: 70 times the work beside it on the machine where that was measured, 110 with its noise."""
    text = COSTLY[kind]
    matcher = Rules(keywords=(CANARY,)).matcher
    segments = [Segment("/a", "user", "text", text, 0)]
    assert_cost(lambda: scan_segments(segments, matcher), 110 * len(text) / (KILOBYTES * 1_000))
