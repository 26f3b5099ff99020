"""Every hosted guard, every transform of guarding §2 and benign look-alikes: its service reads as a person would."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pytest

from supervisors.testing import FakeContext, exchange
from supervisors.types import Label
from tests.supervisors.disguises import LOOK_ALIKES, TEXT, TRANSFORMS, sees
from tests.supervisors.hosted.samples import SAMPLES, build


@dataclass(slots=True)
class Service(FakeContext):
    """The service of a sample: its harmful reply where the canary is in plain sight in any string of the body."""

    use: str = ""

    async def post(self, url: str, body: object, headers: Mapping[str, str]) -> tuple[int, object]:
        sample = SAMPLES[self.use]
        texts = list(_strings(body))
        if self.use == "detectors":  # one list of findings a text
            texts = cast("list[str]", cast("Mapping[str, Any]", body)["contents"])
            hit = cast("list[object]", sample.unsafe)[0]
            return 200, [hit if sees(text) else [] for text in texts]
        return 200, sample.unsafe if any(sees(text) for text in texts) else sample.safe


def _strings(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case {**members}:
            return [text for member in members.values() for text in _strings(member)]
        case [*items]:
            return [text for item in items for text in _strings(item)]
        case _:
            return []


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
