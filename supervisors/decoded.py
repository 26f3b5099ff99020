"""Show a model-backed supervisor what an encoded stretch says: quoted, labelled material behind the text (G-09)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast


class _Decoded(Protocol):
    @property
    def text(self) -> str: ...
    @property
    def chain(self) -> str: ...


def append_decoded(text: str) -> str:
    """Return the text, followed once by what its encoded stretches say, each with the chain of its decodings."""
    notes = [
        f'[decoded from {decoded.chain} in the text above]\n"{decoded.text}"'
        for decoded in _find(text)
        if decoded.text.strip() and decoded.text not in text
    ]
    return "\n\n".join([text, *dict.fromkeys(notes)])


def _find(text: str) -> Iterable[_Decoded]:
    # Looked up by name: decoding is optional for this package's layering, and judged text is never lost without it.
    if find_spec("supervisors.variants") is None:
        return ()
    find = cast("Callable[[str], Iterable[_Decoded]]", import_module("supervisors.variants").decoded_spans)
    return find(text)
