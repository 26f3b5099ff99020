"""Adapters: the few lines some sets need between rows and items (DS-12). A card names one by its key.

An adapter may add, rename or join cells and drop rows; it keeps each record's position in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from evals.datasets.bells import distinct_prompts
from evals.datasets.items import Record
from evals.datasets.narrow import is_list, is_object
from evals.datasets.readers import Row, parse_json_cell

_S_EVAL_BLOCK = 1000
_SIDES: Mapping[str, str] = {"request": "prompt_label", "response": "response_label", "completion": "behaviour"}
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
    """Name the reformulation (a file without ``attack`` is the past tense) and join the three judges."""
    return [
        _with(record, attack=record.row.get("file.attack") or "past", majority=_majority(record.row))
        for record in records
    ]


def _majority(row: Row) -> bool | None:
    """Return what at least two of the three stored judges say; None when one is missing."""
    votes = [row.get(f"jailbroken_{judge}") for judge in ("gpt", "llama", "rules")]
    return sum(vote is True for vote in votes) >= 2 if all(isinstance(vote, bool) for vote in votes) else None


def s_eval_attack(records: Sequence[Record]) -> list[Record]:
    """Name the method and the base row: ten methods in blocks of 1,000, row i of a block from base row i (§8)."""
    return [
        _with(record, method=_method(record.row.get("ext")), base_row=record.index % _S_EVAL_BLOCK)
        for record in records
    ]


def _method(ext: object) -> object:
    value = parse_json_cell(ext) if isinstance(ext, str) else ext
    return value.get("category") if is_object(value) else None


def short_subdomain(records: Sequence[Record]) -> list[Record]:
    """Keep FORTRESS's subdomain name, which ends at the colon."""
    return [_with(record, risk_subdomain=str(record.row.get("risk_subdomain")).partition(":")[0]) for record in records]


def template_and_question(records: Sequence[Record]) -> list[Record]:
    """Put the forbidden question on the line after its jailbreak template; the template stays as ``template``."""
    return [
        _with(
            record,
            template=record.row.get("prompt"),
            prompt=f"{record.row.get('prompt')}\n{record.row.get('question')}",
        )
        for record in records
    ]


def guardrails_demo(records: Sequence[Record]) -> list[Record]:
    """Take the one trigger out of ``expected_triggers``."""
    return [_with(record, jailbreak=_trigger(record.row.get("expected_triggers"))) for record in records]


def _trigger(value: object) -> object:
    return value.get("Jailbreak") if is_object(value) else None


def user_turns(records: Sequence[Record]) -> list[Record]:
    """Make a conversation of the user turns; the replies between them come from the model under test."""
    return [_with(record, conversation=_turns(record.row.get("multi_turn_queries"))) for record in records]


def _turns(value: object) -> list[object]:
    return [{"role": "user", "content": turn} for turn in value] if is_list(value) else []


def one_answer_each(records: Sequence[Record]) -> list[Record]:
    """Make one record of each of the six models' answers in a Do-Not-Answer row."""
    return [answer for record in records for answer in _answers(record)]


def _answers(record: Record) -> list[Record]:
    ending = "_response"
    models = [name.removesuffix(ending) for name in record.row if name.endswith(ending)]
    shared: Row = {name: cell for name, cell in record.row.items() if not name.startswith(tuple(models))}
    return [Record(record.index, shared | _answer(record.row, model), part=model) for model in models]


def _answer(row: Row, model: str) -> Row:
    return {"model": model} | {name: row.get(f"{model}_{name}") for name in ("response", "harmful", "action")}


def guardreasoner(records: Sequence[Record]) -> list[Record]:
    """Unwrap prompt and answer, and read the labels from either form of ``output`` (T-09)."""
    return [replace(record, row=record.row | _unwrapped(record.row)) for record in records]


def _unwrapped(row: Row) -> Row:
    frame = re.fullmatch(r"Human user:\n(.*)\n\nAI assistant:\n(.*)\n\n", str(row.get("input")), re.DOTALL)
    prompt, response = frame.groups() if frame else (row.get("input"), None)
    cells: Row = {"prompt": prompt, "response": None if response == "None" else response}
    return cells | _guard_labels(str(row.get("output")))


def _guard_labels(output: str) -> Row:
    """Return labels by side; the word None means unlabelled."""
    found: Row = {}
    for line in output.splitlines():
        name, colon, rest = line.partition(":")
        side = _SIDES.get(name.strip().casefold())
        if colon and side and rest.strip() and rest.strip() != "None":
            found[side] = rest.strip()
    if found:
        return found
    word = output.strip()
    if word in ("refusal", "compliance"):
        return {"behaviour": word}
    return {"prompt_label": word, "response_label": word} if word in ("harmful", "unharmful") else {}


ADAPTERS: Mapping[str, Adapter] = {
    "air-bench": air_bench_prompt,
    "aisafetylab": attack_outcome,
    "bells-metacognitive": distinct_prompts,
    "do-not-answer-responses": one_answer_each,
    "first-turn": first_turn,
    "forbidden-combined": template_and_question,
    "fortress": short_subdomain,
    "guardreasoner": guardreasoner,
    "openai-guardrails-demo": guardrails_demo,
    "past-tense": past_tense_attack,
    "s-eval-attack": s_eval_attack,
    "self-instruct": instruction_with_input,
    "user-turns": user_turns,
}
