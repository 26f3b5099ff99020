"""Fold a text whole: each step of guarding §2 in one call for all of it, however many different characters it has.

Nothing is remembered of a text: the first sight of a character costs what any other does, a fifth of a microsecond.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from supervisors.confusables import CONFUSABLES

SEEN_AS_NOTHING = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
"""Default-ignorable code points outside category Cf, and the blank Braille pattern: those of the first plane."""

SEEN_AS_NOTHING_BEYOND = "\U000e0000-\U000e0fff"
"""Those beyond it."""

_GENERIC_BLOCKS = (
    (0x0300, 0x0370),
    (0x0483, 0x048A),
    (0x1AB0, 0x1B00),
    (0x1DC0, 0x1E00),
    (0x20D0, 0x2100),
    (0xFE20, 0xFE30),
)
"""Marks that fit any letter. They are dropped everywhere; marks of one script only after Latin, Greek, Cyrillic."""

COMPOSING = (
    "\u0e33\u0eb3\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\ud7b0-\ud7ff\uff9e\uff9f\uffa1-\uffdc"  # not marks themselves
)
"""Hangul letters, half-width voiced marks, and vowels written around a letter: NFKC joins them to their neighbours."""

_PLAIN_BASES = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0370-\u03e1\u03f0-\u0482\u048a-\u052f\u1c80-\u1c8a\u1d00-\u1d2b"
    "\u1d62-\u1d77\u1d79-\u1d9a\u1e00-\u1ffe\u2090-\u209c\u2184\u271d\u2c60-\u2c7c\u2c7e\u2c7f\ua640-\ua66e"
    "\ua67e-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua7f1\ua7f5-\ua7f7\ua7fa-\ua7ff\uab30-\uab5a\uab60-\uab68\ufb00-\ufb06"
    "\U00010140-\U0001018d\U000101a0\U0001d200-\U0001d241\U0001d245\U0001df00-\U0001df2a"
    "\\d\u00b2\u00b3\u00b9\u1369-\u1371\u19da\u2070\u2074-\u2079\u2080-\u2089\u2460-\u2468\u2474-\u247c\u2488-\u2490"
    "\u24ea\u24f5-\u24fd\u24ff\u2776-\u277e\u2780-\u2788\u278a-\u2792\U00010a40-\U00010a43\U00010e60-\U00010e68"
    "\U00011052-\U0001105a\U0001f100-\U0001f10a"
)
"""Characters whose name begins with Latin, Greek or Cyrillic, and digits: no mark stays on them. Some in between are
not defined yet."""

_FORMAT_BLOCKS = (
    (0x0000, 0x0900),
    (0x1800, 0x1810),
    (0x2000, 0x2070),
    (0xFE00, 0x10000),
    (0x11080, 0x11100),
    (0x13430, 0x13460),
    (0x1BCA0, 0x1BCB0),
    (0x1D170, 0x1D180),
)
"""Where the characters of category Cf and the controls are."""

_MARK_PLANES = ((0x0300, 0x20000), (0xE0100, 0xE01F0))
_CASED_BLOCKS = (
    (0x0080, 0x0590),
    (0x10A0, 0x1400),
    (0x1C80, 0x2200),
    (0x2C00, 0x2E00),
    (0xA640, 0xAC00),
    (0x10400, 0x10600),
    (0x10C80, 0x10D90),
    (0x118A0, 0x11900),
    (0x16E40, 0x16EE0),
    (0x1E900, 0x1E960),
)
"""Where the letters are whose case folds to a look-alike of ASCII."""

_PERHAPS_MARK = re.compile(r"[^\w\s\x00-\u02ff\u2000-\u20cf\u2100-\u2bff\u3000-\u3029]")
"""What marks of one script are among."""

_LAST_NEAR = "\uffff"
"""The last character of the first plane: expressions of those are bitmaps, of those beyond lists of ranges."""

_BEYOND = re.compile("[\U00010000-\U0010ffff]")
_SAFE_BEGINNING = re.compile(rf"(?![{SEEN_AS_NOTHING}{COMPOSING}])[^\W_]")
"""A letter or digit that joins with nothing before it."""

_SLICE = 16_384
"""Characters folded in one call, which holds the interpreter lock: a few milliseconds."""

_FEW_CHARS = 8
"""Different characters up to which each is replaced in the whole text."""

_DENSE = 1 / 8
"""Part of the characters of a text from which on look-alikes are replaced in a pass over all of it."""


def fold(text: str, *, fold_case: bool) -> str:
    """Return a text folded, its white space left as it is.

    Args:
        text: any text.
        fold_case: false keeps upper case.
    """
    if len(text) <= _SLICE:
        return _fold_slice(text, fold_case=fold_case)
    return "".join([_fold_slice(part, fold_case=fold_case) for part in _cut(text)])


def fold_each(words: Collection[str], *, fold_case: bool) -> dict[str, str]:
    """Return what each of some characters or clusters becomes by itself.

    Args:
        words: none with a line feed in it.
        fold_case: false keeps upper case.
    """
    listed = list(words)
    return dict(zip(listed, fold("\n".join(listed), fold_case=fold_case).split("\n"), strict=True)) if listed else {}


def is_unseen(char: str) -> bool:
    """Say whether folding deletes a character."""
    return (_unseen() if char <= _LAST_NEAR else _unseen_beyond()).match(char) is not None


def _cut(text: str) -> Iterator[str]:
    """Cut a text where what follows does not depend on what went before."""
    start = 0
    while start < len(text):
        match = _SAFE_BEGINNING.search(text, start + _SLICE)
        end = len(text) if match is None else match.start()
        yield text[start:end]
        start = end


def _fold_slice(text: str, *, fold_case: bool) -> str:
    text = unicodedata.normalize("NFKC", text)
    text = _unseen().sub("", text)
    if _BEYOND.search(text):
        text = _unseen_beyond().sub("", text)
    text = unicodedata.normalize("NFD", text.casefold() if fold_case else text)
    text = find_generic_marks().sub("", text)
    if text.isascii():
        return text
    if _PERHAPS_MARK.search(text):
        text = _marked_bases().sub(r"\1", text)
    text = _unmask(unicodedata.normalize("NFC", text), _look_alikes(fold_case=fold_case))
    return text.casefold() if fold_case else text


@dataclass(frozen=True, slots=True)
class _LookAlikes:
    """Letters that look like ASCII, what each stands for, and expressions of those of the first plane and beyond."""

    said: Mapping[str, str]
    near: re.Pattern[str]
    beyond: re.Pattern[str]


def _unmask(text: str, alike: _LookAlikes) -> str:
    said = alike.said
    patterns = (alike.near, alike.beyond) if _BEYOND.search(text) else (alike.near,)
    found: list[list[str]] = [pattern.findall(text) for pattern in patterns]
    different = frozenset([char for each in found for char in each])
    if len(different) <= _FEW_CHARS:
        for char in different:
            text = text.replace(char, said[char])
        return text
    if sum(map(len, found)) > len(text) * _DENSE:
        chars = frozenset(text)
        table = dict(zip(map(ord, chars), chars, strict=True))
        return text.translate(table | {ord(char): said[char] for char in different})
    for pattern in patterns:
        text = pattern.sub(lambda match: said[match[0]], text)
    return text


@cache
def _look_alikes(*, fold_case: bool) -> _LookAlikes:
    said = dict(CONFUSABLES)
    if not fold_case:
        for char in [chr(code) for first, end in _CASED_BLOCKS for code in range(first, end)]:
            plain = CONFUSABLES.get(char.casefold())
            if plain is not None and char not in CONFUSABLES:
                said[char] = plain.upper()
    chars = sorted(said)
    near, beyond = ([char for char in chars if (char <= _LAST_NEAR) == first] for first in (True, False))
    around = f"{beyond[0]}-{beyond[-1]}"
    return _LookAlikes(said, re.compile(f"[{_to_ranges(near)}]"), re.compile(f"(?=[{around}])[{_to_ranges(beyond)}]"))


@cache
def _unseen() -> re.Pattern[str]:
    near = [char for char in _find(_FORMAT_BLOCKS, "C") if char <= _LAST_NEAR and not char.isspace()]
    return re.compile(f"[{SEEN_AS_NOTHING}{_to_ranges(near)}]+")


@cache
def _unseen_beyond() -> re.Pattern[str]:
    beyond = [char for char in _find(_FORMAT_BLOCKS, "C") if char > _LAST_NEAR]
    return re.compile(f"[{SEEN_AS_NOTHING_BEYOND}{_to_ranges(beyond)}]+")


@cache
def find_generic_marks() -> re.Pattern[str]:
    """Return an expression of the marks that fit any letter."""
    return re.compile(f"[{_to_ranges(_find(_GENERIC_BLOCKS, 'M'))}]")


@cache
def _marked_bases() -> re.Pattern[str]:
    listed = re.findall(f"[{_PLAIN_BASES}]", "".join(map(chr, range(0x20000))))
    bases = [char for char in listed if unicodedata.category(char) != "Cn"]
    return re.compile(f"([{_to_ranges(bases)}])[{_to_ranges(_find(_MARK_PLANES, 'M'))}]+")


def _to_ranges(chars: Iterable[str]) -> str:
    """Write ascending characters as the inside of a class: what is beyond the first plane is tried range by range."""
    ends: dict[int, int] = {}
    first = last = -2
    for code in map(ord, chars):
        first, last = (first, code) if code == last + 1 else (code, code)
        ends[first] = code
    return "".join([f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ends.items()])


def _find(blocks: tuple[tuple[int, int], ...], category: str) -> list[str]:
    """Return the characters of a category in some blocks; of C, those that Unicode has defined for everybody."""
    chars = [chr(code) for first, end in blocks for code in range(first, end)]
    return [char for char in chars if (said := unicodedata.category(char))[0] == category and said not in _UNDEFINED]


_UNDEFINED = frozenset({"Cn", "Co", "Cs"})
