"""What one stage of one exchange gives its supervisors: the deadline, the budget, and the shared chat service."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from supervisors.ask import ask
from supervisors.errors import ChatError
from supervisors.types import Assessment, ChatReply, ChatRequest, Endpoint, Exchange, Passing, Scope, Supervisor

if TYPE_CHECKING:
    from supervisors.chat.service import ChatService


@dataclass(slots=True)
class Budget:
    """What the supervisors of one request may still use, over all its stages (G-50).

    Args:
        calls: model calls left.
        cost_usd: dollars left, as far as backends report their cost; None for no cap.
    """

    calls: int = 32
    cost_usd: float | None = None

    def take_call(self) -> None:
        """Use up one call.

        Raises:
            ChatError: code ``call_budget`` or ``cost_budget``: none is left. `ask` makes unknown/over_limit of it.
        """
        if self.calls <= 0:
            msg = "the budget of model calls for this request is used up"
            raise ChatError(msg, code="call_budget")
        if self.cost_usd is not None and self.cost_usd <= 0:
            msg = "the cost budget for this request is used up"
            raise ChatError(msg, code="cost_budget")
        self.calls -= 1

    def spend(self, cost: float | None) -> None:
        """Subtract what a call has cost."""
        if self.cost_usd is not None and cost is not None:
            self.cost_usd -= cost


class ChatContext:
    """The `Context` of production: made by `ChatService.context`, one a stage.

    Args:
        service: shared by all requests.
        loop: the running one.
        deadline: loop time.
        budget: shared by the stages of one request.
        exhaustive: composites ask every member although their label is fixed (evaluation runs).
        let_through: by scope, what may become of a text with a finding there, where that is not a block: the text is
            let through, with the finding masked or noted, so that the rest needs a verdict, too.
    """

    __slots__ = ("_budget", "_deadline", "_loop", "_service", "exhaustive", "let_through")

    def __init__(
        self,
        service: ChatService,
        loop: asyncio.AbstractEventLoop,
        deadline: float,
        budget: Budget,
        *,
        exhaustive: bool = False,
        let_through: Mapping[Scope, Passing] = MappingProxyType({}),
    ) -> None:
        self.exhaustive = exhaustive
        self.let_through = let_through
        self._service = service
        self._deadline = deadline
        self._budget = budget
        self._loop = loop

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline; never negative."""
        return max(0.0, self._deadline - self._loop.time())

    async def chat(self, endpoint: Endpoint, request: ChatRequest) -> ChatReply:
        """Call a model.

        Raises:
            ChatError: one of its three kinds, or the budget is used up.
            ReplyError: an answer came that is not the promised JSON.
        """
        self._budget.take_call()
        reply = await self._service.chat(endpoint, request, self._deadline)
        self._budget.spend(reply.cost)
        return reply

    async def post(self, url: str, body: object, headers: Mapping[str, str]) -> tuple[int, object]:
        """POST JSON to a hosted guard and return status and parsed body.

        Raises:
            ChatError: as `chat`; also 4xx without a JSON body.
            ReplyError: the body is not JSON, empty, or too large.
        """
        self._budget.take_call()
        return await self._service.post(url, body, headers, self._deadline)

    async def ask(self, name: str, supervisor: Supervisor, exchange: Exchange) -> Assessment:
        """Ask a member of a composite: a failure becomes an unknown verdict."""
        return await ask(name, supervisor, exchange, self)
