r"""Read bytes that a text writes in hex digits: a run, a dump, a list of ``0x41`` or of ``\x41``."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator

from supervisors.offsets import Place
from supervisors.runs import MARK_READABLE, MIN_RUN, READABLE_MIN, Pick, Run, find_long, find_readable, read_text

_NOT_HEX = bytes(i for i in range(256) if i not in b"0123456789abcdefABCDEF")
_MARK_REGION = bytes(int(i in b"0123456789abcdefABCDEFx\\ \t\n\r\f\v:,;-") for i in range(256))
_HEX_UNIT = rb"(?:(?:[\s:,;-]{0,2}(?:0x|\\x)|[\s:-])?[0-9A-Fa-f]{2})"
_HEX_RUN = re.compile(rb"(?:(?<![0-9A-Za-z])|0x|\\x)()[0-9A-Fa-f]{2}" + _HEX_UNIT + rb"{7,4000}|[0-9A-Fa-f]{16,4000}")
_HEX_MORE = re.compile(_HEX_UNIT + rb"{1,4000}")
_MATCHED = 4_000
"""Characters that one match has surely room for."""
_HEX_PREFIX = re.compile(rb"0x|\\x")
_HEX_GAPS = bytes(32 if i in _NOT_HEX else i for i in range(256))
_SIX = READABLE_MIN[: len(READABLE_MIN) // 2]
_MARK_SPACE = bytes(int(9 <= i >> 4 <= 13) for i in range(256))
_LOW = bytes(i for i in range(256) if i & 15 < 8)
_DIGITS = b"0123456789"


def find_hex_runs(data: bytes, pick: Pick | None = None) -> Iterator[Run]:
    """Decode the hex runs of a text that say something readable.

    Args:
        data: the text, one byte a character.
        pick: returns the places that are asked about; None where everything is.
    """
    if len(data) - len(data.translate(None, _DIGITS)) < MIN_RUN // 2:
        return  # every readable ASCII byte begins with a digit
    for start, end in _find_hex(data, pick):
        written = data[start:end]
        if b"x" in written:
            written = _HEX_PREFIX.sub(b"", written)
        digits = written.translate(None, _NOT_HEX)
        if len(digits) < MIN_RUN:
            continue
        text = _read_hex(digits)
        if text is not None:
            yield Run(start, end, text)
        apart = None if len(digits) == len(written) or not _may_say(written, digits) else _read_apart(written)
        if apart is not None and apart != text:  # what stands beside bytes may look like some
            yield Run(start, end, apart, shown=text is None)


def _read_apart(written: bytes) -> str | None:
    return _read_hex(written.translate(_HEX_GAPS).replace(b" ", b"20"))


def _may_say(written: bytes, digits: bytes) -> bool:
    """Say whether bytes with a space between any two may read as anything; where there are other gaps they may.

    Six readable ones in a row do, or nothing but ASCII; and so it is where the first byte begins a digit later, and its
    second digit and the 2 of a space make one byte, the 0 of a space and the next digit another one.
    """
    if len(written) * 2 != len(digits) * 3 - 2:
        return True
    data = binascii.unhexlify(digits)
    if data.isascii() or _SIX in data.translate(MARK_READABLE):
        return True
    return _SIX in data.translate(_MARK_SPACE) or not data[:-1].translate(None, _LOW)


def _read_hex(digits: bytes) -> str | None:
    """Read all of the digits, or every text of twelve bytes or more among them, wherever its first byte begins."""
    even = len(digits) // 2
    both = binascii.unhexlify(digits[: even * 2] + b"00" + digits[1 : 1 + (len(digits) - 1) // 2 * 2])
    data, odd = both[:even], both[even + 1 :]
    whole = read_text(data)
    if whole is not None:
        return whole
    if READABLE_MIN not in both.translate(MARK_READABLE):
        return read_text(odd)
    found = [each[start:end] for each in (data, odd) for start, end in find_readable(each.translate(MARK_READABLE))]
    return b"\n".join(found).decode("ascii")


def _find_hex(data: bytes, pick: Pick | None) -> Iterator[Place]:
    """Find bytes written in hex. A long run is matched piece by piece: a match holds the interpreter lock."""
    places = find_long(data.translate(_MARK_REGION))
    for at, stop in places if pick is None else pick(places):
        region = data[at:stop]
        if region.isalnum() and b"x" not in region:
            yield Place(at, stop)
        else:
            yield from _find_in_region(data, at, stop)


def _find_in_region(data: bytes, at: int, stop: int) -> Iterator[Place]:
    while (match := _HEX_RUN.search(data, at, stop)) is not None:
        at = match.end()
        whole = match.lastindex is not None and at - match.start() < _MATCHED
        while not whole and (more := _HEX_MORE.match(data, at, stop)) is not None:
            at = more.end()
        if data[at : at + 1] and data[at] not in _NOT_HEX:
            at += 1  # an odd digit: one before the bytes, perhaps
        yield Place(match.start(), at)
