"""Print and write what was found: a table, JSON, a Markdown section, and one bar chart in SVG."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from math import log10
from pathlib import Path

from bench.goals import GOALS
from bench.latency import Added
from bench.streaming import Chunks
from bench.throughput import Throughput

BEGIN = "<!-- bench: begin; written by python -m bench, do not edit -->"
END = "<!-- bench: end -->"


@dataclass(slots=True)
class Report:
    """Everything one run found.

    Args:
        conditions: what it was made under.
        throughput: by target.
        tails: the same at 64 connections.
        added: by target, whole replies.
        first: by target, first chunk of a stream, at ten streams a second.
        alone: by target, the same in ms, one stream after another.
        streams: by target, at a reading pace.
        flood: by target, saturated.
        values: measured values by the names of `GOALS`.
        missing: what could not be measured, one sentence each.
    """

    conditions: dict[str, str]
    throughput: Mapping[str, Throughput] = field(default_factory=dict[str, Throughput])
    tails: Mapping[str, Throughput] = field(default_factory=dict[str, Throughput])
    added: Mapping[str, Added] = field(default_factory=dict[str, Added])
    first: Mapping[str, Added] = field(default_factory=dict[str, Added])
    alone: Mapping[str, float] = field(default_factory=dict[str, float])
    streams: Mapping[str, Chunks] = field(default_factory=dict[str, Chunks])
    flood: Mapping[str, Chunks] = field(default_factory=dict[str, Chunks])
    values: dict[str, float] = field(default_factory=dict[str, float])
    missing: list[str] = field(default_factory=list[str])

    def to_json(self) -> str:
        """Return everything as JSON, all rounds included."""
        return json.dumps(asdict(self), indent=1, sort_keys=True)


def markdown(report: Report) -> str:
    """Return the section of docs/performance.md, between its two marks."""
    parts = [BEGIN, "", "### Conditions", ""]
    parts += [f"- {name}: {value}" for name, value in report.conditions.items()]
    parts += ["", "### Throughput", "", *_throughput_rows(report), ""]
    if report.tails:
        parts += ["### Garbage collection", "", *_tail_rows(report), ""]
    if report.added:
        parts += ["### Added latency", "", *_added_rows(report), ""]
    if report.flood:
        parts += ["### Streams", "", *_stream_rows(report), ""]
    parts += ["### Targets", "", *_goal_rows(report), ""]
    parts += ["### Not measured", "", *[f"- {line}" for line in report.missing or ["nothing was left out"]], "", END]
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        f"|---|{'---:|' * (len(head) - 1)}",
        *[f"| {' | '.join(row)} |" for row in rows],
    ]


def _throughput_rows(report: Report) -> list[str]:
    rows = [
        [
            one.name,
            f"{one.per_core_s:,.0f}",
            f"{one.median('cpu_us'):,.1f}",
            f"{one.median('per_s'):,.0f}{' (tools at their limit)' if one.generator_limited else ''}",
            f"{one.median('p50_ms'):.2f}",
            f"{one.median('p99_ms'):.2f}",
            f"{one.median('foreign_share'):.2f}",
        ]
        for one in report.throughput.values()
    ]
    head = ["target", "requests per core-second", "CPU µs/request", "requests/s observed", "p50 ms", "p99 ms"]
    return _table([*head, "foreign load, cores"], rows)


def _tail_rows(report: Report) -> list[str]:
    rows = [
        [one.name, f"{one.median('cpu_us'):,.1f}", f"{one.median('p50_ms'):.2f}", f"{one.median('p99_ms'):.2f}"]
        for one in report.tails.values()
    ]
    return _table(["64 connections", "CPU µs/request", "p50 ms", "p99 ms"], rows)


def _added_rows(report: Report) -> list[str]:
    rows = [
        [
            one.name,
            f"{one.p50:.2f}",
            f"{one.p95:.2f}",
            f"{one.p99:.2f}",
            f"{one.p99_shift:.2f}",
            f"{report.first[one.name].p50:.2f}" if one.name in report.first else "–",
            f"{report.alone[one.name]:.2f}" if one.name in report.alone else "–",
        ]
        for one in report.added.values()
    ]
    head = ["target", "p50 ms", "p95 ms", "p99 ms", "shift of p99 ms"]
    return _table([*head, "first chunk, 10 streams a second, p50 ms", "one stream after another, p50 ms"], rows)


def _stream_rows(report: Report) -> list[str]:
    rows: list[list[str]] = []
    for one in report.flood.values():
        calm = report.streams.get(one.name)
        row = [one.name, f"{one.chunk_us:.1f}", f"{one.per_s:,.0f}"]
        row += [f"{calm.chunk_us:.1f}", f"{calm.p50_ms:.2f}", f"{calm.p99_ms:.2f}"] if calm else ["–", "–", "–"]
        rows.append(row)
    head = ["target", "µs/chunk, saturated", "chunks/s, saturated", "µs/chunk at 6,400 chunks/s", "chunk p50 ms"]
    return _table([*head, "chunk p99 ms"], rows)


def _goal_rows(report: Report) -> list[str]:
    rows: list[list[str]] = []
    for name, goal in GOALS.items():
        value = report.values.get(name)
        sign = "≥" if goal.better == "more" else "≤"
        bounds = [f"{sign} {goal.floor:.3g}", f"{sign} {goal.goal:.3g}"]
        shown = ["not measured", ""] if value is None else [f"{value:.3g}", goal.grade(value)]
        rows.append([f"{goal.id} {goal.metric}", *bounds, *shown])
    return _table(["target", "floor", "goal", "measured", "holds"], rows)


def chart(report: Report) -> str:
    """Return a bar chart of requests per core-second, logarithmic, as SVG."""
    bars = sorted(report.throughput.values(), key=lambda one: -one.per_core_s)
    step, left, width = 34, 170, 430
    height = step * len(bars) + 60
    top = max((one.per_core_s for one in bars), default=1.0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 120} {height}" role="img" '
        'font-family="system-ui, sans-serif" font-size="14">',
        "<title>Requests per second of one core, logarithmic</title>",
        "<style>text{fill:#222}.bar{fill:#8a93a6}.own{fill:#1f6feb}.grid{stroke:#8888;stroke-width:1}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>",
    ]
    for power in range(1, 7):
        x = left + _length(10.0**power, top, width)
        if x <= left + width:
            lines.append(f'<line class="grid" x1="{x:.0f}" y1="30" x2="{x:.0f}" y2="{height - 24}"/>')
            lines.append(f'<text x="{x:.0f}" y="{height - 6}" text-anchor="middle">{10**power:,}</text>')
    lines.append(
        '<text x="10" y="18">Requests per second of one core (logarithmic; one run, see the conditions)</text>'
    )
    for row, one in enumerate(bars):
        y = 36 + row * step
        kind = "own" if one.name == "guardrail-proxy" else "bar"
        length = _length(one.per_core_s, top, width)
        lines.append(f'<text x="{left - 8}" y="{y + 17}" text-anchor="end">{escape(one.name)}</text>')
        lines.append(f'<rect class="{kind}" x="{left}" y="{y}" width="{length:.0f}" height="24" rx="3"/>')
        lines.append(f'<text x="{left + length + 8:.0f}" y="{y + 17}">{one.per_core_s:,.0f}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _length(value: float, top: float, width: float) -> float:
    """Return the length of a bar; 10 requests a second have none."""
    return width * max(0.0, log10(max(value, 10.0)) - 1) / max(0.1, log10(top) - 1)


def insert(page: Path, section: str) -> None:
    """Replace what stands between the marks of a page, or append the section."""
    text = page.read_text("utf-8") if page.exists() else ""
    before, mark, rest = text.partition(BEGIN)
    after = rest.partition(END)[2] if mark else "\n"
    page.write_text(f"{before.rstrip()}\n\n{section}{after}" if before.strip() else f"{section}{after}", "utf-8")
