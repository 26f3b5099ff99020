"""Overlap: which texts two sets share, exactly, after normalising, or nearly (datasets §6).

Near means: Jaccard similarity of the sets of 5-word shingles of at least 0.8. It is computed exactly, with an
inverted index over the rarest shingles (prefix filtering), so nothing is missed and no random hash is involved.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from evals.norm import norm_text
from evals.types import Item

Key = Literal["exact", "norm", "near"]
SHINGLE_WORDS = 5
NEAR = 0.8
_Shingles = frozenset[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class SharedText:
    """One text both sets have, with the ids on both sides.

    Args:
        key: the strictest key by which it is shared.
        left, right: item ids.
        similarity: Jaccard similarity of the shingles; 1 for exact and norm.
    """

    key: Key
    left: tuple[str, ...]
    right: tuple[str, ...]
    similarity: float = 1.0


@dataclass(frozen=True, slots=True)
class Overlap:
    """What two sets share, counted as distinct texts.

    Args:
        left, right: names of the sets.
        exact: distinct texts that occur on both sides.
        norm: distinct normalised texts that occur on both sides; contains the exact ones.
        near: pairs of distinct normalised texts that are near and not equal; None when it was not looked for.
        left_texts, right_texts: distinct normalised texts of each side.
        shared: every shared text with its ids.
    """

    left: str
    right: str
    exact: int
    norm: int
    near: int | None
    left_texts: int
    right_texts: int
    shared: tuple[SharedText, ...]

    @property
    def contained(self) -> float:
        """Return the share of the smaller side's texts that the other side has too."""
        return self.norm / (min(self.left_texts, self.right_texts) or 1)


def overlap(sets: Mapping[str, Sequence[Item]]) -> tuple[Overlap, ...]:
    """Report what each pair of sets shares, in the order given (DS-14). Rows without text take no part."""
    return tuple(compare_sets(left, sets[left], right, sets[right]) for left, right in combinations(sets, 2))


def overlap_many(sets: Mapping[str, Sequence[Item]]) -> tuple[Overlap, ...]:
    """Report the pairs that share a text exactly or after normalising, in one pass over many sets; the rest share none.

    Near texts are not looked for: that takes a pass over each pair, see `overlap`.
    """
    by_norm = {name: _by_norm(items) for name, items in sets.items()}
    exact = {name: {text for item in items for text in texts_of(item)} for name, items in sets.items()}
    owners: dict[str, list[str]] = {}
    for name, texts in by_norm.items():
        for text in texts:
            owners.setdefault(text, []).append(name)
    common: dict[tuple[str, str], list[str]] = {}
    for text, names in owners.items():
        for pair in combinations(names, 2):
            common.setdefault(pair, []).append(text)
    return tuple(_of_common(pair, common[pair], by_norm, exact) for pair in combinations(sets, 2) if pair in common)


def _of_common(
    pair: tuple[str, str],
    texts: Sequence[str],
    by_norm: Mapping[str, Mapping[str, Sequence[Item]]],
    exact: Mapping[str, set[str]],
) -> Overlap:
    left, right = pair
    ours, theirs = by_norm[left], by_norm[right]
    same = exact[left] & exact[right]
    norms = {norm_text(text) for text in same}
    shared = [SharedText("exact" if t in norms else "norm", _ids(ours[t]), _ids(theirs[t])) for t in texts]
    return Overlap(left, right, len(same), len(texts), None, len(ours), len(theirs), tuple(shared))


def compare_sets(left: str, left_items: Sequence[Item], right: str, right_items: Sequence[Item]) -> Overlap:
    """Report what two sets share by each of the three keys."""
    ours, theirs = _by_norm(left_items), _by_norm(right_items)
    exact = {text for item in left_items for text in texts_of(item)} & {
        text for item in right_items for text in texts_of(item)
    }
    exact_norms = {norm_text(text) for text in exact}
    equal = [
        SharedText("exact" if text in exact_norms else "norm", _ids(ours[text]), _ids(theirs[text]))
        for text in ours
        if text in theirs
    ]
    near = [
        SharedText("near", _ids(ours[mine]), _ids(theirs[other]), similarity)
        for mine, other, similarity in _near_pairs(list(ours), list(theirs))
    ]
    return Overlap(left, right, len(exact), len(equal), len(near), len(ours), len(theirs), (*equal, *near))


def without_shared(
    test: Sequence[Item], others: Sequence[Item], *, near: bool = True
) -> tuple[tuple[Item, ...], tuple[str, ...]]:
    """Remove from the test side what the other side has too, and return what is left and the removed ids (DS-15)."""
    found = compare_sets("test", test, "other", others)
    removed = {item_id for text in found.shared if near or text.key != "near" for item_id in text.left}
    kept = tuple(item for item in test if item.item_id not in removed)
    return kept, tuple(item.item_id for item in test if item.item_id in removed)


def count_origins(items: Sequence[Item]) -> dict[str, int]:
    """Count the items of each stated origin, for sets compiled from others (DS-16)."""
    return dict(Counter(item.source for item in items if item.source).most_common())


def texts_of(item: Item) -> tuple[str, ...]:
    """Return the texts an item can be recognised by: its prompt, and its root when the row states it."""
    return tuple(dict.fromkeys(text for text in (item.prompt, item.root) if text))


def _by_norm(items: Sequence[Item]) -> dict[str, list[Item]]:
    groups: dict[str, list[Item]] = {}
    for item in items:
        for text in dict.fromkeys(norm_text(text) for text in texts_of(item)):
            groups.setdefault(text, []).append(item)
    return groups


def _ids(items: Sequence[Item]) -> tuple[str, ...]:
    return tuple(item.item_id for item in items)


def shingles(text: str) -> _Shingles:
    """Return the 5-word shingles of a normalised text; a shorter text is one shingle."""
    words = text.split(" ")
    last = max(len(words) - SHINGLE_WORDS, 0)
    return frozenset(tuple(words[start : start + SHINGLE_WORDS]) for start in range(last + 1))


def _near_pairs(ours: Sequence[str], theirs: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    """Yield pairs of different texts with similarity of at least `NEAR`, in the order of `ours`."""
    left = [shingles(text) for text in ours]
    right = [shingles(text) for text in theirs]
    frequency = Counter(shingle for sets in (left, right) for one in sets for shingle in one)
    index: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for position, theirs_set in enumerate(right):
        for shingle in _prefix(theirs_set, frequency):
            index[shingle].append(position)
    for mine, ours_set in zip(ours, left, strict=True):
        candidates = {position for shingle in _prefix(ours_set, frequency) for position in index.get(shingle, ())}
        for position in sorted(candidates):
            similarity = _jaccard(ours_set, right[position])
            if similarity >= NEAR and mine != theirs[position]:
                yield mine, theirs[position], similarity


def _prefix(one: _Shingles, frequency: Counter[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rarest shingles, as many as guarantee that a near pair shares one of them.

    Two sets with Jaccard ≥ t overlap in at least ceil(t·|one|) shingles, so among the |one| − ceil(t·|one|) + 1
    rarest of each there is a common one.
    """
    needed = (4 * len(one) + 4) // 5  # ceil(0.8 n) without rounding errors
    return sorted(one, key=lambda shingle: (frequency[shingle], shingle))[: len(one) - needed + 1]


def _jaccard(left: _Shingles, right: _Shingles) -> float:
    common = len(left & right)
    return common / (len(left) + len(right) - common)
