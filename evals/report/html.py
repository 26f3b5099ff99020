"""One self-contained page: its script allowed by hash, no request, a strict policy, all text escaped (H-179)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from evals.attempts import as_object
from evals.client import number, objects
from evals.journal import JsonObject
from evals.manifest import Manifest
from evals.nouns import count_of
from evals.published.values import Published
from evals.report.against import against_part
from evals.report.assets import content_policy, page_script, page_style
from evals.report.averages import AVERAGE_HEADER, average_rows
from evals.report.beside import beside_part
from evals.report.coherence import coherence_tables
from evals.report.figures import effort_of, sections_of, slug
from evals.report.method import method
from evals.report.panel import panel_lines, panel_rows
from evals.report.parts import (
    data_table,
    explorer,
    fact_list,
    fact_table,
    figure_blocks,
    preformatted,
    tile,
    warnings_box,
)
from evals.report.svg import Figure
from evals.report.table import cells_rows, measures, rate_text, title_of, without_empty, words_of
from evals.robustness import TRANSFORM_HEADER, transform_rows
from evals.statistics.jsonable import Json


@dataclass(frozen=True, slots=True)
class About:
    """What a page says of a run beside its summary.

    Args:
        name: of the run: that of its folder.
        manifest: what the run is.
        compared: recorded traffic held against this run; empty for any other.
        published: numbers of others, to stand beside ours.
    """

    name: str
    manifest: Manifest
    compared: JsonObject = field(default_factory=dict[str, Json])
    published: Sequence[Published] = ()


def to_page(summary: JsonObject, about: About, figures: Mapping[str, Sequence[Figure]]) -> str:
    """Return the page of a run.

    Args:
        summary: of the run; the only source of numbers.
        about: the run.
        figures: section → its figures, as also written to files.
    """
    results, manifest = as_object(summary["results"]), about.manifest
    sections = sections_of(summary)
    body = [
        f"<h1>Run {escape(about.name)}</h1>",
        _contents(sections, coherence=bool(results.get("coherence")), against=bool(about.compared)),
        _subtitle(summary, manifest),
        warnings_box([str(line) for line in _list(results["warnings"])]),
        against_part(about.compared),
    ]
    for index, section in enumerate(sections):
        body.append(_section(section, summary, figures.get(str(index), ())))
        body.append(beside_part(section, about.published))
    averages = as_object(results.get("averages"))
    if averages:
        table = data_table(AVERAGE_HEADER, average_rows(averages), "Averages over data sets")
        body.append(f'<h2 id="averages">Averages over data sets</h2>{table}')
    coherence = as_object(results.get("coherence"))
    if coherence:
        tables = preformatted(coherence_tables(coherence), "Tables of coherence")
        body.append(f'<h2 id="coherence">Coherence</h2>{figure_blocks(figures.get("coherence", ()))}{tables}')
    body += [
        _header(summary, manifest),
        _effort(as_object(summary["effort"])),
        method(summary, manifest),
        _proof(as_object(summary["proof"])),
    ]
    return frame(f"Run {about.name}", "".join(body))


def frame(title: str, body: str) -> str:
    """Return a whole page around a body that is already escaped."""
    script = page_script()
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{content_policy(script)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{page_style()}</style></head>"
        f'<body><a class="skip" href="#main">To the numbers</a><main id="main">{body}</main>'
        f"<script>{script}</script></body></html>\n"
    )


def _contents(sections: Sequence[JsonObject], *, coherence: bool, against: bool) -> str:
    links = [("against", "Recorded traffic under this policy")] if against else []
    links += [(_id(section), title_of(section)) for section in sections]
    links += [("coherence", "Coherence")] if coherence else []
    links += [("run", "What was run"), ("effort", "Latency and cost"), ("method", "Method"), ("proof", "Proof")]
    listed = "".join([f'<li><a href="#{escape(anchor)}">{escape(text)}</a></li>' for anchor, text in links])
    return f'<nav aria-label="Contents"><ul>{listed}</ul></nav>'


def _subtitle(summary: JsonObject, manifest: Manifest) -> str:
    progress = as_object(as_object(summary["results"])["progress"])
    counts = f"{progress['ok']} of {progress['planned']} trials done, {count_of(int(str(progress['errors'])), 'error')}"
    said = f"Target {manifest.labels['target']}, guard {manifest.labels['guard']}; {counts}; {manifest.started[:10]}"
    return f'<p class="note">{escape(said)}</p>'


def _id(section: JsonObject) -> str:
    return f"s-{slug(str(section['dataset']))}-{slug(str(section['target']))}"


def _header(summary: JsonObject, manifest: Manifest) -> str:
    results, environment = as_object(summary["results"]), manifest.environment
    progress = as_object(results["progress"])
    packages = environment.get("packages")
    version = packages.get("guardrail-proxy") if isinstance(packages, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # JSON
    rows: list[tuple[str, object]] = [
        ("run id", manifest.run_id),
        ("target", manifest.labels["target"]),
        ("guard", manifest.labels["guard"]),
        ("started", manifest.started),
        ("planned, ok, errors, skipped, missing", ", ".join([str(progress[name]) for name in _STATES])),
        ("scorer", results.get("scorer")),
        ("ledger", manifest.identity.get("ledger")),
        ("composition", manifest.identity.get("composition") or "as each card says"),
        ("version", f"{version}, commit {environment.get('commit')}, dirty {environment.get('dirty')}"),
        ("Python", environment.get("python")),
        ("served models", results.get("served_models") or "none"),
        *[("policy version of the proxy", name) for name in as_object(results.get("policy_versions"))],
    ]
    for name, entry in manifest.lock.items():
        lock = as_object(entry)
        hashes = ", ".join([str(file["sha256"])[:16] for file in objects(lock.get("files"))])
        rows.append((f"data {name}", f"{lock.get('items')} items, {lock.get('revision')}, sha256 {hashes}"))
    return f'<h2 id="run">What was run</h2>{fact_table(rows, "Target, guard, versions and data")}'


_STATES = ("planned", "ok", "errors", "skipped", "missing")


def _section(section: JsonObject, summary: JsonObject, figures: Sequence[Figure]) -> str:
    title = title_of(section)
    curves = as_object(section.get("curves"))
    parts = [
        f'<h2 id="{escape(_id(section))}">{escape(title)}</h2>',
        _tiles(section),
        fact_list(_measured(section, summary), f"All measures, {title}"),
        figure_blocks(figures),
        explorer(curves, next((figure.name for figure in figures if figure.name.endswith("-roc")), "")),
    ]
    if as_object(section["cells"]):
        header, rows = without_empty(*cells_rows(section))
        parts += ["<h3>Direct and wrapped</h3>", data_table(header, rows, f"Severity by manner, {title}")]
    if section.get("transforms") is not None:
        changed = list(transform_rows(as_object(section["transforms"]), rate_text))
        parts += ["<h3>Under transforms</h3>", data_table(TRANSFORM_HEADER, changed, f"Flagged by transform, {title}")]
    panel = as_object(section.get("panel"))
    if panel:
        parts += ["<h3>Judges of the answers</h3>", data_table(*panel_rows(panel), f"Each judge, {title}")]
        parts.append(preformatted(panel_lines(section), f"What the votes say about the panel, {title}"))
    supervisors = as_object(section["supervisors"])
    if supervisors:
        parts += ["<h3>Supervisors alone</h3>", _supervisors(section, title)]
    if curves:
        parts += ["<h3>Thresholds</h3>", _thresholds(curves, title)]
    categories = as_object(as_object(section["groups"])["category"])
    if categories:
        parts.append(_groups(categories, title))
    return "".join(parts)


def _measured(section: JsonObject, summary: JsonObject) -> list[tuple[str, object]]:
    return [(name, text) for name, text in measures(section, effort_of(summary, section)) if text != "–"]


_TILES = (
    ("Detected", "rates", "detection_rate", "harmful requests"),
    ("False alarms", "rates", "false_positive_rate", "benign requests"),
    ("Unsafe answers alone", "ledger", "unsafe_alone", "harmful requests"),
    ("Unsafe answers behind the guard", "ledger", "unsafe_behind", "harmful requests"),
    ("Over-refused by the model", "rates", "over_refusal_rate", "benign requests"),
    ("No verdict", "rates", "unknown_rate", "verdicts"),
)


def _tiles(section: JsonObject) -> str:
    parts = {"rates": as_object(section["rates"]), "ledger": as_object(section["ledger"])}
    shown = [
        tile(title, parts[part][name], note)
        for title, part, name, note in _TILES
        if as_object(parts[part].get(name)).get("planned")
    ]
    return f'<dl class="tiles">{"".join(shown)}</dl>'


def _supervisors(section: JsonObject, title: str) -> str:
    listed = section.get("watching")
    watching = listed if isinstance(listed, list) else []
    names = ("detection_rate", "false_positive_rate", "unknown_rate", "failure_rate")
    rows = [
        (f"{name} (shadow)" if name in watching else name, *[rate_text(as_object(rates)[key]) for key in names])
        for name, rates in as_object(section["supervisors"]).items()
    ]
    header, kept = without_empty(("supervisor", *map(words_of, names)), rows)
    return data_table(header, kept, f"Each supervisor and stage alone, {title}")


def _thresholds(curves: JsonObject, title: str) -> str:
    """Return the operating points of every curve, each with the reason where there is none."""
    rows: list[Sequence[str]] = []
    for name, value in curves.items():
        body = as_object(value)
        area = as_object(body["auroc"])
        for budget in objects(body["budgets"]):
            point = as_object(budget.get("point"))
            rates = [rate_text(point.get(key)) if point else "–" for key in ("detection", "false_positives")]
            threshold = number(point.get("threshold"))
            said = "flags nothing" if point.get("flags_nothing") is True else words_of(str(budget.get("reason") or "–"))
            rows.append((name, f"{budget['budget']}", said if threshold is None else f"{threshold:.6f}", *rates))
        if not objects(body["budgets"]):
            rows.append((name, "–", words_of(str(area.get("reason") or "no benign item")), "–", "–"))
    header = ("supervisor", "FPR budget", "threshold", "detection", "false positives")
    note = "chosen and measured on the same items: optimistic"
    return data_table(header, rows, f"Operating points, {title}; {note}")


def _groups(rates: JsonObject, title: str) -> str:
    names = tuple(rates)
    groups = list(as_object(rates[names[0]]))
    rows = [(group, *[rate_text(as_object(rates[name]).get(group)) for name in names]) for group in groups]
    told = [row for row in rows if any(cell != "–" for cell in row[1:])]
    if not told or [row[0] for row in told] == ["(none)"]:  # nothing is labelled, or nothing has a category
        return ""
    header, kept = without_empty(("category", *map(words_of, names)), told)
    return f"<h3>By category</h3>{data_table(header, kept, f'By category, {title}')}"


def _effort(effort: JsonObject) -> str:
    cost = effort["cost_usd"]
    rows: list[tuple[str, object]] = [
        ("wall time", f"{effort['wall_s']} s"),
        ("active time", f"{effort['active_s']} s"),
        ("failed attempts", effort["failed_attempts"]),
        ("cost", "unknown" if cost is None else f"{cost} USD"),
    ]
    for one in objects(effort["latency"]):
        for name in ("service_s", "with_retries_s", "overhead_s", "guard_s"):
            found = as_object(one.get(name))
            if found:
                times = f"median {_ms(found['median'])}, p95 {_ms(found['p95'])}, n {found['n']}"
                rows.append((f"{title_of(one)}: {words_of(name.removesuffix('_s'))}", times))
    return f'<h2 id="effort">Latency and cost</h2>{fact_table(rows, "Times and money of the whole run")}'


def _ms(seconds: Json) -> str:
    return f"{(number(seconds) or 0.0) * 1000:.1f} ms"


def _proof(proof: JsonObject) -> str:
    journal = as_object(proof["journal"])
    rows: list[tuple[str, object]] = [
        ("manifest", proof["manifest_sha256"]),
        ("plan", proof["plan_sha256"]),
        ("journal", f"{journal['lines']} lines, head {journal['head']}"),
    ]
    told = "<p><code>evals verify</code> holds these against the folder.</p>"
    return f'<h2 id="proof">Proof</h2>{fact_table(rows, "Hashes")}{told}'


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
