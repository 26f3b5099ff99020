"""The coherence tables: six cells a model, both definitions, the headline, gates and majorities of three."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evals.attempts import as_object
from evals.client import objects
from evals.journal import JsonObject
from evals.report.table import layout, rate_text
from evals.statistics.jsonable import Json

_RATES = (
    ("coherence_file", "coherence_file"),
    ("coherence_plot", "coherence_plot"),
    ("override_rate", "override_rate"),
    ("harmful_but_answers", "harmful_but_answers"),
    ("benign_but_refuses", "benign_but_refuses"),
    ("over_refusal", "over_refusal"),
    ("hedge_rate", "hedge_rate"),
    ("unsafe_residual", "unsafe_residual"),
)
_KINDS = ("answers", "hedges", "refuses")


def coherence_tables(coherence: JsonObject) -> list[str]:
    """Return the tables with three-way votes read as BELLS reads them, and what keeping them apart changes."""
    bells, apart = as_object(coherence["bells"]), as_object(coherence["tie"])
    models = {name: as_object(report) for name, report in as_object(bells["models"]).items()}
    everything = {**models, "all": as_object(bells["all"])}
    lines = ["", "coherence: own verdict × behaviour, three-way votes read as refusals (as published)"]
    lines += cells_table(everything)
    lines += ["", *_rates_table(everything)]
    ties = as_object(apart["all"])
    lines += [
        "",
        f"three-way votes kept apart: {ties.get('ties')} ties; coherence_file {rate_text(ties['coherence_file'])}",
    ]
    lines += [
        "",
        "own verdict as a gate on harmful requests, and benign answers lost",
        *_gates_table(as_object(bells["gates"])),
    ]
    return lines + _panels_table(objects(coherence["panels"]))


def cells_table(models: Mapping[str, JsonObject]) -> list[str]:
    """Return the six cells, one row a model."""
    rows = [
        (name, *[str(count) for count in six_cells(report)], str(report["unknown"])) for name, report in models.items()
    ]
    header = ("model", *[f"{own}&{kind}" for own in ("harmful", "not") for kind in _KINDS], "unknown")
    return layout(header, rows)


def six_cells(report: JsonObject) -> list[int]:
    """Return harmful × answers, hedges, refuses, then not harmful × the same."""
    cells = as_object(report["cells"])
    found = [as_object(cells[own])[kind] for own in ("harmful", "not_harmful") for kind in _KINDS]
    return [count for count in found if isinstance(count, int)]


def _rates_table(models: Mapping[str, JsonObject]) -> list[str]:
    rows = [(title, *[rate_text(report[name]) for report in models.values()]) for title, name in _RATES]
    return layout(("rate", *models), rows)


def _gates_table(gates: Mapping[str, Json]) -> list[str]:
    rows: list[Sequence[str]] = []
    for model, value in gates.items():
        gate = as_object(value)
        rows.append((model, *_effect(gate)))
    return layout(("model", "unsafe without", "unsafe behind", "benign answers", "lost"), rows)


def _effect(gate: JsonObject) -> tuple[str, str, str, str]:
    before, left = as_object(gate["unsafe_before"]), as_object(gate["unsafe_left"])
    return (
        f"{before['k']}/{before['n']}",
        f"{left['k']}/{left['n']}",
        str(gate["benign_answers"]),
        str(gate["benign_lost"]),
    )


def _panels_table(panels: Sequence[JsonObject]) -> list[str]:
    if not panels:
        return []
    rows: list[Sequence[str]] = []
    for entry in panels:
        panel = as_object(entry["panel"])
        rules = as_object(panel["rules"])
        members = panel["members"] if isinstance(panel["members"], list) else []
        left = [str(as_object(as_object(gate)["unsafe_left"])["k"]) for gate in as_object(entry["gates"]).values()]
        lost = [str(as_object(gate)["benign_lost"]) for gate in as_object(entry["gates"]).values()]
        counts = [_flagged(as_object(rules[rule])) for rule in ("majority", "any", "all")]
        rows.append(
            (
                " + ".join(map(str, members)),
                *counts,
                f"{panel['unanimous']}/{panel['items']}",
                " ".join(left),
                " ".join(lost),
            )
        )
    header = (
        "majority of three",
        "TP, FP",
        "any",
        "all",
        "unanimous",
        "unsafe left per model",
        "benign lost per model",
    )
    return ["", *layout(header, rows)]


def _flagged(confusion: JsonObject) -> str:
    return f"{confusion['tp']}, {confusion['fp']}"
