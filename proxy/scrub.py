"""Make a sentence of somebody else's error safe to show: no URLs, hosts, keys, identifiers, file paths (X-10)."""

from __future__ import annotations

import re

_MAX_CHARS = 500

_PATTERNS = (
    (re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://[^\s'\"<>)\]]+", re.IGNORECASE), "[url]"),
    (re.compile(r"\bBearer\s+[^\s'\"]+", re.IGNORECASE), "[key]"),
    (re.compile(r"\b(?:sk|pk|rk|key|ghp|gsk|xox[a-z]|hf|nvapi|api[-_]?key)[-_=][\w*.-]{4,}", re.IGNORECASE), "[key]"),
    (re.compile(r"\bAIza[\w*-]{8,}|\bAKIA[0-9A-Z]{8,}|\beyJ[\w-]{8,}[\w.-]*"), "[key]"),
    (re.compile(r"\b(?:org|proj|user|acct|team|tenant|req|asst|ws)[-_][A-Za-z0-9]{4,}\b"), "[id]"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "[id]"),
    (re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{1,63}"), "[address]"),
    (re.compile(r"\b[A-Za-z]:\\[^\s'\"]+|\\\\[^\s'\"]+"), "[path]"),
    (re.compile(r"(?<![\w.])~?(?:/[\w.@+-]+){2,}/?"), "[path]"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b"), "[host]"),
    (re.compile(r"\[[0-9a-f:]*:[0-9a-f:]*:[0-9a-f:]*\](?::\d{1,5})?", re.IGNORECASE), "[host]"),
    (
        re.compile(
            r"\b(?:[a-z0-9_-]{1,63}\.){1,8}(?:com|net|org|io|ai|dev|app|cloud|local|localdomain|internal|svc|lan|corp|intra"
            r"|home|test|example|azure|eu|us|de|uk|fr|cn)\b(?::\d{1,5})?",
            re.IGNORECASE,
        ),
        "[host]",
    ),
    (re.compile(r"\blocalhost\b(?::\d{1,5})?|\b[a-z][\w-]{0,62}:\d{4,5}\b", re.IGNORECASE), "[host]"),
    (re.compile(r"\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{28,}"), "[id]"),
)
"""In this order: what a later pattern would cut in two comes first."""

_NOT_PROSE = re.compile(r"^\s*[\[{(<]|Traceback|\bFile \"|\bat 0x[0-9a-f]+|object at|\b\w+(?:Error|Exception)\(")


def scrub(text: str, secrets: tuple[str, ...] = ()) -> str | None:
    """Return the sentence without what must not leave, or None if it is no prose (a repr, a traceback, markup).

    Args:
        text: words of an upstream or a supervisor; at most the first 500 characters are kept.
        secrets: values that are removed wherever they stand.
    """
    text = text[: 4 * _MAX_CHARS]
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[key]")
    if _NOT_PROSE.search(text):
        return None
    text = " ".join("".join([char if char.isprintable() else " " for char in text]).split())
    for pattern, word in _PATTERNS:
        text = pattern.sub(word, text)
    return text[:_MAX_CHARS] or None
