from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evals.spill import BUFFER_BYTES, Spill
from tests.memory import memory_of


@given(st.lists(st.binary(max_size=40)), st.integers(0, 99), st.integers(0, 99))
def test_bytes_come_back_from_anywhere(parts: list[bytes], start: int, size: int) -> None:
    spill, whole = Spill(), b"".join(parts)
    for part in parts:
        spill.append(part)
    assert spill.read(start, size) == whole[start : start + size]
    assert len(spill) == len(whole)


def test_what_is_in_the_file_and_what_is_not_yet_is_read_as_one() -> None:
    whole = bytes(range(256)) * (3 * BUFFER_BYTES // 256 + 1)
    spill = Spill()
    for start in range(0, len(whole), 1000):
        spill.append(whole[start : start + 1000])
    assert spill.read(0, len(whole) + 1) == whole
    edge = len(whole) // BUFFER_BYTES * BUFFER_BYTES
    assert spill.read(edge - 2000, 4000) == whole[edge - 2000 : edge + 2000]
    assert spill.read(len(whole), 1) == b""


def test_memory_holds_no_more_than_a_buffer() -> None:
    spill = Spill()

    def fill() -> None:
        for _ in range(1000):
            spill.append(bytes(1000))

    assert memory_of(fill) < 4 * BUFFER_BYTES
    assert len(spill) == 1_000_000
