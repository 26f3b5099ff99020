"""Whether the canary got through is read off the bytes, however they are cut."""

from __future__ import annotations

import orjson
import pytest

from proxy.matrix.cells import CANARY, TEXT, Body, Outcome, Place
from proxy.matrix.chat import chat_reply, message_of
from proxy.matrix.frames import chat_frames, completion_frames, message_frames, response_frames
from proxy.matrix.judging import Exchanged, judge_all, reply_holds, sent_holds
from proxy.matrix.lanes import Lane
from proxy.matrix.messages import message_reply
from proxy.matrix.report import has_failed
from proxy.matrix.responses import message_item, response_reply
from proxy.matrix.run import Matrix
from proxy.matrix.texts import ENCODED, HALVES
from proxy.plan import Planner, Request

SAID: Body = message_of({"content": TEXT})
CALLED: Body = {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": {"arguments": TEXT}}]}


@pytest.mark.parametrize("size", [None, 1, 4])
def test_a_streamed_canary_is_seen_in_every_family(size: int | None) -> None:
    plain = message_of({"content": "nothing"})
    part: Body = {"type": "output_text", "text": TEXT, "annotations": []}
    streams = [
        chat_frames(chat_reply(plain, SAID), size),
        chat_frames(chat_reply(message_of(CALLED)), size),
        completion_frames({**chat_reply(), "choices": [{"index": 0, "text": TEXT, "finish_reason": "stop"}]}, size),
        response_frames(response_reply(message_item(part)), size)[:-3],
        message_frames(message_reply({"type": "text", "text": TEXT}), size),
    ]
    assert [reply_holds(b"".join(frames)) for frames in streams] == [True] * len(streams)


def test_a_reply_without_it_holds_nothing() -> None:
    assert not reply_holds(orjson.dumps(chat_reply()))
    assert not reply_holds(b"".join(chat_frames(chat_reply(), 3)))
    assert not reply_holds(b"")
    assert reply_holds(orjson.dumps(chat_reply(SAID)))


def test_what_was_sent_is_seen_whole_in_halves_and_encoded() -> None:
    assert sent_holds([orjson.dumps({"a": [f"x {CANARY}"]})])
    assert sent_holds([orjson.dumps({"a": {"b": list(HALVES)}})])
    assert sent_holds([orjson.dumps({"a": f"data:;base64,{ENCODED}"})])
    assert not sent_holds([orjson.dumps({"a": HALVES[0]}), b"{}"])


def test_an_exchange_that_broke_is_a_cell_of_its_own_and_a_failure() -> None:
    place = Place("/v1/chat/completions", "output", "assistant", "last", "text", "string", {}, None, 0)
    plan = Planner({}, {}).plan(Request("m", None, place.route))
    sent = Exchanged(Lane(place.route, "m", None, plan, False), place, "stream", "r-1", 502, False, False)
    skipped = {"supervisor": "words", "stage": "output", "choice": None, "label": "unknown", "cause": "skipped"}
    record = {"prescribed": {"output": ["words"]}, "verdicts": [skipped], "decisions": [], "view": {"opaque": 0}}
    for ended, outcome in (("upstream_error", Outcome.BROKEN), ("answered", Outcome.SILENT)):
        (cell,) = judge_all([sent], {"r-1": {**record, "outcome": ended}}, {}).cells
        assert cell.outcome is outcome
        assert has_failed(Matrix([cell], [], [], []))
