from __future__ import annotations

import asyncio
import base64
import codecs
import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.plugins import flatten_errors
from supervisors.rules import Rules, find_preset
from supervisors.testing import context, exchange
from supervisors.types import Cause, Exchange, Kind, Label, Media, Role, Segment, Verdict
from supervisors.variants import VARIANTS
from tests.timing import PATIENCE_S, assert_cost, assert_linear

PHRASE = "violet umbrella"
PRESET_DOCS = Path(__file__).resolve().parents[2] / "docs" / "supervisors.md"
FIXTURE = {
    "as written": (PHRASE, "raw"),
    "zero-width split": ("vi\u200bolet umb\u200crella", "norm"),
    "homoglyph": ("v\u0456\u043el\u0435t umbr\u0435ll\u0430", "norm"),
    "fullwidth": ("ｖｉｏｌｅｔ\u3000ｕｍｂｒｅｌｌａ", "norm"),
    "base64": ("dmlvbGV0IHVtYnJlbGxh", "base64"),
    "base64 twice": ("ZG1sdmJHVjBJSFZ0WW5KbGJHeGg=", "base64>base64"),
    "hex": ("76696f6c657420756d6272656c6c61", "hex"),
    "url": ("%76%69%6F%6C%65%74%20%75%6D%62%72%65%6C%6C%61", "url"),
    "html": ("".join(f"&#{ord(c)};" for c in PHRASE), "html"),
    "escapes": ("".join(f"\\u{ord(c):04x}" for c in PHRASE), "escape"),
    "rot13": ("ivbyrg hzoeryyn", "rot13"),
    "reversed": ("allerbmu teloiv", "reverse"),
    "leet": ("v10l37 umbr3ll4", "leet"),
    "leet with 1 for l": ("vio1et umbre11a", "leet"),
    "spaced": ("v i o l e t  u m b r e l l a", "squash"),
    "dotted": ("v.i.o.l.e.t. u-m-b-r-e-l-l-a", "squash"),
    "glued": ("violetumbrella", "squash"),
    "newline": ("violet\numbrella", "norm"),
    "double space": ("violet  umbrella", "norm"),
    "tab": ("violet\tumbrella", "norm"),
    "tag characters": ("".join(chr(0xE0000 + ord(c)) for c in PHRASE), "tags"),
    "soft hyphen, upper case": ("vio\u00adlet UMBRELLA", "norm"),
    "combining marks": ("v\u0308iolet umbrel\u0301la\u0300", "norm"),
    "rot13 in base64": (base64.b64encode(b"ivbyrg hzoeryyn").decode(), "base64>rot13"),
    "leet in hex": (b"v10l37 umbr3ll4".hex(), "hex>leet"),
}
NOISE = random.Random(3)  # noqa: S311 - noise, not a key
LOOK_ALIKES = {
    "a longer word": "three violet umbrellas, a violet umbrellaed man, ultraviolet umbrella",
    "the words apart": "an umbrella that is violet; violet, and an umbrella",
    "an image": base64.b64encode(b"\x89PNG\r\n\x1a\n" + NOISE.randbytes(20_000)).decode(),
    "hashes": " ".join(NOISE.randbytes(32).hex() for _ in range(50)),
    "code": "for i in range(10):\n    violet[i] = umbrella(x0, y1) if v10 else l37\n",
    "numbers": "10 0134578 3.14159 +1 555 010 9999",
}


def judge(rules: Rules, sample: Exchange) -> Verdict:
    return asyncio.run(rules.assess(sample, context()))


def text_of(sample: Exchange, path: str) -> str:
    return next(segment.text for segment in sample.judged if segment.path == path)


def redacted(sample: Exchange, verdict: Verdict) -> list[str]:
    return [text_of(sample, span.path)[span.start : span.end] for span in verdict.spans]


def request(*segments: Segment) -> Exchange:
    return Exchange("test", "model", "input", segments)


def segment(text: str, turn: int = 0, role: Role = "user", kind: Kind = "text", n: int = 0) -> Segment:
    return Segment(f"/messages/{turn}/content/{n}", role, kind, text, turn)


# -- the fixture of guarding §2 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIXTURE)
@pytest.mark.parametrize(("before", "after"), [("", ""), ("Tell me about ", ", please."), ("(", ")!\nThanks")])
def test_every_disguise_is_found_named_and_located(name: str, before: str, after: str) -> None:  # D-03, G-11
    disguised, chain = FIXTURE[name]
    sample = exchange(before + disguised + after)
    verdict = judge(Rules(keywords=(PHRASE,)), sample)
    assert verdict.label is Label.UNSAFE
    assert verdict.transform == chain
    assert redacted(sample, verdict) == [disguised]


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_what_only_resembles_the_phrase_is_safe(name: str) -> None:  # D-09
    assert judge(Rules(keywords=(PHRASE,), presets=("secrets",)), exchange(LOOK_ALIKES[name])).label is Label.SAFE


@pytest.mark.parametrize(
    "word",
    ["Scunthorpe", "Penistone", "Essex", "classic", "assassin", "cocktail", "Cockburn", "analysis", "therapists"],
)
def test_words_that_contain_a_keyword_are_safe(word: str) -> None:  # D-08, G-36
    rules = Rules(keywords=("cunt", "penis", "sex", "ass", "cock", "anal", "rapist", "therapist"))
    assert judge(rules, exchange(f"I know {word} well.")).label is Label.SAFE


@pytest.mark.parametrize("text", ["ass", "an ASS!", "_ass_", "(ass)", "ass's", "a\u0301ss", "お前はassだ"])
def test_a_whole_word_is_found(text: str) -> None:  # G-36
    assert judge(Rules(keywords=("ass",)), exchange(text)).label is Label.UNSAFE


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        ("紫の傘", "私は紫の傘を買った"),
        ("우산", "보라색 우산을 샀다"),
        ("зонт", "Мой ЗОНТ!"),
        ("παραπλου", "ΠΑΡΑΠΛΟΥ"),
        ("छाता", "बैंगनी छाता है"),
        ("$$$", "make $$$ fast"),
        ("c++", "I like C++."),
    ],
)
def test_keywords_of_any_script_are_found(keyword: str, text: str) -> None:
    assert judge(Rules(keywords=(keyword,)), exchange(text)).label is Label.UNSAFE


def test_short_phrases_are_not_searched_in_glued_text() -> None:  # G-10
    rules = Rules(keywords=("grape",))
    assert judge(rules, exchange("g r a p e")).label is Label.SAFE
    assert judge(rules, exchange("tencr")).label is Label.SAFE
    assert judge(rules, exchange("a grape")).label is Label.UNSAFE


def test_a_glued_hit_must_begin_and_end_with_a_word() -> None:  # G-10
    rules = Rules(keywords=("hat stand",))
    assert judge(rules, exchange("a h a t s t a n d there")).label is Label.UNSAFE
    assert judge(rules, exchange("that standard")).label is Label.SAFE


def test_digits_that_spell_nothing_are_no_leetspeak() -> None:
    assert judge(Rules(keywords=("filers",)), exchange("the fliers of 1984")).label is Label.SAFE


# -- spans ---------------------------------------------------------------------------------------------------------


def test_k_matches_give_k_spans() -> None:  # D-08
    sample = exchange("violet umbrella, Violet  Umbrella; v10l37 umbr3ll4 dmlvbGV0IHVtYnJlbGxh")
    verdict = judge(Rules(keywords=(PHRASE,)), sample)
    assert redacted(sample, verdict) == [
        "violet umbrella",
        "Violet  Umbrella",
        "v10l37 umbr3ll4",
        "dmlvbGV0IHVtYnJlbGxh",
    ]
    assert verdict.extras["transforms"] == ["raw", "norm", "leet", "base64"]


def test_the_longest_of_nested_phrases_is_redacted() -> None:  # D-08
    sample = exchange("a violet umbrella stand, a violet")
    verdict = judge(Rules(keywords=("violet", "violet umbrella", "violet umbrella stand")), sample)
    assert redacted(sample, verdict) == ["violet umbrella stand", "violet"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(FIXTURE)), min_size=1, max_size=5),
    st.text(alphabet=st.characters(exclude_categories=("L", "N", "M", "Cs", "Cf", "Co", "Cn", "Cc")), max_size=5),
)
def test_every_span_of_any_mixture_is_a_disguise(names: list[str], between: str) -> None:
    between = f" and {between} so "
    sample = exchange(between.join([FIXTURE[name][0] for name in names]))
    verdict = judge(Rules(keywords=(PHRASE,)), sample)
    assert verdict.label is Label.UNSAFE
    covered = "".join(
        [" " if any(s.start <= i < s.end for s in verdict.spans) else c for i, c in enumerate(sample.request[0].text)]
    )
    assert judge(Rules(keywords=(PHRASE,)), exchange(covered)).label is Label.SAFE


# -- parts, turns, scopes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(1, len(PHRASE)))
def test_a_phrase_split_over_parts_is_found_wherever_it_is_cut(cut: int) -> None:  # D-04
    sample = request(segment("So: " + PHRASE[:cut]), segment(PHRASE[cut:] + "!", n=1))
    verdict = judge(Rules(keywords=(PHRASE,)), sample)
    assert "".join(redacted(sample, verdict)) == PHRASE
    assert {span.path for span in verdict.spans} == {"/messages/0/content/0", "/messages/0/content/1"}


@pytest.mark.parametrize("pieces", [("violet", "umbrella"), ("vio", "let umb", "rella"), ("dmlvbGV0IHVt", "YnJlbGxh")])
def test_a_phrase_split_over_turns_of_one_role_is_found(pieces: Sequence[str]) -> None:  # D-04
    texts: list[str] = []
    for piece in pieces:
        texts += [piece, "Go on."]
    verdict = judge(Rules(keywords=(PHRASE,)), exchange(*texts[:-1]))
    assert verdict.label is Label.UNSAFE
    assert len(verdict.spans) == len(pieces)


def test_roles_are_not_joined() -> None:
    assert judge(Rules(keywords=(PHRASE,)), exchange("violet", "umbrella")).label is Label.SAFE


def test_a_phrase_split_between_long_parts_is_found() -> None:
    filler = "plain words in a row. " * 4000
    sample = request(segment(filler + "violet "), segment("umbrella " + filler, n=1))
    verdict = judge(Rules(keywords=(PHRASE,)), sample)
    assert "".join(redacted(sample, verdict)) == PHRASE


def test_findings_of_scopes_are_kept_apart() -> None:  # G-04
    sample = request(
        segment(PHRASE, role="system"),
        segment(f"{PHRASE} {PHRASE}", 1),
        segment(PHRASE, -1, "system", "tool_def"),
    )
    verdict = judge(Rules(keywords=(PHRASE,)), sample)
    assert verdict.scope == "conversation"
    assert verdict.extras["scopes"] == {
        "system": {"categories": ["rules"], "spans": 1},
        "conversation": {"categories": ["rules"], "spans": 2},
        "tool_def": {"categories": ["rules"], "spans": 1},
    }


def test_a_finding_only_in_a_tool_definition_says_so() -> None:  # M-08
    assert (
        judge(Rules(keywords=(PHRASE,)), request(segment("hi"), segment(PHRASE, -1, "system", "tool_def"))).scope
        == "tool_def"
    )


# -- what it cannot judge ------------------------------------------------------------------------------------------


def media() -> Segment:
    return Segment("/messages/0/content/1", "user", "media", "", media=Media("image/png", 9, "0" * 64))


def test_media_is_unknown_and_never_safe() -> None:  # G-05
    verdict = judge(Rules(keywords=(PHRASE,)), request(segment("hello"), media()))
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, Cause.UNSUPPORTED)


def test_a_finding_beside_media_wins() -> None:  # G-05
    found = judge(Rules(keywords=(PHRASE,)), request(segment(PHRASE), media()))
    assert (found.label, found.rest) == (Label.UNSAFE, Cause.UNSUPPORTED)


def test_opaque_segments_are_passed_over() -> None:  # G-05
    assert (
        judge(Rules(keywords=(PHRASE,)), request(segment("hi"), segment(PHRASE, kind="opaque", n=1))).label
        is Label.SAFE
    )


def test_a_cut_short_decoding_is_over_limit_and_never_safe() -> None:  # G-08
    runs = " | ".join(base64.b64encode(f"made-up sentence {i:05}".encode()).decode() for i in range(300))
    verdict = judge(Rules(keywords=(PHRASE,)), exchange(runs))
    assert (verdict.label, verdict.cause, verdict.detail) == (Label.UNKNOWN, Cause.OVER_LIMIT, "base64")
    found = judge(Rules(keywords=(PHRASE,)), exchange(f"{PHRASE} {runs}"))
    assert (found.label, found.rest) == (Label.UNSAFE, Cause.OVER_LIMIT)
    assert found.extras["over_limit"] == ["base64"]


def test_nothing_in_scope_is_skipped_not_safe() -> None:  # G-17
    verdict = judge(Rules(keywords=(PHRASE,), scopes=("tool_def",)), exchange("hello"))
    assert (verdict.label, verdict.cause, verdict.detail) == (Label.UNKNOWN, Cause.SKIPPED, "nothing_in_scope")


def test_an_empty_text_is_safe() -> None:
    assert judge(Rules(keywords=(PHRASE,)), exchange("")).label is Label.SAFE


# -- size and time -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("name", ["as written", "base64 twice", "spaced", "homoglyph"])
def test_a_canary_anywhere_in_a_megabyte_is_found(share: float, name: str) -> None:  # D-05
    filler = "The quick brown fox jumps over the lazy dog. " * 23_000
    at = round(len(filler) * share / 45) * 45
    sample = exchange(f"{filler[:at]} {FIXTURE[name][0]} {filler[at:]}")
    verdict = judge(Rules(keywords=(PHRASE,)), sample)
    assert redacted(sample, verdict) == [FIXTURE[name][0]]


@pytest.mark.parametrize("text", ["The quick brown fox jumps over the lazy dog. ", f"{PHRASE} and "])
def test_texts_without_findings_and_with_many_take_linear_time(text: str) -> None:  # G-08
    rules = Rules(keywords=(PHRASE,))

    def judge_so_many(count: int) -> None:
        assert len(judge(rules, exchange(text * count)).spans) == (count if PHRASE in text else 0)

    assert_linear(judge_so_many, 5_000)


async def turns_meanwhile(rules: Rules, sample: Exchange) -> int:
    """Return how often others had their turn on the loop while the rules were asked."""
    turns = 0
    asked = asyncio.ensure_future(ask("rules", rules, sample, context(seconds=PATIENCE_S)))
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await asked).verdict.label is Label.SAFE
    return turns


@pytest.mark.parametrize(
    ("regex", "text"),
    [
        ("(a+)+b", "a" * 1_000_000),
        ("(?:[a-e][a-j]{0,100}){8}zz", "abcdefghij" * 4_900),
        ("(.*,){11}P", "x," * 24_000),
    ],
)
async def test_a_pathological_pattern_does_not_hold_the_loop(regex: str, text: str) -> None:  # X-08
    turns = 0
    for _ in range(20):  # a busy machine may give the loop no turn at all; hundreds are usual
        turns = max(turns, await turns_meanwhile(pattern(regex), exchange(text)))
        if turns > 100:
            break
    assert turns > 100


# -- options -------------------------------------------------------------------------------------------------------


def test_a_keywords_file_adds_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("# phrases\n\nviolet umbrella\n  green hatstand  \n", "utf-8")
    rules = Rules.model_validate({"use": "rules", "keywords": ["purple monkey"], "keywords_file": str(path)})
    assert rules.keywords == ("purple monkey", "violet umbrella", "green hatstand")
    assert judge(rules, exchange("a green hatstand")).label is Label.UNSAFE
    assert Rules.model_validate(rules.model_dump(mode="json")) == rules


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if variant != "raw"])
def test_a_variant_left_out_is_not_searched(variant: str) -> None:  # G-09
    (disguised,) = [text for text, chain in list(FIXTURE.values())[:23] if chain == variant][:1]
    rest = ["raw"] if variant == "norm" else [other for other in VARIANTS if other != variant]  # squash sees it too
    with_it = Rules.model_validate({"keywords": [PHRASE], "variants": [*rest, variant]})
    without = Rules.model_validate({"keywords": [PHRASE], "variants": rest})
    assert judge(with_it, exchange(disguised)).label is Label.UNSAFE
    assert judge(without, exchange(disguised)).label is Label.SAFE


def test_raw_alone_searches_the_text_as_sent() -> None:
    rules = Rules(keywords=("зонт",), variants=("raw",))
    assert judge(rules, exchange("мой зонт")).label is Label.UNSAFE
    assert judge(rules, exchange("мой ЗОНТ")).label is Label.SAFE


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, ["sys", "use1", "use2", "ass1", "tool"]),
        ({"scopes": ["system"]}, ["sys"]),
        ({"scopes": ["conversation", "tool_def"]}, ["use1", "use2", "ass1", "tool"]),
        ({"roles": ["assistant"]}, ["ass1"]),
        ({"kinds": ["tool_def"]}, ["tool"]),
        ({"turns": "last_user"}, ["sys", "use2", "tool"]),
        ({"turns": "new"}, ["sys", "use2", "tool"]),
        ({"turns": "new", "scopes": ["conversation"]}, ["use2"]),
    ],
)
def test_narrowing_options_choose_the_segments(options: dict[str, object], found: list[str]) -> None:  # G-04
    sample = request(
        Segment("sys", "system", "text", PHRASE, 0),
        Segment("use1", "user", "text", PHRASE, 1),
        Segment("ass1", "assistant", "text", PHRASE, 2),
        Segment("use2", "user", "text", PHRASE, 3),
        Segment("tool", "system", "tool_def", PHRASE, -1),
    )
    verdict = judge(Rules.model_validate({"keywords": [PHRASE], **options}), sample)
    assert sorted({span.path for span in verdict.spans}) == sorted(found)


def test_turns_never_narrow_a_reply() -> None:
    rules = Rules(keywords=(PHRASE,), turns="last_user")
    assert judge(rules, exchange("hi", stage="output", reply=PHRASE)).label is Label.UNSAFE


def test_new_is_everything_when_nobody_answered_yet() -> None:
    assert judge(Rules(keywords=(PHRASE,), turns="new"), exchange(PHRASE)).label is Label.UNSAFE


def test_loose_keywords_are_found_inside_words() -> None:
    assert judge(Rules(keywords=("umbrel",)), exchange("umbrellas")).label is Label.SAFE
    assert judge(Rules(keywords=("umbrel",), loose=True), exchange("umbrellas")).label is Label.UNSAFE


def test_categories_name_what_was_found() -> None:
    rules = Rules.model_validate(
        {
            "keywords": ["hatstand"],
            "category": "furniture",
            "patterns": [
                {"name": "n", "regex": "umbrella[0-9]", "category": "weather"},
                {"name": "m", "regex": "chairs?"},
            ],
            "presets": ["pii.email"],
        }
    )
    verdict = judge(rules, exchange("umbrella7 by the hatstand, a@b.io; chair"))
    assert verdict.categories == ("weather", "furniture", "pii.email")
    assert [span.category for span in verdict.spans] == ["weather", "furniture", "pii.email", "furniture"]


def pattern(regex: str, **options: object) -> Rules:
    return Rules.model_validate({"patterns": [{"name": "p", "regex": regex, **options}]})


def test_patterns_match_as_written() -> None:  # G-36
    assert judge(pattern("Umbrel"), exchange("Umbrellas")).label is Label.UNSAFE
    assert judge(pattern("Umbrel"), exchange("umbrellas")).label is Label.SAFE
    assert judge(pattern("Umbrel", ignore_case=True), exchange("umbrellas")).label is Label.UNSAFE


@pytest.mark.parametrize(
    "text", ["KEY-\u200b42", "ＫＥＹ-42", base64.b64encode(b"the KEY-42 is it").decode(), "%4B%45%59%2D42"]
)
def test_patterns_are_searched_in_disguises(text: str) -> None:  # D-03
    verdict = judge(pattern("KEY-[0-9]{2}"), exchange(text))
    assert verdict.label is Label.UNSAFE
    assert (verdict.spans[0].start, verdict.spans[0].end) == (0, len(text))


def test_a_sharp_s_before_a_match_does_not_shift_it() -> None:
    sample = exchange("große  Straße\u200b KEY-\u200b42")
    assert redacted(sample, judge(pattern("KEY-[0-9]{2}"), sample)) == ["KEY-\u200b42"]


def test_loose_patterns_are_searched_in_glued_text() -> None:
    assert judge(pattern("umbrella[0-9]+", loose=True), exchange("u m b r e l l a 4 2")).label is Label.UNSAFE
    assert judge(pattern("umbrella[0-9]+"), exchange("u m b r e l l a 4 2")).label is Label.SAFE
    assert judge(pattern("umbrella", loose=True), exchange(codecs.encode("umbrella", "rot13"))).label is Label.UNSAFE


def test_a_pattern_split_over_parts_is_found() -> None:  # D-04
    sample = request(segment("mail ada@exam"), segment("ple.org now", n=1))
    verdict = judge(Rules(presets=("pii.email",)), sample)
    assert redacted(sample, verdict)[-1] == "ple.org"
    assert redacted(sample, verdict)[0].endswith("ada@exam")


# -- streams -------------------------------------------------------------------------------------------------------


def test_the_holdback_covers_the_longest_finding() -> None:
    assert Rules(keywords=("violet umbrella",), variants=("raw", "norm")).holdback_chars() == 15
    assert Rules(keywords=("violet umbrella",)).holdback_chars() == 30  # letters may be spaced
    assert pattern("a{3,40}").holdback_chars() == 40
    assert pattern("ab+", max_match_chars=25).holdback_chars() == 25


def test_a_pattern_without_bound_judges_a_stream_at_its_end_only() -> None:
    assert pattern("ab+").capability == "final"
    assert pattern("ab+", max_match_chars=25).capability == "incremental"
    assert Rules(keywords=(PHRASE,), presets=("pii", "secrets")).capability == "incremental"


def reply(text: str, *, complete: bool) -> Exchange:
    answer = Segment("/choices/0/message/content", "assistant", "text", text, 1, 0)
    return Exchange("test", "model", "output", (), (answer,), 0, complete)


def test_a_finding_at_the_end_of_a_growing_text_waits_for_the_next_character() -> None:
    rules = Rules(keywords=(PHRASE,))
    assert judge(rules, reply(f"a {PHRASE}", complete=False)).label is Label.SAFE
    assert judge(rules, reply(f"a {PHRASE}s", complete=False)).label is Label.SAFE
    assert judge(rules, reply(f"a {PHRASE}.", complete=False)).label is Label.UNSAFE
    assert judge(rules, reply(f"a {PHRASE}", complete=True)).label is Label.UNSAFE


# -- bad options ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        ({}, "", "looks for nothing"),
        ({"keywords": ["\u200b "]}, "", "no visible character"),
        (
            {"keywords_file": "/no/such/file"},
            "",
            "'/no/such/file' cannot be read: No such file or directory",
        ),
        ({"keywords_file": "none.txt"}, "", f"from the working directory it is {Path.cwd() / 'none.txt'}"),
        (
            {"presets": ["pii.emial"]},
            "presets",
            "unknown preset 'pii.emial'; did you mean 'pii.email'? there are: secrets, pii, injection, tokens",
        ),
        ({"patterns": [{"name": "p", "regex": "("}]}, "patterns.0", "not RE2 syntax"),
        ({"patterns": [{"name": "p", "regex": "x*"}]}, "patterns.0", "matches the empty text"),
        (
            {"patterns": [{"name": "p", "regex": "x", "max_match_chars": 0}]},
            "patterns.0.max_match_chars",
            "greater than 0",
        ),
        ({"keywords": ["x"], "keyword": ["y"]}, "keyword", "unknown setting"),
        ({"keywords": ["x"], "variants": ["rot14"]}, "variants.0", "Input should be 'raw'"),
        ({"keywords": ["x"], "turns": "last"}, "turns", "'last_user'"),
        ({"keywords": ["x"], "scopes": []}, "scopes", "must not be empty: it needs at least 1 entry"),
        ({"keywords": ["x"], "scopes": ["sistem"]}, "scopes.0", "did you mean 'system'?"),
        ({"keywords": "violet"}, "keywords", "must be a list"),
    ],
)
def test_bad_options_say_where_and_what(options: dict[str, object], path: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Rules.model_validate({"use": "rules", **options})
    assert [what for where, what in flatten_errors(caught.value) if where == path and message in what]


def test_a_file_without_phrases_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("# nothing\n", "utf-8")
    with pytest.raises(ValidationError, match="holds no phrase"):
        Rules.model_validate({"keywords_file": str(tmp_path / "empty.txt")})


def test_ten_thousand_keywords_are_found_and_ruled_out_quickly() -> None:
    rules = Rules(keywords=tuple([f"hatstand{i} umbrella{i}" for i in range(10_000)]))
    assert judge(rules, exchange("a hatstand77 umbrella77!")).label is Label.UNSAFE
    sample = exchange("Nothing of the kind is in here, of course. " * 15)
    assert judge(rules, sample).label is Label.SAFE
    assert_cost(lambda: judge(rules, sample), 50)


def test_a_short_message_costs_less_than_a_loop_of_a_few_thousand_steps() -> None:  # PF-05
    rules = Rules(keywords=(PHRASE, "green hatstand", "purple monkey"))
    sample = exchange("The quick brown fox jumps over the lazy dog.\nAnd more of it. " * 10)

    def assess() -> None:
        for _ in range(20):
            with pytest.raises(StopIteration):  # what `await` would see: it never waits
                rules.assess(sample, context()).send(None)

    assert_cost(assess, 50)


@pytest.mark.data
def test_presets_leave_benign_questions_alone(data_dir: Path) -> None:  # D-09
    with (data_dir / "xstest" / "xstest_prompts.csv").open(encoding="utf-8", newline="") as file:
        texts = [row["prompt"] for row in csv.DictReader(file)]
    for name in ("one", "two", "three"):
        rows = json.loads((data_dir / "notinject" / f"NotInject_{name}.json").read_text("utf-8"))
        texts += [row["prompt"] for row in rows]
    texts += [
        row["mutated_prompt"] for row in json.loads((data_dir / "cyberseceval" / "mitre_frr.json").read_text("utf-8"))
    ]
    rules = Rules(presets=("pii", "secrets"))
    flagged = sum([judge(rules, exchange(text)).label is not Label.SAFE for text in texts])
    assert len(texts) == 450 + 3 * 113 + 750
    assert flagged / len(texts) <= 0.002  # none was, when this was written


@pytest.mark.parametrize(("preset", "chars"), [("secrets", 190), ("tokens", 190), ("pii", 128), ("injection", 320)])
def test_a_preset_holds_back_what_the_documentation_says(preset: str, chars: int) -> None:
    assert Rules(presets=(preset,)).holdback_chars() == chars
    (row,) = [line for line in PRESET_DOCS.read_text("utf-8").splitlines() if line.startswith(f"| `{preset}` |")]
    assert row.endswith(f"| {chars:,} |")


def test_tokens_are_the_secrets_without_the_two_long_ones() -> None:
    names = {pattern.name for pattern in find_preset("secrets")}
    assert {pattern.name for pattern in find_preset("tokens")} == names - {"secrets.jwt", "secrets.private_key"}
