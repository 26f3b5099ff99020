from __future__ import annotations

from pathlib import Path

import pytest

from evals.keys import Keys
from evals.lines import Counted, parse_object, read_journal
from supervisors.errors import StoreError


def _write(path: Path, *lines: str) -> Path:
    path.write_bytes("".join([f"{line}\n" for line in lines]).encode())
    return path


def test_lines_are_read_by_place_and_in_order(tmp_path: Path) -> None:
    path = _write(tmp_path / "j", *[f'{{"n":{n}}}' for n in range(5)])
    lines = read_journal(path).lines
    assert [line["n"] for line in lines] == [0, 1, 2, 3, 4]
    assert [lines[place]["n"] for place in (4, 0, -1, 2)] == [4, 0, 4, 2]
    assert [line["n"] for line in lines[1:3]] == [1, 2]
    with pytest.raises(IndexError):
        _ = lines[5]


def test_lines_longer_than_a_block_are_whole(tmp_path: Path) -> None:
    long = "x" * (3 << 20)
    lines = read_journal(_write(tmp_path / "j", '{"n":0}', f'{{"n":"{long}"}}', '{"n":2}')).lines
    assert [lines[place]["n"] for place in (2, 1, 0)] == [2, long, 0]


def test_what_is_appended_later_is_not_seen(tmp_path: Path) -> None:
    path = _write(tmp_path / "j", '{"n":0}')
    lines = read_journal(path).lines
    with path.open("a") as stream:
        stream.write('{"n":1}\n')
    assert [line["n"] for line in lines] == [0]


def test_a_line_that_was_changed_while_it_was_read_is_an_error(tmp_path: Path) -> None:
    path = _write(tmp_path / "j", '{"n":0}', '{"n":1}')
    lines = read_journal(path).lines
    path.write_text("{}")
    with pytest.raises(StoreError, match="was changed while it was read"):
        list(lines)


@pytest.mark.parametrize("data", ['{"a": "\\ud800"}', '{"a": NaN}', '{"a": 123456789012345678901234567890}'])
def test_what_the_fast_parser_refuses_is_still_read(data: str) -> None:
    assert parse_object(data) is not None


@pytest.mark.parametrize("data", ["", "[]", "no", '{"a":', "[" * 100_000])
def test_anything_else_is_no_object(data: str) -> None:
    assert parse_object(data) is None


def test_counted_lines_are_fetched_by_key(tmp_path: Path) -> None:
    lines = read_journal(_write(tmp_path / "j", '{"n":0}', '{"n":1}')).lines
    keys = Keys()
    for key in ("a", "without a line", "b", "later"):
        keys.add(key)
    counted = Counted(lines, keys, [1, -1, 0])
    assert (counted["a"]["n"], counted["b"]["n"], counted.get("c")) == (1, 0, None)
    assert [key in counted for key in ("a", "b", "c", "without a line", "later")] == [True, True, False, False, False]
    assert (list(counted), len(counted)) == (["a", "b"], 2)
    assert [counted.at(place) for place in (2, 1, 3)] == [{"n": 0}, None, None]
