"""Patterns for credentials that must not leave: keys of known shape, tokens, key blocks, passwords in prose.

Sources: the key formats as their issuers document them (AWS, GitHub, OpenAI, Anthropic, Slack, Google, Stripe),
RFC 7468 for key blocks, RFC 7519 for JWT. Every pattern is bounded, so that a stream knows how much to hold back.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from supervisors.offsets import Place
from supervisors.patterns import Pattern, built_in

_PASSWORD_WORDS = (
    "pass(?:word|wd|phrase|code)?|pwd|secret|api[ _-]?key|access[ _-]?key|auth[ _-]?token|private[ _-]?key"  # noqa: S105 - the words, not a password
)
_PLACEHOLDERS = frozenset(
    (
        "password",
        "passwd",
        "secret",
        "none",
        "null",
        "true",
        "false",
        "your",
        "required",
        "optional",
        "string",
        "changeme",
    )
)

_KEY_LABEL = "(?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?"
_KEY_CHARS = 4096
_JWT_CHARS = 2048
_LONG = frozenset(("secrets.jwt", "secrets.private_key"))


@lru_cache(maxsize=1)
def secret_patterns() -> tuple[Pattern, ...]:
    """Return the patterns of the preset ``secrets``, compiled once."""
    return (
        built_in("secrets.aws_access_key", r"\b((?:AKIA|ASIA)[A-Z0-9]{16})\b", 20),
        built_in(
            "secrets.aws_secret_key",
            r"(?i:aws)[^\n]{0,20}(?i:secret|key)[^\n]{0,20}?[^A-Za-z0-9/+]([A-Za-z0-9/+]{40})(?:$|[^A-Za-z0-9/+=])",
            90,
            check=_mixed,
        ),
        built_in(
            "secrets.github_token", r"\b(gh[opsur]_[A-Za-z0-9]{36,76}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b", 93
        ),
        built_in("secrets.gitlab_token", r"\b(glpat-[A-Za-z0-9_-]{20,64})\b", 70),
        built_in("secrets.npm_token", r"\b(npm_[A-Za-z0-9]{36})\b", 40),
        built_in("secrets.huggingface_token", r"\b(hf_[A-Za-z0-9]{34,40})\b", 43),
        built_in(
            "secrets.url_password",
            r"\b([a-z][a-z0-9+.-]{2,14}://[A-Za-z0-9._~%-]{1,32}:[^\s:@/\"'<>{}$]{4,48}@)[A-Za-z0-9.-]",
            100,
            check=_url_password,
        ),
        built_in("secrets.openai_key", r"\b(sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,180})", 190, check=_mixed),
        built_in("secrets.anthropic_key", r"\b(sk-ant-[A-Za-z0-9_-]{20,140})", 147, check=_mixed),
        built_in("secrets.slack_token", r"\b(xox[abeoprs]-[A-Za-z0-9-]{10,120})", 125, check=_mixed),
        built_in(
            "secrets.slack_webhook",
            r"(hooks\.slack\.com/services/T[A-Z0-9]{6,12}/B[A-Z0-9]{6,14}/[A-Za-z0-9]{20,30})",
            90,
        ),
        built_in("secrets.google_key", r"\b(AIza[A-Za-z0-9_-]{35})", 39),
        built_in("secrets.stripe_key", r"\b([rs]k_(?:live|test)_[A-Za-z0-9]{16,100})\b", 108),
        built_in(
            "secrets.jwt",
            r"\b(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)",
            _JWT_CHARS,
            check=_jwt,
        ),
        built_in(
            "secrets.private_key",
            rf"(-----BEGIN {_KEY_LABEL}-----(?:\s|\\[nr])*(?:[A-Za-z-]{{1,30}}: [^\n]{{0,60}}\s+){{0,3}}"
            rf"[A-Za-z0-9+/=]{{16,}}(?:[A-Za-z0-9+/=\s]|\\[nr])*(?:-----END {_KEY_LABEL}-----)?)",
            _KEY_CHARS,
            check=_key_block,
        ),
        built_in(
            "secrets.password",
            rf"(?:^|[^A-Za-z0-9])((?i:{_PASSWORD_WORDS})(?: ?(?:[=:]|:=|=>) ?| is )"
            r"[\"'`]?[^\s\"'`,;<>(){}\[\]]{4,64})",
            96,
            check=_password_value,
        ),
    )


@lru_cache(maxsize=1)
def token_patterns() -> tuple[Pattern, ...]:
    """Return the patterns of the preset ``tokens``: those of ``secrets`` that hold a stream back only a little."""
    return tuple([pattern for pattern in secret_patterns() if pattern.name not in _LONG])


def _mixed(text: str) -> Iterator[Place]:
    """Accept keys only: letters and digits together, not a word with hyphens."""
    if any(map(str.isdigit, text)) and any(map(str.isalpha, text)):
        yield Place(0, len(text))


def _url_password(text: str) -> Iterator[Place]:
    """Accept an address with a password, not with a word that stands for one."""
    value = text.rpartition("@")[0].rpartition(":")[2].lower()
    if value not in _PLACEHOLDERS and not value.startswith(("xxx", "***", "%")):
        yield Place(0, len(text))


def _jwt(text: str) -> Iterator[Place]:
    yield Place(0, min(len(text), _JWT_CHARS))


def _key_block(text: str) -> Iterator[Place]:
    yield Place(0, min(len(text), _KEY_CHARS))


def _password_value(text: str) -> Iterator[Place]:
    """Accept a password with its value, and neither a placeholder nor a variable.

    ``password=abcd`` is taken at its word. Where there are spaces ("the password is wrong", ``pwd: expected``), which
    is prose or code, the value must be quoted or hold a digit or sign.
    """
    lower = text.lower()
    prose = " is " in lower
    sign = lower.index(" is ") + 3 if prose else min(_cut(text, "="), _cut(text, ":"))
    value = text[sign:].lstrip(">=: ").rstrip(".!?")
    plain = value.lstrip("\"'`")
    if plain.lower() in _PLACEHOLDERS or plain.startswith(("$", "%", "*", "os.", "self.", "process.", "getenv")):
        return
    loose = prose or " " in text[sign - 1 : sign + 2]
    if len(plain) >= 4 and not (loose and value == plain and plain.replace("_", "").isalpha()):
        yield Place(0, len(text.rstrip(".!?")))


def _cut(text: str, sign: str) -> int:
    at = text.find(sign)
    return len(text) if at < 0 else at
