"""Read a whole text as its writer may have meant it to be read: unmasked, un-spaced, rotated, reversed, un-leeted.

Unlike the variants, which a pattern is searched in, a reading is a text for something that judges texts. It is offered
only where it says more than the text itself: where letters were masked or spaced out, or where the result reads like
English and the text does not. So plain text is not judged several times.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from supervisors.confusables import CONFUSABLES
from supervisors.norm import normalize, unleet
from supervisors.offsets import Place
from supervisors.stretches import LEAST, find_turned, surround
from supervisors.variants import Layer

MIN_FUNCTION_WORDS = 3
_LONG = 2_000
_CONTEXT = 400
"""Characters around an escape or a disguised letter that say what it is about; a text of `_LONG` is read as a whole."""
_LEET_CONTEXT = 30
FUNCTION_WORDS = frozenset(
    {
        *("the", "of", "and", "to", "in", "is", "that", "it", "for", "as"),
        *("with", "was", "on", "be", "by", "this", "have", "from", "or", "an"),
        *("are", "not", "but", "you", "all", "can", "how", "what", "who", "do"),
        *("your", "my", "me", "his", "they", "at", "if", "which", "when", "will"),
    }
)
"""Forty common English function words."""

_TELLING = FUNCTION_WORDS - {"or", "be"}
"""Those that rot13 makes no other one of."""
_ROTATED = frozenset([codecs.encode(word, "rot13") for word in _TELLING])
_ROTATED_BYTES = frozenset([word.encode() for word in _ROTATED])
_FORWARD = FUNCTION_WORDS - {"on", "was", "not", "are", "but"}
"""Those that are no common word reversed, as "on" is "no"."""
_REVERSED = frozenset([word[::-1] for word in _FORWARD])
_REVERSED_BYTES = frozenset([word[::-1].encode() for word in FUNCTION_WORDS])

_WORD = re.compile(r"[a-z]+")
_WHOLE_WORD = re.compile(r"(?<!\w)[a-z]+(?!\w)")
_LEET_WORD = re.compile(r"[^\s]*[a-z][^\s]*")
"""What holds a letter: a number by itself is no word."""
_NUMBER = re.compile(r"(?<![^\W_])[0-9$@!.,:-]+(?![^\W_])")
_UNSEEN = (
    "\u00ad\u034f\u115f\u1160\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\u3164\ufeff\uffa0\ufe00-\ufe0f"
    "\U000e0000-\U000e007f"
)
_ALIKE = "".join(map(re.escape, CONFUSABLES))
_MARKS = "\u0300-\u036f"
_STYLES = ("\uff21-\uff3a\uff41-\uff5a", "\U0001d400-\U0001d6a3", "\u24b6-\u24e9", "\U0001f130-\U0001f189")
"""Fullwidth, mathematical, circled and squared letters."""
_MASK = f"[{_UNSEEN}{_ALIKE}{_MARKS}{''.join(_STYLES)}]"
_ANY_MASK = re.compile(_MASK)
_MASKED = re.compile(
    f"{_MASK}(?:"  # one class in front: plain text is passed over at full speed
    f"(?<=[A-Za-z][{_UNSEEN}])[{_UNSEEN}]*[A-Za-z]"  # split by what nobody sees
    f"|(?<=[A-Za-z][{_ALIKE}])|(?<=[{_ALIKE}])[A-Za-z]"  # a word of two alphabets
    f"|(?<=[A-Za-z][\u0334-\u0338])|(?<=[{_MARKS}])(?:[{_MARKS}]|[A-Za-z][{_MARKS}])"  # struck through; marks on marks
    + "".join([f"|(?<=[{style}])[{style}]" for style in _STYLES])
    + ")"
)
_SPACED = re.compile(r"(?<![^\W_])(?:[^\W_][ .\-_*|/]{1,3}){7,}[^\W_](?![^\W_])")
_GAP = re.compile(r"[ .\-_*|/]{2,}")
_TO_GAPS = bytes([32 if chr(code) in " .-_*|/" else 97 for code in range(256)])
_MAYBE_SPACED = re.compile(rb" a {1,3}a {1,3}a {1,3}a {1,3}a {1,3}a ")
"""The inner six of eight letters that stand apart, once all that separates is a blank and all else an ``a``."""
_TO_WORDS = bytes([code if chr(code) in "abcdefghijklmnopqrstuvwxyz" else 32 for code in range(256)])


@dataclass(frozen=True, slots=True)
class Reading:
    """One further text with the chain of transforms that led to it."""

    transform: str
    text: str


def find_readings(layer: Layer) -> Iterator[Reading]:
    """Yield what else a text may say; each differs from the text in more than spaces and case."""
    layer = focus(layer)
    text = layer.text
    if not text.isascii() and is_masked(text):
        yield Reading("norm", normalize(_keep_near(_MASKED, text), fold_case=False))
    if join_spaced(text) != text:
        yield Reading("squash", join_spaced(_keep_near(_SPACED, text)))
    words = _small_words(layer.norm)  # rotated or reversed, they are the words of the whole text so read
    if len(words & _ROTATED_BYTES) >= LEAST:
        yield from _join("rot13", [codecs.encode(said, "rot13") for said in _cut(text, _ROTATED, _TELLING)])
    if len(words & _REVERSED_BYTES) >= MIN_FUNCTION_WORDS:
        yield from _join("reverse", [said[::-1] for said in _cut(layer.norm, _REVERSED, _FORWARD)][::-1])
    if layer.unleeted != layer.norm and _gains_words(layer):
        yield from _join("leet", _cut_leet(layer))


def focus(layer: Layer) -> Layer:
    """Return a layer whose escapes were read in place with only what stands around those, where the text is long."""
    if layer.escapes is None or len(layer.text) <= _LONG:
        return layer
    near = surround(layer.escapes.uncovered, len(layer.text), _CONTEXT)
    return Layer("\n".join([layer.text[start:end] for start, end in near]), layer.chain)


def _keep_near(pattern: re.Pattern[str], text: str) -> str:
    """Return a text, of a long one what stands around the matches."""
    if len(text) <= _LONG:
        return text
    places = (Place(*match.span()) for match in pattern.finditer(text))
    return "\n".join([text[start:end] for start, end in surround(places, len(text), _CONTEXT)])


def is_masked(text: str) -> bool:
    """Say whether letters of a text are masked: split by what nobody sees, or written with look-alikes.

    Words of another script, and letters with accents, are not masked.
    """
    return _ANY_MASK.search("".join(set(text))) is not None and _MASKED.search(text) is not None


def join_spaced(text: str) -> str:
    """Return the text with letters that stand apart joined to words; two separators in a row end a word."""
    gaps = text.encode("latin-1", "replace").translate(_TO_GAPS)
    return text if _MAYBE_SPACED.search(gaps) is None else _SPACED.sub(_join_run, text)


def _join_run(run: re.Match[str]) -> str:
    return " ".join([re.sub(r"[\W_]", "", word) for word in _GAP.split(run[0])])


def _small_words(text: str) -> frozenset[bytes]:
    """Return the runs of the letters from a to z."""
    return frozenset(text.encode("utf-8", "surrogatepass").translate(_TO_WORDS).split())


def reads_like_english(text: str) -> bool:
    """Say whether a lower-case text has at least three of the function words."""
    return len(FUNCTION_WORDS.intersection(_WORD.findall(text))) >= MIN_FUNCTION_WORDS


def _cut(text: str, turned: frozenset[str], plain: frozenset[str]) -> list[str]:
    return [text[start:end] for start, end in find_turned(text, turned, plain)]


def _cut_leet(layer: Layer) -> list[str]:
    """Return what stands around the words that another reading of digits and signs changes."""
    words = [Place(*word.span()) for word in _LEET_WORD.finditer(layer.norm)]
    said = layer.unleeted
    changed = (word for word in words if said[word.start : word.end] != layer.norm[word.start : word.end])
    return [said[start:end] for start, end in surround(changed, len(said), _LEET_CONTEXT)]


def _join(transform: str, parts: Sequence[str]) -> Iterator[Reading]:
    if parts:
        yield Reading(transform, "\n".join(parts))


def _gains_words(layer: Layer) -> bool:
    """Say whether reading digits and signs as letters spells function words; a plain number spells none."""
    words = _NUMBER.sub(" ", layer.norm)
    return _count(unleet(words)) >= _count(words) + 2


def _count(text: str) -> int:
    return sum([word in FUNCTION_WORDS for word in _WHOLE_WORD.findall(text)])
