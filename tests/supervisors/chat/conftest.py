"""A fake backend, a client and a chat service whose calls are noted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from supervisors.chat import Budget, ChatContext, ChatService, ChatSettings, ModelCall
from supervisors.transport import HttpClient
from supervisors.types import ChatReply, ChatRequest, Endpoint
from tests.e2e.fake_upstream import FakeUpstream


@dataclass(slots=True)
class Desk:
    """What a test of the chat service needs in one place."""

    up: FakeUpstream
    client: HttpClient
    service: ChatService
    calls: list[ModelCall] = field(default_factory=list[ModelCall])

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("judge", self.up.url, "sk-violet-umbrella")

    def context(self, seconds: float = 5.0, budget: Budget | None = None) -> ChatContext:
        return self.service.context(seconds, budget)

    async def ask(self, request: ChatRequest | None = None, seconds: float = 5.0) -> ChatReply:
        question = request or ChatRequest([{"role": "user", "content": "violet umbrella"}])
        return await self.context(seconds).chat(self.endpoint, question)

    def use(self, settings: ChatSettings) -> None:
        self.service = ChatService(self.client, settings, on_call=self.calls.append, seed=1)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with FakeUpstream() as up, HttpClient() as client:
        made = Desk(up, client, ChatService(client))
        made.use(ChatSettings())
        yield made
