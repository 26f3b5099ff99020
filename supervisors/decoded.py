"""Show a model-backed supervisor what an encoded stretch says: quoted, labelled material behind the text (G-09)."""

from __future__ import annotations

from supervisors.variants import decoded_spans


def append_decoded(text: str) -> str:
    """Return the text, followed once by what its encoded stretches say, each with the chain of its decodings."""
    notes = [
        f'[decoded from {decoded.chain} in the text above]\n"{decoded.text}"'
        for decoded in decoded_spans(text)
        if decoded.text.strip() and decoded.text not in text
    ]
    return "\n\n".join([text, *dict.fromkeys(notes)])
