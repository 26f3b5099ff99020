from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from supervisors.embedded.items import contains_text, encode_items, read_items
from supervisors.errors import ConfigError

TEXTS = [f"violet umbrella number {number}" for number in range(100)]


def test_a_list_finds_its_texts_in_any_case_and_spacing_and_no_others() -> None:
    items = encode_items(TEXTS)
    assert all(contains_text(items, text.upper().replace(" ", "  ")) for text in TEXTS)
    assert not contains_text(items, "yellow umbrella")
    assert not contains_text(b"", "violet umbrella number 1")


def test_the_list_is_sorted_eight_byte_prefixes_without_repeats() -> None:
    items = encode_items([*TEXTS, *TEXTS])
    parts = [items[at : at + 8] for at in range(0, len(items), 8)]
    assert parts == sorted(set(parts))
    assert hashlib.sha256(b"violet umbrella number 1").digest()[:8] in parts


@pytest.mark.parametrize("data", [b"1234567", b"22222222" + b"11111111", b"11111111" * 2])
def test_a_damaged_list_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.items").write_bytes(data)
    with pytest.raises(ConfigError, match="damaged"):
        read_items(tmp_path / "x.items")


def test_a_missing_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_items(tmp_path / "x.items")
