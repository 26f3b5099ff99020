"""The steps common to all text parsers (guards §5.1, 3 to 5 and 7). Everything here takes linear time (GP-08)."""

from __future__ import annotations

import re

from supervisors.parsers.reading import Unreadable
from supervisors.refusal import REFUSALS

_MARK = re.compile(r"<\|[^|<>\n]{1,60}\|>")
_TRAILING_MARKS = re.compile(r"(?:<\|[^|<>\n]{1,60}\|>\s*){1,8}\Z")
_FINAL = "<|channel|>final<|message|>"
_FINAL_PLAIN = "assistantfinal"
_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_REFUSAL_CHARS = 200
_APOSTROPHES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\uff07": "'"})


def normalise(text: str, *, keep_marks: bool) -> str:
    """Return the part of a reply that may hold a verdict.

    Args:
        text: content as received.
        keep_marks: leave special-token marks where they are, except at the very end.

    Raises:
        Unreadable: a reasoning block was opened and never closed.
    """
    plain = text.replace("\ufeff", "").replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ")
    plain = _take_final(plain)
    plain = _TRAILING_MARKS.sub("", plain.strip()) if keep_marks else _MARK.sub("", plain)
    if not keep_marks and _FINAL_PLAIN in plain:
        plain = plain[plain.rindex(_FINAL_PLAIN) + len(_FINAL_PLAIN) :]
    plain = _drop_block(plain, "think")
    plain = _drop_block(plain, "explanation")
    return plain.strip()


def _take_final(text: str) -> str:
    """Keep the final channel of a harmony reply; what precedes it is reasoning."""
    at = text.rfind(_FINAL)
    return text if at < 0 else text[at + len(_FINAL) :]


def _drop_block(text: str, name: str) -> str:
    """Delete every closed block, then whatever a primed opening mark left in front of a closing one."""
    opening, closing = f"<{name}>", f"</{name}>"
    folded = _lower_ascii(text)
    kept: list[str] = []
    at = 0
    while True:
        start = folded.find(opening, at)
        stop = folded.find(closing, start) if start >= 0 else -1
        if stop < 0:
            break
        kept.append(text[at:start])
        at = stop + len(closing)
    kept.append(text[at:])
    rest = "".join(kept)
    folded = _lower_ascii(rest)
    if name == "think" and closing in folded:
        cut = folded.rindex(closing) + len(closing)
        rest, folded = rest[cut:], folded[cut:]
    if opening in folded:
        raise Unreadable("truncated")
    return rest


def _lower_ascii(text: str) -> str:
    """Lower without changing the length, so that offsets stay valid."""
    return text.translate(_ASCII_LOWER)


def is_refusal(text: str) -> bool:
    """Say whether the beginning of a text declines in the usual words of assistants."""
    start = text[:_REFUSAL_CHARS].translate(_APOSTROPHES).casefold()
    return any(phrase in start for phrase in REFUSALS)
