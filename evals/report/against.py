"""Recorded traffic under another policy, on its page: the rates of both, what changed, and which exchanges."""

from __future__ import annotations

from collections import Counter
from html import escape

from evals.attempts import as_object
from evals.client import objects
from evals.folder import RunFolder, read_json, write_json
from evals.journal import JsonObject, sha256_json
from evals.report.parts import data_table, tile
from evals.report.table import rate_text
from evals.statistics.jsonable import Json

_SHOWN = 100
_TILES = {"flag_rate": "Flagged", "block_rate": "Blocked"}


def keep_against(folder: RunFolder, comparison: Json, summary: JsonObject) -> None:
    """Store what a run was held against, with the hash of the results it was made from."""
    write_json(folder.comparison, {"results_sha256": _hash(summary), "comparison": comparison})


def read_against(folder: RunFolder, summary: JsonObject) -> JsonObject:
    """Return what a run was held against; empty without, or when the run has other results since."""
    if not folder.comparison.is_file():
        return {}
    body = read_json(folder.comparison)
    compared = objects(as_object(body.get("comparison")).get("compared"))
    return compared[0] if compared and body.get("results_sha256") == _hash(summary) else {}


def _hash(summary: JsonObject) -> str:
    return sha256_json(summary["results"])  # no time is in them: a resumed run without anything to do keeps them


def against_part(compared: JsonObject) -> str:
    """Return the part of a page that holds a policy against what was recorded; nothing without."""
    if not compared:
        return ""
    differences, changes = objects(compared["differences"]), objects(compared["changes"])
    tiles = [
        tile(f"{_TILES[str(one['measure'])]} {when}", one[side], "exchanges")
        for one in differences
        if one["measure"] in _TILES
        for side, when in (("a", "as recorded"), ("b", "by this policy"))
    ]
    rates = [
        (str(one["measure"]), rate_text(one["a"]), rate_text(one["b"]), _changed(str(one["measure"]), changes))
        for one in differences
    ]
    parts = [
        '<h2 id="against">Recorded traffic under this policy</h2>',
        f'<dl class="tiles">{"".join(tiles)}</dl>',
        data_table(("rate", "A: as recorded", "B: this policy", "changed"), rates, f"{compared['matched']} exchanges"),
    ]
    if not changes:
        return "".join([*parts, '<p class="note">No verdict and no decision changed.</p>'])
    rows = [(str(c["kind"]), str(c["item_id"]), str(c["of"]), f"{c['was']} → {c['now']}") for c in changes[:_SHOWN]]
    parts.append(data_table(("change", "exchange", "of", "A → B"), rows, f"Changes, {len(rows)} of {len(changes)}"))
    parts.append(f'<p class="note">All of them: <code>evals compare {escape(str(compared["a"]))} ')
    parts.append(f"{escape(str(compared['b']))} --out DIR</code></p>")
    return "".join(parts)


_KINDS = {
    "flag_rate": ("newly_flagged", "no_longer_flagged"),
    "block_rate": ("newly_blocked", "no_longer_blocked"),
    "unknown_rate": ("newly_unknown", "newly_known"),
}


def _changed(measure: str, changes: list[JsonObject]) -> str:
    counts = Counter([str(change["kind"]) for change in changes])
    found = [f"{counts[kind]} {kind.replace('_', ' ')}" for kind in _KINDS.get(measure, ()) if counts[kind]]
    return ", ".join(found) or "none"
