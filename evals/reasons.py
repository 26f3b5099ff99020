"""Why a file could not be read, in the words of whoever has to put it right."""

from __future__ import annotations


def reason_of(error: Exception) -> str:
    """Return one line without what the message around it says already: no number of an error, no name of the file."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: byte {error.start} cannot be read"
    return " ".join(str(error).split())
