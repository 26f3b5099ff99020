"""The parts of a page: tables that scroll, figures with their numbers, tiles, and an explorer of thresholds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape

from evals.attempts import as_object
from evals.client import number
from evals.journal import JsonObject
from evals.report.svg import Figure
from evals.statistics.jsonable import Json


def fact_table(rows: Iterable[tuple[str, object]], caption: str) -> str:
    """Return a table of names and values."""
    cells = [f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>' for name, value in rows]
    return _scroll(f"<table><caption>{escape(caption)}</caption>{''.join(cells)}</table>", caption)


def fact_list(rows: Iterable[tuple[str, object]], caption: str) -> str:
    """Return short names and values side by side, in as many columns as there is room for."""
    cells = [f"<div><dt>{escape(name)}</dt><dd>{escape(str(value))}</dd></div>" for name, value in rows]
    return f'<p class="note">{escape(caption)}</p><dl class="facts">{"".join(cells)}</dl>'


def warnings_box(lines: Sequence[str]) -> str:
    """Return everything a reader must know before the numbers, in one box; nothing without any."""
    if len(lines) < 2:
        return "".join([f'<p class="warn">{escape(line)}</p>' for line in lines])
    return f'<ul class="warn">{"".join([f"<li>{escape(line)}</li>" for line in lines])}</ul>'


def data_table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """Return a table with a header, which the page's script makes sortable."""
    head = "".join([f'<th scope="col">{escape(cell)}</th>' for cell in header])
    body = "".join([_row(row) for row in rows])
    inner = f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return _scroll(f'<table class="data">{inner}</table>', caption)


def _row(cells: Sequence[str]) -> str:
    first, *rest = cells
    others = "".join([f"<td>{escape(cell)}</td>" for cell in rest])
    return f'<tr><th scope="row">{escape(first)}</th>{others}</tr>'


def _scroll(inner: str, label: str) -> str:
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">{inner}</div>'


def figure_block(figure: Figure) -> str:
    """Return a figure with its title, its description, and its numbers as a table to be opened."""
    extra = "".join([f' {name}="{escape(value)}"' for name, value in figure.extra])
    numbers = data_table(figure.header, figure.rows, f"Numbers of: {figure.title}")
    return (
        f'<figure id="{escape(figure.name)}"{extra}><figcaption>{escape(figure.title)}</figcaption>'
        f'<div class="plot">{figure.to_svg(alone=False)}</div><p class="note">{escape(figure.description)}</p>'
        f"<details><summary>{_told(len(figure.rows))} as a table</summary>{numbers}</details></figure>"
    )


def _told(count: int) -> str:
    return "The number" if count == 1 else f"The {count} numbers"


def figure_blocks(figures: Iterable[Figure]) -> str:
    """Return figures side by side where there is room."""
    return f'<div class="figures">{"".join([figure_block(figure) for figure in figures])}</div>'


def preformatted(lines: Iterable[str], label: str) -> str:
    """Return lines of text as they are."""
    return _scroll(f"<pre>{escape(chr(10).join(lines))}</pre>", label)


def tile(title: str, rate: Json, note: str) -> str:
    """Return a headline number: never without its n and interval."""
    body = as_object(rate)
    estimate, lo, hi = number(body.get("estimate")), number(body.get("lo")), number(body.get("hi"))
    value = "n/a" if estimate is None else f"{estimate:.1%}"
    span = "" if lo is None or hi is None else f"{lo:.1%} – {hi:.1%}, "
    return (
        f'<div class="tile"><dt>{escape(title)}</dt><dd><b>{value}</b> '
        f"<span>{span}{body.get('k')} of {body.get('n')} {escape(note)}</span></dd></div>"
    )


def explorer(curves: JsonObject, name: str) -> str:
    """Return what the page's script makes a slider of: the steps of every curve with both classes."""
    found = {
        key: [as_object(body)["positives"], as_object(body)["negatives"], as_object(body)["steps"]]
        for key, body in curves.items()
        if number(as_object(body).get("positives")) and number(as_object(body).get("negatives"))
    }
    if not found:
        return ""
    data = escape(json.dumps(found, ensure_ascii=True, allow_nan=False, separators=(",", ":")))
    return f'<div class="explorer" data-figure="{escape(name)}" data-curves="{data}"></div>'
