"""One question to a guard model: the request, the call, and what each outcome of the call means."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from supervisors.answers import Choices, read_reply
from supervisors.ask import is_too_long, to_unknown
from supervisors.card import Card
from supervisors.errors import ChatError, ChatRefused, ReplyError
from supervisors.material import Call, cut_text
from supervisors.parsers.reading import Side
from supervisors.rendering import Question, Rendered, Wording, render
from supervisors.scores import Part, combine_parts
from supervisors.types import Cause, ChatReply, Context, Endpoint, Label, Verdict, unknown

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

log = logging.getLogger(__name__)

_ECHO_CHARS = 20
"""A shorter text at the beginning of a reply may be the guard's own word."""


def time_for_calls(remaining_s: float) -> float:
    """Return the seconds calls may take: what was found so far must still be said before the deadline (G-45)."""
    return remaining_s - min(max(0.05, remaining_s * 0.03), remaining_s / 4)


async def ask_each(
    asked: Sequence[Asked],
    ask: Callable[[Asked], Awaitable[Answer]],
    late: Callable[[Asked], Answer],
    *,
    seconds: float,
    parallel: int,
) -> list[Answer]:
    """Ask everything of one exchange and return one answer each, in order.

    Args:
        asked: the questions.
        ask: asks one.
        late: what one is whose answer did not come in time.
        seconds: what all of it may take.
        parallel: most questions at the same time.
    """
    deadline = asyncio.get_running_loop().time() + time_for_calls(seconds)
    slots = asyncio.Semaphore(parallel)  # keeps the calls of one exchange from flooding the server

    async def ask_one(question: Asked) -> Answer:
        try:
            async with asyncio.timeout_at(deadline), slots:
                return await ask(question)
        except TimeoutError:
            return late(question)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask_one(question)) for question in asked]
    return [task.result() for task in tasks]


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one guard.

    Args:
        card: the guard.
        endpoint: where it answers.
        wording: options that change the request.
        choices: options that change the reading.
        overlap: characters the halves of a text share that the server found too long.
    """

    card: Card
    endpoint: Endpoint
    wording: Wording
    choices: Choices
    overlap: int

    async def ask(self, call: Call, names: tuple[str, ...], context: Context) -> Verdict:
        """Ask once; a text the server finds too long is halved once, without its context (GU-10).

        Args:
            call: what is judged.
            names: criteria; more than one are asked together, none is for guards that are asked nothing.
            context: carries the call.
        """
        try:
            return await self._ask_once(call, names, context)
        except ChatRefused as error:
            if not is_too_long(error):
                return to_unknown(error)
        except (ChatError, ReplyError) as error:
            return to_unknown(error)
        half = max(len(call.text) // 2, 1) + self.overlap
        halves = list(cut_text(call.text, half, self.overlap)) if half < len(call.text) else [call.text]
        parts: list[Part] = []
        for index, text in enumerate(halves):
            try:
                verdict = await self._ask_once(replace(call, text=text, context=()), names, context)
            except (ChatError, ReplyError) as error:
                verdict = to_unknown(error)
            parts.append(Part(verdict, call.chunk if call.chunk is not None else index))
        return combine_parts(parts, len(halves))

    async def _ask_once(self, call: Call, names: tuple[str, ...], context: Context) -> Verdict:
        rendered = render(self.card, call, self._question(names, call.side), self.wording)
        reply = await context.chat(self.endpoint, rendered.request)
        if self.card.route == "chat" and call.side == "response" and _continues(reply, rendered):
            log.warning(
                "the guard's server continues the judged text; start it with --no-prefill-assistant",
                extra={"card": self.card.name},
            )
            return replace(unknown(Cause.ERROR, detail="prefill"), tokens=reply.tokens, cost=reply.cost)
        criterion = self.card.criteria[names[0]] if names else None
        verdict = read_reply(self.card, reply, call.side, self.choices, criterion)
        if rendered.neutralised:
            verdict = replace(verdict, extras={**verdict.extras, "neutralised": rendered.neutralised})
        if verdict.label is Label.UNSAFE and not verdict.categories:
            return replace(verdict, categories=self._categories(names))
        return verdict

    def _question(self, names: tuple[str, ...], side: Side) -> Question | None:
        if not names:
            return None
        texts = [self.card.criteria[name].wording(side) for name in names]
        return Question(names[0], "\n".join([f"* {text}" for text in texts]) if len(names) > 1 else texts[0])

    def _categories(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return what a hit under one criterion means; joined criteria name nothing."""
        if len(names) != 1:
            return ()
        return self.card.criteria[names[0]].to or self.card.find_taxonomy().to_canonical(names)


def _continues(reply: ChatReply, rendered: Rendered) -> bool:
    """Say whether the server took the judged response for the beginning of its own answer (GU-12)."""
    sent = rendered.text.strip()
    return len(sent) > _ECHO_CHARS and (reply.text or "").lstrip().startswith(sent)
