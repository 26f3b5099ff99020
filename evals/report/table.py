"""The tables on the console: every number from the summary, every rate with its n, interval and bounds (H-178)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evals.attempts import as_object
from evals.client import number, objects
from evals.journal import JsonObject
from evals.nouns import count_of
from evals.robustness import TRANSFORM_HEADER, transform_rows
from evals.statistics.jsonable import Json

_COLUMNS = (
    ("DR", "rates", "detection_rate"),
    ("FPR", "rates", "false_positive_rate"),
    ("unsafe alone", "ledger", "unsafe_alone"),
    ("unsafe behind", "ledger", "unsafe_behind"),
    ("refused", "rates", "refusal_rate"),
    ("over-refused", "rates", "over_refusal_rate"),
)


def span_of(interval: Json) -> str:
    """Return the ends of an interval in brackets, nothing where it has none."""
    lo, hi = [number(as_object(interval).get(end)) for end in ("lo", "hi")]
    return "" if lo is None or hi is None else f"[{lo:.3f}, {hi:.3f}]"


def rate_text(rate: Json) -> str:
    """Return a rate as k/n, estimate, interval, and its bounds when trials are unscored."""
    body = as_object(rate)
    estimate, lo, hi = number(body.get("estimate")), number(body.get("lo")), number(body.get("hi"))
    if not body or not body.get("planned"):
        return "–"
    text = "n/a" if estimate is None else f"{estimate:.3f}"
    if lo is not None and hi is not None:
        text += f" [{lo:.3f}, {hi:.3f}]"
    text += f" {body['k']}/{body['n']}"
    if body.get("unscored"):
        text += f" bounds {number(body.get('bound_lo')) or 0.0:.3f}–{number(body.get('bound_hi')) or 0.0:.3f}"
    return text


def layout(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table with aligned columns."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = ["  ".join([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]) for row in (header, *rows)]
    return [line.rstrip() for line in (lines[0], "  ".join(["-" * width for width in widths]), *lines[1:])]


def results_table(summary: JsonObject) -> list[str]:
    """Return the final table of a run: one block a data set and target, each rate with a bar of its interval."""
    results = as_object(summary["results"])
    lines: list[str] = []
    delays = {
        (str(one["dataset"]), str(one["target"])): one for one in objects(as_object(summary["effort"])["latency"])
    }
    for section in objects(results["sections"]):
        name = (str(section["dataset"]), str(section["target"]))
        lines += ["", *_block(section, title_of(section), delays.get(name, {}))]
        if as_object(section["cells"]):
            lines += ["", *cells_table(section)]
        if section.get("transforms") is not None:
            rows = list(transform_rows(as_object(section["transforms"]), rate_text))
            lines += ["", *layout(TRANSFORM_HEADER, rows)]
    lines += ["", *warning_lines(summary)]
    return lines[1:]


def title_of(section: Mapping[str, Json]) -> str:
    """Return the name of a section: its set and target; supervisors alone have no target."""
    target = section["target"]
    return str(section["dataset"]) if target == NO_TARGET else f"{section['dataset']} × {target}"


NO_TARGET = "*"
"""Target of a run without a model."""


def without_empty(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Return a table without the columns that hold nothing; the first one stays."""
    kept = [n for n, _ in enumerate(header) if n == 0 or any(row[n] not in ("–", "") for row in rows)]
    return [header[n] for n in kept], [[row[n] for n in kept] for row in rows]


_REASONS = {
    "too_few_negatives": "too few benign items",
    "no_negatives": "no benign item",
    "no_positives": "no harmful item",
    "not_a_probability": "not a probability",
}


def words_of(name: str) -> str:
    """Return a stored name or reason as a reader would say it."""
    return _REASONS.get(name, name.replace("_", " "))


def warning_lines(summary: JsonObject) -> list[str]:
    """Return the warnings of a run as printed."""
    return [f"warning: {line}" for line in _texts(as_object(summary["results"])["warnings"])]


def _block(section: JsonObject, title: str, delay: JsonObject) -> list[str]:
    """Return a title with its counts, then one line a measure, rates with their bars."""
    counts = {name: text for name, text in measures(section, delay) if name in _COUNTS}
    said = " · ".join([_count(text, name) for name, text in counts.items()])
    rates = {name: rate for name, rate in _rates_of(section).items() if as_object(rate).get("planned")}
    others = [(name, "", text) for name, text in measures(section, delay) if name not in counts and name not in rates]
    rows = [(name, bar(rate), rate_text(rate)) for name, rate in rates.items()]
    rows += [row for row in others if row[2] != "–"]
    widths = [max([len(row[i]) for row in rows], default=0) for i in (0, 1)]
    lines = [f"  {name:<{widths[0]}}  {drawn:<{widths[1]}}  {text}".rstrip() for name, drawn, text in rows]
    return [f"{title}   {said}", *lines]


def _count(text: str, name: str) -> str:
    """Return a count with its column's name, which is a plural for one of them."""
    return count_of(int(text), "error") if name == "errors" else f"{text} {name}"


_COUNTS = ("planned", "scored", "unknown", "errors", "left out")
_WIDE = 20


def _rates_of(section: JsonObject) -> dict[str, Json]:
    parts = {"rates": as_object(section["rates"]), "ledger": as_object(section["ledger"])}
    return {title: parts[part].get(name) for title, part, name in _COLUMNS}


def bar(rate: Json) -> str:
    """Return a rate as a bar of 20 letters: full up to the lower end of its interval, shaded up to the upper end."""
    body = as_object(rate)
    estimate, lo, hi = [number(body.get(name)) for name in ("estimate", "lo", "hi")]
    if estimate is None:
        return "┈" * _WIDE
    low, high = [round(_WIDE * (estimate if end is None else end)) for end in (lo, hi)]
    return "█" * low + "▒" * (high - low) + "┈" * (_WIDE - high)


def measures(section: JsonObject, delay: JsonObject) -> list[tuple[str, str]]:
    """Return the measures of one data set and target as name and text."""
    states = as_object(section["states"])
    rates, ledger = as_object(section["rates"]), as_object(section["ledger"])
    unknown = as_object(rates["unknown_rate"])
    scored = (number(unknown.get("n")) or 0) - (number(unknown.get("k")) or 0)
    rows = [
        ("planned", str(section["planned"])),
        ("scored", f"{scored:.0f}"),
        ("unknown", str(unknown.get("k"))),
        ("errors", str(states.get("error", 0))),
    ]
    if section["left_out"]:
        rows.append(("left out", f"{section['left_out']} seen in training"))
    for title, part, name in _COLUMNS:
        found = (rates if part == "rates" else ledger).get(name)
        if name == "unsafe_alone" and not ledger:
            found = rates["unsafe_answer_rate"]  # no guard of ours acted: all answers are the model's own
        rows.append((title, rate_text(found)))
    rows += [("safety gained", text) for text in _safety(ledger)]
    if ledger:
        rows.append(("needless per prevented", _number(ledger.get("price"))))
    rows += _soft_rows(as_object(section.get("soft")))
    if section.get("flips") is not None:
        rows.append(("flips by itself", rate_text(section["flips"])))
    overhead = as_object(delay.get("overhead_s"))
    p95, half = number(overhead.get("p95")), number(overhead.get("median"))
    if p95 is not None and half is not None:
        rows.append(("overhead", f"p95 {p95 * 1000:.1f} ms, median {half * 1000:.1f} ms, n {overhead['n']}"))
    return rows


def _soft_rows(soft: JsonObject) -> list[tuple[str, str]]:
    """Return detection against shares of votes; accuracy stands beside the ceiling that no detector can pass."""
    if not soft:
        return []
    rates = [(name, number(soft.get(key))) for name, key in (("soft DR", "detection_rate"),
                                                             ("soft FPR", "false_positive_rate"))]  # fmt: skip
    rows = [(name, "n/a" if value is None else f"{value:.3f} n {soft['n']}") for name, value in rates]
    accuracy, ceiling = number(soft.get("accuracy")), number(soft.get("ceiling"))
    if accuracy is not None and ceiling is not None:
        rows.append(("votes agreed with", f"{accuracy:.3f} of at most {ceiling:.3f}"))
    return rows


def _safety(ledger: JsonObject) -> list[str]:
    """Return the safety gained, or why it is not known; nothing without a ledger."""
    safety = as_object(ledger.get("marginal_safety"))
    if safety.get("difference") is not None:
        return [_difference(safety)]
    reason = ledger.get("no_marginal_safety")
    return [f"n/a: {reason}"] if reason else []


def _difference(compared: JsonObject) -> str:
    found = as_object(compared["difference"])
    b, c, n = [int(number(compared.get(name)) or 0) for name in ("b", "c", "n")]
    return f"{(b - c) / n:+.3f} [{number(found['lo']):+.3f}, {number(found['hi']):+.3f}] ({b} − {c})/{n}"


def _number(value: Json) -> str:
    found = number(value)
    return "–" if found is None else f"{found:.3f}"


def cells_table(section: JsonObject) -> list[str]:
    """Return severity × direct or jailbroken: what was flagged, and what was answered without and with the guard."""
    return layout(*without_empty(*cells_rows(section)))


def cells_rows(section: JsonObject) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the same as header and rows."""
    rows: list[tuple[str, ...]] = []
    for name, value in as_object(section["cells"]).items():
        cell = as_object(value)
        seen = _seen(as_object(cell["contamination"]))
        rows.append(
            (
                name,
                str(cell["planned"]),
                rate_text(cell["flagged"]),
                rate_text(cell["answered_alone"]),
                rate_text(cell["answered_behind"]),
                seen,
            )
        )
    return ("cell", "n", "flagged", "answered alone", "answered behind guard", "training"), rows


def _seen(kinds: Mapping[str, Json]) -> str:
    words = {"clean": "clean", "unknown": "unknown"}
    return ", ".join([words.get(kind, f"seen in training ({kind})") for kind in kinds])


def _texts(value: Json) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
