"""Numbers with their nouns, as a reader says them: 1 trial, 2 trials."""

from __future__ import annotations


def count_of(count: int, one: str, many: str = "") -> str:
    """Return a number with what is counted.

    Args:
        count: how many.
        one: what follows the number 1; a verb may go with it, as in ``label changed``.
        many: what follows every other number; without it ``one`` and an s.
    """
    return f"{count} {one}" if count == 1 else f"{count} {many or one + 's'}"
