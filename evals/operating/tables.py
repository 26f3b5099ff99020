"""What operating points, transfers and combinations look like on the console and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from evals.nouns import count_of
from evals.operating.candidates import Candidate
from evals.operating.combine import Combined
from evals.operating.thresholds import Point, Thresholds
from evals.operating.transfer import Cell, Matrix
from evals.operating.tune import Tuned
from evals.report.table import layout, rate_text
from evals.statistics.bootstrap import Bootstrap
from evals.statistics.jsonable import to_json
from evals.statistics.paired import Comparison
from evals.statistics.rates import Rate


def threshold_lines(found: Thresholds, removed: int) -> list[str]:
    """Return the operating points of a supervisor."""
    lines = [
        f"{found.supervisor}, set on {', '.join(found.calibrated_on)}: {found.positives} harmful, "
        f"{found.negatives} benign, {found.unscored} without a score",
        f"tested on {', '.join(found.tested_on) or 'nothing'}"
        + (f"; {count_of(removed, 'shared trial')} removed" if removed else ""),
        f"AUROC {_estimate(found.auroc, found.auroc_interval)}, "
        f"average precision {_estimate(found.average_precision, found.average_precision_interval)}, "
        f"ECE {_text(found.calibration.ece)}, Brier {_text(found.calibration.brier)}",
        *layout(
            ("point", "threshold", "95 %", "DR there", "FPR there", "DR on test", "FPR realised on test"),
            [_point(one) for one in found.points],
        ),
    ]
    return [*lines, *[f"note: {note}" for note in found.notes]]


def _point(one: Point) -> tuple[str, ...]:
    if one.point is None:
        return one.name, f"none: {one.reason}", "", "", "", "", ""
    interval = one.threshold_interval
    wide = "–" if interval is None or interval.lo is None else f"{interval.lo:.4f} – {interval.hi:.4f}"
    tested = one.tested
    return (
        one.name,
        "flags nothing" if one.point.flags_nothing else f"{one.point.threshold:.6f}",
        wide,
        _rate(one.point.detection),
        _rate(one.point.false_positives),
        _rate(tested.detection if tested else None),
        _rate(tested.false_positives if tested else None),
    )


def _rate(rate: Rate | None) -> str:
    return "–" if rate is None else rate_text(to_json(rate))


def _text(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _estimate(value: float | None, interval: Bootstrap | None) -> str:
    if value is None or interval is None or interval.lo is None:
        return _text(value)
    return f"{value:.3f} [{interval.lo:.3f}, {interval.hi:.3f}]"


def matrix_lines(matrix: Matrix) -> list[str]:
    """Return a transfer matrix: in each cell DR and realised FPR of the column's items, with their n."""
    by_key = {(cell.calibrated_on, cell.tested_on): cell for cell in matrix.cells}
    rows: list[tuple[str, ...]] = []
    for row in matrix.names:
        cells = [by_key[row, column] for column in matrix.names]
        first = next((cell for cell in cells if cell.tested_on != row), cells[0])
        if first.threshold is None:
            continue
        t = "none" if first.threshold == float("inf") else f"{first.threshold:.4f}"
        rows.append((f"{row} ({first.negatives})", t, *[_cell(cell) for cell in cells]))
    lines = [
        f"{matrix.supervisor}, FPR budget {matrix.budget:g}: threshold set on the row, DR / realised FPR on the column"
    ]
    lines += layout(("set on (benign items)", "t", *matrix.names), rows) if rows else ["no set has enough benign items"]
    unusable = sorted(
        {f"{cell.calibrated_on}: {cell.reasons['threshold']}" for cell in matrix.cells if "threshold" in cell.reasons}
    )
    lines += [f"no threshold from {', '.join(unusable)}"] if unusable else []
    removed = {cell.tested_on: cell.removed for cell in matrix.cells if cell.removed}
    total = sum([cell.removed for cell in matrix.cells])
    gone = count_of(total, "shared trial was", "shared trials were")
    lines.append(f"{gone} removed from test sides ({count_of(len(removed), 'set')})")
    return [*lines, *_summary(matrix), *_models(matrix), ""]


def _models(matrix: Matrix) -> list[str]:
    """Return the weights of the logistic models; a weight is of the standardised score, so they can be compared."""
    lines: list[str] = []
    for name, model in matrix.models.items():
        weights = ", ".join([f"{one.supervisor} {one.weight:+.2f}" for one in model.features])
        lines.append(f"model of {name} ({model.harmful} harmful, {model.benign} benign): {weights}")
    return lines


def _summary(matrix: Matrix) -> list[str]:
    gap = matrix.off_diagonal_minus_diagonal
    worst = matrix.worst_false_positives
    lines = [f"mean DR off the diagonal minus on it: {'n/a' if gap is None else f'{gap:+.3f}'}"]
    if worst is not None:
        where = f"{worst.calibrated_on} → {worst.tested_on}"
        lines.append(f"worst realised FPR: {_rate(worst.false_positives)} ({where})")
    lines.append(f"realised FPR interval excludes the budget: {matrix.excluding_budget} of {matrix.measured} cells")
    return lines


def _cell(cell: Cell) -> str:
    return f"{_short(cell.detection)} / {_short(cell.false_positives)}"


def _short(rate: Rate | None) -> str:
    return "–" if rate is None or rate.estimate is None else f"{rate.estimate:.2f} ({rate.n})"


def matrix_csv(matrices: Sequence[Matrix]) -> str:
    """Return every cell of every matrix as a row."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    rates = [f"{name}_{part}" for name in ("dr", "fpr") for part in ("k", "n", "estimate", "lo", "hi")]
    writer.writerow(
        ("budget", "supervisor", "set_on", "tested_on", "threshold", "negatives", "removed", *rates, "reasons")
    )
    for matrix in matrices:
        for cell in matrix.cells:
            numbers = [*_parts(cell.detection), *_parts(cell.false_positives)]
            reasons = "; ".join([f"{name} {why}" for name, why in cell.reasons.items()])
            where = (matrix.budget, matrix.supervisor, cell.calibrated_on, cell.tested_on)
            writer.writerow((*where, cell.threshold, cell.negatives, cell.removed, *numbers, reasons))
    return stream.getvalue()


def _parts(rate: Rate | None) -> list[object]:
    return [""] * 5 if rate is None else [rate.k, rate.n, rate.estimate, rate.lo, rate.hi]


def combination_lines(found: Sequence[Combined], show: int) -> list[str]:
    """Return combinations: those within the limits first, those that nothing beats marked."""
    header = ("", "strategy", "members", "DR", "FPR", "p95 s", "USD/1000", "DR gain", "FPR change", "votes worth")
    lines = layout(header, [_combination(one) for one in found[:show]])
    if len(found) > show:
        lines.append(f"… {len(found) - show} more; --show N lists more")
    lines += list(
        dict.fromkeys([f"note: {' + '.join(one.members)}: {note}" for one in found[:show] for note in one.notes])
    )
    lines.append("*: nothing else within the limits is at least as good in DR, FPR, p95 and cost; x: breaks a limit")
    lines.append(
        "gain and change are paired with the best member; weights of weighted votes are DR − FPR on these items"
    )
    return lines


def _combination(one: Combined) -> tuple[str, ...]:
    return (
        "*" if one.pareto else "" if one.within else "x",
        one.strategy,
        (" → " if one.strategy.startswith("cascade") else " + ").join(one.members),
        _rate(one.detection),
        _rate(one.false_positives),
        "unknown" if one.p95_s is None else f"{one.p95_s:.4f}",
        "unknown" if one.cost is None else f"{one.cost:.4f}",
        _gain(one.detection_gain, 1),
        _gain(one.alarm_change, -1),
        "–" if one.effective is None else f"{one.effective:.2f} of {len(one.members)}",
    )


def _gain(test: Comparison | None, sign: int) -> str:
    if test is None or test.difference is None:
        return "–"
    ends = sorted([sign * test.difference.lo, sign * test.difference.hi])
    return f"{_signed(sign * test.difference.raw)} [{_signed(ends[0])}, {_signed(ends[1])}]"


def _signed(value: float) -> str:
    text = f"{value:+.3f}"
    return "0.000" if float(text) == 0 else text


def tuned_lines(found: Tuned) -> list[str]:
    """Return a choice with what it does on the items it was made on, and on others."""
    budget = found.budget
    limits = [f"FPR at most {budget.max_fpr:g}"]
    limits += [] if budget.max_p95 is None else [f"p95 at most {budget.max_p95:g} s"]
    limits += [] if budget.max_cost is None else [f"at most {budget.max_cost:g} USD for a thousand items"]
    lines = [
        f"budget: {', '.join(limits)}",
        f"chosen from {', '.join(found.supervisors)} on {found.harmful} harmful and {found.benign} benign trials",
        f"choice: {choice_text(found.chosen)}",
    ]
    if found.apparent is not None:
        seen = found.apparent
        lines.append(
            f"on the items it was made on (too good): DR {seen.detection:.3f}, FPR {seen.false_positives:.3f}, "
            f"p95 {_seconds(seen.p95_s)}"
        )
    if found.held_out is not None:
        held = found.held_out
        lines += [
            f"held out ({held.method}): DR {_rate(held.detection)}, FPR {_rate(held.false_positives)}, "
            f"p95 {_seconds(held.p95_s)}, {held.unknown} unknown",
            f"chosen by fold: {', '.join([f'{name} {count}' for name, count in held.chosen.items()]) or 'nothing'}"
            + (f"; nothing in {held.nothing_found}" if held.nothing_found else ""),
        ]
    words = {
        "yes": "the whole interval of the held-out FPR keeps the budget",
        "no": "the held-out FPR breaks the budget",
        "unclear": "the interval of the held-out FPR reaches over the budget: more benign items would tell",
    }
    return [*lines, f"keeps the budget: {found.keeps_budget} ({words[found.keeps_budget]})"]


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f} s"


def choice_text(chosen: Candidate | None) -> str:
    """Return a choice in words."""
    if chosen is None:
        return "nothing keeps the budget"
    if chosen.shape == "cascade":
        first, second = chosen.members
        high, inside = chosen.thresholds
        outside = f"{first}: safe below {chosen.low:.6g}, unsafe from {high:.6g}"
        return f"{outside}, between them {second}: unsafe from {inside:.6g}"
    parts = [f"{name} from {t:.6g}" for name, t in zip(chosen.members, chosen.thresholds, strict=True)]
    return f"unsafe if {' or '.join(parts)}"
