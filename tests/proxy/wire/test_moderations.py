"""The moderation façade's words: what gets a result, and how verdicts read in OpenAI's names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.wire.errors import RequestError
from proxy.wire.moderations import input_types, read_inputs, request_segments, to_result
from supervisors.types import Assessment, Verdict, safe, unsafe

NAMES = {
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/intent",
    "self-harm/instructions",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
}
_texts = st.text(max_size=8)
_links = st.text("abc./:", min_size=1, max_size=8)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image_part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def result_of(*verdicts: Verdict) -> dict[str, Any]:
    return to_result([Assessment(f"s{index}", verdict) for index, verdict in enumerate(verdicts)])


@settings(max_examples=60, deadline=None)
@given(st.lists(_texts, min_size=1, max_size=4))
def test_every_string_gets_its_own_segments(texts: list[str]) -> None:  # §11, G-01
    found = read_inputs({"input": texts})
    assert [[one.text for one in segments] for segments in found] == [[text] if text else [] for text in texts]
    assert len({one.path for segments in found for one in segments}) == len([text for text in texts if text])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.builds(_text_part, _texts) | st.builds(_image_part, _links), min_size=1, max_size=4))
def test_parts_get_one_result_together(parts: list[dict[str, Any]]) -> None:  # §11, G-01
    (segments,) = read_inputs({"input": parts})
    wanted = [part["text"] if part["type"] == "text" else part["image_url"]["url"] for part in parts]
    assert [one.text for one in segments if one.kind != "media"] == [text for text in wanted if text]


def test_a_picture_behind_a_link_or_in_a_data_url_is_media() -> None:  # G-05, W-34
    for url in ("https://example.org/a.png", "data:image/png;base64,AAAA"):
        segments = request_segments({"input": [{"type": "image_url", "image_url": {"url": url}}]})
        assert [one.kind for one in segments if one.kind == "media"] == ["media"]
    text = {"type": "text", "text": "x"}
    assert input_types(request_segments({"input": [text]})) == ["text"]
    assert input_types(segments) == ["image"]
    assert input_types((*segments, *request_segments({"input": [text]}))) == ["text", "image"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": None}, "input"),
        ({"input": list[object]()}, "input"),
        ({"input": 7}, "input"),
        ({"input": ["x", 7]}, "input[1]"),
        ({"input": ["x", {"type": "text", "text": "y"}]}, "input[1]"),
        ({"input": [{"type": "audio", "text": "x"}]}, "input[0]"),
        ({"input": [{"type": ["text"], "text": "x"}]}, "input[0]"),
        ({"input": [{"type": "text"}]}, "input[0]"),
        ({"input": [{"type": "image_url", "image_url": "x"}]}, "input[0].image_url"),
        ({"input": "x", "guardrails": []}, "guardrails"),
    ],
)
def test_another_shape_is_refused(body: dict[str, Any], param: str) -> None:  # W-21
    with pytest.raises(RequestError) as refused:
        read_inputs(body)
    assert (refused.value.status, refused.value.param) == (400, param)


def test_the_thirteen_names_are_always_there() -> None:  # W-33
    result = result_of(safe(score=0.2))
    assert result["flagged"] is False
    assert result["categories"] == dict.fromkeys(NAMES, False)
    assert result["category_scores"] == dict.fromkeys(NAMES, 0.0)
    assert result["category_applied_input_types"] == {name: ["text"] for name in NAMES}


def test_our_categories_read_in_openais_words_and_follow_as_extra_keys() -> None:  # W-33
    result = result_of(unsafe("hate", "threat", score=0.75), unsafe("hate", "canary"), safe())
    true = {name for name, found in result["categories"].items() if found}
    assert result["flagged"] is True
    assert true == {"hate", "hate/threatening", "threat", "canary"}
    assert list(result["categories"])[:13] == list(result_of(safe())["categories"])
    assert (result["category_scores"]["hate"], result["category_scores"]["threat"]) == (1.0, 0.75)


@pytest.mark.parametrize(("category", "name"), [("self_harm", "self-harm"), ("violence", "violence")])
def test_a_broad_category_claims_no_narrow_one(category: str, name: str) -> None:
    categories = result_of(unsafe(category))["categories"]
    assert {one for one in NAMES if categories[one]} == {name}


def test_names_that_a_moderation_service_gave_are_kept() -> None:
    verdict = replace(unsafe("self_harm", score=0.9), extras={"raw_categories": ["self-harm/intent"]})
    categories = result_of(verdict)["categories"]
    assert {one for one in NAMES if categories[one]} == {"self-harm/intent"}
