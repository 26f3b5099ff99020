"""The plan of a run: which items, asked of whom, how often; one line a trial, written before the first call (H-104)."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import Literal, overload

from pydantic import TypeAdapter, ValidationError

from evals.composition import JOURNAL_RULE, compose, messages_sha256
from evals.journal import JsonObject, sha256_json
from evals.keys import Keys
from evals.packed import Picked
from evals.reasons import reason_of
from evals.statistics.jsonable import to_json
from evals.types import Item, Message
from supervisors.errors import DatasetError, StoreError
from supervisors.light import light_dataclass

Arm = Literal["observed", "direct", "enforced", "check", "imported"]
"""How a trial is sent: through the proxy that only observes, past the proxy, through the enforcing proxy, to the
supervisors alone, or by another harness whose log was imported."""
Ledger = Literal["shadow", "paired", "both", "off"]
FORMAT_VERSION = 1
_ARMS: Mapping[Ledger, tuple[tuple[Arm, int], ...]] = {
    "shadow": (("observed", 1),),
    "paired": (("direct", 2), ("enforced", 1)),
    "both": (("direct", 1), ("enforced", 1)),
    "off": (("enforced", 1),),
}
"""Arms of a ledger with the calls of each; two direct calls measure how much an answer flips by itself (H-156)."""


@light_dataclass(frozen=True, slots=True)
class PlannedTrial:
    """One trial to be made, with everything that a report groups by; no text.

    Args:
        trial_key: identity (H-114).
        arm: how it is sent.
        contamination: how the item relates to the training of the guard: clean, trained_on, sister, overlap, unknown.
        skip: why it cannot be sent, None for an ordinary trial.
    """

    trial_key: str
    dataset: str
    item_id: str
    cluster_id: str
    truth: str
    severity: str | None
    adversariality: str | None
    family: str | None
    source: str | None
    published_at: str | None
    category: tuple[str, ...]
    transform: str
    repeat: int
    target: str
    arm: Arm
    guard: str
    composition: str
    prompt_sha256: str
    chars: int
    contamination: str
    skip: str | None = None
    vote_share: float | None = None


_TRIAL = TypeAdapter(PlannedTrial)
_NAMES = tuple([one.name for one in fields(PlannedTrial)])
_UNVOTED = tuple([name for name in _NAMES if name != "vote_share"])
_OWN = ("trial_key", "repeat")
"""What tells the trials of one item, arm and target apart; all else is kept once for them."""
_SHARED = attrgetter(*[name for name in _NAMES if name not in _OWN])
_MAKE: Callable[..., PlannedTrial] = PlannedTrial
"""Makes a trial of the values of another one, in the order of its fields."""
_REMEMBERED = 512
"""Shapes that are compared with the next trial when a plan is read."""
_HEAD = _NAMES.index("repeat") - 1
"""How many of the shared values stand before the repeat."""


class Plan(Sequence[PlannedTrial]):
    """The trials of a run, put together when they are asked for; in memory are the values of their items, once each.

    Args:
        trials: read once.
    """

    def __init__(self, trials: Iterable[PlannedTrial] = ()) -> None:
        self.keys = Keys()
        self._starts = array("I")  # of runs of trials that differ in key only, each with one repeat more
        self._shapes_of = array("I")
        self._repeats = array("I")
        self._shapes: list[PlannedTrial] = []
        self._run = (0, 0, 0)
        self._count = 0
        known: dict[tuple[object, ...], int] = {}
        texts: dict[object, object] = {}
        last = (-1, -1)
        for trial in trials:
            values: tuple[object, ...] = _SHARED(trial)
            shape = known.get(values)
            if shape is None:
                if len(known) >= _REMEMBERED:  # the trials of an item stand together: older shapes hardly come again
                    known.clear()
                    texts.clear()
                shape = known[values] = len(self._shapes)
                shared = [texts.setdefault(value, value) for value in values]
                self._shapes.append(_MAKE("", *shared[:_HEAD], 0, *shared[_HEAD:]))
            place = self.keys.append(trial.trial_key)
            if last != (shape, trial.repeat - 1):
                self._starts.append(place)
                self._shapes_of.append(shape)
                self._repeats.append(trial.repeat)
            last = (shape, trial.repeat)
            self._count += 1

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> PlannedTrial: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PlannedTrial]: ...
    def __getitem__(self, index: int | slice) -> PlannedTrial | Sequence[PlannedTrial]:
        """Return a trial, or a part of the plan."""
        if isinstance(index, slice):
            return self.part(range(*index.indices(self._count)))
        return self._trial(range(self._count)[index])

    def _trial(self, place: int) -> PlannedTrial:
        run = self._run_of(place)
        shape: tuple[object, ...] = _SHARED(self._shapes[self._shapes_of[run]])
        repeat = self._repeats[run] + place - self._starts[run]
        return _MAKE(self.keys.key(place), *shape[:_HEAD], repeat, *shape[_HEAD:])

    def shape(self, index: int) -> PlannedTrial:
        """Return a trial without key and repeat, the same one for trials beside each other that differ in these."""
        return self._shapes[self._shapes_of[self._run_of(index)]]

    def past_proxy(self, place: int) -> int | None:
        """Return the place of the same item and repeat past the proxy, of an enforced trial that has one."""
        run = self._run_of(place)
        if run == 0 or not is_beside(self.shape(place), self._shapes[self._shapes_of[run - 1]]):
            return None
        repeat = self._repeats[run] + place - self._starts[run]
        found = self._starts[run - 1] + repeat - self._repeats[run - 1]
        return found if self._starts[run - 1] <= found < self._starts[run] else None

    def _run_of(self, place: int) -> int:
        start, end, run = self._run
        if not start <= place < end:
            run = bisect_right(self._starts, place) - 1
            end = self._starts[run + 1] if run + 1 < len(self._starts) else len(self)
            self._run = (self._starts[run], end, run)
        return run

    def part(self, places: Sequence[int]) -> Sequence[PlannedTrial]:
        """Return the trials at some places."""
        return Picked(self._trial, places)


def is_beside(enforced: PlannedTrial, direct: PlannedTrial) -> bool:
    """Say whether the second trial asks the same model about the same item, but past the proxy."""
    same = (enforced.item_id, enforced.target) == (direct.item_id, direct.target)
    return same and (enforced.arm, direct.arm) == ("enforced", "direct")


def past_proxy(plan: Sequence[PlannedTrial], place: int) -> int | None:
    """Return the place of the same item and repeat past the proxy, of an enforced trial that has one.

    The trials of an item stand together, those past the proxy first.
    """
    trial = plan[place]
    for before in range(place - 1, -1, -1):
        other = plan[before]
        if (other.item_id, other.target) != (trial.item_id, trial.target):
            break
        if is_beside(trial, other) and other.repeat == trial.repeat:
            return before
    return None


@dataclass(frozen=True, slots=True)
class Design:
    """What turns items into trials.

    Args:
        models: model → target hash.
        guard_sha256: hash of the guard.
        file_sha256: data set → hash over its files.
        ledger: which calls are made of each item.
        repeats: how often each.
        composition: rule for all items, None takes each item's own.
        system: system prompt put first, None for none.
        contamination: item id → relation to the guard's training; missing means unknown.
        arms: arms instead of those of the ledger, with the calls of each.
    """

    models: Mapping[str, str]
    guard_sha256: str
    file_sha256: Mapping[str, str]
    ledger: Ledger = "shadow"
    repeats: int = 1
    composition: str | None = None
    system: str | None = None
    contamination: Mapping[str, str] | None = None
    arms: tuple[tuple[Arm, int], ...] | None = None


def messages_of(item: Item, composition: str | None, system: str | None) -> tuple[Message, ...]:
    """Return the messages that are sent for an item.

    Raises:
        DatasetError: the rule does not fit the item.
    """
    messages = compose(item, composition)
    return (Message("system", system), *messages) if system is not None else messages


def build_plan(items: Iterable[Item], design: Design) -> Plan:
    """Plan the trials of the items, in file order, each item with all its arms and repeats before the next."""
    return Plan(plan_trials(items, design))


def plan_trials(items: Iterable[Item], design: Design) -> Iterator[PlannedTrial]:
    """Yield the trials of a plan."""
    arms = design.arms or _ARMS[design.ledger]
    for item in items:
        rendered = _render(item, design, with_model=any(arm != "check" for arm, _ in arms))
        for model in design.models:
            for arm, calls in arms:
                yield from [_plan(item, design, rendered, model, arm, n) for n in range(design.repeats * calls)]


@dataclass(frozen=True, slots=True)
class _Rendered:
    sha256: str
    chars: int
    skip: str | None


def _render(item: Item, design: Design, *, with_model: bool) -> _Rendered:
    reason = unsupported(item, with_model=with_model)
    if reason is not None:
        return _Rendered("", 0, reason)
    try:
        messages = messages_of(item, design.composition, design.system)
    except DatasetError as error:
        return _Rendered("", 0, str(error))
    return _Rendered(messages_sha256(messages), sum([len(message.content) for message in messages]), None)


def unsupported(item: Item, *, with_model: bool) -> str | None:
    """Say why an item cannot be sent in one chat call, None when it can (H-131)."""
    if item.skip is not None:
        return item.skip
    if item.tools:
        return "needs a tool channel"
    if item.level == "trajectory" and with_model:
        return "is a whole trace, not one request"
    return None


def _plan(item: Item, design: Design, rendered: _Rendered, model: str, arm: Arm, repeat: int) -> PlannedTrial:
    composition = design.composition or item.composition
    transform = item.transform.name if item.transform else "none"
    key = sha256_json(
        {
            "dataset": item.dataset,
            "file_sha256": design.file_sha256[item.dataset],
            "item_id": item.item_id,
            "composition": composition,
            "transform": to_json(item.transform),
            "repeat": repeat,
            "target": design.models[model],
            "guard": design.guard_sha256,
            "stage": arm,
            "format_version": FORMAT_VERSION,
        }
    )
    return PlannedTrial(
        trial_key=key,
        dataset=item.dataset,
        item_id=item.item_id,
        cluster_id=item.cluster_id,
        truth=item.truth.value,
        severity=item.severity or _severity(item),
        adversariality=item.adversariality,
        family=item.family,
        source=item.source,
        published_at=item.published_at,
        category=item.category,
        transform=transform,
        repeat=repeat,
        target=str(item.meta["model"]) if composition == JOURNAL_RULE else model,
        arm=arm,
        guard=design.guard_sha256[:12],
        composition=composition,
        prompt_sha256=rendered.sha256,
        chars=rendered.chars,
        contamination=(design.contamination or {}).get(item.item_id, "unknown"),
        skip=rendered.skip,
        vote_share=item.vote_share,
    )


def _severity(item: Item) -> str | None:
    """Return the severity that the truth implies; an unknown truth implies none."""
    return item.truth.value if item.truth.value in ("harmful", "benign") else None


def to_rows(plan: Iterable[PlannedTrial]) -> Iterator[JsonObject]:
    """Yield the lines of the plan; only items that were voted on have a share of votes."""
    for trial in plan:
        names = _NAMES if trial.vote_share is not None else _UNVOTED
        yield {name: to_json(getattr(trial, name)) for name in names}


def read_plan(path: Path) -> Plan:
    """Read a plan.

    Raises:
        StoreError: it is missing, or a line is not a planned trial.
    """
    try:
        with path.open(encoding="ascii") as stream:
            return Plan(_read_trial(path, number, line) for number, line in enumerate(stream, 1))
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path}: cannot be read: {reason_of(error)}"
        raise StoreError(msg) from error


def _read_trial(path: Path, number: int, line: str) -> PlannedTrial:
    try:
        return _TRIAL.validate_json(line)
    except ValidationError as error:
        msg = f"{path} line {number}: is not a planned trial"
        raise StoreError(msg) from error
