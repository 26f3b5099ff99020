"""What a comparison looks like on the console, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from evals.comparison.changes import Change, count_changes
from evals.comparison.pairing import Compared, Difference, Report
from evals.nouns import count_of
from evals.report.table import layout, rate_text
from evals.statistics.jsonable import to_json
from evals.statistics.rates import Rate

_HEADER = ("data set", "metric", "A", "B", "B − A", "b", "c", "p", "adjusted", "MDE", "flips A / B", "B is")


def comparison_lines(report: Report, show: int) -> list[str]:
    """Return the tables of a comparison.

    Args:
        report: the comparison.
        show: how many changed items are listed; the JSON form has all.
    """
    lines: list[str] = []
    for compared in report.compared:
        lines += [*_lines(compared, show), ""]
    lines.append(f"p adjusted by {report.method.replace('_', '-')} over a family of {report.family}")
    lines.append(
        "b: trials only A gets wrong, c: only B; A and B over the trials both have a verdict inside the metric for"
    )
    return lines


def _lines(compared: Compared, show: int) -> list[str]:
    mark = "FORCED, NOT COMPARABLE: " if compared.not_comparable else ""
    title = (
        f"{mark}A = {compared.a}, B = {compared.b}: {compared.design}, {count_of(compared.matched, 'trial')} in both"
    )
    lines = [title, *[f"  not comparable: {reason}" for reason in compared.not_comparable]]
    lines += [f"  note: {caution}" for caution in compared.cautions]
    for name, ids in ((compared.a, compared.only_a), (compared.b, compared.only_b)):
        if ids:
            more = f" … {len(ids) - 3} more" if len(ids) > 3 else ""
            lines.append(f"  only in {name}, in no number: {count_of(len(ids), 'item')}: {', '.join(ids[:3])}{more}")
    lines += layout(_HEADER, [difference_row(one) for one in compared.differences])
    lines += [f"  {one.dataset}, {one.measure}: {note}" for one in compared.differences for note in _notes(one)]
    if compared.design == "paired":
        lines += ["", *_changes(compared.changes, show)]
    return lines


def difference_row(one: Difference) -> tuple[str, ...]:
    """Return a difference as cells."""
    test = one.paired
    found = one.paired or one.unpaired
    return (
        one.dataset,
        one.measure,
        rate_text(to_json(one.a)),
        rate_text(to_json(one.b)),
        change_text(one.change),
        str(test.b) if test else "unpaired",
        str(test.c) if test else "unpaired",
        _p(one.p),
        _p(one.p_adjusted),
        _number(found.mde if found else None),
        f"{_flips(one.flips_a)} / {_flips(one.flips_b)}",
        one.word,
    )


def change_text(change: tuple[float, float | None, float | None] | None) -> str:
    """Return a change of a rate with its interval."""
    if change is None:
        return "n/a"
    value, lo, hi = change
    return f"{value:+.3f}" if lo is None or hi is None else f"{value:+.3f} [{lo:+.3f}, {hi:+.3f}]"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _p(value: float | None) -> str:
    return "<0.0001" if value is not None and value < 0.0001 else _number(value)


def _flips(rate: Rate | None) -> str:
    return "not measured" if rate is None else f"{rate.k}/{rate.n}"


def _notes(one: Difference) -> list[str]:
    test = one.paired
    if test is None:
        lost = one.unpaired is not None and one.unpaired.difference is not None and one.unpaired.mde is None
        return ["so few items would find no difference at all"] if lost else []
    notes = [*test.notes]
    if test.dropped:
        lacking = count_of(test.dropped, "lacks", "lack")
        notes.append(f"of {count_of(test.planned, 'trial')}, {lacking} a verdict on a side, in the bounds only")
    if test.clusters is not None:
        notes.append(f"{count_of(test.clusters, 'root item')} with several trials each: sign flips over root items")
    return notes


def _changes(changes: Sequence[Change], show: int) -> list[str]:
    if not changes:
        return ["no label changed"]
    counts = ", ".join([f"{kind} {count}" for kind, count in count_changes(changes).items()])
    lines = [f"{count_of(len(changes), 'label changed', 'labels changed')}: {counts}"]
    rows = [(c.kind, c.item_id, "|".join(c.category) or "–", c.of, f"{c.was} → {c.now}") for c in changes[:show]]
    lines += layout(("change", "item", "category", "of", "labels"), rows) if rows else []
    if len(changes) > show:
        lines.append(f"… {len(changes) - show} more; --show N lists more, --out DIR writes all")
    return lines


def to_csv(report: Report) -> str:
    """Return every changed trial as a row, without any text."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ("a", "b", "change", "of", "dataset", "item_id", "category", "truth", "transform", "repeat", "was", "now")
    )
    for compared in report.compared:
        for c in compared.changes:
            category = "|".join(c.category)
            where = (c.dataset, c.item_id, category, c.truth, c.transform, c.repeat)
            writer.writerow((compared.a, compared.b, c.kind, c.of, *where, c.was, c.now))
    return stream.getvalue()
