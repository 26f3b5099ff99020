"""Export of a run as traces of BELLS 2024, the one format that holds texts (BT-01)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from evals.attempts import as_object
from evals.bells.traces import Call, Trace, to_line
from evals.folder import RunFolder
from evals.journal import JsonObject
from evals.options import RunOptions, read_options
from evals.plan import messages_of
from evals.rows import Row, join
from evals.summary import Loaded
from evals.types import Item
from supervisors.errors import ConfigError
from supervisors.types import Label


def to_traces(run: Loaded, folder: RunFolder, items: Mapping[str, Item]) -> Iterator[JsonObject]:
    """Yield the answered trials of a run as traces of one call, with their texts (BT-01).

    An answer called unsafe makes a failure named after the item's category; one without a label says so in ``extra``.

    Raises:
        ConfigError: no text was kept.
    """
    options = read_options(run.manifest.options)
    rows = join(run.plan, run.counted, run.scores[0] if run.scores else None)
    lines = (_to_trace(row, folder, items, options) for row in rows if row.fields.get("answer") is not None)
    found = (line for line in lines if line is not None)
    first = next(found, None)
    if first is None:
        msg = "bells-trace: no answer of this run was kept as text; runs with --hash-only and without a model have none"
        raise ConfigError(msg)
    return chain((first,), found)


def _to_trace(row: Row, folder: RunFolder, items: Mapping[str, Item], options: RunOptions) -> JsonObject | None:
    answer = as_object(row.fields.get("answer"))
    text = folder.read_text(str(answer.get("sha256")))
    item = items.get(row.planned.item_id)
    if text is None or item is None:
        return None
    asked = messages_of(item, options.composition, options.sampling.system)
    said = (*[(message.role, message.content) for message in asked], ("assistant", text))
    label = row.answer.label if row.answer else Label.UNKNOWN
    failures = (row.planned.category or ("unsafe",)) if label is Label.UNSAFE else ()
    extra: JsonObject = {"item_id": row.planned.item_id, "target": row.planned.target, "answer": label.value}
    if label is Label.UNKNOWN:
        extra["truth"] = "unknown"  # no failure was found, and none was ruled out
    return to_line(Trace(row.planned.dataset, tuple(failures), (Call(0.0, said),), extra))
