"""Read a judge's reply strictly: one object with the right nonce and a declared label, or no verdict at all.

The nonce is the proof that the object is the judge's own and not quoted from the text it judged. Only objects at the
outermost level count, so that an inner or quoted object never stands in for the verdict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from supervisors.errors import ReplyError

_KEYS = ("nonce", "label", "score", "categories", "reason")
_STRUCTURE = re.compile(r'[{}\[\]"\\]')
_CLOSES = {"}": "{", "]": "["}


@dataclass(frozen=True, slots=True)
class ReplyRules:
    """Say what a reply has to contain.

    Args:
        nonce: the one sent with this very call.
        labels: the allowed words; nothing else is a label.
        categories: the known names; any other one breaks the contract.
        needs_score: true if the score decides and may not be absent.
    """

    nonce: str
    labels: tuple[str, ...]
    categories: tuple[str, ...] = ()
    needs_score: bool = False


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """Hold what the judge said, in the words of the rules.

    Args:
        label: one of the allowed words, spelled as declared.
        score: risk in 0..1 or None.
        categories: known names, spelled as declared.
        reason: free text, None when absent.
    """

    label: str
    score: float | None = None
    categories: tuple[str, ...] = ()
    reason: str | None = None


def parse_reply(text: str, rules: ReplyRules) -> JudgeReply:
    """Return the verdict in a reply, in linear time.

    The order: the whole reply; the reply inside one code fence; the last balanced object that is valid and carries
    the nonce, if all objects that carry it agree on the label.

    Raises:
        ReplyError: nothing of the kind is there. `detail` says why: ``empty``, ``missing_verdict`` (no object),
            ``truncated``, ``bad_nonce``, ``missing_field``, ``unknown_field``, ``unknown_label``, ``bad_score``,
            ``unknown_category``, ``duplicate_key``, ``bad_json`` or ``contradiction``.
    """
    own = find_objects(text, rules.nonce)
    read = _read(own[-1], rules)
    # A draft that breaks the contract still contradicts: what the judge meant is then open.
    if any(match_word(candidate.get("label"), rules.labels) != read.label for candidate in own):
        msg = "the reply holds several objects that disagree on the label"
        raise ReplyError(msg, detail="contradiction")
    return read


def find_objects(text: str, nonce: str) -> Sequence[Mapping[str, object]]:
    """Return the objects that a reply may mean, the one it says last at the end; that all agree is for the caller.

    The order: the whole reply; the reply inside one code fence; the outermost objects that carry the nonce; without
    any, the last object, which then is not the judge's own.

    Raises:
        ReplyError: there is no object, or one with the nonce cannot be read.
    """
    stripped = text.strip()
    if not stripped:
        msg = "the reply is empty; expected one JSON object"
        raise ReplyError(msg, detail="empty")
    for whole in (stripped, _unfence(stripped)):
        object_ = _load_whole(whole) if whole is not None else None
        if object_ is not None:
            return [object_]
    parts = [_load_part(part, nonce) for part in _outer_objects(stripped)]
    found = [part for part in parts if part is not None]
    if not found:
        msg = "the reply holds no JSON object"
        raise ReplyError(msg, detail="missing_verdict")
    return [candidate for candidate in found if candidate.get("nonce") == nonce] or [found[-1]]


def _unfence(text: str) -> str | None:
    if not (text.startswith("```") and text.endswith("```") and "\n" in text):
        return None
    return text[text.index("\n") : -3]


def _load_whole(text: str) -> Mapping[str, object] | None:
    try:
        return _load(text)
    except ReplyError as error:
        if error.detail == "bad_json":
            return None
        raise


def _load_part(text: str, nonce: str) -> Mapping[str, object] | None:
    try:
        return _load(text)
    except ReplyError:
        if nonce in text:  # meant as the verdict, and unreadable: what it said is then open
            raise
        return None  # braces in prose


def _load(text: str) -> Mapping[str, object]:
    try:
        value: object = json.loads(text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        msg = "the reply is not JSON; expected one JSON object"
        raise ReplyError(msg) from error
    if not isinstance(value, dict):
        msg = f"the reply is a JSON {type(value).__name__}; expected one JSON object"
        raise ReplyError(msg, detail="missing_verdict")
    return cast("dict[str, object]", value)  # JSON objects have string keys


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        msg = "the object has the same key twice"
        raise ReplyError(msg, detail="duplicate_key")
    return found


def _refuse_constant(name: str) -> object:
    msg = f"{name} is not JSON"
    raise ValueError(msg)


def _outer_objects(text: str) -> Iterator[str]:
    """Yield the outermost balanced objects; brackets inside JSON strings, and whatever is inside others, do not count.

    Raises:
        ReplyError: an object or array is still open at the end: the reply was cut, and what is missing may have
            been the verdict.
    """
    opened: list[str] = []
    start = position = 0
    in_string = False
    while (mark := _STRUCTURE.search(text, position)) is not None:
        char, position = mark[0], mark.end()
        if in_string:
            position += char == "\\"  # the escaped character is skipped
            in_string = char != '"'
        elif char in "{[":
            start = start if opened else mark.start()
            opened.append(char)
        elif opened and char == '"':
            in_string = True
        elif opened and _CLOSES.get(char) == opened[-1]:
            opened.pop()
            if not opened and char == "}":
                yield text[start:position]
    if opened:
        msg = "the reply ends inside an object"
        raise ReplyError(msg, detail="truncated")


def check_members(found: Mapping[str, object], nonce: str, keys: Sequence[str]) -> None:
    """Refuse an object without the nonce of its call, or with a member that was not asked for.

    Raises:
        ReplyError: ``missing_field``, ``bad_nonce`` or ``unknown_field``.
    """
    said = found.get("nonce")
    if said != nonce:
        msg = "the nonce is not the one of this call"
        raise ReplyError(msg, detail="missing_field" if said is None else "bad_nonce")
    if not found.keys() <= frozenset(keys):
        msg = f"only the members {', '.join(keys)} are allowed"
        raise ReplyError(msg, detail="unknown_field")


def _read(found: Mapping[str, object], rules: ReplyRules) -> JudgeReply:
    check_members(found, rules.nonce, _KEYS)
    label = match_word(found.get("label"), rules.labels)
    if label is None:
        msg = f"the label is none of {', '.join(rules.labels)}"
        raise ReplyError(msg, detail="unknown_label" if "label" in found else "missing_field")
    score = _read_score(found.get("score"), needed=rules.needs_score)
    return JudgeReply(label, score, _read_categories(found.get("categories"), rules), _read_reason(found.get("reason")))


def match_word(word: object, allowed: Sequence[str]) -> str | None:
    """Find a word by its whole value, ignoring case; case folding of other alphabets could turn ``ſafe`` to safe."""
    if not isinstance(word, str):
        return None
    for known in allowed:
        if word == known or (word.isascii() and word.lower() == known.lower()):
            return known
    return None


def _read_score(score: object, *, needed: bool) -> float | None:
    if score is None and not needed:
        return None
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        msg = "the score is not a number in 0..1"
        raise ReplyError(msg, detail="missing_field" if score is None else "bad_score")
    return float(score)


def _read_categories(named: object, rules: ReplyRules) -> tuple[str, ...]:
    if named is None:
        return ()
    names = cast("list[object]", named) if isinstance(named, list) else [None]
    matched = [match_word(name, rules.categories) for name in names]
    found = [name for name in matched if name is not None]
    if len(found) < len(names):
        msg = f"categories must be a list of known names: {', '.join(rules.categories) or 'none are declared'}"
        raise ReplyError(msg, detail="unknown_category")
    return tuple(dict.fromkeys(found))


def _read_reason(reason: object) -> str | None:
    if reason is not None and not isinstance(reason, str):
        msg = "the reason is not text"
        raise ReplyError(msg, detail="bad_json")
    return reason
