"""The one normal form used to match texts. Normalised text is never sent (H-122, DS-09)."""

from __future__ import annotations

import unicodedata


def norm_text(text: str) -> str:
    """Fold width, case and white space: NFKC, casefold, runs of white space to one space, strip."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
