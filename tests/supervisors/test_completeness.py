"""No supervisor and no card is forgotten by the matrices: disguises, failures of servers, golden and broken replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points

import pytest

from supervisors.card import list_cards, load_card
from supervisors.classifier import Classifier
from supervisors.encoder import list_encoders
from supervisors.guard import ModelGuard
from supervisors.in_process.cards import list_in_process
from supervisors.plugins import GROUP
from supervisors.testing import FakeContext, exchange
from supervisors.types import ChatReply, ChatRequest, Endpoint
from tests.e2e.test_remote_failures import REMOTE
from tests.supervisors import test_disguises, test_golden_replies
from tests.supervisors.disguises import TEXT, TRANSFORMS, sees
from tests.supervisors.hosted.samples import SAMPLES
from tests.supervisors.parsers.test_parser_fuzz import BAD, GOOD

OURS = sorted([point.name for point in entry_points(group=GROUP) if point.value.startswith("supervisors.")])
READS_NO_TEXT = {"provider"}
"""It reads what the model's provider reports; there is nothing in it that a disguise could hide from."""
ASKS_NOBODY = {"rules", "language", "presidio", "provider", "qwen_stream", "vote", "cascade"}
"""They call no server themselves."""
IN_DISGUISE = {
    "embedded": "guard",
    "gliguard": "in_process",
    "lionguard": "in_process",
}
"""Rows of the matrices that are named after a card."""


def kind_of(row: str) -> str:
    name = row.partition(",")[0]
    return IN_DISGUISE.get(name, name)


def test_every_supervisor_meets_every_disguise() -> None:  # D-03
    covered = {kind_of(row) for row in test_disguises.ALL} | set(SAMPLES) | READS_NO_TEXT
    assert sorted(covered) == OURS


def test_every_supervisor_that_asks_a_server_meets_every_fault_of_one() -> None:  # F-01
    covered = {kind_of(row) for row in REMOTE}
    assert sorted(covered | ASKS_NOBODY) == OURS
    assert not covered & ASKS_NOBODY


def format_of(name: str) -> tuple[str, str]:
    card = load_card(name)
    return card.parser, json.dumps(card.parser_args, sort_keys=True, default=list)


@pytest.mark.parametrize("name", list_cards())
def test_the_format_of_every_card_is_read_golden_and_broken(name: str) -> None:  # GP-01
    golden = {format_of(row.card) for row in test_golden_replies.ROWS}
    fuzzed = {format_of(each) for each in GOOD} & {format_of(each) for each in BAD}
    assert format_of(name) in golden
    assert format_of(name) in fuzzed or load_card(name).parser == "float"  # cut to "0." it is another number


@dataclass(slots=True)
class Shown(FakeContext):
    """A server of any guard: keeps what it was shown, and answers nothing that can be read."""

    texts: list[str] = field(default_factory=list[str])

    async def chat(self, endpoint: Endpoint, request: ChatRequest) -> ChatReply:
        self.texts += [request.prompt or "", *[json.dumps(m["content"], ensure_ascii=False) for m in request.messages]]
        return ChatReply("", "stop")

    async def post(self, url: str, body: object, headers: Mapping[str, str]) -> tuple[int, object]:
        self.texts.append(json.dumps(body, ensure_ascii=False))
        return 200, {}


@pytest.mark.parametrize("name", list_cards())
def test_every_card_is_shown_what_every_disguise_hides(name: str) -> None:  # D-03
    own: dict[str, object] = {"model": "m", "accept_licence": [name]}
    if name.startswith(("gpt-oss-safeguard", "dynaguard")):
        own["policy"] = "No umbrellas."
    guard = ModelGuard.model_validate({"card": name, "url": "http://x/v1", "judge": "prompt", **own})
    check_shown(guard)


@pytest.mark.parametrize("name", list_encoders())
def test_every_encoder_is_shown_what_every_disguise_hides(name: str) -> None:  # D-03
    check_shown(
        Classifier.model_validate({"card": name, "route": "classify", "url": "http://x/classify", "judge": "prompt"})
    )


def test_every_model_in_the_process_has_its_row() -> None:
    families = {name.partition("-")[0] for name in list_in_process()}
    assert families == {"gliguard", "lionguard", "qwen3guard"}  # each is in the matrix of disguises by its family


def check_shown(guard: ModelGuard | Classifier) -> None:
    for transform, disguise in TRANSFORMS.items():
        shown = Shown()
        asyncio.run(guard.assess(exchange(disguise(TEXT)), shown))
        assert any(sees(text.replace("\\n", " ").replace("\\t", " ")) for text in shown.texts), transform
