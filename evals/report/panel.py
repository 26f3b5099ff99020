"""What a report says of the judges of answers: each judge, their agreement, and the rate corrected for their errors."""

from __future__ import annotations

from collections.abc import Sequence

from evals.attempts import as_object
from evals.client import number, objects
from evals.journal import JsonObject
from evals.report.grids import Cell, draw_heat
from evals.report.svg import Figure
from evals.report.table import layout, rate_text, span_of
from evals.statistics.jsonable import Json


def panel_rows(panel: JsonObject) -> tuple[tuple[str, ...], list[Sequence[str]]]:
    """Return header and rows of the judges: how often they say unsafe, how often nothing, and what one less changes."""
    header = ("judge", "says unsafe", "gives no label", "why not", "answered by", "labels kept without it")
    judges = panel.get("judges")
    rows: list[Sequence[str]] = []
    for judge in [str(name) for name in judges] if isinstance(judges, list) else []:
        without = as_object(as_object(panel["leave_one_out"])[judge])
        total = sum([int(number(n) or 0) for n in without.values()])
        rows.append(
            (
                judge,
                rate_text(as_object(panel["unsafe_rate"])[judge]),
                rate_text(as_object(panel["no_vote_rate"])[judge]),
                _counts(as_object(panel["causes"])[judge]) or "–",
                _counts(as_object(panel["served"])[judge]),
                f"{without['same']}/{total}",
            )
        )
    return header, rows


def panel_lines(section: JsonObject) -> list[str]:
    """Return how the votes fell, how far the judges agree, and the corrected rate when the judges were calibrated."""
    panel = as_object(section.get("panel"))
    if not panel:
        return []
    agreement, own = as_object(panel["agreement"]), as_object(panel["self_judging"])
    lines = [f"answers judged {panel['answers']}: {_counts(panel['shape'])}"]
    if agreement.get("alpha") is not None or agreement.get("fleiss") is not None:
        lines.append(
            f"agreement over {agreement['rated_by_all']} answers rated by all: Fleiss kappa "
            f"{_text(as_object(agreement['fleiss']).get('kappa'))}, Krippendorff alpha {_text(agreement['alpha'])}"
            f" {span_of(agreement.get('alpha_interval'))}".rstrip()
            + ", "
            f"effective votes {_text(agreement['effective_votes'])}"
        )
    grades = as_object(panel.get("grades"))
    if grades:
        lines.append(
            f"grades given: {_counts(grades['counts'])}; Krippendorff alpha of their order {_text(grades['alpha'])} "
            f"{span_of(grades.get('alpha_interval'))}".rstrip()
        )
    lines += [
        f"  {one['left']}, {one['right']}: kappa {_text(one['kappa'])}, observed {_text(one['observed'])}, n {one['n']}"
        for one in objects(agreement["pairs"])
    ]
    lines += question_lines(panel)
    if own.get("answers"):
        changed = own["labels_that_change_without_it"]
        lines.append(f"a judge is the judged model on {own['answers']} answers; {changed} labels hang on its vote")
    for name, value in as_object(section.get("corrected")).items():
        lines += _corrected(name.replace("_", " "), as_object(value))
    return lines


def question_lines(panel: JsonObject) -> list[str]:
    """Return of a rubric how many answers each question was answered yes for, nothing for other tasks (H-138)."""
    asked = objects(panel.get("questions"))
    if not asked:
        return []
    rows = [(str(number_), rate_text(one["yes"]), str(one["question"])) for number_, one in enumerate(asked, 1)]
    return ["questions answered yes, by the majority of the judges that answered:"] + [
        f"  {line}" for line in layout(("", "yes", "question"), rows)
    ]


def _corrected(name: str, found: JsonObject) -> list[str]:
    judged, flags = as_object(found["calibration"]), found.get("flags")
    said = (
        f"judges calibrated on {judged['set_name']}: sensitivity {judged['unsafe_right']}/{judged['unsafe']}, "
        f"specificity {judged['safe_right']}/{judged['safe']}"
    )
    if found.get("estimate") is None:
        return [said, f"{name}: not corrected ({found.get('reason')}); observed {rate_text(found['observed'])}"]
    noted = f" ({', '.join(map(str, flags))})" if isinstance(flags, list) and flags else ""
    value = f"{_text(found['estimate'])} [{_text(found['lo'])}, {_text(found['hi'])}]{noted}"
    return [said, f"{name}: observed {rate_text(found['observed'])}, corrected for the judges' errors {value}"]


def panel_figure(name: str, where: str, panel: JsonObject) -> Figure | None:
    """Draw kappa of every two judges; None with fewer than two."""
    pairs = objects(as_object(panel.get("agreement")).get("pairs"))
    if not pairs:
        return None
    judges = list(dict.fromkeys([str(one[side]) for one in pairs for side in ("left", "right")]))
    rows: dict[str, dict[str, Cell]] = {judge: {} for judge in judges}
    for one in pairs:
        kappa = number(one.get("kappa"))
        cell = Cell(kappa, _text(kappa), f"kappa {_text(kappa)}, observed {_text(one['observed'])}, n {one['n']}")
        rows[str(one["left"])][str(one["right"])] = rows[str(one["right"])][str(one["left"])] = cell
    return draw_heat(
        f"{name}-kappa", f"Kappa of the judges, {where}", "Cohen's kappa of every two judges.", judges, rows
    )


def _counts(value: Json) -> str:
    return ", ".join([f"{name} {count}" for name, count in as_object(value).items()])


def _text(value: Json) -> str:
    found = number(value)
    return "n/a" if found is None else f"{found:.3f}"
