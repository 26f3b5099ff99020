"""For tests: consistent records of many kinds, the archived config they follow, and a journal without a disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from proxy.policy import Rule, UnknownPolicy, decide
from proxy.record import Begun, ClientEnd, JudgedBy, Record, UpstreamCall
from proxy.rows import to_json
from proxy.store.protocol import Filters, StoredRecord
from proxy.store.reach import Attached, KnownKey, Reach
from proxy.store.rules import Archive, Labels
from supervisors.errors import StoreError
from supervisors.types import (
    Assessment,
    Cause,
    Span,
    Stage,
    Tokens,
    Verdict,
    safe,
    unknown,
    unsafe,
)

VERSION = "c0ffee" + "0" * 58
STARTED = 1_800_000_000.0
_INPUT = (Rule("rules"), Rule("panel", on_unknown=UnknownPolicy(default="block", timeout="log")))
_OUTPUT = (Rule("rules", on_unsafe="redact"), Rule("panel", on_unsafe="log"))

ARCHIVE = Archive(
    {"default": {"input": _INPUT, "output": _OUTPUT}},
    Labels(
        models=frozenset({"small", "large"}),
        supervisors=frozenset({"rules", "panel", "panel/a", "panel/b", "panel/c"}),
        policies=frozenset({"default"}),
        upstreams=frozenset({"local"}),
        routes=frozenset({"/v1/chat/completions"}),
    ),
    {"default": {"input": ("rules", "panel"), "output": ("rules", "panel")}},
    Reach({"default": Attached()}, {"0123456789ab": KnownKey("app")}, retention_days=8),
)
"""The config version `VERSION`: one policy with a rule-based supervisor and a panel of three on both stages."""


def record(number: int = 0) -> Record:
    """Return an exchange that passed both stages, the same for the same number."""
    verdicts = (*_stage("input", None, safe(), safe()), *_stage("output", 0, safe(), safe()))
    return _record(number, verdicts)


def varied(number: int) -> Record:
    """Return an exchange of any kind that the policy of `ARCHIVE` allows, the same for the same number."""
    random = Random(number)  # noqa: S311 - made-up rows, not keys
    verdicts = list(_stage("input", None, _verdict(random), _verdict(random)))
    blocked = decide("default", "input", None, _INPUT, [judged.assessment for judged in verdicts]).blocked
    if blocked:
        verdicts += _stage("output", None, unknown(Cause.SKIPPED), unknown(Cause.SKIPPED))
    else:
        for choice in range(random.choice((1, 1, 2))):
            verdicts += _stage("output", choice, _verdict(random), _verdict(random))
    return _record(number, tuple(verdicts))


def _verdict(random: Random) -> Verdict:
    kind = random.randrange(10)
    if kind == 0:
        return unsafe("canary", score=0.9, spans=(Span("/messages/0/content", 0, 6, "canary"),))
    if kind == 1:
        return unsafe("canary", score=0.8)
    return unknown(random.choice((Cause.TIMEOUT, Cause.UNPARSABLE))) if kind == 2 else safe(score=0.1)


def _stage(stage: Stage, choice: int | None, rules: Verdict, panel: Verdict) -> tuple[JudgedBy, ...]:
    members = tuple([Assessment(name, panel, 0.002) for name in "abc"])
    vote = Verdict(panel.label, panel.cause, spans=panel.spans, tokens=Tokens(30, 3), members=members)
    return (
        JudgedBy(Assessment("rules", rules, 0.001, 1, 40), stage, choice, enforce=True),
        JudgedBy(Assessment("panel", vote, 0.004, 1, 40), stage, choice, enforce=True),
    )


def _record(number: int, verdicts: tuple[JudgedBy, ...]) -> Record:
    stages: list[tuple[Stage, int | None]] = []
    for judged in verdicts:
        never_ran = judged.stage == "output" and judged.choice is None
        if (judged.stage, judged.choice) not in stages and not never_ran:
            stages.append((judged.stage, judged.choice))
    decisions = tuple(
        [
            decide(
                "default",
                stage,
                choice,
                _INPUT if stage == "input" else _OUTPUT,
                [judged.assessment for judged in verdicts if (judged.stage, judged.choice) == (stage, choice)],
            )
            for stage, choice in stages
        ]
    )
    blocked_input = decisions[0].blocked
    blocked_output = any(decision.blocked for decision in decisions[1:])
    return Record(
        id=f"rec-{number:09d}",
        request_id=f"req-{number:09d}",
        started=STARTED + number,
        seconds=0.25,
        kind="exchange",
        route="/v1/chat/completions",
        stream=number % 2 == 1,
        task=None,
        key_id="0123456789ab",
        model="small" if number % 3 else "large",
        model_served="small-2",
        upstream="local",
        policies=("default",),
        version=VERSION,
        outcome="blocked_input" if blocked_input else "blocked_output" if blocked_output else "answered",
        verdicts=verdicts,
        decisions=decisions,
        upstream_call=UpstreamCall() if blocked_input else UpstreamCall(True, 200, 0.2, 0.05, 1),
        client=ClientEnd(400 if blocked_input else 200, ("stop",), 300, "done"),
        usage=None if blocked_input else {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17},
        overhead_s=0.002,
        prescribed=(("rules", "input"), ("panel", "input"), ("rules", "output"), ("panel", "output")),
    )


def _uncounted(record: Record) -> None:
    pass


@dataclass(slots=True)
class MemoryJournal:
    """A `Journal` in a list, for tests of whoever feeds one; `failure` makes it refuse.

    Args:
        counted: called at once for every record, as the real journal does once it is on disk.
        failure: what is wrong, None when it works.
    """

    counted: Callable[[Record], None] = _uncounted
    failure: str | None = None
    boot: str = "memory"
    backlog: int = 0
    lost: int = 0
    records: list[Record] = field(default_factory=list[Record])
    configs: dict[str, str] = field(default_factory=dict[str, str])
    begun: list[Begun] = field(default_factory=list[Begun])

    @property
    def healthy(self) -> bool:
        """Say whether it works."""
        return self.failure is None

    def begin(self, begun: Begun) -> None:
        """Keep a note."""
        self.begun.append(begun)

    def forget(self, record_id: str) -> None:
        """Drop a note."""
        self.begun = [one for one in self.begun if one.id != record_id]

    def reserve(self) -> bool:
        """Say that there is a place.

        Raises:
            StoreError: the failure that was set.
        """
        if self.failure is not None:
            raise StoreError(self.failure)
        return True

    def accept(self, record: Record, *, reserved: bool = False) -> None:
        """Keep a record.

        Raises:
            StoreError: the failure that was set.
        """
        if self.failure is not None:
            raise StoreError(self.failure)
        self.records.append(record)
        self.counted(record)

    @property
    def accepted(self) -> int:
        """Count what was taken on."""
        return len(self.records) + self.backlog + self.lost

    def keep(self, record: Record, *, reserved: bool = False) -> None:
        """Keep a record, or count it as lost."""
        if self.failure is not None:
            self.lost += 1
            return
        self.accept(record)

    async def flush(self, timeout_s: float = 5.0) -> None:
        """Do nothing: everything is kept at once.

        Raises:
            StoreError: the failure that was set.
        """
        if self.failure is not None:
            raise StoreError(self.failure)

    async def archive_config(self, version: str, text: str) -> None:
        """Keep the text."""
        self.configs[version] = text

    async def get(self, key: str) -> Sequence[StoredRecord]:
        """Return the records with this id or request id, newest first, without chain fields."""
        return [to_json(kept) for kept in reversed(self.records) if key in (kept.id, kept.request_id)]

    async def find(self, filters: Filters) -> Sequence[StoredRecord]:
        """Return the newest records; of the filters it knows `model` and `limit` only."""
        kept = [row for row in reversed(self.records) if filters.model in (None, row.model)]
        return [to_json(row) for row in kept[: filters.limit]]

    async def aclose(self) -> None:
        """Do nothing."""
