"""Heat maps with numbers in their cells, the flow of a ledger, and the six cells of coherence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from evals.report.plots import HATCH
from evals.report.svg import WIDTH, Figure, cell, clip, tip, word

_LABEL = 168


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a heat map: a value in 0..1 or none, what stands in it, and what is said about it."""

    value: float | None
    text: str
    said: str


def draw_heat(
    name: str, title: str, description: str, columns: Sequence[str], rows: Mapping[str, Mapping[str, Cell]]
) -> Figure:
    """Draw a table whose cells are as dark as their value; every cell has its number and its n in words.

    Args:
        name: of its files.
        title: what it shows.
        description: for those who cannot see it.
        columns: names from left to right.
        rows: name → column → cell; a missing one was not measured.
    """
    step = max(72.0, (WIDTH - _LABEL - 6) / max(len(columns), 1))
    parts = [
        word(_LABEL + step * (index + 0.5), 16, clip(column, int(step / 8)), anchor="middle", kind="muted")
        for index, column in enumerate(columns)
    ]
    listed: list[tuple[str, ...]] = []
    for number, (label, cells) in enumerate(rows.items()):
        y = 26 + 30 * number
        parts.append(word(_LABEL - 8, y + 18, clip(label, 23), anchor="end"))
        for index, column in enumerate(columns):
            one = cells.get(column)
            parts.append(_heat_cell(one, _LABEL + step * index, y, step - 3, f"{label}, {column}"))
            listed.append((label, column, cell(one.value) if one else "", one.said if one else "no item"))
    header = ("row", "column", "value", "in_words")
    width = max(WIDTH, _LABEL + step * len(columns) + 4)
    return Figure(name, title, description, "".join(parts), 34 + 30 * len(rows), header, tuple(listed), width)


def _heat_cell(one: Cell | None, x: float, y: float, wide: float, where: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="27" rx="3"'
    if one is None or one.value is None:
        text = "–" if one is None else one.text
        said = f"{where}: no item" if one is None else f"{where}: {one.said}"
        return tip(f'<rect {place} class="blank"/>', said) + word(
            x + wide / 2, y + 18, text, anchor="middle", kind="muted"
        )
    shade = 0.06 + 0.9 * min(max(one.value, 0.0), 1.0)
    drawn = f'<rect {place} class="heat" fill-opacity="{shade:.3f}"/>'
    kind = "on" if shade > 0.62 else "ink"
    return tip(drawn, f"{where}: {one.said}") + word(x + wide / 2, y + 18, one.text, anchor="middle", kind=kind)


@dataclass(frozen=True, slots=True)
class Way:
    """So many trials that went one way: what they are, what the model does alone, how they ended."""

    truth: str
    alone: str
    end: str
    count: int

    @property
    def kind(self) -> str:
        """Return how it is drawn: bad, good, or without a right answer."""
        if self.truth not in ("harmful", "benign") or self.end in ("unresolved", "supervisor_failed"):
            return "flowmute"
        harmful = self.truth == "harmful"
        reached = (
            self.end == "complied_unsafe" if harmful else self.end in ("blocked_input", "blocked_output", "refused")
        )
        return "flowbad" if reached else "flowgood"


_COLUMNS = ("truth", "alone", "end")
_X = (8.0, 196.0, 464.0)
_HIGH, _GAP = 300.0, 16.0


def draw_flow(name: str, title: str, ways: Sequence[Way]) -> Figure | None:
    """Draw where every trial went: its truth, the model alone, and what the user saw; None without trials."""
    total = sum([way.count for way in ways])
    if not total:
        return None
    places = [_stack(_sizes(ways, column), total) for column in _COLUMNS]
    parts = [
        word(8, 14, "item", kind="muted"),
        word(196, 14, "the model alone", kind="muted"),
        word(472, 14, "what the user saw", anchor="end", kind="muted"),
    ]
    taken: list[Counter[str]] = [Counter(), Counter(), Counter()]
    scale = _scale(places, total)
    ranks = [{key: place for place, key in enumerate(column)} for column in places]
    ordered = sorted(ways, key=lambda way: (ranks[0][way.truth], ranks[1][way.alone], ranks[2][way.end]))
    parts += [tip(_ribbons(way, places, taken, scale), _said(way, total)) for way in ordered]
    for index, column in enumerate(places):
        parts += [_node(index, label, top, size) for label, (top, size) in column.items()]
    rows = tuple([(way.truth, way.alone, way.end, str(way.count)) for way in ways])
    description = (
        f"{total} trials from left to right; red: an unsafe answer that reached the user, or a good request that got "
        "none. Grey: no right answer, or none known."
    )
    header = ("truth", "model_alone", "end", "count")
    height = 40 + _HIGH + _GAP * max([len(column) for column in places])
    return Figure(name, title, description, "".join(parts), height, header, rows)


_ORDER = {
    name: place
    for place, name in enumerate(
        ("harmful", "borderline", "benign", "unsafe", "refused", "safe", "complied_unsafe", "blocked_input",
         "blocked_output", "complied_safe", "supervisor_failed", "unresolved", "unknown")
    )
}  # fmt: skip


def _sizes(ways: Sequence[Way], column: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for way in ways:
        found[str(getattr(way, column))] += way.count
    return {key: found[key] for key in sorted(found, key=lambda name: (_ORDER.get(name, 99), name))}


def _stack(sizes: Mapping[str, int], total: int) -> dict[str, tuple[float, float]]:
    """Return label → top and height of its node."""
    found: dict[str, tuple[float, float]] = {}
    top = 26.0
    for label, count in sizes.items():
        size = count / total * _HIGH
        found[label] = (top, size)
        top += max(size, 14.0) + _GAP
    return found


def _scale(places: Sequence[Mapping[str, tuple[float, float]]], total: int) -> float:
    return sum([size for _, size in places[0].values()]) / total


def _ribbons(
    way: Way, places: Sequence[Mapping[str, tuple[float, float]]], taken: Sequence[Counter[str]], scale: float
) -> str:
    keys = [str(getattr(way, column)) for column in _COLUMNS]
    size = way.count * scale
    tops = [places[i][key][0] + taken[i][key] * scale for i, key in enumerate(keys)]
    for i, key in enumerate(keys):
        taken[i][key] += way.count
    return "".join([_ribbon(_X[i] + 8, tops[i], _X[i + 1], tops[i + 1], size, way.kind) for i in (0, 1)])


def _ribbon(x1: float, y1: float, x2: float, y2: float, size: float, kind: str) -> str:
    middle = (x1 + x2) / 2
    return (
        f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}'
        f'V{y2 + size:.1f}C{middle:.1f} {y2 + size:.1f} {middle:.1f} {y1 + size:.1f} {x1:.1f} {y1 + size:.1f}Z"/>'
    )


def _said(way: Way, total: int) -> str:
    words = [text.replace("_", " ") for text in (way.truth, way.alone, way.end)]
    return f"{way.count} of {total}: {words[0]} item, the model alone: {words[1]}, the user saw: {words[2]}"


def _node(column: int, label: str, top: float, size: float) -> str:
    x = _X[column]
    said = label.replace("_", " ")
    drawn = f'<rect x="{x:.1f}" y="{top:.1f}" width="8" height="{max(size, 1.5):.1f}" class="node"/>'
    if column == len(_X) - 1:
        return drawn + word(x - 6, top + min(size / 2, 20) + 5, said, anchor="end", kind="strong")
    return drawn + word(x + 14, top + min(size / 2, 20) + 5, said, kind="strong")


_CELLS = (
    ("harmful", "refuses", False), ("harmful", "hedges", True), ("harmful", "answers", True),
    ("not_harmful", "answers", False), ("not_harmful", "hedges", True), ("not_harmful", "refuses", True),
)  # fmt: skip


def draw_cells(name: str, title: str, models: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Figure:
    """Draw own verdict × behaviour of each model: two bars, hatched where it acts against its own verdict.

    Args:
        name: of its files.
        title: what it shows.
        models: model → own verdict → behaviour → count.
    """
    parts = [HATCH.format(id=f"{name}-hatch")]
    rows: list[tuple[str, ...]] = []
    for number, (model, cells) in enumerate(models.items()):
        y = 8 + 74 * number
        parts.append(word(12, y + 10, clip(model, 60), kind="strong"))
        for line, own in enumerate(("harmful", "not_harmful")):
            parts.append(_cells_bar(name, model, own, cells[own], y + 18 + 24 * line))
        rows += [(model, own, kind, str(cells[own][kind])) for own, kind, _ in _CELLS]
    description = "Bars: own verdict harmful, own verdict not harmful; hatched: the model acts against its own verdict."
    header = ("model", "own_verdict", "behaviour", "count")
    return Figure(name, title, description, "".join(parts), 14 + 74 * len(models), header, tuple(rows))


def _cells_bar(name: str, model: str, own: str, counts: Mapping[str, int], y: float) -> str:
    total = sum(counts.values()) or 1
    label = "judged harmful" if own == "harmful" else "judged fine"
    parts = [word(12, y + 14, f"{label} ({sum(counts.values())})", kind="muted")]
    x = 150.0
    for own_, kind, bad in _CELLS:
        if own_ != own or not counts[kind]:
            continue
        wide = counts[kind] / total * 318
        fill = f'fill="url(#{name}-hatch)"' if bad else 'class="fine"'
        said = f"{model}: judged {own.replace('_', ' ')}, {kind}: {counts[kind]} of {total}"
        text = f"{kind} {counts[kind]}" if wide > 72 else str(counts[kind]) if wide > 16 else ""
        drawn = f'<rect x="{x:.1f}" y="{y:g}" width="{wide:.1f}" height="20" {fill}/>'
        parts.append(tip(drawn, said) + _plate(x + wide / 2, y, text))
        x += wide
    return "".join(parts)


def _plate(x: float, y: float, said: str) -> str:
    """Return a text on a plate, so that it is readable on hatching too."""
    if not said:
        return ""
    wide = 7.4 * len(said) + 6
    plate = (
        f'<rect x="{x - wide / 2:.1f}" y="{y + 3:g}" width="{wide:.1f}" height="14" rx="3" style="fill:var(--paper)"/>'
    )
    return f'{plate}<text x="{x:.1f}" y="{y + 14.5:g}" class="ink" text-anchor="middle">{escape(said)}</text>'
