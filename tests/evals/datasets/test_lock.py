"""The lock: what data were, and whether they still are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evals.datasets import load_card
from evals.datasets.lock import LOCK_NAME, compare_lock, lock, read_lock, verify_lock, write_lock
from supervisors.errors import DatasetError


def test_a_lock_survives_writing_and_reading(tmp_path: Path) -> None:
    entries = lock([load_card("smoke"), load_card("sample")], tmp_path)
    write_lock(entries, tmp_path / LOCK_NAME)
    assert read_lock(tmp_path / LOCK_NAME) == entries
    assert [path.name for path in tmp_path.iterdir()] == [LOCK_NAME]


def test_a_lock_says_what_a_report_needs(tmp_path: Path) -> None:  # DS-05
    entry = lock([load_card("smoke")], tmp_path)["smoke"]
    assert (entry.items, entry.harmful, entry.benign, entry.unknown) == (10, 5, 5, 0)
    assert entry.licence == "Apache-2.0"
    assert entry.label_rule.startswith("column: harmful means")
    assert entry.files[0].columns == ("id", "prompt", "label", "category")
    assert entry.accepted_drift == ()


def test_every_changed_field_is_named(tmp_path: Path) -> None:  # H-116, DS-02
    old = lock([load_card("smoke")], tmp_path)["smoke"]
    assert compare_lock(old, old) == ()
    other = replace(old.files[0], sha256="0" * 64, rows=11)
    now = replace(old, benign=6, label_rule="none: m", files=(other,))
    assert [drift.field for drift in compare_lock(old, now)] == ["label_rule", "benign", "sha256", "rows"]
    assert [drift.field for drift in compare_lock(old, replace(old, files=()))] == ["file"]


def test_a_lock_is_compared_with_the_disk(tmp_path: Path) -> None:
    entries = lock([load_card("smoke")], tmp_path)
    assert verify_lock(entries, tmp_path) == ()
    changed = {"smoke": replace(entries["smoke"], items=9)}
    assert [str(drift) for drift in verify_lock(changed, tmp_path)] == ["smoke: items is 10, expected 9"]


@pytest.mark.parametrize("text", ["", "[]", '{"format_version": 2}', '{"format_version": 1, "datasets": {"a": {}}}'])
def test_a_torn_or_foreign_lock_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / LOCK_NAME).write_text(text)
    with pytest.raises(DatasetError, match=r"data\.lock\.json"):
        read_lock(tmp_path / LOCK_NAME)


def test_a_missing_lock_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="evals data lock"):
        read_lock(tmp_path / LOCK_NAME)


def test_a_missing_set_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="advbench: missing"):
        lock([load_card("advbench")], tmp_path)
