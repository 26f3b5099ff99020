"""Fold a text to the form in which look-alikes are equal (the variants `norm`, `squash` and `leet`).

The order is that of guarding §2: NFKC; delete what nobody sees; case folding; drop combining marks; confusables;
case folding; one space for a run of white space. Plain ASCII needs three string operations, a long text of few
different characters that do not compose (Hangul letters and vowel signs do) a table of them; any other is folded whole,
by `supervisors.folding`. Where what is found stands in the text is worked out cluster by cluster, once it is asked for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import compress

from supervisors.folding import COMPOSING, find_generic_marks, fold, fold_each, is_unseen
from supervisors.offsets import Offsets, Piece, index_pieces

_COMPOSING = re.compile(f"[{COMPOSING}]")
_NOT_ASCII = re.compile("[\x80-\U0010ffff]")
_ODD_ASCII = re.compile(r"[\x00-\x20\x7f]+")
_NOT_ALNUM = re.compile(r"[\W_]+")
_ASCII_CONTROLS = bytes(i for i in (*range(32), 127) if not chr(i).isspace())
_ASCII = bytes(range(128))
_ASCII_REST = bytes(i for i in range(128) if not chr(i).isalnum())
_SPACES = bytes(32 if chr(i).isspace() and i < 128 else i for i in range(256))
_LOWER_SPACES = _SPACES.replace(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz")
_IS_ALNUM = bytes(int(i < 128 and chr(i).isalnum()) for i in range(256))

_SLICE = 65_536
"""Characters translated in one call, which holds the interpreter lock: a few milliseconds."""

_FEW = 1 / 16
"""Part of the characters of a text up to which those that are not ASCII are replaced one by one."""

_FEW_CHARS = 8
"""Different characters up to which each is replaced in the whole text."""

_LONG = 1_024
"""Characters of a text from which on each ASCII character is taken to be in it, so that only others are looked at."""

_MANY = 256
"""Different characters from which on a text is folded whole, and not each of them once."""

_SAMPLE = 4_096
"""Characters of a text that are looked at first: where there are many different ones in them, there are in it."""

_LEET = bytes.maketrans(b"0134578@$!", b"oieastbasi")
"""Digits and signs that stand for letters (guarding §2)."""


def normalize(text: str, *, fold_case: bool = True) -> str:
    """Return the `norm` variant of a text.

    Args:
        text: any text.
        fold_case: false keeps upper case, for patterns that depend on it.
    """
    if text.isascii():
        if not text.isprintable():
            text = text.encode().translate(_SPACES, _ASCII_CONTROLS).decode()
        return _collapse_spaces(text.lower() if fold_case else text)
    alphabet = None if len(text) < _LONG or len(frozenset(text[:_SAMPLE])) > _MANY else _study(text)
    if alphabet is None or alphabet.composes or len(alphabet.chars) > _MANY:
        return _collapse(fold(text, fold_case=fold_case))
    return _fold_apart(text, _fold_each(alphabet.chars, fold_case=fold_case), fold_case=fold_case)


def _fold_apart(text: str, folds: Mapping[str, str], *, fold_case: bool) -> str:
    """Fold a text whose characters do not compose; where few are not ASCII, those alone one by one."""
    if len(text.encode("ascii", "ignore")) < len(text) * (1 - _FEW):
        return _collapse(_translate(text, {ord(char): folded for char, folded in folds.items()}))
    changed = {char: said for char, said in folds.items() if char != said and not char.isascii()}
    if len(changed) <= _FEW_CHARS and all(map(str.isascii, changed.values())):
        for char, said in changed.items():
            text = text.replace(char, said)
    else:
        text = _NOT_ASCII.sub(lambda match: folds[match[0]], text)
    text = _translate_ascii(text, _LOWER_SPACES if fold_case else _SPACES, _ASCII_CONTROLS)
    spaced = any(map(str.isspace, [said for said in folds.values() if not said.isascii()]))
    return _collapse(text) if spaced else _collapse_spaces(text)


def _translate(text: str, table: Mapping[int, str]) -> str:
    if len(text) <= _SLICE:
        return text.translate(table)
    return "".join([text[i : i + _SLICE].translate(table) for i in range(0, len(text), _SLICE)])


def map_norm(text: str, *, fold_case: bool = True) -> Offsets:
    """Return the offset map from what `normalize` makes of a text to the text."""
    if text.isascii():
        return index_pieces(_ascii_pieces(text))
    alphabet = _study(text)
    return index_pieces(_pieces(text, alphabet, _fold_each(alphabet.chars, fold_case=True) if fold_case else None))


def squash(norm: str) -> str:
    """Return a normalised text without anything that is not a letter or digit."""
    dense = _translate_ascii(norm, None, _ASCII_REST)
    return dense if dense.isascii() else _NOT_ALNUM.sub("", dense)


def unleet(norm: str) -> str:
    """Return a normalised text with digits and signs read as the letters they stand for; same length."""
    return _translate_ascii(norm, _LEET, b"")


def find_alnum(norm: str) -> tuple[int, ...]:
    """Return the offsets of the characters that `squash` keeps."""
    if norm.isascii():
        return tuple(compress(range(len(norm)), norm.encode().translate(_IS_ALNUM)))
    return tuple([i for i, c in enumerate(norm) if c.isalnum()])


def _translate_ascii(text: str, table: bytes | None, delete: bytes) -> str:
    """Replace or delete ASCII characters; other characters pass, since UTF-8 has no ASCII byte in them."""
    if text.isascii():
        return text.encode().translate(table, delete).decode()
    return text.encode("utf-8", "surrogatepass").translate(table, delete).decode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class _Alphabet:
    """The distinct characters of a text.

    Args:
        chars: all of them.
        joining: those that may join with what stands before them.
        composes: some of them do so in ways that depend on what that is.
    """

    chars: frozenset[str]
    joining: frozenset[str]
    composes: bool


def _study(text: str) -> _Alphabet:
    chars = frozenset(text if len(text) < _LONG else _translate_ascii(text, None, _ASCII) + _ASCII.decode())
    generic = frozenset(find_generic_marks().findall("".join(chars)))
    joining = {c for c in chars if unicodedata.category(c)[0] == "M"}.union(_COMPOSING.findall("".join(chars)))
    composing = {char for char in joining - generic if not is_unseen(char)}
    return _Alphabet(chars, generic | composing, bool(composing))


def _fold_each(chars: frozenset[str], *, fold_case: bool) -> dict[str, str]:
    """Return what each character becomes."""
    folds = fold_each(chars - {"\n"}, fold_case=fold_case)
    folds["\n"] = "\n"
    return folds


def _collapse_spaces(text: str) -> str:
    """Return what `_collapse` does of a text with no white space but plain spaces."""
    return _collapse(text) if "  " in text else text


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


def _pieces(text: str, alphabet: _Alphabet, folds: Mapping[str, str] | None) -> Iterator[Piece]:
    """Return what does not fold one to one: clusters, runs of space and nothing, characters that become several.

    Args:
        text: any text.
        alphabet: its characters.
        folds: what each becomes; None where upper case is kept.
    """
    fold_case = folds is not None
    each = folds or _fold_each(alphabet.chars, fold_case=True)
    found = list(_PIECE.finditer(_translate(text, _classify(alphabet, each))))
    clusters = {text[match.start() : match.end()] for match in found if match.lastgroup}
    said = fold_each(clusters, fold_case=fold_case)
    for match in found:
        raw = text[match.start() : match.end()]
        folded = said[raw] if match.lastgroup else _collapse("".join(map(each.__getitem__, raw)))
        if folded != raw:
            yield Piece(match.start(), match.end(), folded)


_PIECE = re.compile("(?P<cluster>[^jJmcd][jJmc]+)|(?P<lone>[jJ][jJmc]*)|[mcd]+|(?P<longer>[lJ])")
"""In letters that say what a character is: ``j`` joins, ``J`` joins and becomes several, ``m`` joins and becomes
nothing, ``c`` is not seen within a cluster, ``d`` becomes a space or nothing, ``l`` becomes several."""


def _classify(alphabet: _Alphabet, folds: Mapping[str, str]) -> dict[int, str]:
    """Say in one letter what a character is, of those that are not plain: a class of thousands is slow to match."""
    table = dict.fromkeys(range(128), "a")
    odd = [(char, said) for char, said in folds.items() if char != said or char in alphabet.joining or char.isspace()]
    for char, folded in odd:
        blank, joins = not folded or folded.strip() != folded, char in alphabet.joining
        mute = alphabet.composes and not char.isspace()
        if blank:
            kind = "m" if joins else "c" if mute else "d"
        elif joins:
            kind = "J" if len(folded) > 1 else "j"
        else:
            kind = "l" if len(folded) > 1 else "a"
        table[ord(char)] = kind
    return table
