from __future__ import annotations

from pathlib import Path

import pytest

from evals.keys import Keys
from evals.lines import OTHER, Counted, JsonObject, parse_object, read_journal
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


def test_lines_far_apart_are_read_in_any_order(tmp_path: Path) -> None:
    lines = read_journal(_write(tmp_path / "j", *[f'{{"n":{n}}}' for n in range(200)])).lines
    jumps = [(7 * n) % 200 for n in range(400)] + [199, 0, 199, 31, 32]
    assert [lines[place]["n"] for place in jumps] == jumps


def test_whoever_takes_lines_gets_each_with_its_place_and_bytes(tmp_path: Path) -> None:
    path = _write(tmp_path / "j", '{"n":0}', '{"n":1}')
    taken: list[tuple[int, JsonObject, bytes]] = []
    found = read_journal(path, lambda place, line, data: taken.append((place, line, data)))
    assert taken == [(0, {"n": 0}, b'{"n":0}'), (1, {"n": 1}, b'{"n":1}')]
    assert (len(found.lines), found.size_bytes, found.torn_bytes) == (2, 16, 0)


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
    with pytest.raises(StoreError, match="line 1: was changed while it was read"):
        list(lines)
    with pytest.raises(StoreError, match="line 2: was changed while it was read"):
        _ = lines[1]
    path.write_text('{"n":0}\n')
    with pytest.raises(StoreError, match="line 2: was changed while it was read"):
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
    counted = Counted(lines, keys, [1, -1, 0], bytes([1, 0, OTHER]))
    assert (counted["a"]["n"], counted["b"]["n"], counted.get("c")) == (1, 0, None)
    assert [key in counted for key in ("a", "b", "c", "without a line", "later")] == [True, True, False, False, False]
    assert (list(counted), len(counted)) == (["a", "b"], 2)
    assert [counted.at(place) for place in (2, 1, 3)] == [{"n": 0}, None, None]
    assert [counted.has(place) for place in range(4)] == [True, False, True, False]
    assert [counted.state(place) for place in range(4)] == ["ok", "missing", "None", "missing"]
