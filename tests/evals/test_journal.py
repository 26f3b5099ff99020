from __future__ import annotations

import resource
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.journal import Entry, JournalFile, canonical, find_break, parse_object, read_journal
from supervisors.errors import StoreError


def _journal(path: Path, count: int = 5) -> Path:
    journal = JournalFile(path)
    journal.append([Entry("note", {"text": f"line {number}"}) for number in range(count)])
    journal.close()
    return path


def test_lines_are_numbered_and_chained(tmp_path: Path) -> None:  # H-105
    lines = read_journal(_journal(tmp_path / "j.jsonl")).lines
    assert [line["seq"] for line in lines] == [0, 1, 2, 3, 4]
    assert lines[0]["prev_sha256"] == "0" * 64
    assert all(lines[n]["prev_sha256"] == lines[n - 1]["sha256"] for n in range(1, 5))
    assert find_break(lines) is None


def test_an_open_journal_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:  # H-115
    path = _journal(tmp_path / "j.jsonl", 2)
    _journal(path, 2)
    assert find_break(read_journal(path).lines) is None
    assert len(read_journal(path).lines) == 4


@pytest.mark.parametrize("tail", [b'{"seq": 5', b"\x00\x00\x00", b"{", b'{"seq": 5}'])
def test_an_incomplete_last_line_is_cut_off(tmp_path: Path, tail: bytes) -> None:  # H-108
    path = _journal(tmp_path / "j.jsonl")
    with path.open("ab") as file:
        file.write(tail)
    journal = JournalFile(path)
    journal.append([Entry("note", {"text": "after"})])
    journal.close()
    assert journal.torn_bytes == len(tail)
    assert [line.get("text") for line in read_journal(path).lines][-1] == "after"
    assert find_break(read_journal(path).lines) is None


@pytest.mark.parametrize("tail", [b'{"seq": 5, "ts"\n', b"not json\n", b"\n"])
def test_a_whole_last_line_that_is_no_json_is_damage_and_stays(tmp_path: Path, tail: bytes) -> None:  # H-108
    path = _journal(tmp_path / "j.jsonl")
    damaged = path.read_bytes() + tail
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match=r"line 6: is not JSON; the run is corrupt"):
        JournalFile(path)
    assert path.read_bytes() == damaged


def test_a_broken_line_in_the_middle_makes_the_journal_corrupt(tmp_path: Path) -> None:  # H-108
    path = _journal(tmp_path / "j.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b'{"seq": 2, "ts\n', *lines[3:]]))
    with pytest.raises(StoreError, match=r"line 3: is not JSON; the run is corrupt"):
        JournalFile(path)


@pytest.mark.parametrize("change", ["delete", "double", "swap", "edit"])
def test_a_changed_line_breaks_the_chain(tmp_path: Path, change: str) -> None:  # H-173
    path = _journal(tmp_path / "j.jsonl")
    lines = path.read_text("ascii").splitlines()
    match change:
        case "delete":
            del lines[2]
        case "double":
            lines.insert(2, lines[2])
        case "swap":
            lines[2], lines[3] = lines[3], lines[2]
        case _:
            lines[2] = lines[2].replace("line 2", "line 9")
    path.write_text("\n".join(lines) + "\n", "ascii")
    with pytest.raises(StoreError, match=r"line (3|4): (seq|prev_sha256|sha256)"):
        JournalFile(path)


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_any_text_comes_back_as_it_was(text: str) -> None:  # H-30, H-109
    line = canonical({"text": text})
    assert line.isascii()
    assert parse_object(line) == {"text": text}


def test_a_long_line_with_surrogates_and_nul_is_written(tmp_path: Path) -> None:  # H-109
    text = "\ud800\x00" + "x" * 1_000_000
    journal = JournalFile(tmp_path / "j.jsonl")
    journal.append([Entry("note", {"text": text})])
    journal.close()
    assert read_journal(tmp_path / "j.jsonl").lines[0]["text"] == text


def test_a_line_of_sixteen_mebibytes_is_refused(tmp_path: Path) -> None:  # H-105
    journal = JournalFile(tmp_path / "j.jsonl")
    with pytest.raises(StoreError, match="long texts go to text/"):
        journal.append([Entry("note", {"text": "x" * (16 * 1024 * 1024)})])
    journal.close()


def test_a_line_cannot_carry_the_names_of_the_chain(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "j.jsonl")
    with pytest.raises(StoreError, match="belong to the chain"):
        journal.append([Entry("note", {"seq": 7})])
    journal.close()


def test_time_never_runs_backwards(tmp_path: Path) -> None:  # H-172
    stamps = iter(["2026-01-01T00:00:02.000Z", "2026-01-01T00:00:01.000Z"])
    journal = JournalFile(tmp_path / "j.jsonl", clock=lambda: next(stamps))
    journal.append([Entry("note", {}), Entry("note", {})])
    journal.close()
    assert find_break(read_journal(tmp_path / "j.jsonl").lines) is None


def test_a_journal_that_cannot_be_written_says_so(tmp_path: Path) -> None:  # H-110
    with pytest.raises(StoreError, match="cannot be written"):
        JournalFile(tmp_path / "missing" / "j.jsonl")


@contextmanager
def little_room() -> Generator[None]:
    """Let files grow to 1,000 bytes, as on a disk that is full then; pytest's own output among them."""
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)


def test_closing_a_journal_on_a_full_disk_hides_no_earlier_message(tmp_path: Path) -> None:  # H-110
    with little_room():
        journal = JournalFile(tmp_path / "j.jsonl")
        with pytest.raises(StoreError, match="free some space and resume"):
            journal.append([Entry("note", {"text": "x" * 3000})])
        journal.close()
