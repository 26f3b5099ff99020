"""Fold a text to the form in which look-alikes are equal (the variants `norm`, `squash` and `leet`).

The order is that of guarding §2: NFKC; delete what nobody sees; case folding; drop combining marks; confusables;
case folding; one space for a run of white space. Plain ASCII needs three string operations; other text is folded
character by character through a cache, and only text whose characters compose (Hangul letters, vowel signs) is
folded cluster by cluster.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress

from supervisors.confusables import CONFUSABLES
from supervisors.offsets import Offsets, Piece, index_pieces

_SEEN_AS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
"""Default-ignorable code points outside category Cf, and the blank Braille pattern."""

_GENERIC_MARKS = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
"""Marks that fit any letter. They are dropped everywhere; marks of one script only after Latin, Greek, Cyrillic."""

_COMPOSING = re.compile("[\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\ud7b0-\ud7ff\uff9e\uff9f\uffa1-\uffdc]")
"""Hangul letters and half-width voiced marks: NFKC joins them to their neighbours without their being marks."""

_ODD_ASCII = re.compile(r"[\x00-\x20\x7f]+")
_NOT_ALNUM = re.compile(r"[\W_]+")
_ASCII_CONTROLS = bytes(i for i in (*range(32), 127) if not chr(i).isspace())
_ASCII_REST = bytes(i for i in range(128) if not chr(i).isalnum())
_IS_ALNUM = bytes(int(i < 128 and chr(i).isalnum()) for i in range(256))

LEET = str.maketrans("013457" + "8@$!", "oieast" + "basi")
"""Digits and signs that stand for letters (guarding §2)."""

_LEET_ASCII = bytes(LEET.get(i, i) if i < 128 else i for i in range(256))


def normalize(text: str, *, fold_case: bool = True) -> str:
    """Return the `norm` variant of a text.

    Args:
        text: any text.
        fold_case: false keeps upper case, for patterns that depend on it.
    """
    if text.isascii():
        if not text.isprintable():
            text = text.encode().translate(None, _ASCII_CONTROLS).decode()
        return _collapse(text.lower() if fold_case else text)
    alphabet = _study(text)
    table = {ord(c): _fold(c, fold_case=fold_case) for c in alphabet.chars}
    if not alphabet.composes:
        return _collapse(text.translate(table))
    out: list[str] = []
    done = 0
    for start, end, folded in _pieces(text, alphabet, fold_case=fold_case):
        out += (text[done:start].translate(table), folded)
        done = end
    out.append(text[done:].translate(table))
    return "".join(out)


def map_norm(text: str) -> Offsets:
    """Return the offset map from the `norm` variant (with or without case folding) to the text."""
    if text.isascii():
        return index_pieces(_ascii_pieces(text))
    return index_pieces(_pieces(text, _study(text), fold_case=True))


def squash(norm: str) -> str:
    """Return a normalised text without anything that is not a letter or digit."""
    if norm.isascii():
        return norm.encode().translate(None, _ASCII_REST).decode()
    return _NOT_ALNUM.sub("", norm)


def unleet(norm: str) -> str:
    """Return a normalised text with digits and signs read as the letters they stand for; same length."""
    if norm.isascii():
        return norm.encode().translate(_LEET_ASCII).decode()
    return norm.translate(LEET)


def find_alnum(norm: str) -> tuple[int, ...]:
    """Return the offsets of the characters that `squash` keeps."""
    if norm.isascii():
        return tuple(compress(range(len(norm)), norm.encode().translate(_IS_ALNUM)))
    return tuple([i for i, c in enumerate(norm) if c.isalnum()])


@dataclass(frozen=True, slots=True)
class _Alphabet:
    """The distinct characters of a text: all of them, and whether some join with their neighbours."""

    chars: frozenset[str]
    composes: bool


def _study(text: str) -> _Alphabet:
    chars = frozenset(text)
    return _Alphabet(chars, any(map(_composes, chars)))


@lru_cache(maxsize=16_384)
def _composes(char: str) -> bool:
    if char.isascii() or _GENERIC_MARKS.match(char) or _SEEN_AS_NOTHING.match(char):
        return False
    return unicodedata.category(char)[0] == "M" or bool(_COMPOSING.match(char))


def _fold(cluster: str, *, fold_case: bool) -> str:
    if len(cluster) > 8:  # a letter under a heap of marks: rare, and too big to keep
        return _fold_anew(cluster, fold_case)
    return _fold_cached(cluster, fold_case)


@lru_cache(maxsize=16_384)
def _fold_cached(cluster: str, fold_case: bool) -> str:
    return _fold_anew(cluster, fold_case)


def _fold_anew(cluster: str, fold_case: bool) -> str:
    folded = "".join([c for c in unicodedata.normalize("NFKC", cluster) if not _is_unseen(c)])
    if fold_case:
        folded = folded.casefold()
    folded = unicodedata.normalize("NFC", _drop_marks(unicodedata.normalize("NFD", folded)))
    folded = "".join([_unmask(c, fold_case=fold_case) for c in folded])
    return folded.casefold() if fold_case else folded


def _is_unseen(char: str) -> bool:
    category = unicodedata.category(char)
    return category == "Cf" or (category == "Cc" and not char.isspace()) or bool(_SEEN_AS_NOTHING.match(char))


def _drop_marks(decomposed: str) -> str:
    kept: list[str] = []
    plain_base = False
    for char in decomposed:
        if unicodedata.category(char)[0] != "M":
            plain_base = char.isdigit() or unicodedata.name(char, "").startswith(("LATIN", "GREEK", "CYRILLIC"))
        elif plain_base or _GENERIC_MARKS.match(char):
            continue
        kept.append(char)
    return "".join(kept)


def _unmask(char: str, *, fold_case: bool) -> str:
    plain = CONFUSABLES.get(char)
    if plain is None and not fold_case:
        plain = CONFUSABLES.get(char.casefold())
        return char if plain is None else plain.upper()
    return plain or char


def _collapse(text: str) -> str:
    words = " ".join(text.split())
    if not words:
        return " " if text else ""
    before = " " if text[0].isspace() else ""
    return before + words + " " if text[-1].isspace() else before + words


def _ascii_pieces(text: str) -> Iterator[Piece]:
    for match in _ODD_ASCII.finditer(text):
        odd = match.group()
        if odd != " ":
            yield Piece(match.start(), match.end(), " " if any(map(str.isspace, odd)) else "")


def _pieces(text: str, alphabet: _Alphabet, *, fold_case: bool) -> Iterator[Piece]:
    for match in _piece_pattern(alphabet).finditer(text):
        raw = match.group()
        folded = _fold(raw, fold_case=fold_case) if match.lastgroup else _fold_run(raw, fold_case=fold_case)
        if folded != raw:
            yield Piece(match.start(), match.end(), folded)


def _fold_run(run: str, *, fold_case: bool) -> str:
    return _collapse("".join([_fold(c, fold_case=fold_case) for c in run]))


def _piece_pattern(alphabet: _Alphabet) -> re.Pattern[str]:
    """Match what does not fold one to one: clusters, runs of space and nothing, characters that become several."""
    folds = {char: _fold(char, fold_case=True) for char in sorted(alphabet.chars)}
    joining = [char for char in folds if _composes(char) or _GENERIC_MARKS.match(char)]
    blank = [char for char, folded in folds.items() if folded.strip() != folded or not folded]
    longer = [char for char, folded in folds.items() if len(folded) > 1 and char not in blank]
    mute = [char for char in blank if alphabet.composes and not char.isspace()]
    lone = [char for char in joining if char not in blank]
    alternatives = (
        (f"(?P<cluster>[^{_escape(joining + blank)}][{_escape(joining + mute)}]+)", joining),
        (f"(?P<lone>[{_escape(lone)}][{_escape(joining + mute)}]*)", lone),
        (f"[{_escape(blank)}]+", blank),
        (f"(?P<longer>[{_escape(longer)}])", longer),
    )
    return re.compile("|".join([pattern for pattern, chars in alternatives if chars]) or "(?!)")


def _escape(chars: list[str]) -> str:
    return "".join([re.escape(c) for c in sorted(set(chars))])
