"""What the matrix is made of: places for a canary, the cells they become, and what may come of one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

from supervisors.types import Kind, Role, Stage

Body = dict[str, Any]
Delivery = Literal["whole", "stream", "split"]
"""How a reply comes: whole, streamed with one delta a text, or streamed in deltas of a few characters."""

CANARY: Final = "quillfen zyxmarrow"
"""A made-up phrase that means nothing to anybody."""
TEXT: Final = f"We talked about the {CANARY} today."
PLAIN: Final = "We talked about the weather today."
NOBODY: Final = "-"
"""In place of a supervisor, where none judges."""
TURNS: Final = ("first", "middle", "last")
WHOLE: Final[Sequence[Delivery]] = ("whole",)
BOTH: Final[Sequence[Delivery]] = ("whole", "stream")
ALL: Final[Sequence[Delivery]] = ("whole", "stream", "split")


class Outcome(StrEnum):
    """What came of one cell."""

    CAUGHT = "caught"
    FLAGGED = "flagged"
    UNKNOWN = "unknown"
    OPAQUE = "opaque"
    REFUSED = "refused"
    ELSEWHERE = "elsewhere"
    NOT_IN_SCOPE = "not_in_scope"
    SILENT = "silent"
    LEAKED = "leaked"
    BROKEN = "broken"


FAILING: Final = frozenset({Outcome.SILENT, Outcome.LEAKED, Outcome.BROKEN})
LISTED: Final = FAILING | {Outcome.NOT_IN_SCOPE}
"""What is always listed: a gap that a config declares is legal, and yet a gap (G-04)."""
MEANINGS: Final[Mapping[Outcome, str]] = {
    Outcome.CAUGHT: "found, and blocked or redacted",
    Outcome.FLAGGED: "found and recorded; the policy lets it pass",
    Outcome.UNKNOWN: "not judgeable, recorded with its cause; the policy decides, by default it blocks",
    Outcome.OPAQUE: "encrypted by the provider: nobody can read it, the record counts it",
    Outcome.REFUSED: "the proxy refuses such a request before anything is judged",
    Outcome.ELSEWHERE: "this supervisor does not look there, another one caught it",
    Outcome.NOT_IN_SCOPE: "passed: the config aims no supervisor of the stage at it (scopes, roles, kinds, turns)",
    Outcome.SILENT: "passed, and nothing says so",
    Outcome.LEAKED: "found, and yet it reached the other side",
    Outcome.BROKEN: "the proxy could not read what a server may send: nothing passed, nothing was judged",
}


@dataclass(frozen=True, slots=True)
class Place:
    """One place where text can stand.

    Args:
        route: route template.
        stage: side on which the canary is.
        role: who speaks.
        turn: position in the conversation, ``-`` where there is none.
        kind: what the text is (guarding §1).
        shape: how it is written.
        body: request without `model` and `stream`.
        reply: the model server's whole reply; None takes a harmless one.
        choice: reply choice.
        deliveries: how replies may come.
    """

    route: str
    stage: Stage
    role: Role
    turn: str
    kind: Kind
    shape: str
    body: Body
    reply: Body | None = None
    choice: int | None = None
    deliveries: Sequence[Delivery] = BOTH


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: a supervisor, a place, a way of delivery, and what came of it.

    Args:
        supervisor: configured name; ``-`` where no supervisor judges.
        policies: those that hold there.
        place: where the canary stood.
        delivery: how the reply came.
        outcome: what came of it.
        cause: of an unknown verdict.
    """

    supervisor: str
    policies: tuple[str, ...]
    place: Place
    delivery: Delivery
    outcome: Outcome
    cause: str | None = None

    def row(self) -> dict[str, str]:
        """Return the cell's dimensions and outcome as words."""
        place = self.place
        return {
            "outcome": self.outcome.value,
            "cause": self.cause or "-",
            "supervisor": self.supervisor,
            "route": place.route,
            "stage": place.stage,
            "role": place.role,
            "turn": place.turn,
            "kind": place.kind,
            "choice": "-" if place.choice is None else str(place.choice),
            "stream": self.delivery,
            "shape": place.shape,
            "policies": ",".join(self.policies) or "-",
        }
