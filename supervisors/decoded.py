"""Show a model-backed supervisor what an encoded or disguised text says: quoted, labelled material behind it (G-09)."""

from __future__ import annotations

from collections.abc import Iterator

from supervisors.readings import find_readings
from supervisors.variants import DECODINGS, find_variants


def append_decoded(text: str) -> str:
    """Return the text, followed once by what its encoded stretches say and what it says when it is read unmasked.

    Each note carries the chain of its transforms.
    """
    notes = [
        f'[decoded from {chain} in the text above]\n"{said}"'
        for chain, said in _find_notes(text)
        if said.strip() and said not in text
    ]
    return "\n\n".join([text, *dict.fromkeys(notes)])


def _find_notes(text: str) -> Iterator[tuple[str, str]]:
    layers = find_variants(text, DECODINGS).shown
    for layer in layers:
        for decoded in layer.spans():
            yield decoded.chain, decoded.text
    for layer in layers:
        for reading in find_readings(layer):
            yield ">".join([*layer.chain, reading.transform]), reading.text
