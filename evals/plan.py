"""The plan of a run: which items, asked of whom, how often; one line a trial, written before the first call (H-104)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from evals.composition import JOURNAL_RULE, compose, messages_sha256
from evals.datasets.sampling import sample
from evals.journal import JsonObject, sha256_json
from evals.statistics.jsonable import to_json
from evals.types import Item, Message
from supervisors.errors import DatasetError, StoreError

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


@dataclass(frozen=True, slots=True)
class Selection:
    """Which items of each data set take part; an empty field does not filter.

    Args:
        limit: the first so many of each set; 0 means none (H-102), None means all.
        sample: a balanced sample of so many of each set.
        seed: of the sample and of every other random choice.
        item_ids: patterns of ids.
        categories: patterns of category names.
        filters: ``name=value`` on a field of the item or a column of its row.
        only: exact ids, from an earlier run.
    """

    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    item_ids: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
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
_SHARED = tuple([name for name in _UNVOTED if name not in ("trial_key", "repeat", "chars")])


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


def select(items: Sequence[Item], wanted: Selection) -> tuple[Item, ...]:
    """Choose items of one data set: filters, then the balanced sample, then the limit.

    Raises:
        DatasetError: a filter names a field that no item has, or a number is negative.
    """
    chosen = [item for item in items if _is_wanted(item, wanted)]
    for text in wanted.filters:
        chosen = _filter(chosen, text)
    if wanted.sample is not None:
        chosen = list(sample(chosen, wanted.sample, wanted.seed))
    if wanted.limit is not None:
        if wanted.limit < 0:
            msg = f"limit is {wanted.limit}, expected 0 or more"
            raise DatasetError(msg)
        chosen = chosen[: wanted.limit]
    return tuple(chosen)


def _is_wanted(item: Item, wanted: Selection) -> bool:
    if wanted.only is not None and item.item_id not in wanted.only:
        return False
    if wanted.item_ids and not any(fnmatchcase(item.item_id, pattern) for pattern in wanted.item_ids):
        return False
    names = [name.casefold() for name in item.category]
    patterns = [pattern.casefold() for pattern in wanted.categories]
    return not patterns or any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


_FIELDS = ("truth", "truth_detail", "severity", "adversariality", "family", "source", "language", "split", "level")


def _filter(items: Sequence[Item], text: str) -> list[Item]:
    name, equals, value = text.partition("=")
    if not equals:
        msg = f"filter {text!r}: expected NAME=VALUE"
        raise DatasetError(msg)
    known = name in _FIELDS or any(name in item.meta for item in items)
    if items and not known:
        columns = sorted({column for item in items for column in item.meta})
        msg = f"filter {text!r}: no such field; known are {', '.join((*_FIELDS, *columns))}"
        raise DatasetError(msg)
    return [item for item in items if _field(item, name) == value]


def _field(item: Item, name: str) -> str:
    value: object = getattr(item, name) if name in _FIELDS else item.meta.get(name)
    return "" if value is None else str(value)


def messages_of(item: Item, composition: str | None, system: str | None) -> tuple[Message, ...]:
    """Return the messages that are sent for an item.

    Raises:
        DatasetError: the rule does not fit the item.
    """
    messages = compose(item, composition)
    return (Message("system", system), *messages) if system is not None else messages


def build_plan(items: Iterable[Item], design: Design) -> tuple[PlannedTrial, ...]:
    """Plan the trials of the items, in file order, each item with all its arms and repeats before the next."""
    return tuple(plan_trials(items, design))


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


def read_plan(path: Path) -> tuple[PlannedTrial, ...]:
    """Read a plan; trials share the texts they have in common.

    Raises:
        StoreError: it is missing, or a line is not a planned trial.
    """
    planned: list[PlannedTrial] = []
    shared: dict[object, object] = {}
    try:
        with path.open(encoding="ascii") as stream:
            planned.extend(_share(_TRIAL.validate_json(line), shared) for line in stream)
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path}: cannot be read: {error}"
        raise StoreError(msg) from error
    except ValidationError as error:
        msg = f"{path} line {len(planned) + 1}: is not a planned trial"
        raise StoreError(msg) from error
    return tuple(planned)


def _share(trial: PlannedTrial, shared: dict[object, object]) -> PlannedTrial:
    """Replace equal values by one and the same: most texts of a trial are those of its item or its run."""
    object.__setattr__(trial, "trial_key", sys.intern(trial.trial_key))
    for name in _SHARED:
        value: object = getattr(trial, name)
        object.__setattr__(trial, name, shared.setdefault(value, value))  # nobody else holds the new trial yet
    return trial
