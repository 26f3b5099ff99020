from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.errors import ChatTimeout, ChatUnavailable, ReplyError
from supervisors.testing import FakeContext, exchange
from supervisors.topics import Topics
from supervisors.types import Cause, Label, Media, Segment, Verdict

FIELDS = ("umbrella", "ferry", "bread")


FAULTS: list[tuple[Any, Cause]] = [
    (ChatUnavailable("connect"), Cause.ERROR),
    (ChatTimeout("deadline"), Cause.TIMEOUT),
    (ReplyError("no JSON"), Cause.UNPARSABLE),
    ((401, {}), Cause.ERROR),
    ((200, {}), Cause.UNPARSABLE),
    ((200, {"data": [{"embedding": [0.0]}, {"embedding": [1.0]}]}), Cause.UNPARSABLE),
]


@dataclass(slots=True)
class Embeds(FakeContext):
    """A context with an embeddings server: one axis a word of `FIELDS`, and one for everything else."""

    texts: list[str] = field(default_factory=list[str])

    async def post(self, url: str, body: object, headers: Mapping[str, str]) -> tuple[int, object]:
        texts = cast("Sequence[str]", cast("Mapping[str, Any]", body)["input"])
        self.texts += texts
        rows = [[float(text.lower().count(word)) for word in FIELDS] + [0.5] for text in texts]
        return 200, {
            "data": [{"index": i, "embedding": row} for i, row in enumerate(rows)],
            "usage": {"prompt_tokens": 2},
        }


def supervisor(**options: object) -> Topics:
    entry = {"topics": {"rain": ["umbrella"], "sea": {"examples": ["ferry"], "threshold": 0.7}}}
    return Topics.model_validate({**entry, "model": "m", "url": "http://127.0.0.1:1/v1", "threshold": 0.8, **options})


async def judge(text: str, **options: object) -> Verdict:
    return await supervisor(**options).assess(exchange(text), Embeds())


async def test_a_text_on_a_topic_is_flagged_by_its_name_and_place() -> None:
    verdict = await judge("where is my umbrella")
    assert (verdict.label, verdict.categories, verdict.scope) == (Label.UNSAFE, ("rain",), "conversation")
    assert [(span.start, span.end, span.category) for span in verdict.spans] == [(0, 20, "rain")]
    assert (await judge("how do I bake bread")).label is Label.SAFE


async def test_with_allow_what_is_on_no_topic_is_flagged() -> None:
    assert (await judge("how do I bake bread", mode="allow")).categories == ("off_topic",)
    assert (await judge("when does the ferry leave", mode="allow")).label is Label.SAFE


async def test_a_topic_may_have_a_threshold_of_its_own() -> None:
    text = "ferry bread"  # its cosine with the example is 1.25 / (1.5 * 1.118) = 0.745
    assert (await judge(text, topics={"sea": ["ferry"]})).label is Label.SAFE
    assert (await judge(text)).label is Label.UNSAFE


async def test_the_examples_are_sent_once() -> None:
    server, topics = Embeds(), supervisor()
    first = await topics.assess(exchange("bread"), server)
    second = await topics.assess(exchange("bread"), server)
    assert server.texts == ["umbrella", "ferry", "bread", "bread"]
    assert [verdict.tokens.input for verdict in (first, second) if verdict.tokens] == [4, 2]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
async def test_a_sentence_anywhere_in_a_long_text_is_found(share: float) -> None:  # D-05, G-14
    filler = "The harbour is quiet. " * 900
    at = int(share * len(filler))
    verdict = await judge(filler[:at] + " umbrella " * 40 + filler[at:])
    assert verdict.label is Label.UNSAFE
    assert all(span.end > at - 1_000 and span.start < at + 1_400 for span in verdict.spans)


async def test_an_encoded_text_is_compared_too() -> None:  # G-11
    run = base64.b64encode(b"where is my umbrella").decode()
    verdict = await judge(f"read {run}")
    assert verdict.transform == "base64"
    assert [(span.start, span.end) for span in verdict.spans] == [(5, 5 + len(run))]


async def test_too_much_text_is_over_limit_without_a_call() -> None:  # G-12
    server = Embeds()
    verdict = await supervisor().assess(exchange("harbour " * 20_000), server)
    assert (verdict.label, verdict.cause, server.texts) == (Label.UNKNOWN, Cause.OVER_LIMIT, [])


@pytest.mark.parametrize(("answer", "cause"), FAULTS)
async def test_every_fault_is_unknown_with_its_cause(answer: Any, cause: Cause) -> None:  # F-01
    found = (await ask("topics", supervisor(), exchange("umbrella"), FakeContext(posts=[answer]))).verdict
    assert (found.label, found.cause) == (Label.UNKNOWN, cause)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": {}}, "at least 1 item"),
        ({"topics": {"rain": []}}, "at least 1 item"),
        ({"topics": {"rain": [" "]}}, "must not be empty"),
        ({"url": "ftp://x"}, "should match pattern"),
        ({"threshold": 1.5}, "less than or equal to 1"),
    ],
)
def test_mistakes_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        supervisor(**options)


async def test_sentences_are_compared_one_by_one_and_the_same_one_once() -> None:
    vectors = {"It rains.": [1.0, 0.0], "Bread is good.": [0.0, 1.0], "rain": [1.0, 0.0]}
    fake = FakeContext(
        posts=[(200, reply([vectors["rain"]])), (200, reply([vectors["Bread is good."], vectors["It rains."]]))]
    )
    topics = Topics.model_validate(
        {"topics": {"rain": ["rain"]}, "model": "m", "url": "http://x/v1", "granularity": "sentence"}
    )
    verdict = await topics.assess(exchange("Bread is good. It rains.\nBread is good."), fake)
    assert [(span.start, span.end) for span in verdict.spans] == [(15, 24)]
    assert fake.posted[1][1] == {"model": "m", "input": ["Bread is good.", "It rains."], "encoding_format": "float"}


def reply(vectors: list[list[float]]) -> object:
    return {"data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]}


async def test_a_picture_beside_a_finding_is_told() -> None:  # G-05
    picture = Segment("/messages/0/content/1", "user", "media", "", media=Media("image/png", 9, "0" * 64))
    found = exchange("where is my umbrella")
    both = replace(found, request=(*found.request, picture))
    verdict = await supervisor().assess(both, Embeds())
    assert (verdict.label, verdict.rest, len(verdict.spans)) == (Label.UNSAFE, Cause.UNSUPPORTED, 1)
