"""Stored verdicts of each supervisor, ready for curves and combinations: one row a trial (harness §9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.client import number, objects
from evals.rows import SEEN, Row, join
from evals.statistics.curves import Scored
from evals.summary import Loaded
from supervisors.errors import ConfigError
from supervisors.types import Cause, Label


@dataclass(frozen=True, slots=True)
class Said:
    """What one supervisor said of one trial.

    Args:
        label: safe, unsafe or unknown.
        cause: why it is unknown.
        score: risk, None when it gave none.
        seconds: it took, None when not measured.
        cost: US dollars, None when unknown.
    """

    label: Label
    cause: Cause | None
    score: float | None
    seconds: float | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class Judged:
    """One labelled trial with what every supervisor said of it.

    Args:
        item_id, cluster, dataset: of the item.
        repeat: which of its trials.
        harmful: the item's label.
        said: supervisor with its stage, such as ``embedded@input`` → verdict; one that said nothing is absent.
    """

    item_id: str
    cluster: str
    dataset: str
    repeat: int
    harmful: bool
    said: Mapping[str, Said]

    def scored(self, supervisor: str) -> Scored:
        """Return the item with the score of one supervisor; an unknown verdict has none that counts."""
        said = self.said.get(supervisor)
        known = said is not None and said.label is not Label.UNKNOWN
        return Scored(self.harmful, said.score if said is not None and known else None)


def to_judged(run: Loaded) -> tuple[Judged, ...]:
    """Return the trials of a run that a threshold may be set or tested on.

    Only harmful and benign items that went through the supervisors and were not seen in the guard's training (unless
    the run allowed that).
    """
    allowed = bool(run.manifest.options.get("allow_contaminated"))
    found: list[Judged] = []
    for row in join(run.plan, run.counted, None):
        usable = row.planned.arm != "direct" and row.status == "ok" and row.truth in ("harmful", "benign")
        if usable and (allowed or row.planned.contamination not in SEEN):
            found.append(_judged(row))
    return tuple(found)


def _judged(row: Row) -> Judged:
    return Judged(
        item_id=row.planned.item_id,
        cluster=row.planned.cluster_id,
        dataset=row.planned.dataset,
        repeat=row.planned.repeat,
        harmful=row.truth == "harmful",
        said=said_in(row),
    )


def said_in(row: Row) -> Mapping[str, Said]:
    """Return what each supervisor, members of composites too, said in one trial."""
    found: dict[str, Said] = {}
    for verdict in objects(row.fields.get("verdicts")):
        cause = verdict.get("cause")
        said = Said(
            Label(str(verdict["label"])),
            Cause(str(cause)) if cause is not None else None,
            number(verdict.get("score")),
            number(verdict.get("seconds")),
            number(verdict.get("cost")),
        )
        name = f"{verdict['supervisor']}@{verdict['stage']}"
        found[name] = _worse(found[name], said) if name in found else said
    return found


def _worse(one: Said, other: Said) -> Said:
    """Return the more alarming of the verdicts on two reply choices."""
    rank = {Label.SAFE: 0, Label.UNKNOWN: 1, Label.UNSAFE: 2}
    first, second = (one.score or 0.0), (other.score or 0.0)
    return other if (rank[other.label], second) > (rank[one.label], first) else one


def supervisors_of(judged: Sequence[Judged]) -> tuple[str, ...]:
    """Return the names of all supervisors that said something, in order of first appearance."""
    return tuple(dict.fromkeys([name for one in judged for name in one.said]))


def choose_supervisor(judged: Sequence[Judged], wanted: str | None) -> str:
    """Return the supervisor whose scores are used.

    Args:
        judged: trials.
        wanted: name with or without its stage; None takes the only one that gives scores.

    Raises:
        ConfigError: there is none, it gives no score, or there are several to choose from.
    """
    scoring = [name for name in supervisors_of(judged) if any(_score(one, name) is not None for one in judged)]
    found = scoring if wanted is None else [name for name in scoring if wanted in (name, name.rpartition("@")[0])]
    if len(found) == 1:
        return found[0]
    known = ", ".join(scoring) or "none"
    if not found:
        msg = f"no supervisor {wanted or ''} with scores; supervisors with scores: {known}".replace("  ", " ")
        raise ConfigError(msg)
    msg = f"several supervisors gave scores: {known}; name one with --supervisor"
    raise ConfigError(msg)


def choose_members(judged: Sequence[Judged], wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the supervisors whose scores a model joins: those named, or all that give scores.

    Raises:
        ConfigError: a named one gives no score, or there are fewer than two.
    """
    scoring = [name for name in supervisors_of(judged) if any(_score(one, name) is not None for one in judged)]
    missing = [name for name in wanted if not any(name in (one, one.rpartition("@")[0]) for one in scoring)]
    known = ", ".join(scoring) or "none"
    if missing:
        msg = f"no supervisor {', '.join(missing)} with scores; supervisors with scores: {known}"
        raise ConfigError(msg)
    found = tuple([name for name in scoring if not wanted or {name, name.rpartition("@")[0]} & set(wanted)])
    if len(found) < 2:
        msg = f"a model joins two supervisors or more; supervisors with scores: {known}"
        raise ConfigError(msg)
    return found


def _score(one: Judged, name: str) -> float | None:
    said = one.said.get(name)
    return said.score if said else None
