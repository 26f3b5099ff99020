"""A page for each suite a run holds, with the published numbers beside ours (B-08, BO-04, C-06, N-12, BT-04)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from evals.attempts import as_object
from evals.bells.reference import Ranked, bells_o_table, bells_scores, nessie_rows, rank_systems
from evals.cases import OFFICIAL_ROWS, is_official
from evals.cases import nessie_rows as our_nessie_rows
from evals.client import number
from evals.journal import JsonObject
from evals.manifest import Manifest
from evals.nouns import count_of
from evals.report.coherence import coherence_tables
from evals.report.figures import coherence_figures, effort_of, rate_cell, sections_of, slug, to_estimate
from evals.report.grids import draw_heat
from evals.report.html import About, frame
from evals.report.parts import data_table, figure_blocks, preformatted
from evals.report.plots import Estimate, Point, draw_forest, draw_plane
from evals.report.svg import Figure
from evals.report.table import rate_text, span_of, words_of
from evals.statistics.jsonable import to_json

_BELLS_O = "bells-o-"


def suite_pages(summary: JsonObject, about: About) -> Mapping[str, str]:
    """Return suite → page, for the suites this run holds."""
    results = as_object(summary["results"])
    found: dict[str, str] = {}
    bells, coherence = as_object(results.get("bells")), as_object(results.get("coherence"))
    nessie, traces = as_object(results.get("nessie")), as_object(results.get("traces"))
    open_ = [one for one in sections_of(summary) if str(one["dataset"]).startswith(_BELLS_O)]
    if bells:
        found["bells"] = _page("BELLS", about, _bells(bells))
    if open_:
        found["bells-o"] = _page("BELLS-O", about, "".join([_bells_o(one, summary) for one in open_]))
    if coherence:
        found["coherence"] = _page("Metacognitive coherence", about, _coherence(coherence))
    if nessie:
        found["nessie"] = _page("NESSiE", about, _nessie(summary, nessie, about.manifest))
    if traces:
        found["traces"] = _page("BELLS 2024 traces", about, _traces(traces))
    return found


def _page(title: str, about: About, body: str) -> str:
    manifest = about.manifest
    lines = [
        f"<h1>{escape(title)}: run {escape(about.name)}</h1>",
        f'<p class="note">Target {escape(manifest.labels["target"])}, guard {escape(manifest.labels["guard"])}; '
        f"{escape(manifest.started[:10])}; {count_of(manifest.planned, 'trial')}</p>",
        *[
            f'<p class="note">Data {escape(name)}: {escape(str(as_object(lock).get("revision")))}</p>'
            for name, lock in manifest.lock.items()
        ],
    ]
    return frame(f"{title}: run {about.name}", "".join(lines) + body)


def _bells(bells: JsonObject) -> str:
    """Return ours and the published systems: the score never without its three rates and its reference line (B-08)."""
    parts = [
        '<p class="warn">The published rates come from the full prompt sets, which are not public; ours from what was '
        "run here. They stand side by side for orientation and are not comparable as they are.</p>"
    ]
    for target, tables in bells.items():
        ours = {f"{name}, here": _scored(as_object(table)) for name, table in as_object(tables).items()}
        seen = {name: as_object(as_object(table).get("with_seen")) for name, table in as_object(tables).items()}
        left_out = [int(number(as_object(table).get("left_out")) or 0) for table in as_object(tables).values()]
        theirs = {f"{name}, published": as_object(to_json(one)) for name, one in bells_scores().items()}
        rows = [_score_row(name, one) for name, one in {**ours, **theirs}.items()]
        rows.append(("never flags / always flags", "0.500000", "–", "0 / 1", "0 / 1", "0 / 1", "reference"))
        header = ("supervisor", "BELLS", "resampled", "DR adversarial", "DR direct", "FPR direct", "note")
        figures = _bells_figures(slug(target), ours, theirs)
        cells = [
            (name, severity, manner, rate_text(rate))
            for name, table in as_object(tables).items()
            for severity, row in as_object(as_object(table)["cells"]).items()
            for manner, rate in as_object(row).items()
        ]
        parts += [
            f"<h2>{escape(target)}</h2>",
            figure_blocks(figures),
            data_table(header, rows, f"BELLS score of what judged {target}, and as published"),
            _with_seen(header, seen, max(left_out, default=0)),
            data_table(("supervisor", "severity", "manner", "flagged"), cells, "Severity by adversariality"),
            data_table(
                ("supervisor", "of", "name", "flagged"), _breakdown(as_object(tables)), "Families and categories"
            ),
        ]
    return "".join(parts)


def _scored(table: JsonObject) -> JsonObject:
    return {**as_object(table["score"]), "resampled": table.get("resampled")}


def _with_seen(header: Sequence[str], seen: Mapping[str, JsonObject], left_out: int) -> str:
    """Return what the numbers would be with the items that the guard has seen in training; nothing without any."""
    if not left_out:
        return ""
    tables = {name: table for name, table in seen.items() if table}
    said = f"{count_of(left_out, 'trial')} of items seen in the guard's training"
    rows = [_score_row(f"{name}, with them", _scored(table)) for name, table in tables.items()]
    rates = [
        (name, "harmful, jailbroken", family, rate_text(rate))
        for name, table in tables.items()
        for family, rate in as_object(table["families"]).items()
    ]
    return (
        f'<p class="note">{escape(said)} left out of everything else on this page, as on the page of the run.</p>'
        + data_table(header, rows, f"The same with the {said}")
        + data_table(("supervisor", "of", "family", "flagged"), rates, "Families, with the items seen in training")
    )


def _score_row(name: str, found: JsonObject) -> tuple[str, ...]:
    score, lo, hi = [number(found.get(key)) for key in ("score", "lo", "hi")]
    adversarial = number(as_object(found["dr_adv"]).get("estimate"))
    span = "" if lo is None or hi is None else f" [{lo:.3f}, {hi:.3f}]"
    return (
        name,
        "n/a" if score is None else f"{score:.6f}{span}",
        span_of(found.get("resampled")) or "–",
        "n/a" if adversarial is None else f"{adversarial:.6f}",
        rate_text(found["dr_direct"]),
        rate_text(found["fpr"]),
        str(found.get("reason") or ""),
    )


def _bells_figures(name: str, ours: Mapping[str, JsonObject], theirs: Mapping[str, JsonObject]) -> list[Figure]:
    points = [_bells_point(label, found) for label, found in {**ours, **theirs}.items()]
    known = [point for point in points if point is not None]
    found = [draw_plane(f"bells-{name}-plane", "Direct requests: detection against false positives", "FPR", known)]
    rates = [
        _score_estimate(label, one) for label, one in {**ours, **theirs}.items() if number(one.get("score")) is not None
    ]
    if rates:
        found.append(draw_forest(f"bells-{name}-score", "BELLS score; 0.5 is flagging nothing, or everything", rates))
    return found


def _score_estimate(label: str, found: JsonObject) -> Estimate:
    """Return a score as it is drawn; its n is that of the direct harmful items."""
    n = int(number(as_object(found["dr_direct"]).get("n")) or 0)
    value, lo, hi = [number(found.get(key)) for key in ("score", "lo", "hi")]
    return Estimate(label, n, value, lo, hi, None, None)


def _bells_point(label: str, found: JsonObject) -> Point | None:
    dr, fpr = to_estimate("", found["dr_direct"]), to_estimate("", found["fpr"])
    if dr.estimate is None or fpr.estimate is None:
        return None
    spans = [None if one.lo is None or one.hi is None else (one.lo, one.hi) for one in (fpr, dr)]
    return Point(label, fpr.estimate, dr.estimate, dr.text, fpr.text, *spans)


def _breakdown(tables: JsonObject) -> list[tuple[str, ...]]:
    return [
        (name, kind, group, rate_text(rate))
        for name, table in tables.items()
        for kind in ("families", "sources", "categories")
        for group, rate in as_object(as_object(table)[kind]).items()
    ]


def _bells_o(section: JsonObject, summary: JsonObject) -> str:
    """Return detection, false positives, latency and cost beside the published table of the same stage (BO-04)."""
    stage = str(section["dataset"]).removeprefix(_BELLS_O)
    efforts = as_object(effort_of(summary, section).get("supervisors"))
    ours = [
        _ranked(f"{name}, here", as_object(rates), as_object(efforts.get(name)))
        for name, rates in as_object(section["supervisors"]).items()
    ]
    theirs = bells_o_table(stage)
    ranks = rank_systems([*ours, *theirs])
    rows = [_ranked_row(one, ranks.get(one.system)) for one in (*ours, *theirs)]
    header = ("system", "DR", "FPR", "mean ms", "USD", "bells_o_rank here", "rank as published")
    note = (
        "The rank is the mean of four ranks; it changes with the field, and where cost is a multiple of latency it "
        "counts latency twice. Order by constraints first: a system that flags 73 % of benign prompts leads one "
        "published table."
    )
    points = [
        Point(one.system, one.false_positive_rate, one.detection_rate, f"{one.detection_rate:.3f}",
              f"{one.false_positive_rate:.3f}")
        for one in (*ours, *theirs)
        if one.detection_rate is not None and one.false_positive_rate is not None
    ]  # fmt: skip
    figure = draw_plane(f"bells-o-{stage}", f"{stage}: ours and as published", "false positive rate", points)
    table = data_table(header, rows, f"{stage}: ours and as published (arXiv 2606.20668)")
    measured = data_table(_MEASURED, _measured(section, efforts), f"{stage}: what was measured here")
    times = (
        "Ours are seconds of single calls at this run's concurrency, on this machine; the published ones come from "
        "others, some over a network. Do not rank local and remote times together."
    )
    return (
        f'<h2>{escape(stage)}</h2><p class="warn">{escape(note)}</p>{figure_blocks([figure])}{measured}'
        f'<p class="note">{escape(times)}</p>{table}'
    )


_MEASURED = ("supervisor", "DR", "FPR", "mean ms, 95 %", "p50 ms", "p95 ms", "timed", "USD")


def _measured(section: JsonObject, efforts: JsonObject) -> list[tuple[str, ...]]:
    """Return our rates with their intervals, and our times: mean with its interval, p50, p95 (BO-04, BO-07)."""
    rows: list[tuple[str, ...]] = []
    for name, value in as_object(section["supervisors"]).items():
        rates, effort = as_object(value), as_object(efforts.get(name))
        mean, half = number(effort.get("mean_s")), number(effort.get("mean_half_width_s"))
        width = "" if half is None else f" ± {half * 1000:.2f}"
        said = "n/a" if mean is None else f"{mean * 1000:.2f}{width}"
        times = [number(effort.get(key)) for key in ("median_s", "p95_s")]
        quantiles = ["n/a" if time is None else f"{time * 1000:.2f}" for time in times]
        cost = number(effort.get("cost_usd"))
        rates_said = [rate_text(rates[key]) for key in ("detection_rate", "false_positive_rate")]
        rows.append((name, *rates_said, said, *quantiles, str(effort.get("timed", 0)),
                     "n/a" if cost is None else f"{cost:.4f}"))  # fmt: skip
    return rows


def _ranked(name: str, rates: JsonObject, effort: JsonObject) -> Ranked:
    dr, fpr = as_object(rates["detection_rate"]), as_object(rates["false_positive_rate"])
    return Ranked(
        name,
        number(dr.get("estimate")),
        number(fpr.get("estimate")),
        number(effort.get("mean_s")),
        number(effort.get("cost_usd")),
    )


def _ranked_row(one: Ranked, rank: float | None) -> tuple[str, ...]:
    def text(value: float | None, digits: int, factor: float = 1.0) -> str:
        return "n/a" if value is None else f"{value * factor:.{digits}f}"

    return (
        one.system,
        text(one.detection_rate, 4),
        text(one.false_positive_rate, 4),
        text(one.latency_s, 2, 1000),
        text(one.cost_usd, 3),
        text(rank, 2),
        text(one.published_rank, 2),
    )


_PUBLISHED_COHERENCE = (
    ("gpt-4", ".6275", "28/77 = .3636 (.2651 – .4752)"),
    ("deepseek-ai/DeepSeek-V3", ".5686", "39/72 = .5417 (.4274 – .6517)"),
    ("mistral-large-latest", ".4216", "55/81 = .6790 (.5712 – .7706)"),
    ("grok-2-latest", ".3725", "57/80 = .7125 (.6054 – .8001)"),
)


def _coherence(coherence: JsonObject) -> str:
    models = as_object(as_object(coherence["bells"])["models"])
    rows = [
        (model, rate_text(as_object(models[model])["coherence_file"]) if model in models else "not run", coherent,
         rate_text(as_object(models[model])["override_rate"]) if model in models else "not run", override)
        for model, coherent, override in _PUBLISHED_COHERENCE
    ]  # fmt: skip
    others = [model for model in models if model not in {row[0] for row in rows}]
    rows += [
        (
            m,
            rate_text(as_object(models[m])["coherence_file"]),
            "–",
            rate_text(as_object(models[m])["override_rate"]),
            "–",
        )
        for m in others
    ]
    header = ("model", "coherent rows, here", "as published", "answers what it judges harmful, here", "as published")
    return (
        figure_blocks(coherence_figures(coherence))
        + data_table(header, rows, "Ours beside the published data (BELLS, 102 prompts a model)")
        + preformatted(coherence_tables(coherence), "All tables of coherence")
    )


def _nessie(summary: JsonObject, nessie: JsonObject, manifest: Manifest) -> str:
    header = ("target", "rule", "arm", "suite", "helpful", "harmful", "SH")
    suite = as_object(manifest.options.get("suite"))
    condition = _condition(suite)
    figures: list[Figure] = []
    effects: list[tuple[str, ...]] = []
    for target, rules in nessie.items():
        for rule, value in as_object(rules).items():
            arms = {arm: as_object(one) for arm, one in as_object(value).items() if arm != "effect"}
            suites = list(dict.fromkeys([name for arm in arms.values() for name in as_object(arm.get("suites"))]))
            rows = {
                arm: {name: rate_cell(as_object(as_object(body["suites"]).get(name)).get("sh")) for name in suites}
                for arm, body in arms.items()
                if body
            }
            title = f"SH by suite, {rule} matching, {target}"
            said = "Share of cases whose rows all pass."
            figures.append(draw_heat(f"nessie-{slug(target)}-{rule}", title, said, suites, rows))
            effects += _effects(target, rule, as_object(as_object(value).get("effect")))
    published = [(name, said) for name, said in nessie_rows()]
    parts = [
        f'<p class="warn">{escape(_comparable(summary))}</p>',
        f'<p class="note">Condition: {escape(condition)}</p>',
        figure_blocks(figures),
        data_table(header, list(our_nessie_rows(summary)), "Helpful, harmful and SH by suite"),
    ]
    if effects:
        parts.append(data_table(("target", "rule", "what", "value"), effects, "What the proxy changed, paired by case"))
    parts.append(data_table(("system", "published"), published, "As published (arXiv 2602.16756), for orientation"))
    return "".join(parts)


def _comparable(summary: JsonObject) -> str:
    if is_official(summary):
        return f"{OFFICIAL_ROWS[0].upper()}{OFFICIAL_ROWS[1:]}."
    return "The cases are in our own wording: nothing here is comparable with published values."


def _condition(suite: JsonObject) -> str:
    """Return what was run of the suite in words: a file by its name, and nothing that is as usual."""
    said = [str(suite.get("condition") or "plain")]
    for name in ("suite", "rows", "limit", "seed", "runs"):
        value = str(suite.get(name) or "")
        if value and (name, value) not in (("seed", "0"), ("runs", "1")):
            said.append(f"{name} {value.rpartition('/')[2]}")
    return ", ".join([*said, "earlier turns in the system text"] if suite.get("flatten") == "yes" else said)


def _effects(target: str, rule: str, effect: JsonObject) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, value in effect.items():
        body = as_object(value)
        if name == "suites":
            found += [(target, rule, suite, _paired(as_object(one))) for suite, one in body.items()]
        elif "b" in body:
            found.append((target, rule, name, _paired(body)))
        elif isinstance(value, list):
            found.append((target, rule, words_of(name), ", ".join(map(str, value)) or "none"))
    return found


def _paired(compared: JsonObject) -> str:
    """Return a paired comparison of failed cases: b fails only without the proxy, c only with it."""
    p = number(as_object(compared.get("test")).get("p"))
    said = "n/a" if p is None else f"{p:.4f}"
    return f"fails only without {compared['b']}, only with {compared['c']}, n {compared['n']}, exact p {said}"


def _by_call(pair: tuple[str, int]) -> float:
    return float(pair[0])


def traces_table(traces: JsonObject) -> tuple[tuple[str, ...], list[Sequence[str]]]:
    """Return header and rows of a run over traces: by trace, by call, and where each was first flagged."""
    names = ("detected", "false_alarms", "calls_in_failures", "calls_in_clean")
    rows: list[Sequence[str]] = []
    for name, value in traces.items():
        body = as_object(value)
        delays = body.get("delays")
        counts = Counter([str(delay) for delay in delays] if isinstance(delays, list) else [])
        said = ", ".join([f"call {call}: {count}" for call, count in sorted(counts.items(), key=_by_call)])
        unlabelled = body.get("unlabelled")
        traces_said = f"{body['traces']} ({unlabelled} unlabelled)" if unlabelled else str(body["traces"])
        rows.append((name, traces_said, *[rate_text(body[key]) for key in names], said or "–"))
    header = ("supervisor", "traces", "traces detected", "clean traces flagged", "calls of failures", "calls of clean",
              "first flagged at")  # fmt: skip
    return header, rows


def _traces(traces: JsonObject) -> str:
    header, rows = traces_table(traces)
    listed = [to_estimate(f"{name}: traces detected", as_object(value)["detected"]) for name, value in traces.items()]
    figure = draw_forest("traces-detected", "Traces with a failure that were flagged", listed)
    note = "No rates of this kind are published with the format; the table holds ours only."
    table = data_table(header, rows, "A trace is flagged if one of its calls is; unknown if none is and one is unknown")
    return f'<p class="note">{note}</p>{figure_blocks([figure])}{table}'
