"""Run keywords and patterns over the variants and joined views of segments, and say where in the raw text they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from supervisors.keywords import Keywords
from supervisors.offsets import Place
from supervisors.opening import UNREAD_CHARS, Openings, find_openings, is_long
from supervisors.patterns import Haystack, Pattern, Program, compile_alternatives
from supervisors.types import Scope, Segment
from supervisors.variants import Layer, Usage, Variant, find_variants
from supervisors.views import join_segments

_MIN_REACH = 64
_ESCAPED_CHARS = 12
"""Characters that one character of a phrase may take when it is spaced or encoded, for joining segments."""

_GLUED: tuple[Variant, ...] = ("squash", "leet", "rot13", "reverse")


class Finding(NamedTuple):
    """One place in one segment."""

    path: str
    start: int
    end: int
    category: str
    chain: str
    scope: Scope


class _Found(NamedTuple):
    place: Place
    category: str
    chain: str


@dataclass(frozen=True, slots=True)
class Matcher:
    """Everything one supervisor looks for, compiled; build it with `build_matcher`.

    Args:
        keywords: phrases, or None.
        category: category of the phrases.
        patterns: expressions.
        variants: which variants are searched.
        gate: one expression that rules a text out for all patterns at once.
        glued: the patterns marked loose, searched in squash, leet, rot13 and reverse too.
        max_chars: longest possible finding, None when there is no bound.
        held_chars: longest finding that is not looked out for by `openings`, None when there is no bound.
        openings: where a long finding may have begun, None when there are no long ones.
        steps: instructions of all expressions but the built-in ones: the worst case of the running time a character.
    """

    keywords: Keywords | None
    category: str
    patterns: tuple[Pattern, ...]
    variants: frozenset[Variant]
    gate: Program | None
    glued: tuple[Pattern, ...]
    max_chars: int | None
    held_chars: int | None
    openings: Openings | None
    steps: int

    @property
    def reach(self) -> int | None:
        """Return how far from a seam between segments a finding can reach."""
        return None if self.max_chars is None else max(_MIN_REACH, self.max_chars * _ESCAPED_CHARS)

    def search(self, layer: Layer) -> Iterator[_Found]:
        """Return what is found in a layer, in places of the raw text; the same place may come twice."""
        if self.keywords is not None:
            for place, variant in self.keywords.search(layer):
                yield _Found(place, self.category, _name_chain(layer, variant))
        if self.patterns:
            yield from self._search_patterns(layer)

    def _search_patterns(self, layer: Layer) -> Iterator[_Found]:
        if layer.origin is not None or "raw" in self.variants:
            for pattern, place in self._find(layer.text, self.patterns):
                yield _Found(layer.locate("raw", *place), pattern.category, _name_chain(layer, "raw"))
        if "norm" in self.variants and layer.cased != layer.text:
            for pattern, place in self._find(layer.cased, self.patterns):
                yield _Found(layer.locate_cased(*place), pattern.category, _name_chain(layer, "norm"))
        for variant in _GLUED if self.glued else ():
            if variant in self.variants:
                text: str = getattr(layer, variant)
                for pattern, place in self._find(text, self.glued):
                    yield _Found(layer.locate(variant, *place), pattern.category, _name_chain(layer, variant))

    def _find(self, text: str, patterns: Sequence[Pattern]) -> Iterator[tuple[Pattern, Place]]:
        haystack = Haystack(text)
        if self.gate is None or self.gate.search(haystack.data) is not None:
            for pattern in patterns:
                for place in pattern.find(haystack):
                    yield pattern, place


def build_matcher(
    keywords: Keywords | None, category: str, patterns: Sequence[Pattern], variants: Collection[Variant]
) -> Matcher:
    """Put together what one supervisor looks for."""
    openings = find_openings(patterns)
    plain = [pattern for pattern in patterns if openings is None or not is_long(pattern)]
    least = [] if openings is None else [UNREAD_CHARS]
    return Matcher(
        keywords,
        category,
        tuple(patterns),
        frozenset(variants),
        compile_alternatives([pattern.alternative for pattern in patterns]) if len(patterns) > 1 else None,
        tuple([pattern for pattern in patterns if pattern.loose]),
        _widest(patterns, keywords, []),
        _widest(plain, keywords, least),
        openings,
        sum([pattern.regex.size for pattern in patterns if not pattern.known_fast]),
    )


def _widest(patterns: Sequence[Pattern], keywords: Keywords | None, others: Sequence[int]) -> int | None:
    widths = [*others, *[pattern.max_match_chars for pattern in patterns]]
    widths += [] if keywords is None else [keywords.max_chars]
    known = [width for width in widths if width is not None]
    return max(known, default=0) if len(known) == len(widths) else None


def _name_chain(layer: Layer, variant: Variant) -> str:
    if not layer.chain:
        return variant
    return ">".join(layer.chain if variant in ("raw", "norm") else (*layer.chain, variant))


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scan came to.

    Args:
        findings: in the order of the segments; no two of a category cover the same place.
        over_limit: decodings that a bound cut short.
        unsupported: there was something that is not text.
    """

    findings: tuple[Finding, ...]
    over_limit: tuple[Variant, ...] = ()
    unsupported: bool = False


def scan_segments(
    segments: Sequence[Segment], matcher: Matcher, *, growing: bool = False, ended: Collection[str] = ()
) -> Scan:
    """Search segments one by one and joined.

    Args:
        segments: what to search; media are reported, opaque segments are passed over.
        matcher: what to look for.
        growing: the texts are not complete: a finding at the very end waits, since the next character may undo it.
        ended: paths of those that are complete even so.
    """
    findings: list[Finding] = []
    over_limit: dict[Variant, None] = {}
    usage = Usage()
    unsupported = False
    for segment in segments:
        if segment.kind in ("media", "opaque"):
            unsupported = unsupported or segment.kind == "media"
            continue
        variants = find_variants(segment.text, matcher.variants, usage)
        waits = growing and segment.path not in ended
        usage = variants.usage
        over_limit |= dict.fromkeys(variants.over_limit)
        for layer in variants.layers:
            for (start, end), category, chain in matcher.search(layer):
                if not (waits and end == len(segment.text)):
                    findings.append(Finding(segment.path, start, end, category, chain, segment.scope))
    if len(segments) > 1:
        findings += _scan_views(segments, matcher, over_limit)
    return Scan(
        _drop_covered(findings, segments) if len(findings) > 1 else tuple(findings), tuple(over_limit), unsupported
    )


def _scan_views(segments: Sequence[Segment], matcher: Matcher, over_limit: dict[Variant, None]) -> Iterator[Finding]:
    for view in join_segments(segments, matcher.reach):
        variants = find_variants(view.text, matcher.variants)
        over_limit |= dict.fromkeys(variants.over_limit)
        for layer in variants.layers:
            for (start, end), category, chain in matcher.search(layer):
                for path, first, last in view.locate(start, end):
                    yield Finding(path, first, last, category, chain, view.scope)


def _drop_covered(findings: Iterable[Finding], segments: Sequence[Segment]) -> tuple[Finding, ...]:
    """Sort findings and drop each that lies within another of its category: one place, one finding."""
    order = {segment.path: i for i, segment in enumerate(segments)}
    kept: list[Finding] = []
    reached: dict[tuple[str, str], int] = {}
    for finding in sorted(findings, key=lambda f: (order[f.path], f.start, -f.end)):
        key = (finding.path, finding.category)
        if finding.end > reached.get(key, 0):
            reached[key] = finding.end
            kept.append(finding)
    return tuple(kept)
