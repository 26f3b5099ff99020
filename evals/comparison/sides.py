"""Two runs side by side: their trials by key, and why their numbers may not be comparable (H-163)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.attempts import as_object
from evals.comparison.measures import Case, to_cases
from evals.folder import RunFolder
from evals.journal import JsonObject
from evals.manifest import Manifest
from evals.nouns import count_of
from evals.rows import Row, join
from evals.scoring import Scores
from evals.statistics.jsonable import to_json
from evals.summary import Loaded, load_run
from supervisors.errors import ConfigError


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What makes two trials of different runs the same trial; the target only when a run has several."""

    dataset: str
    item_id: str
    transform: str
    repeat: int
    target: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """One run of a comparison.

    Args:
        name: of its folder.
        run: as read.
        scorer: whose verdicts of the answers are used, None when answers were not scored.
        rows: all trials.
        cases: those that count in a headline, by key.
    """

    name: str
    run: Loaded
    scorer: str | None
    rows: Sequence[Row]
    cases: Mapping[Key, Case]

    @property
    def manifest(self) -> Manifest:
        """Return what the run is."""
        return self.run.manifest

    @property
    def arms(self) -> frozenset[str]:
        """Return the ways in which its trials went through the guard."""
        return frozenset([case.row.planned.arm for case in self.cases.values()])


def load_side(folder: RunFolder, scorer: str | None = None, *, by_target: bool = False) -> Side:
    """Read a run for a comparison.

    Args:
        folder: the run.
        scorer: id or beginning of the id of the scorer; None takes the one the run's report believes.
        by_target: tell trials of different models apart.

    Raises:
        ConfigError: no such scorer, or several models of which none was named.
        StoreError: the run cannot be read.
    """
    run = load_run(folder)
    found = _scores(run, scorer, folder)
    rows = join(run.plan, run.counted, found)
    cases: dict[Key, Case] = {}
    for case in to_cases(rows, allowed=bool(run.manifest.options.get("allow_contaminated"))):
        key = key_of(case.row, by_target=by_target)
        if key in cases:
            msg = f"{folder.path.name}: {key.item_id} was tried with several models; tell them apart with --by-target"
            raise ConfigError(msg)
        cases[key] = case
    return Side(folder.path.name, run, found.scorer_id if found else None, rows, cases)


def key_of(row: Row, *, by_target: bool) -> Key:
    """Return the key of a trial."""
    planned = row.planned
    target = planned.target if by_target else ""
    return Key(planned.dataset, planned.item_id, planned.transform, planned.repeat, target)


def _scores(run: Loaded, scorer: str | None, folder: RunFolder) -> Scores | None:
    if scorer is None:
        return run.scores[0] if run.scores else None
    for scores in run.scores:
        if scores.scorer_id.startswith(scorer):
            return scores
    known = ", ".join([scores.scorer_id for scores in run.scores]) or "none"
    msg = f"{folder.path.name} was not scored by {scorer!r}; it has {known}"
    raise ConfigError(msg)


def data_drift(one: Side, other: Side) -> list[str]:
    """Return a line for each data set that both runs use and whose files or label counts differ."""
    return [
        f"data of {name} differ between {one.name} and {other.name}"
        for name in sorted(one.manifest.lock.keys() & other.manifest.lock.keys())
        if _data(one, name) != _data(other, name)
    ]


def _data(side: Side, name: str) -> object:
    entry = as_object(to_json(side.manifest.lock[name]))
    files = entry.get("files")
    hashes = [as_object(file).get("sha256") for file in files] if isinstance(files, list) else []
    return [hashes, *[entry.get(field) for field in ("items", "harmful", "benign", "unknown", "label_rule")]]


def refusals(one: Side, other: Side) -> list[str]:
    """Return why the numbers of two runs are not comparable, nothing when they are."""
    shared = one.cases.keys() & other.cases.keys()
    found = data_drift(one, other)
    found += _differing(one, other, shared, "composition")
    if not _other_system(one, other):
        found += _differing(one, other, shared, "prompt_sha256")
    if one.scorer is not None and other.scorer is not None and one.scorer != other.scorer:
        found.append(f"answers were scored by {one.scorer} and by {other.scorer}; score both alike, or name --scorer")
    if "enforced" in one.arms ^ other.arms:
        found.append("one run enforced its policy, the other only observed: answers behind a guard are other answers")
    return found


def cautions(one: Side, other: Side) -> list[str]:
    """Return what a reader must know of two comparable runs: that other models answered, or made-up ones."""
    sides = [side for side in (one, other) if _asked_model(side)]
    found: list[str] = []
    if len(sides) == 2 and _targets(one) != _targets(other):
        said = "; ".join([f"{side.name}: {_describe_target(side, against)}" for side, against in _facing(one, other)])
        found.append(f"other models answered, so no change of an answer is the policy's alone ({said})")
    made_up = [side.name for side in sides if "FAKE" in side.manifest.labels.get("target", "")]
    if made_up:
        answered = " and ".join(dict.fromkeys(made_up))
        found.append(f"FAKE model in {answered}: synthetic replies; no rate of answers says anything about a model")
    return found


def _facing(one: Side, other: Side) -> tuple[tuple[Side, Side], tuple[Side, Side]]:
    return (one, other), (other, one)


def _asked_model(side: Side) -> bool:
    """Say whether anything but supervisors was asked."""
    return any(row.planned.arm != "check" for row in side.rows)


def _targets(side: Side) -> JsonObject:
    return as_object(to_json(side.manifest.identity.get("target")))


def _describe_target(side: Side, against: Side) -> str:
    """Return the target in words, with what it was asked with where the other side was asked otherwise."""
    ours, theirs = _asked_with(side), _asked_with(against)
    differ = [f"{name} {text}" for name, text in ours.items() if theirs.get(name) != text]
    return ", ".join([side.manifest.labels.get("target", "unknown").partition(" (")[0], *differ])


def _asked_with(side: Side) -> Mapping[str, str]:
    """Return how the models of a run were asked, by the word of the option; several models may differ."""
    found: dict[str, dict[str, None]] = {}
    for name, facts in _targets(side).items():
        target = as_object(facts)
        system = str(target.get("system_sha256") or "none")
        words = {"model": name, "system": system[:8]}
        words |= {key: str(value) for key, value in as_object(target.get("sampling")).items()}
        for key, text in words.items():
            found.setdefault(key, {})[text] = None
    return {key.replace("_", "-"): " and ".join(texts) for key, texts in found.items()}


def _differing(one: Side, other: Side, shared: Sequence[Key] | set[Key], field: str) -> list[str]:
    words = {"composition": "composition rules differ", "prompt_sha256": "other prompts were sent (transform version?)"}
    differ = [
        key
        for key in sorted(shared)
        if getattr(one.cases[key].row.planned, field) != getattr(other.cases[key].row.planned, field)
    ]
    if not differ:
        return []
    return [f"{words[field]}: {len(differ)} of {count_of(len(shared), 'trial')}, first {differ[0].item_id}"]


def _other_system(one: Side, other: Side) -> bool:
    """Say whether the runs differ in their system prompt, so that other prompts are what is compared."""
    prompts = [
        {
            str(as_object(facts).get("system_sha256"))
            for facts in as_object(to_json(side.manifest.identity.get("target"))).values()
        }
        for side in (one, other)
    ]
    return prompts[0] != prompts[1]
