"""Published numbers beside ours, set by set: from the package, and from files a user named (datasets §10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from statistics import median

from evals.attempts import as_object
from evals.client import number
from evals.folder import RunFolder, write_file
from evals.journal import JsonObject
from evals.manifest import read_manifest
from evals.nouns import count_of
from evals.published.readers import HELM_SCORE, read_published
from evals.published.saturation import saturation_of
from evals.published.shipped import shipped
from evals.published.values import Published, dump, of_dataset, parse
from evals.report.parts import data_table
from evals.report.table import rate_text, without_empty
from supervisors.errors import ConfigError

_FEW = 12
"""Tables longer than this are folded up on the page."""
_ROWS = ("recall", "fpr", "f1", HELM_SCORE)
"""Published metrics of which a run has its own number."""


def keep_published(folder: RunFolder, files: Sequence[Path]) -> None:
    """Read files of published numbers and keep those of the run's own sets in its folder, for every report of it.

    Raises:
        DatasetError: a file cannot be read.
        ConfigError: none of them holds a number of a set of this run.
        StoreError: the folder does not take it.
    """
    sets = set(read_manifest(folder).lock)
    found = [one for path in files for one in read_published(path)]
    chosen = [one for one in found if one.dataset in sets]
    if not chosen:
        named = sorted({one.dataset or one.named for one in found})
        held = ", ".join(named) or "none of anything"
        msg = f"--published: no number of {', '.join(sorted(sets))} in {count_of(len(files), 'file')}, but of {held}"
        raise ConfigError(msg)
    write_file(folder.published, dump(chosen))


def read_beside(folder: RunFolder) -> tuple[Published, ...]:
    """Return the numbers that stand beside those of a run: the package's, and those kept in its folder.

    Raises:
        DatasetError: the kept ones cannot be read.
    """
    if not folder.published.exists():
        return shipped()
    return (*shipped(), *parse(folder.published.read_text("utf-8"), folder.published))


def beside_part(section: JsonObject, numbers: Sequence[Published]) -> str:
    """Return the published numbers of a section's set beside ours of the same kind; nothing when there is none."""
    found = of_dataset(numbers, str(section["dataset"]))
    if not found:
        return ""
    wanted = {one.metric for one in found}
    rows = [row for row in _ours(section) if row[1] in wanted]
    rows += [(one.system, one.metric, one.text, f"{one.source}: {one.cohort}", one.note) for one in found]
    header = ("system", "metric", "value", "measured how", "note")
    table = data_table(header, rows, f"{section['dataset']}: ours and {len(found)} published numbers")
    note = (
        "Published numbers were measured by others, on their copy of the set, with their prompts, thresholds and "
        "samples. Hold numbers of one source and cohort against each other; ours stand beside them for orientation."
    )
    folded = f"<details><summary>{len(found)} published numbers</summary>{table}</details>"
    return (
        f'<h3>As published</h3><p class="note">{escape(note)}</p>{_summary(section, found)}'
        f"{folded if len(found) > _FEW else table}"
    )


def _summary(section: JsonObject, found: Sequence[Published]) -> str:
    """Return a table of where each published cohort lies, and where we lie, so that the long table need not be read."""
    ours = {row[1]: row[2] for row in _ours(section) if row[0] == _POLICY}
    rows: list[tuple[str, ...]] = []
    for source, metric in dict.fromkeys([(one.source, one.metric) for one in found]):
        same = [one for one in found if (one.source, one.metric) == (source, metric)]
        values, used_up = sorted([one.value for one in same]), saturation_of(same)
        span = f"{values[0]:.3f} – {values[-1]:.3f}, median {median(values):.3f}"
        rows.append((source, metric, str(len(values)), span, "–" if used_up is None else str(used_up),
                     ours.get(metric, "not measured here")))  # fmt: skip
    header = ("source", "metric", "systems", "published, lowest – highest", "saturation", "here")
    said = "where the published systems lie; at saturation 1 the best five cannot be told apart"
    return data_table(*without_empty(header, rows), f"{section['dataset']}: {said}")


_POLICY = "policy, here"


def _ours(section: JsonObject) -> Iterator[tuple[str, ...]]:
    """Yield our numbers of the published kinds: system, metric, value, measured how, note."""
    rates = as_object(section["rates"])
    yield from _of_guard(_POLICY, rates)
    for name, value in as_object(section["supervisors"]).items():
        yield from _of_guard(f"{name}, here", as_object(value))
    unsafe = as_object(rates.get("unsafe_answer_rate"))
    alone = as_object(as_object(section["ledger"]).get("unsafe_alone")) or unsafe
    share, n = number(alone.get("estimate")), alone.get("n")
    if share is not None and n:
        said = "answers of the model alone that are not unsafe, harmful items only"
        yield f"{section['target']}, here", HELM_SCORE, f"{1 - share:.3f} n {n}", "this run", said


def _of_guard(name: str, rates: JsonObject) -> Iterator[tuple[str, ...]]:
    dr, fpr = as_object(rates.get("detection_rate")), as_object(rates.get("false_positive_rate"))
    for metric, rate in (("recall", dr), ("fpr", fpr)):
        if number(rate.get("n")):
            yield name, metric, rate_text(rate), "this run", ""
    if number(dr.get("n")) and number(fpr.get("n")):
        yield name, "f1", _f1(dr, fpr), "this run", "unknown verdicts are in no cell"


def _f1(dr: JsonObject, fpr: JsonObject) -> str:
    hits, harmful, alarms = [number(one) or 0.0 for one in (dr.get("k"), dr.get("n"), fpr.get("k"))]
    below = hits + harmful + alarms  # 2·TP + FP + FN
    return "n/a" if not below else f"{2 * hits / below:.3f} n {harmful + (number(fpr.get('n')) or 0):.0f}"
