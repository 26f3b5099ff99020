"""Every hosted guard, every transform of guarding §2 and benign look-alikes: its service reads as a person would."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest

from supervisors.testing import FakeContext, exchange
from supervisors.types import Label
from tests.supervisors.disguises import LOOK_ALIKES, TEXT, TRANSFORMS, sees
from tests.supervisors.hosted.samples import NOTHING, SAMPLES, build


@dataclass(slots=True)
class Service(FakeContext):
    """The service of a sample: its harmful reply where the canary is in plain sight in any string of the body."""

    use: str = ""

    async def post(self, url: str, body: object, headers: Mapping[str, str]) -> tuple[int, object]:
        sample = SAMPLES[self.use]
        if self.use == "detectors":  # one list of findings a text
            texts = cast("list[str]", cast("Mapping[str, Any]", body)["contents"])
            hit = cast("list[object]", sample.unsafe)[0]
            answers: list[object] = [hit if sees(text) else NOTHING for text in texts]
            return 200, answers
        return 200, sample.unsafe if any(sees(text) for text in _strings(body)) else sample.safe


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = list(cast("dict[str, Any]", value).values())
    elif isinstance(value, list):
        inner = list(cast("Sequence[Any]", value))
    return [text for item in inner for text in _strings(item)]


def judge(use: str, text: str) -> Label:
    return asyncio.run(build(use).assess(exchange(text), Service(use=use))).label


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("use", sorted(SAMPLES))
def test_every_hosted_guard_is_shown_what_every_disguise_hides(use: str, transform: str) -> None:  # D-03
    assert judge(use, TRANSFORMS[transform](TEXT)) is Label.UNSAFE


@pytest.mark.parametrize("text", LOOK_ALIKES)
@pytest.mark.parametrize("use", sorted(SAMPLES))
def test_no_hosted_guard_flags_what_only_looks_odd(use: str, text: str) -> None:  # D-08, D-09
    assert judge(use, LOOK_ALIKES[text]) is Label.SAFE
