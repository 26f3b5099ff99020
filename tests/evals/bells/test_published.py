from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.bells.published import read_sample
from evals.bells.table import build_tables
from evals.bells.verdicts import ItemVerdict, by_supervisor
from supervisors.errors import DatasetError
from supervisors.types import Label

_FIXTURES = Path(__file__).parent.parent / "fixtures"
_SAMPLE: dict[str, list[int]] = json.loads((_FIXTURES / "bells_score.json").read_text(encoding="utf-8"))["sample"]
_HEAD = "question,harm_level,{},source,category\n"
_COLUMNS = (
    "lakera_guard,prompt_guard,langkit,nemo,llm_guard,gpt-4,claude-3-5-sonnet-20241022,gemini-1.5-pro-latest,"
    "mistral-large-latest,deepseek-ai/DeepSeek-V3,grok-2-latest"
)


def _read(data_dir: Path, name: str) -> tuple[ItemVerdict, ...]:
    file = data_dir / "bells" / name
    if not file.is_file():
        pytest.skip(f"bells/{name} is absent")
    return read_sample(file)


def test_the_sample_has_the_published_counts(data_dir: Path) -> None:
    verdicts = by_supervisor(_read(data_dir, "non_adversarial_prompts.csv"))
    assert len(verdicts["gpt-4"]) == 170
    for name, expected in _SAMPLE.items():
        flagged = [v.item.severity for v in verdicts[name] if v.label is Label.UNSAFE]
        assert [flagged.count(severity) for severity in ("harmful", "benign", "borderline")] == expected


def test_the_adversarial_sample_is_placed_in_the_design(data_dir: Path) -> None:
    verdicts = _read(data_dir, "adversarial_prompts.csv")
    items = {verdict.item.id: verdict.item for verdict in verdicts}
    assert len(items) == 8
    assert len({item.cluster for item in items.values()}) == 3
    assert {item.adversariality for item in items.values()} == {"jailbroken"}
    assert [item.source for item in items.values()].count("encoding") == 2


def test_a_category_loses_its_trailing_blank_and_gives_one_row(data_dir: Path) -> None:
    tables = build_tables(_read(data_dir, "non_adversarial_prompts.csv"))
    assert [name for name in tables[0].categories if name.startswith("Government")] == ["Government decision-making"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (f"q,evil,{'0,' * 11}s,c", "harm_level 'evil'"),
        (f"q,harmful,{'0,' * 10}maybe,s,c", "'maybe', expected 0 or 1"),
    ],
)
def test_a_broken_sample_says_what_was_expected(tmp_path: Path, row: str, message: str) -> None:
    file = tmp_path / "sample.csv"
    file.write_text(_HEAD.format(_COLUMNS) + row + "\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=message):
        read_sample(file)


def test_a_sample_without_a_column_names_it(tmp_path: Path) -> None:
    file = tmp_path / "sample.csv"
    file.write_text("question,harm_level\nq,harmful\n", encoding="utf-8")
    with pytest.raises(DatasetError, match="no column 'source'"):
        read_sample(file)
    with pytest.raises(DatasetError, match="cannot be read"):
        read_sample(tmp_path / "absent.csv")
