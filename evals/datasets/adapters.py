"""Adapters: the few lines some sets need between rows and items (DS-12). A card names one by its key.

An adapter may add, rename or join cells and drop rows; it keeps each record's position in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from evals.datasets.bells import distinct_prompts
from evals.datasets.items import Record
from evals.datasets.narrow import is_list, is_object
from evals.datasets.readers import Row

Adapter = Callable[[Sequence[Record]], list[Record]]


def _with(record: Record, **cells: object) -> Record:
    return replace(record, row=record.row | cells)


def instruction_with_input(records: Sequence[Record]) -> list[Record]:
    """Join a Self-Instruct instruction and the input of its first instance with a blank line."""
    return [_with(record, prompt=_instruction(record.row)) for record in records]


def _instruction(row: Row) -> object:
    instruction, given = row.get("instruction"), _first_input(row.get("instances"))
    return f"{instruction}\n\n{given}" if isinstance(instruction, str) and given else instruction


def _first_input(instances: object) -> str:
    first: object = instances[0] if is_list(instances) and instances else None
    given = first.get("input") if is_object(first) else None
    return given if isinstance(given, str) else ""


def first_turn(records: Sequence[Record]) -> list[Record]:
    """Take the first of several user turns as the prompt; all of them stay in ``meta["turns"]``."""
    return [_with(record, prompt=_first(record.row.get("turns"))) for record in records]


def _first(value: object) -> object:
    return value[0] if is_list(value) and value else None


def air_bench_prompt(records: Sequence[Record]) -> list[Record]:
    """Take the prompt out of its one-object list and spell the columns as the CSV does (T-08)."""
    return [Record(record.index, _air_row(record.row)) for record in records]


def _air_row(row: Row) -> Row:
    first = _first(row.get("prompt"))
    prompt = first.get("prompt") if is_object(first) else row.get("prompt")
    return {_hyphens(name): cell for name, cell in row.items()} | {"prompt": prompt}


def _hyphens(name: str) -> str:
    return name.replace("_", "-") if name in ("cate_idx", "l2_name", "l3_name", "l4_name") else name


def attack_outcome(records: Sequence[Record]) -> list[Record]:
    """Take AISafetyLab's judged score as ``attacked``; its ``success`` is true in every row (T-21)."""
    return [_with(record, attacked=_score(record.row.get("attack_success"))) for record in records]


def _score(value: object) -> object:
    return value.get("score") if is_object(value) else None


def past_tense_attack(records: Sequence[Record]) -> list[Record]:
    """Name the reformulation: a file without ``attack`` is the past tense (datasets §4.3)."""
    return [_with(record, attack=record.row.get("file.attack") or "past") for record in records]


ADAPTERS: Mapping[str, Adapter] = {
    "air-bench": air_bench_prompt,
    "aisafetylab": attack_outcome,
    "bells-metacognitive": distinct_prompts,
    "first-turn": first_turn,
    "past-tense": past_tense_attack,
    "self-instruct": instruction_with_input,
}
