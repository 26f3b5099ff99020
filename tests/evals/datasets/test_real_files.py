"""Every card against the real files, as far as they are on disk. Prints ids and counts only (DS-25)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from evals.datasets import list_cards, load, load_card, verify
from evals.datasets.bells import load_metacognitive_rows
from evals.datasets.load import missing_files
from evals.datasets.nessie import load_nessie_rows
from evals.types import Item

CARDS = [entry.id for entry in list_cards()]


def items_of(name: str, data_dir: Path) -> tuple[Item, ...]:
    card = load_card(name)
    missing = missing_files(card, data_dir)
    if missing or not card.files:
        pytest.skip(f"not on disk: {', '.join(missing) or 'the card names no file'}")
    return load(name, data_dir)


@pytest.mark.data
@pytest.mark.parametrize("name", CARDS)
def test_a_card_says_what_the_files_hold(name: str, data_dir: Path) -> None:  # DS-02
    card = load_card(name)
    if missing_files(card, data_dir) or not card.files:
        pytest.skip("not on disk")
    assert str(verify(card, data_dir).reason) == "as pinned"


@pytest.mark.data
def test_bells_has_178_items_with_stripped_categories(data_dir: Path) -> None:  # T-19, B-04
    items = items_of("bells", data_dir)
    assert len(items) == 178
    assert Counter(item.severity for item in items) == {"harmful": 90, "benign": 50, "borderline": 38}
    assert Counter(item.adversariality for item in items) == {"direct": 170, "jailbroken": 8}
    assert Counter(item.family for item in items) == {None: 170, "narrative": 6, "syntactic": 2}
    assert len({item.category for item in items}) == 12
    assert all(name == name.strip() for item in items for name in item.category)


@pytest.mark.data
def test_bells_keeps_the_supervisors_columns(data_dir: Path) -> None:
    direct = [item for item in items_of("bells", data_dir) if item.adversariality == "direct"]
    flagged = Counter(item.severity for item in direct if item.meta["gpt-4"] == "1")
    assert flagged == {"harmful": 70, "benign": 2, "borderline": 23}  # bells-nessie §1.4


@pytest.mark.data
def test_the_metacognitive_file_gives_102_prompts_and_612_answers(data_dir: Path) -> None:
    items = items_of("bells-metacognitive", data_dir)
    rows = load_metacognitive_rows(data_dir / "bells" / "metacognitive_results.csv")
    assert len(items) == 102
    assert len(rows) == 612
    assert Counter(item.family for item in items) == {"narrative": 68, "direct": 19, "syntactic": 8, "generative": 7}
    assert sum(row.is_coherent for row in rows) == 333
    assert sum(row.correct_classification for row in rows) == 514
    assert all(row.response_length == len(row.response) for row in rows)
    positions = items[7].meta["rows"]
    assert isinstance(positions, tuple)
    assert len(positions) == 6
    assert all(rows[index].prompt == items[7].prompt for index in positions)


@pytest.mark.data
def test_the_official_nessie_file_has_89_rows_in_39_cases(data_dir: Path) -> None:
    path = data_dir / "nessie" / "benchmark_test_cases.jsonl"
    if not path.is_file():
        pytest.skip("not on disk")
    rows = load_nessie_rows(path)
    assert len(rows) == 89
    assert len({row.case for row in rows}) == 39
    assert Counter(row.type for row in rows) == {"helpful": 23, "harmful": 37, "both": 29}
    assert all(row.conversation[0].role == "system" for row in rows)
