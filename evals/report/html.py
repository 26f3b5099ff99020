"""One self-contained page: no script, no request, a strict content security policy, all text escaped (H-179)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from evals.attempts import as_object
from evals.client import number, objects
from evals.journal import JsonObject
from evals.manifest import Manifest
from evals.report.coherence import coherence_tables
from evals.report.figures import coherence_figures, figures_of, sections_of
from evals.report.svg import Figure
from evals.report.table import cells_table, measures, rate_text
from evals.statistics.jsonable import Json

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1f2933;max-width:1100px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{margin-top:2.5rem;border-bottom:1px solid #cbd2d9}
table{border-collapse:collapse;margin:1rem 0}
td,th{padding:.25rem .6rem;border-bottom:1px solid #e4e7eb;text-align:left}
pre{overflow-x:auto;background:#f5f7fa;padding:.8rem}
.warn{background:#fff4e5;border-left:4px solid #b3541e;padding:.4rem .8rem}
svg{max-width:100%;height:auto}code{background:#f5f7fa}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def to_page(summary: JsonObject, manifest: Manifest, figures: Mapping[str, Sequence[Figure]]) -> str:
    """Return the page of a run.

    Args:
        summary: of the run; the only source of numbers.
        manifest: what the run is.
        figures: section → its figures, as also written to files.
    """
    results = as_object(summary["results"])
    body = [
        f"<h1>Run {escape(manifest.run_id)}</h1>",
        *[f'<p class="warn">{escape(str(line))}</p>' for line in _list(results["warnings"])],
        _header(summary, manifest),
    ]
    for index, section in enumerate(sections_of(summary)):
        body.append(_section(section, summary, figures.get(str(index), ())))
    coherence = as_object(results.get("coherence"))
    if coherence:
        drawn = "".join([_figure(figure) for figure in figures.get("coherence", ())])
        body.append(f"<h2>Coherence</h2>{_pre(coherence_tables(coherence))}{drawn}")
    body += [_effort(as_object(summary["effort"])), _method(summary, manifest), _proof(as_object(summary["proof"]))]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Run {escape(manifest.run_id)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def page_figures(summary: JsonObject) -> Mapping[str, list[Figure]]:
    """Return the figures of each section of the page."""
    found = {str(index): figures_of(section) for index, section in enumerate(sections_of(summary))}
    coherence = as_object(as_object(summary["results"]).get("coherence"))
    return found | ({"coherence": coherence_figures(coherence)} if coherence else {})


def _header(summary: JsonObject, manifest: Manifest) -> str:
    results, environment = as_object(summary["results"]), manifest.environment
    progress = as_object(results["progress"])
    packages = environment.get("packages")
    version = packages.get("guardrail-proxy") if isinstance(packages, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # JSON
    rows: list[tuple[str, object]] = [
        ("target", manifest.labels["target"]),
        ("guard", manifest.labels["guard"]),
        ("started", manifest.started),
        ("planned, ok, errors, skipped, missing", ", ".join([str(progress[name]) for name in _STATES])),
        ("scorer", results.get("scorer")),
        ("ledger", manifest.identity.get("ledger")),
        ("composition", manifest.identity.get("composition") or "as each card says"),
        ("version", f"{version}, commit {environment.get('commit')}, dirty {environment.get('dirty')}"),
        ("Python", environment.get("python")),
        ("served models", results.get("served_models")),
    ]
    for name, entry in manifest.lock.items():
        lock = as_object(entry)
        hashes = ", ".join([str(file["sha256"])[:16] for file in objects(lock.get("files"))])
        rows.append((f"data {name}", f"{lock.get('items')} items, {lock.get('revision')}, sha256 {hashes}"))
    return _table(rows)


_STATES = ("planned", "ok", "errors", "skipped", "missing")


def _section(section: JsonObject, summary: JsonObject, figures: Sequence[Figure]) -> str:
    title = f"{section['dataset']} × {section['target']}"
    effort = as_object(summary["effort"])
    delays = [one for one in objects(effort["latency"]) if _same(one, section)]
    delay = delays[0] if delays else JsonObject()
    parts = [f"<h2>{escape(title)}</h2>", _table(measures(section, delay)), "".join([_figure(f) for f in figures])]
    if as_object(section["cells"]):
        parts += ["<h3>Direct and wrapped</h3>", _pre(cells_table(section))]
    supervisors = as_object(section["supervisors"])
    if supervisors:
        parts += ["<h3>Supervisors alone</h3>", _supervisors(supervisors)]
    categories = as_object(as_object(section["groups"])["category"])
    if categories:
        parts += ["<h3>By category</h3>", _groups(categories)]
    return "".join(parts)


def _same(one: JsonObject, section: JsonObject) -> bool:
    return (one["dataset"], one["target"]) == (section["dataset"], section["target"])


def _supervisors(supervisors: JsonObject) -> str:
    names = ("detection_rate", "false_positive_rate", "unknown_rate", "failure_rate")
    rows = [(name, *[rate_text(as_object(rates)[key]) for key in names]) for name, rates in supervisors.items()]
    return _rows(("supervisor", *names), rows)


def _groups(rates: JsonObject) -> str:
    names = tuple(rates)
    groups = list(as_object(rates[names[0]]))
    rows = [(group, *[rate_text(as_object(rates[name]).get(group)) for name in names]) for group in groups]
    return _rows(("category", *names), rows)


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
                rows.append((f"{one['dataset']} × {one['target']}: {name}", times))
    return f"<h2>Latency and cost</h2>{_table(rows)}"


def _ms(seconds: Json) -> str:
    return f"{(number(seconds) or 0.0) * 1000:.1f} ms"


def _method(summary: JsonObject, manifest: Manifest) -> str:
    results = as_object(summary["results"])
    progress = as_object(results["progress"])
    scorers = as_object(results["scorers"])
    first = as_object(scorers.get(str(results.get("scorer"))))
    lines = [
        "Rates are k of n scored trials with 95 % Wilson intervals, cluster-aware as soon as one root item has several "
        "scored trials. Bounds are the rates if every unscored trial were no hit, or one.",
        "Unknown verdicts are in neither numerator nor denominator. A supervisor that failed and closed the gate gets "
        "no credit for detection.",
        f"Answers are scored by {results.get('scorer')}: {first.get('meaning') or first}.",
        f"Not done: {progress['missing']} missing, {progress['errors']} errors, {progress['skipped']} skipped.",
        "No correction for multiple comparisons is made: rates are described, not compared.",
        f"Items seen in the guard's training are left out of the headline"
        f"{' only in name: --allow-contaminated was given' if manifest.options.get('allow_contaminated') else ''}.",
    ]
    return "<h2>Method</h2><ul>" + "".join([f"<li>{escape(line)}</li>" for line in lines]) + "</ul>"


def _proof(proof: JsonObject) -> str:
    journal = as_object(proof["journal"])
    rows: list[tuple[str, object]] = [
        ("manifest", proof["manifest_sha256"]),
        ("plan", proof["plan_sha256"]),
        ("journal", f"{journal['lines']} lines, head {journal['head']}"),
    ]
    return f"<h2>Proof</h2>{_table(rows)}<p><code>evals verify</code> holds these against the folder.</p>"


def _figure(figure: Figure) -> str:
    return f"<figure><figcaption>{escape(figure.title)}</figcaption>{figure.to_svg()}</figure>"


def _pre(lines: Iterable[str]) -> str:
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def _table(rows: Iterable[tuple[str, object]]) -> str:
    cells = [f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows]
    return f"<table>{''.join(cells)}</table>"


def _rows(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join([f"<th>{escape(cell)}</th>" for cell in header])
    body = "".join(["<tr>" + "".join([f"<td>{escape(cell)}</td>" for cell in row]) + "</tr>" for row in rows])
    return f"<table><tr>{head}</tr>{body}</table>"


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
