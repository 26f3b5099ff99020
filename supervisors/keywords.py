"""Find words and phrases in a text and its variants.

One automaton a variant says for nearly every text that nothing is there; only then is each phrase looked for by
itself. rot13 and reversed phrases are looked for in `squash` as rotated and reversed patterns, which finds the same
places as turning the text around would.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from supervisors.norm import normalize, squash, unleet
from supervisors.offsets import Place
from supervisors.patterns import Haystack, compile_alternatives, escape
from supervisors.variants import Layer, Variant

MIN_LETTERS = 6
"""Letters a phrase needs to be looked for in squash, leet, rot13 and reverse (G-10)."""

_EDGE = "[^0-9a-z]"
_UNSPACED = (
    ("\u0e00", "\u0eff"),
    ("\u1000", "\u109f"),
    ("\u1780", "\u17ff"),
    ("\u2e80", "\ud7af"),
    ("\uf900", "\ufaff"),
)
"""Scripts that write without spaces or glue particles on: Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean."""


_FEW = 64
"""Phrases up to which looking for each by itself beats walking through the text."""

_PER_PROGRAM = 5_000
"""Phrases an automaton holds; many more and it outgrows its memory and slows down a thousandfold."""


class Hit(NamedTuple):
    """One finding in a layer.

    Args:
        place: range of the raw text.
        variant: the folding in which it was found; ``raw`` when it stands there as written.
    """

    place: Place
    variant: Variant


@dataclass(frozen=True, slots=True)
class _Needle:
    """One form of a phrase, searched in one text."""

    text: str
    variant: Variant


@dataclass(frozen=True, slots=True)
class _Set:
    """Needles for one text, the automaton that rules them all out at once, and an index by their first characters."""

    needles: tuple[_Needle, ...]
    rules_out: Callable[[str], bool]
    head: int
    by_head: Mapping[str, Sequence[_Needle]]


@dataclass(frozen=True, slots=True)
class Keywords:
    """Phrases ready to be searched; build it with `prepare_keywords`."""

    phrases: tuple[str, ...]
    loose: bool
    raw: _Set | None
    norm: _Set | None
    squash: _Set | None
    leet: _Set | None
    max_chars: int

    def search(self, layer: Layer) -> Iterator[Hit]:
        """Return all findings in a layer, some of them twice when two variants show them."""
        if self.norm is not None and not self.norm.rules_out(layer.norm):
            yield from self._search_norm(layer, self.norm)
        if self.raw is not None and not layer.text.isascii() and not self.raw.rules_out(layer.text):
            for needle, place in _find_all(layer.text, self.raw):
                if self.loose or stands_alone(layer.text, place):
                    yield Hit(layer.locate("raw", *place), needle.variant)
        if self.squash is not None and not self.squash.rules_out(layer.squash):
            yield from self._search_folded(layer, "squash", layer.squash, self.squash)
        if self.leet is not None and layer.unleeted != layer.norm:
            text = layer.leet.replace("l", "i")
            if not self.leet.rules_out(text):
                yield from self._search_folded(layer, "leet", text, self.leet)

    def _search_norm(self, layer: Layer, needles: _Set) -> Iterator[Hit]:
        for needle, place in _find_all(layer.norm, needles):
            if self.loose or stands_alone(layer.norm, place):
                raw = layer.locate("norm", *place)
                as_written = layer.origin is None and layer.text[raw.start : raw.end].lower() == needle.text
                yield Hit(raw, "raw" if as_written else "norm")

    def _search_folded(self, layer: Layer, where: Variant, text: str, needles: _Set) -> Iterator[Hit]:
        for needle, place in _find_all(text, needles):
            in_norm = layer.place_in_norm(where, *place)
            if where == "leet" and not _differs(layer, in_norm):
                continue  # no digit or sign in it: the other variants have found it or had a reason not to
            if self.loose or stands_alone(layer.norm, in_norm, as_word=True):
                yield Hit(layer.locate("norm", *in_norm), needle.variant)


def _differs(layer: Layer, place: Place) -> bool:
    return layer.norm[place.start : place.end] != layer.unleeted[place.start : place.end]


def _find_all(text: str, needles: _Set) -> Iterator[tuple[_Needle, Place]]:
    if len(needles.needles) <= _FEW:
        for needle in needles.needles:
            start = text.find(needle.text)
            while start >= 0:
                yield needle, Place(start, start + len(needle.text))
                start = text.find(needle.text, start + 1)
        return
    for start in range(len(text)):
        for needle in needles.by_head.get(text[start : start + needles.head], ()):
            if text.startswith(needle.text, start):
                yield needle, Place(start, start + len(needle.text))


def stands_alone(text: str, place: Place, *, as_word: bool = False) -> bool:
    """Say whether a range begins and ends at word boundaries.

    An underscore is no letter: it marks emphasis. Scripts without spaces have boundaries everywhere.

    Args:
        text: raw or normalised text.
        place: the range, not empty.
        as_word: take the ends of the range for letters whatever they are (``@`` read as ``a``).
    """
    start, end = place
    left = start > 0 and _joins(text[start - 1]) and (as_word or _joins(text[start]))
    if left and not (_is_unspaced(text[start - 1]) or _is_unspaced(text[start])):
        return False
    right = end < len(text) and _joins(text[end]) and (as_word or _joins(text[end - 1]))
    return not right or _is_unspaced(text[end]) or _is_unspaced(text[end - 1])


def _joins(char: str) -> bool:
    return char.isalnum() or (not char.isascii() and unicodedata.category(char)[0] == "M")


def _is_unspaced(char: str) -> bool:
    return not char.isascii() and (
        any(first <= char <= last for first, last in _UNSPACED) or "\U00020000" <= char <= "\U0003ffff"
    )


def prepare_keywords(phrases: Iterable[str], variants: Collection[Variant], *, loose: bool = False) -> Keywords:
    """Compile phrases for the variants they are to be searched in.

    Args:
        phrases: as configured.
        variants: those of guarding §2; decodings are not looked at.
        loose: find phrases inside longer words too.

    Raises:
        ValueError: a phrase is empty after normalisation.
    """
    unique = tuple(dict.fromkeys(phrases))
    norms = tuple(dict.fromkeys([_norm_of(phrase) for phrase in unique]))
    squashed = [text for text in map(squash, norms) if sum(map(str.isalpha, text)) >= MIN_LETTERS]
    turned: list[_Needle] = []
    if "squash" in variants:
        turned += [_Needle(text, "squash") for text in squashed]
    if "rot13" in variants:
        turned += [_Needle(codecs.encode(text, "rot13"), "rot13") for text in squashed if text[0].isascii()]
    if "reverse" in variants:
        turned += [_Needle(text[::-1], "reverse") for text in squashed]
    leet = [_Needle(unleet(text).replace("l", "i"), "leet") for text in squashed] if "leet" in variants else []
    stretch = 2 if turned or leet else 1  # letters may be spaced
    return Keywords(
        unique,
        loose,
        _build_set([_Needle(text, "raw") for text in unique] if "raw" in variants else [], guarded=False),
        _build_set([_Needle(text, "norm") for text in norms] if "norm" in variants else [], guarded=not loose),
        _build_set(turned, guarded=False),
        _build_set(leet, guarded=False),
        max(map(len, norms), default=0) * stretch,
    )


def _norm_of(phrase: str) -> str:
    norm = normalize(phrase).strip()
    if not norm:
        msg = f"the keyword {phrase!r} has no visible character: write a word or phrase"
        raise ValueError(msg)
    return norm


def _build_set(needles: Sequence[_Needle], *, guarded: bool) -> _Set | None:
    if not needles:
        return None
    unique = tuple({needle.text: needle for needle in reversed(needles)}.values())
    texts = sorted([needle.text for needle in unique])
    programs = [
        compile_alternatives(_guard(texts[i : i + _PER_PROGRAM], guarded=guarded))
        for i in range(0, len(texts), _PER_PROGRAM)
    ]

    def rules_out(text: str) -> bool:
        data = Haystack(text).data
        return not any(program.search(data) for program in programs)

    head = min(4, *[len(text) for text in texts])
    by_head: dict[str, list[_Needle]] = {}
    for needle in unique:
        by_head.setdefault(needle.text[:head], []).append(needle)
    return _Set(unique, rules_out, head, by_head)


def _guard(texts: Sequence[str], *, guarded: bool) -> Sequence[str]:
    """Ask for a boundary beside ASCII letters, so that the automaton passes over "class" when "ass" is forbidden."""
    groups: dict[tuple[str, str], list[str]] = {}
    for text in texts:
        before = f"(?:^|{_EDGE})" if guarded and text[0].isascii() and text[0].isalnum() else ""
        after = f"(?:$|{_EDGE})" if guarded and text[-1].isascii() and text[-1].isalnum() else ""
        groups.setdefault((before, after), []).append(escape(text))
    return [f"{before}(?:{'|'.join(group)}){after}" for (before, after), group in groups.items()]
