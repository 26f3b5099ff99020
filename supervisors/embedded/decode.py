"""Further texts to judge beside a text, because n-grams do not see through encodings.

Decoded runs are judged when they are long enough to be a request; readings of a whole text (`supervisors.readings`)
only where they say more than the text, so that plain text is not judged several times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from supervisors.readings import Reading, find_readings, focus
from supervisors.variants import DECODINGS, Usage, Variant, find_variants

VariantName = Literal["norm", "squash", "tags", "base64", "hex", "url", "html", "escape", "rot13", "reverse", "leet"]
VARIANTS: frozenset[VariantName] = frozenset(
    {"norm", "squash", "tags", "base64", "hex", "url", "html", "escape", "rot13", "reverse", "leet"}
)
MIN_CHARS = 24


@dataclass(frozen=True, slots=True)
class Readings:
    """All further texts of one text.

    Args:
        found: the texts.
        over_limit: a bound of the decoder cut them short.
        usage: what the request has used of the bounds so far.
    """

    found: tuple[Reading, ...]
    over_limit: bool
    usage: Usage


def read_hidden(text: str, which: frozenset[VariantName], usage: Usage) -> Readings:
    """Return what else a text says when it is decoded or read as it was meant.

    Args:
        text: as sent.
        which: transforms to try.
        usage: what other texts of the request have used of the decoder's bounds.
    """
    decodings: list[Variant] = [kind for kind in DECODINGS if kind in which]
    variants = find_variants(text, decodings, usage)
    found: list[Reading] = []
    for layer in variants.shown:
        if len(layer.text) < MIN_CHARS:
            continue
        if layer.chain:
            found.append(Reading(">".join(layer.chain), focus(layer).text))
        found += [
            Reading(">".join([*layer.chain, reading.transform]), reading.text)
            for reading in find_readings(layer)
            if reading.transform in which
        ]
    return Readings(tuple(found), bool(variants.over_limit), variants.usage)
