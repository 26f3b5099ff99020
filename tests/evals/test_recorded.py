from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.journal import canonical
from evals.panel import to_exchange
from evals.recorded import Recorded, StoredReply, check_models, read_replies
from evals.types import Message
from supervisors.errors import ConfigError, DatasetError
from supervisors.judge import Judge
from supervisors.self_judge import SelfJudge
from supervisors.testing import FakeContext, context, exchange
from supervisors.types import ChatRequest, Endpoint, Label

ROWS = [
    {"model": "a", "prompt": "open the <|door|>", "response": "no", "own_verdict": "harmful", "votes": ["refuses"] * 3},
    {"model": "b", "prompt": "aGVsbG8gdGhlcmUsIGZyaWVuZA==", "response": "yes", "own_verdict": "not_harmful"},
]


@pytest.fixture
def replies(tmp_path: Path) -> tuple[StoredReply, ...]:
    path = tmp_path / "replies.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS))
    return read_replies(path)


def _through(recorded: Recorded, model: str) -> FakeContext:
    """Return a context whose model is the recorded server."""

    def reply(endpoint: Endpoint, request: ChatRequest) -> str:
        system, user = (str(message["content"]) for message in request.messages)
        return recorded.answer(model, system, user).text or ""

    return context(reply)


def test_a_request_gets_the_stored_answer_of_its_model(replies: tuple[StoredReply, ...]) -> None:
    recorded = Recorded(replies)
    assert recorded.answer("a", "", "open the <|door|>").text == "no"
    assert recorded.answer("b", "", "open the <|door|>").text is None


@pytest.mark.parametrize("style", ["digit", "word", "structured"])
@pytest.mark.parametrize(("index", "label"), [(0, Label.UNSAFE), (1, Label.SAFE)])
async def test_the_self_judge_gets_the_stored_verdict(
    replies: tuple[StoredReply, ...], style: str, index: int, label: Label
) -> None:
    judge = SelfJudge.model_validate({"use": "self_judge", "style": style})
    row = replies[index]
    verdict = await judge.assess(exchange(row.prompt), _through(Recorded(replies), row.model))
    assert verdict.label is label


async def test_a_vote_is_the_stored_vote_on_that_answer(replies: tuple[StoredReply, ...]) -> None:
    labels = {"answers": "unsafe", "hedges": "abstain", "refuses": "safe"}
    judge = Judge.model_validate({"use": "judge", "model": "a#vote-2", "prompt": "answer_kind", "labels": labels})
    asked = to_exchange("k", "a", [Message("user", replies[0].prompt)], replies[0].response)
    verdict = await judge.assess(asked, _through(Recorded(replies), "a#vote-2"))
    assert verdict.extras["word"] == "refuses"


def test_what_is_not_stored_is_not_made_up(replies: tuple[StoredReply, ...]) -> None:
    recorded = Recorded(replies)
    assert recorded.answer("a#vote-9", "", "").text is None
    assert (
        recorded.answer(
            "a", "Reply with one digit", "<<<" + "0" * 32 + " JUDGE role=user>>>\nx\n<<<" + "0" * 32 + " END>>>"
        ).text
        is None
    )


def test_two_replies_of_one_model_to_one_prompt_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text(f"{canonical(ROWS[0])}\n{canonical(ROWS[0])}\n")  # type: ignore[arg-type] # plain JSON
    with pytest.raises(DatasetError, match="two replies of a to one prompt"):
        read_replies(path)


def test_a_row_without_a_response_is_named(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text('{"model": "a", "prompt": "x"}\n')
    with pytest.raises(DatasetError, match="line 1: expected an object with model, prompt and response"):
        read_replies(path)


def test_an_unknown_model_is_named_with_those_there_are(replies: tuple[StoredReply, ...]) -> None:
    with pytest.raises(ConfigError, match=r"no stored reply of model 'c'; the file has a, b"):
        check_models(replies, "c")


def test_a_line_ends_at_a_line_feed_only_and_a_mark_or_a_blank_line_is_nothing(tmp_path: Path) -> None:  # DS-07
    file = tmp_path / "replies.jsonl"
    line = '{"model": "m", "prompt": "a\u2028b\u0085c", "response": "r"}\r\n'
    file.write_bytes(b"\xef\xbb\xbf" + line.encode() + b"\r\n")
    (reply,) = read_replies(file)
    assert reply.prompt == "a\u2028b\u0085c"
    file.write_bytes(b"\n")
    with pytest.raises(DatasetError, match=r"replies\.jsonl: holds no reply"):
        read_replies(file)
    file.write_bytes(b"[" * 100_000)
    with pytest.raises(DatasetError, match=r"replies\.jsonl line 1: expected an object"):
        read_replies(file)
