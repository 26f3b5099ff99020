"""Offer a text in the forms in which something may hide in it (guarding §2), each with a way back to the raw text.

`find_variants` is what text-searching supervisors use; `decoded_spans` is what supervisors with a model append to the
text they judge. Nothing is computed before it is read: a plain text costs a few microseconds.
"""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, pairwise, repeat
from operator import lt
from typing import Literal, NamedTuple

from supervisors.decoding import find_runs
from supervisors.escapes import Escapes, find_escapes, find_stretches
from supervisors.norm import find_alnum, map_norm, normalize, squash, unleet
from supervisors.offsets import Offsets, Piece, Place, replace_pieces
from supervisors.runs import Run

Variant = Literal["raw", "norm", "squash", "leet", "tags", "base64", "hex", "url", "html", "escape", "rot13", "reverse"]

FOLDINGS: tuple[Variant, ...] = ("raw", "norm", "squash", "leet", "rot13", "reverse")
DECODINGS: tuple[Variant, ...] = ("tags", "base64", "hex", "url", "html", "escape")
VARIANTS: tuple[Variant, ...] = (*FOLDINGS, *DECODINGS)

MAX_DEPTH = 2
"""Decodings on top of each other: base64 of base64 is read, a third layer is not."""

MAX_SPANS = 256
MAX_DECODED_CHARS = 1 << 20
MAX_ESCAPES = 16_384
"""Bounds of one request (G-08). Base64 and hex runs are not counted when they do not decode to text: trying them is
linear in the input, and a log of hashes is not an attack. Escapes are: a page has thousands of entities, not more."""

MAX_LAYERS = 8 * MAX_SPANS
"""Readings of the runs of one kind in one text, with those that only tell where words may begin and end."""

_ESCAPES: frozenset[Variant] = frozenset({"tags", "url", "html", "escape"})
_AS_WRITTEN = Offsets()
_NEAR = 32
"""Characters between two escapes up to which they belong to one decoded span."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Count what decoding has produced, so that a bound holds for a request of many segments (G-08).

    Args:
        spans: decoded spans kept.
        chars: characters decoded.
        escapes: stretches of escapes replaced.
    """

    spans: int = 0
    chars: int = 0
    escapes: int = 0

    @property
    def exhausted(self) -> bool:
        """Say whether a bound was passed."""
        return self.spans > MAX_SPANS or self.chars > MAX_DECODED_CHARS or self.escapes > MAX_ESCAPES


@dataclass(frozen=True, slots=True)
class Decoded:
    """What an encoded stretch ``text[start:end]`` of the raw text says.

    Args:
        start: first character of the whole encoded run.
        end: one past its last.
        text: the decoded text.
        chain: decodings from the outside in, e.g. ``base64>base64``.
    """

    start: int
    end: int
    text: str
    chain: str


@dataclass(frozen=True)
class Layer:
    """A text to search: the raw text itself or what a decoding made of it, with its foldings.

    Args:
        text: what is searched.
        chain: decodings that led here, outermost first; empty for the raw text.
        origin: the layer it was decoded from, None for the raw text.
        run: the encoded run of `origin`, when the text is what that says.
        escapes: what was replaced in place, when the text is that of `origin` with its escapes read.
        shown: who reads the whole text should see it; false where only a search for words has to.
    """

    text: str
    chain: tuple[Variant, ...] = ()
    origin: Layer | None = None
    run: Run | None = None
    escapes: Escapes | None = None
    shown: bool = True

    @cached_property
    def norm(self) -> str:
        """Return the `norm` variant."""
        return normalize(self.text)

    @cached_property
    def cased(self) -> str:
        """Return `norm` without its case folding, for patterns that depend on case."""
        return normalize(self.text, fold_case=False)

    @cached_property
    def squash(self) -> str:
        """Return `norm` without anything that is not a letter or digit."""
        return squash(self.norm)

    @cached_property
    def unleeted(self) -> str:
        """Return `norm` with digits and signs read as letters, same length."""
        return unleet(self.norm)

    @cached_property
    def leet(self) -> str:
        """Return `unleeted` without anything that is not a letter or digit."""
        return squash(self.unleeted)

    @cached_property
    def rot13(self) -> str:
        """Return `norm` with every ASCII letter moved by thirteen."""
        return codecs.encode(self.norm, "rot13")

    @cached_property
    def reverse(self) -> str:
        """Return `norm` from its end to its beginning."""
        return self.norm[::-1]

    @cached_property
    def offsets(self) -> Offsets:
        """Return the map to `origin` that follows from the escapes."""
        return _AS_WRITTEN if self.escapes is None else self.escapes.offsets

    @cached_property
    def _norm_offsets(self) -> Offsets:
        return map_norm(self.text)

    @cached_property
    def _cased_offsets(self) -> Offsets:
        return map_norm(self.text, fold_case=False)

    @cached_property
    def _squash_offsets(self) -> Sequence[int]:
        return find_alnum(self.norm)

    @cached_property
    def _leet_offsets(self) -> Sequence[int]:
        return find_alnum(self.unleeted)

    def place_in_norm(self, variant: Variant, start: int, end: int) -> Place:
        """Return where ``squash``, ``leet``, ``reverse``, ``rot13`` or ``norm`` ``[start:end]`` lies in `norm`."""
        match variant:
            case "squash":
                return Place(self._squash_offsets[start], self._squash_offsets[end - 1] + 1)
            case "leet":
                return Place(self._leet_offsets[start], self._leet_offsets[end - 1] + 1)
            case "reverse":
                return Place(len(self.norm) - end, len(self.norm) - start)
            case _:
                return Place(start, end)

    def locate(self, variant: Variant, start: int, end: int) -> Place:
        """Return the range of the raw text that ``variant[start:end]`` of this layer comes from.

        Args:
            variant: ``raw`` for `text` itself, or one of the foldings.
            start: first character, in the variant.
            end: one past the last; the range is not empty.
        """
        if variant == "raw":
            return self._to_raw(Place(start, end))
        return self._to_raw(self._norm_offsets.locate(*self.place_in_norm(variant, start, end)))

    def locate_cased(self, start: int, end: int) -> Place:
        """Return the range of the raw text that ``cased[start:end]`` comes from."""
        return self._to_raw(self._cased_offsets.locate(start, end))

    def _to_raw(self, place: Place) -> Place:
        if self.origin is None:
            return place
        return self.origin.locate(
            "raw", *(self.offsets.locate(*place) if self.run is None else self.run.locate(*place))
        )

    def pick_new(self, places: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Return the places of `text` that hold anything that the layer it was decoded from does not show."""
        if self.escapes is None or not places:
            return iter(places)
        starts, ends = zip(*places, strict=True)
        made = self.offsets
        if not made.outs or made.outs[0] >= ends[-1] or made.out_ends[-1] <= starts[0]:
            return iter(())
        outs = (*made.outs, len(self.text))
        nexts = map(bisect_right, repeat(made.out_ends), starts)
        return compress(places, map(lt, map(outs.__getitem__, nexts), ends))

    def is_new(self, start: int, end: int) -> bool:
        """Say whether ``text[start:end]`` holds such a thing."""
        if self.escapes is None:
            return True
        i = bisect_right(self.offsets.out_ends, start)
        return i < len(self.offsets.outs) and self.offsets.outs[i] < end

    def spans(self) -> Iterator[Decoded]:
        """Return what this decoding says, each stretch with its place in the raw text."""
        origin = self.origin
        if origin is None:
            return
        chain = ">".join(self.chain)
        if self.run is not None:
            yield Decoded(*origin.locate("raw", self.run.start, self.run.end), self.text, chain)
            return
        hiding = () if self.escapes is None else self.escapes.hiding
        for (start, end), group in _group(hiding, origin.text):
            near = [Piece(piece.start - start, piece.end - start, piece.text) for piece in group]
            yield Decoded(*origin.locate("raw", start, end), replace_pieces(origin.text[start:end], near), chain)


@dataclass(frozen=True, slots=True)
class Variants:
    """A text in its variants.

    Args:
        layers: the raw text first, then what its decodings say, depth 1 before depth 2.
        over_limit: decodings that were cut short by a bound; their variant is incomplete.
        usage: what was decoded so far, including what was handed in.
    """

    layers: tuple[Layer, ...]
    over_limit: tuple[Variant, ...]
    usage: Usage

    @property
    def raw(self) -> Layer:
        """Return the layer of the text as sent."""
        return self.layers[0]

    @property
    def shown(self) -> tuple[Layer, ...]:
        """Return the layers for who reads whole texts."""
        return tuple([layer for layer in self.layers if layer.shown])


_NOTHING_USED = Usage()


def find_variants(text: str, which: Collection[Variant] = VARIANTS, usage: Usage = _NOTHING_USED) -> Variants:
    """Return the variants of a text.

    Args:
        text: the text as sent.
        which: decodings to try; foldings are attributes of every layer and cost nothing until read.
        usage: what other texts of the same request used of the bounds.
    """
    level = [Layer(text)]
    layers = list(level)
    over_limit: list[Variant] = []
    kinds: list[Variant] = [kind for kind in DECODINGS if kind in which]
    for _ in range(MAX_DEPTH):
        below: list[Layer] = []
        for layer in level:
            for kind in kinds:
                found = _decode_escapes(layer, kind, usage) if kind in _ESCAPES else _decode_runs(layer, kind, usage)
                if found is None:
                    continue
                below += found.layers
                if found.usage != usage and found.usage.exhausted and kind not in over_limit:
                    over_limit.append(kind)
                usage = found.usage
        layers += below
        level = below
    return Variants(tuple(layers), tuple(over_limit), usage)


def decoded_spans(text: str) -> tuple[Decoded, ...]:
    """Return what the encoded stretches of a text say, outermost decodings first.

    Bounds are those of G-08; a caller that must know whether one was hit uses `find_variants` and its ``over_limit``.
    """
    return tuple([decoded for layer in find_variants(text, DECODINGS).shown for decoded in layer.spans()])


class _Found(NamedTuple):
    layers: list[Layer]
    usage: Usage


def _decode_runs(layer: Layer, kind: Variant, usage: Usage) -> _Found | None:
    layers: list[Layer] = []
    for run in find_runs(kind, layer.text, None if layer.escapes is None else layer.pick_new):
        if layer.is_new(run.start, run.end):
            if run.shown:
                usage = replace(usage, spans=usage.spans + 1, chars=usage.chars + len(run.text))
            elif len(layers) >= MAX_LAYERS:
                usage = replace(usage, spans=MAX_SPANS + 1)
            if usage.exhausted:
                return _Found(layers, usage)
            layers.append(Layer(run.text, (*layer.chain, kind), layer, run=run, shown=run.shown))
    return _Found(layers, usage) if layers else None


def _decode_escapes(layer: Layer, kind: Variant, usage: Usage) -> _Found | None:
    # One of the same kind as those before is one that they spell, or it had been read with them.
    anew = layer.escapes is None or layer.escapes.kind == kind
    if not anew and layer.escapes is not None and not layer.escapes.may_spell(kind):
        return None
    if not anew and next(layer.pick_new(find_stretches(kind, layer.text)), None) is None:
        return None
    found = find_escapes(kind, layer.text, MAX_ESCAPES - usage.escapes + 1)
    if found is None:
        return None
    if found.count:
        usage = Usage(usage.spans + 1, usage.chars + found.chars, usage.escapes + found.count)
        if usage.exhausted:
            return _Found([], usage)
    return _Found([Layer(found.text, (*layer.chain, kind), layer, escapes=found, shown=found.telling)], usage)


def _group(pieces: Sequence[Piece], text: str) -> Iterator[tuple[Place, Sequence[Piece]]]:
    """Join escapes that stand near each other, and widen each group to whole words."""
    cuts = [i for i, (left, right) in enumerate(pairwise(pieces), 1) if right.start - left.end > _NEAR]
    if len(cuts) >= MAX_SPANS:
        cuts = []
    for first, last in pairwise([0, *cuts, len(pieces)]):
        group = pieces[first:last]
        start, end = group[0].start, group[-1].end
        while start > 0 and group[0].start - start < _NEAR // 2 and not text[start - 1].isspace():
            start -= 1
        while end < len(text) and end - group[-1].end < _NEAR // 2 and not text[end].isspace():
            end += 1
        yield Place(start, end), group
