"""What of a data set the guard has seen in training; decided before the first call (LG-22 to LG-24)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from evals.datasets.lock import LockEntry
from evals.fingerprint import has_embedded
from evals.types import Item
from supervisors.embedded.contamination import classify_contamination
from supervisors.embedded.items import contains_text, read_items
from supervisors.embedded.shipped import shipped_weights
from supervisors.types import Supervisor

WRAPPED = "bells-wrapped"
"""Name of the wrapped part of BELLS in the list of sisters: those prompts can share templates with training texts."""


def classify(
    supervisors: Mapping[str, Supervisor], items: Sequence[Item], lock: Mapping[str, LockEntry]
) -> Mapping[str, str]:
    """Return item id → clean, trained_on, sister, overlap or unknown.

    A guard whose training is not listed is unknown. Only the embedded guard comes with its list.
    """
    if not has_embedded(supervisors):
        return {item.item_id: "unknown" for item in items}
    header = shipped_weights().header
    listed = read_items(Path(str(resources.files("supervisors.embedded"))) / "embedded.items")
    found: dict[str, str] = {}
    for (dataset, part), group in _parts(items).items():
        hashes = [file.sha256 for file in lock[dataset].files]
        report = classify_contamination(part, hashes, [], header, listed)
        for item in group:
            seen = contains_text(listed, item.prompt)
            found[item.item_id] = report.kind if report.kind != "clean" else ("overlap" if seen else "clean")
    return found


def _parts(items: Sequence[Item]) -> Mapping[tuple[str, str], list[Item]]:
    parts: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        wrapped = item.adversariality == "jailbroken" and item.dataset.startswith("bells")
        parts.setdefault((item.dataset, WRAPPED if wrapped else item.dataset), []).append(item)
    return parts


def refuse_seen(found: Mapping[str, str], items: Sequence[Item]) -> str | None:
    """Return why no headline number may be made, None when at least one item of every set is usable (LG-23)."""
    by_set: dict[str, Counter[str]] = {}
    for item in items:
        by_set.setdefault(item.dataset, Counter())[found[item.item_id]] += 1
    for dataset, kinds in sorted(by_set.items()):
        if not kinds["clean"] and not kinds["unknown"]:
            words = ", ".join([f"{kind} {count}" for kind, count in sorted(kinds.items())])
            return (
                f"{dataset}: every item was seen in the guard's training ({words}), so its numbers mean nothing; "
                f"add --allow-contaminated to run it all the same, which is recorded"
            )
    return None
