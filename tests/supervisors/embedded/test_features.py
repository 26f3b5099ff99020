"""Golden numbers of the feature definition (embedded.md §3.1)."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisors.embedded.features import (
    MAX_WINDOWS,
    WINDOW_CHARS,
    WINDOW_STEP,
    count_features,
    count_windows,
    cut_windows,
    norm_text,
)

HASHES = [
    ("how", 2508312701, 20605, 53373),
    ("bread", 2630045003, 19787, 19787),
    ("bake bread", 1958889747, 18707, 18707),
    (" do ", 396575870, 17534, 17534),
    (" how ", 3790226449, 17425, 17425),
    (" brea", 3817248131, 5507, 38275),
    (" ho", 3072656020, 660, 660),
    ("how ", 3343729428, 17172, 17172),
    ("żółw", 2676196830, 1502, None),
]


@pytest.mark.parametrize(("text", "crc", "low15", "low16"), HASHES)
def test_a_feature_string_has_the_golden_bucket(text: str, crc: int, low15: int, low16: int | None) -> None:
    assert crc32(text.encode()) == crc
    assert crc & 0x7FFF == low15
    assert low16 is None or crc & 0xFFFF == low16


TEXTS = [
    ("How do I bake bread?", "how do i bake bread?", (7, 7, 7), (34, 34, 34)),
    ("  Żółw  a\tb\n", "żółw a b", (1, 1, 1), (11, 11, 11)),
    ("ＦＵＬＬ width", "full width", (3, 3, 3), (21, 21, 21)),
    ("a", "a", (0, 0, 0), (1, 1, 1)),
    ("It's 50% off!", "it's 50% off!", (5, 5, 5), (24, 23, 26)),
    ("bake bake bake", "bake bake bake", (5, 2, 13), (27, 9, 81)),
]


@pytest.mark.parametrize(("text", "normalised", "words", "chars"), TEXTS)
def test_a_text_has_the_golden_counts(
    text: str, normalised: str, words: tuple[int, int, int], chars: tuple[int, int, int]
) -> None:
    assert norm_text(text) == normalised
    counts = count_features(normalised, 15)
    for table, golden in ((counts.words, words), (counts.chars, chars)):
        assert (sum(table.values()), len(table), sum(count * count for count in table.values())) == golden


def test_the_bread_question_falls_into_the_golden_buckets() -> None:
    counts = count_features("how do i bake bread?", 15)
    assert sorted(counts.words) == [7207, 16533, 16551, 18707, 19787, 20605, 26168]
    assert (min(counts.chars), max(counts.chars)) == (660, 31643)


def test_a_one_letter_chunk_is_one_padded_feature() -> None:
    assert count_features("a", 15).chars == {26076: 1}


@pytest.mark.parametrize(
    ("length", "windows"),
    [(0, 1), (1, 1), (2000, 1), (2001, 2), (3500, 2), (3501, 3), (96_500, 64), (96_501, 65)],
)
def test_windows_are_counted_exactly(length: int, windows: int) -> None:  # LG-05
    assert count_windows(length) == windows


@settings(max_examples=50)
@given(st.integers(0, WINDOW_CHARS + WINDOW_STEP * 4))
def test_windows_cover_every_character(length: int) -> None:  # LG-05
    text = "".join(chr(0x4E00 + index) for index in range(length))
    windows = list(cut_windows(text))
    assert len(windows) == count_windows(length) <= MAX_WINDOWS
    assert all(len(window) <= WINDOW_CHARS for window in windows)
    assert windows[0] + "".join(window[WINDOW_CHARS - WINDOW_STEP :] for window in windows[1:]) == text


@settings(max_examples=100)
@given(st.text(max_size=200))
def test_any_text_can_be_counted_and_normalising_twice_changes_no_count(text: str) -> None:
    normalised = norm_text(text)
    assert count_features(normalised, 15) == count_features(normalised, 15)
    assert "  " not in normalised


def test_a_lone_surrogate_is_counted_not_raised() -> None:
    assert count_features(norm_text("\ud800 broken"), 15).chars
