"""From exchanges and their records to cells: who said what about the canary, and did it get through. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from proxy.matrix.aims import is_aimed_at
from proxy.matrix.cells import CANARY, NOBODY, Body, Cell, Delivery, Outcome, Place
from proxy.matrix.lanes import Lane
from proxy.matrix.texts import ENCODED, HALVES
from proxy.wire.segments import string_leaves
from supervisors.types import Supervisor

_PASSED: Final = ("answered", "client_error")
_SEEN: Final = frozenset({Outcome.CAUGHT, Outcome.FLAGGED, Outcome.UNKNOWN, Outcome.LEAKED})


@dataclass(frozen=True, slots=True)
class Exchanged:
    """One exchange that was sent.

    Args:
        lane: way through the config.
        place: where the canary stood.
        delivery: how the reply was asked for.
        request_id: of its record.
        status: HTTP status that came.
        leaked: the canary reached the other side.
        control: there was no canary.
    """

    lane: Lane
    place: Place
    delivery: Delivery
    request_id: str
    status: int
    leaked: bool
    control: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """Cells, and the lanes whose harmless exchanges did not pass."""

    cells: Sequence[Cell]
    unsound: Sequence[str]


def judge_all(
    sent: Iterable[Exchanged], records: Mapping[str, Mapping[str, Any]], supervisors: Mapping[str, Supervisor]
) -> Judged:
    """Return the cells of everything sent.

    Args:
        sent: with the canary, or as a control without it.
        records: what the journal holds, by request id.
        supervisors: as configured; they say where they are set to look.
    """
    cells: list[Cell] = []
    unsound: list[str] = []
    for one in sent:
        record = records[one.request_id]
        if not one.control:
            cells += _cells_of(one, record, supervisors)
        elif record["outcome"] not in _PASSED or any(row["label"] == "unsafe" for row in record["verdicts"]):
            unsound.append(f"{one.lane.route} for {one.lane.model} ({one.delivery}, status {one.status})")
    return Judged(cells, unsound)


def _cells_of(one: Exchanged, record: Mapping[str, Any], supervisors: Mapping[str, Supervisor]) -> list[Cell]:
    place, stage = one.place, one.place.stage
    names: list[str] = record["prescribed"][stage]
    policies = one.lane.plan.policies
    refused = record["outcome"] == "client_error"
    if not names and refused:
        return [Cell(NOBODY, policies, place, one.delivery, Outcome.REFUSED)]
    found = {name: _outcome(name, one, record) for name in names}
    unseen = _unseen(one, record, found, supervisors)
    return [
        Cell(name, policies, place, one.delivery, outcome or unseen, cause)
        for name, (outcome, cause) in (found or {NOBODY: (None, None)}).items()
    ]


def _unseen(
    one: Exchanged,
    record: Mapping[str, Any],
    found: Mapping[str, tuple[Outcome | None, str | None]],
    supervisors: Mapping[str, Supervisor],
) -> Outcome:
    """Return what a cell is whose supervisor says nothing of the canary."""
    ended = {"client_error": Outcome.REFUSED, "upstream_error": Outcome.BROKEN}.get(record["outcome"])
    if ended is not None:
        return ended
    if any(outcome in _SEEN for outcome, _ in found.values()):
        return Outcome.ELSEWHERE
    if one.place.kind == "opaque" and record["view"]["opaque"] > 0:
        return Outcome.OPAQUE
    aimed = [name for name in found if name not in supervisors or is_aimed_at(supervisors[name], one.place)]
    return Outcome.SILENT if aimed or not found else Outcome.NOT_IN_SCOPE


def _outcome(name: str, one: Exchanged, record: Mapping[str, Any]) -> tuple[Outcome | None, str | None]:
    """Return what this supervisor's verdicts make of the cell, and the cause of an unknown one; None says nothing."""
    place = one.place

    def here(row: Mapping[str, Any]) -> bool:
        return row["stage"] == place.stage and row["choice"] in (None, place.choice)

    rows = [row for row in record["verdicts"] if row["supervisor"] == name and here(row)]
    if any(row["label"] == "unsafe" for row in rows):
        acted = any(row["blocked"] or row["redacted"] for row in record["decisions"] if here(row))
        if acted and one.leaked:
            return Outcome.LEAKED, None
        return (Outcome.CAUGHT if acted or _is_flagged_reply(one) else Outcome.FLAGGED), None
    causes = [row["cause"] for row in rows if row["cause"] not in (None, "skipped")]
    return (Outcome.UNKNOWN, causes[0]) if causes else (None, None)


def _is_flagged_reply(one: Exchanged) -> bool:
    return one.lane.route == "/v1/moderations"


def sent_holds(bodies: Iterable[bytes]) -> bool:
    """Say whether the model server was sent the canary."""
    return any(_holds([text for _, text in string_leaves(orjson.loads(body), "")]) for body in bodies)


def _holds(texts: Sequence[str]) -> bool:
    return any(CANARY in text or ENCODED in text for text in texts) or set(HALVES) <= set(texts)


def reply_holds(raw: bytes) -> bool:
    """Say whether a caller that joins what belongs together has the canary."""
    return _holds(list(joined_texts(raw).values()))


def joined_texts(raw: bytes) -> dict[str, str]:
    """Return the texts of a reply, whole or streamed, each grown from its own deltas."""
    frames = [line[6:] for line in raw.split(b"\n") if line.startswith(b"data: {")]
    joined: dict[str, str] = {}
    for body in frames or [raw]:
        for path, text in _leaves(orjson.loads(body) if body else {}):
            joined[path] = joined.get(path, "") + text
    return joined


def _leaves(body: Body) -> Iterator[tuple[str, str]]:
    """Yield every text of a frame by what it grows: the same field of the same choice, item or block."""
    choices = cast("list[Body]", body.get("choices") or [])
    at = [str(body.get(name, "")) for name in ("type", "output_index", "content_index", "index")]
    for choice in choices:
        for path, text in string_leaves(choice, ""):
            yield f"{choice.get('index')}{path}", text
    for path, text in string_leaves({key: value for key, value in body.items() if key != "choices"}, ""):
        yield "|".join([*at, path]), text
