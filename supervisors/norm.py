"""Fold a text to the form in which look-alikes are equal (the variants `norm`, `squash` and `leet`).

The order is that of guarding §2: NFKC; delete what nobody sees; case folding; drop combining marks; confusables;
case folding; one space for a run of white space. Plain ASCII needs three string operations; other text is folded
character by character through a cache, and only text whose characters compose (Hangul letters, vowel signs) is
folded cluster by cluster.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
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
"""Different characters in a text from which on they are folded together."""

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
    alphabet = _study(text)
    folds = _fold_each(alphabet.chars, fold_case=fold_case)
    if not alphabet.composes:
        return _fold_apart(text, folds, fold_case=fold_case)
    out: list[str] = []
    done = 0
    for start, end, folded in _pieces(text, alphabet, folds if fold_case else None):
        out += (*map(folds.__getitem__, text[done:start]), folded)
        done = end
    out += map(folds.__getitem__, text[done:])
    return "".join(out)


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
    line = "".join(chars)
    generic = frozenset(_GENERIC_MARKS.findall(line))
    marks = {char for char in chars if unicodedata.category(char)[0] == "M"}
    composing = marks.union(_COMPOSING.findall(line)).difference(generic, _SEEN_AS_NOTHING.findall(line))
    return _Alphabet(chars, generic | composing, bool(composing))


def _fold_each(chars: frozenset[str], *, fold_case: bool) -> dict[str, str]:
    """Return what each character becomes.

    A text may hold a hundred thousand different ones, of which most stay what they are: those are told in one go.
    """
    plain: frozenset[str] = frozenset()
    if len(chars) > _MANY:
        plain = _find_plain([char for char in chars if not char.isascii()], fold_case=fold_case)
    folds = {char: char for char in plain}
    for char in chars - plain:
        folds[char] = _fold(char, fold_case=fold_case)
    return folds


def _find_plain(chars: Sequence[str], *, fold_case: bool) -> frozenset[str]:
    """Return those that folding surely leaves alone: no mark or letter of a compound, not unseen, no look-alike."""
    lines = "\n".join(chars)
    said = unicodedata.normalize("NFKC", lines)
    parts = unicodedata.normalize("NFD", said.casefold() if fold_case else said)
    marks = {ord(char): None for char in frozenset(parts) if unicodedata.category(char)[0] == "M"}
    kept = unicodedata.normalize("NFC", parts.translate(marks)).split("\n")
    same = frozenset([char for char, said in zip(chars, kept, strict=True) if char == said])
    unseen = [char for char in same if unicodedata.category(char) in ("Cf", "Cc")]
    alike = [c for c, small in zip(chars, lines.casefold().split("\n"), strict=True) if small in CONFUSABLES]
    return same.difference(unseen, _SEEN_AS_NOTHING.findall(lines), CONFUSABLES, alike)


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
    base = ""
    for char in decomposed:
        if unicodedata.category(char)[0] != "M":
            base = char
        elif _GENERIC_MARKS.match(char) or (base and _is_plain_base(base)):
            continue
        kept.append(char)
    return "".join(kept)


def _is_plain_base(char: str) -> bool:
    return char.isdigit() or unicodedata.name(char, "").startswith(("LATIN", "GREEK", "CYRILLIC"))


def _unmask(char: str, *, fold_case: bool) -> str:
    plain = CONFUSABLES.get(char)
    if plain is None and not fold_case:
        plain = CONFUSABLES.get(char.casefold())
        return char if plain is None else plain.upper()
    return plain or char


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
    table = _classify(alphabet, folds or _fold_each(alphabet.chars, fold_case=True))
    for match in _PIECE.finditer(_translate(text, table)):
        raw = text[match.start() : match.end()]
        if raw == " ":
            continue
        folded = _fold(raw, fold_case=fold_case) if match.lastgroup else _fold_run(raw, fold_case=fold_case)
        if folded != raw:
            yield Piece(match.start(), match.end(), folded)


def _fold_run(run: str, *, fold_case: bool) -> str:
    return _collapse("".join([_fold(char, fold_case=fold_case) for char in run]))


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
