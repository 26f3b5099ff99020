"""What one look reads of texts that follow one another, and how far the earlier ones may leave (G-03, S-01)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from proxy.frontier import Field
from proxy.windows import Reach, add_field, cut_windows
from proxy.wire.adapter import Piece
from proxy.wire.responses import RESPONSES
from supervisors.rules import Rules
from supervisors.types import Exchange, Kind, Verdict, safe
from tests.proxy.test_held_beginnings import OWN
from tests.proxy.test_readings import event, relay, responses
from tests.timing import assert_linear

REACH = Reach(overlap=8, holdback=4, named=())


class Texts:
    """The fields of one choice."""

    def __init__(self, reach: Reach = REACH) -> None:
        self.fields: dict[str, Field] = {}
        self.last: dict[Kind, Field] = {}
        self.reach = reach

    def say(self, name: str, text: str, kind: Kind = "reasoning", *, ended: bool = False) -> Field:
        piece = Piece(name, kind, text, ())
        grown = self.fields.get(name) or add_field(self.fields, self.last, piece, "", redacts=False)
        grown.grow(text)
        grown.ended = ended
        return grown

    def look(self, *, complete: bool = False) -> list[tuple[str, str]]:
        """Return what one look reads."""
        found = cut_windows(self.fields, self.reach, complete=complete)
        return [(name, grown.text[start:end]) for name, grown, start, end in found]


def test_the_end_of_a_text_is_read_again_with_what_follows_it() -> None:
    texts = Texts()
    texts.say("a", "all that is said before", ended=True)
    assert texts.look() == [("a", "all that is said before")]
    texts.say("b", "and more ")
    assert texts.look() == [("a", "d before"), ("b", "and more")]
    texts.say("b", "of it is said")
    assert texts.look() == [("b", "and more of it is")]


def test_short_texts_reach_back_over_several() -> None:
    texts = Texts()
    for name in ("a", "b", "c"):
        texts.say(name, f"{name} bit", ended=True)
        texts.look()
    texts.say("d", "end", ended=True)
    assert texts.look() == [("b", "bit"), ("c", "c bit"), ("d", "end")]


@pytest.mark.parametrize(("kind", "left"), [("reasoning", 8), ("tool_args", 12)])
def test_an_end_waits_for_what_may_continue_it(kind: Kind, left: int) -> None:
    texts = Texts()
    first = texts.say("a", "all is well.", kind, ended=True)
    texts.look()
    assert first.covered(4) == 12
    second = texts.say("b", "so", kind)
    second.windowed = 0
    assert first.covered(4) == left
    texts.say("b", " it is.", kind, ended=True)
    texts.look()
    assert first.covered(4) == 12


def test_texts_that_come_in_turns_do_not_continue_one_another() -> None:
    texts = Texts()
    first = texts.say("a", "one ")
    second = texts.say("b", "one ")
    assert first.after is second
    texts.say("a", "two ")
    assert [texts.fields[name].after for name in "ab"] == [None, None]
    assert [texts.fields[name].before for name in "ab"] == [None, None]


def test_a_long_match_may_begin_in_an_earlier_text() -> None:
    memo: Sequence[tuple[str, Rules]] = [("memo", OWN)]
    texts = Texts(Reach(overlap=8, holdback=4, named=memo))
    first = texts.say("a", "It says <<MEMO and ", ended=True)
    texts.look()
    texts.say("b", "this is what it says to all of them ")
    texts.look()
    texts.say("b", "who read it ")
    texts.look()
    assert first.covered(4) == len("It says ")


def test_a_first_word_that_grows_is_not_read_yet() -> None:
    texts = Texts()
    texts.say("a", "violet umbrel", ended=True)
    texts.say("b", "la")
    assert texts.look() == [("a", "violet umbrel"), ("b", "")]
    texts.say("b", "stand and")
    assert texts.look() == [("a", "t umbrel"), ("b", "lastand")]


class Counts:
    """A supervisor for windows that counts the texts it is given."""

    capability = "windowed"
    local = True

    def __init__(self) -> None:
        self.texts = 0

    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        self.texts += len(exchange.judged)
        return safe()


def tell_parts(count: int) -> list[bytes]:
    """Return a response of so many parts of one letter."""
    at = {"item_id": "i", "output_index": 0, "sequence_number": 1}
    ways = (("delta", "delta"), ("done", "text"))
    return responses(
        *[
            event(f"response.output_text.{word}", **at, content_index=number, **{key: "a"})
            for number in range(count)
            for word, key in ways
        ]
    )


def test_a_look_waits_for_enough_that_is_new_after_many_short_texts() -> None:  # S-02
    counts = Counts()
    relay(RESPONSES, tell_parts(600), counts)
    assert counts.texts < 20 * 600


def test_many_short_parts_are_read_in_time_that_grows_with_them() -> None:  # S-02
    assert_linear(lambda count: relay(RESPONSES, tell_parts(count), stream={"window_chars": 1}), 1500)
