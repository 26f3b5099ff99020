"""Any HTTP service with a verdict in its JSON: `use: http_guard` (guards §8.7, generic)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, cast

from pydantic import Field, model_validator

from supervisors.hosted.judging import Finding, JudgedTexts, Request, judge_texts
from supervisors.hosted.pieces import Piece
from supervisors.hosted.replies import Broken, iterate_strings, to_number
from supervisors.secret import Secret
from supervisors.taxonomy import load_taxonomies
from supervisors.types import Context, Exchange, Label, Verdict

_SLOT = "{text}"
_POINTER = r"^(/.*)?$"


class HttpGuard(JudgedTexts):
    """Ask a service that you describe: where it is, what it is sent, where in its reply the verdict stands.

    Args:
        url: full address.
        body: JSON that is sent; every string ``{text}`` in it becomes the judged text.
        api_key: sent as a bearer token, or in `api_key_header`.
        api_key_header: name of the header for the key.
        headers: further headers, without secrets.
        verdict: JSON pointer to the verdict.
        unsafe: values that mean unsafe; numbers and booleans are compared as JSON writes them.
        safe: values that mean safe; a value in neither list is no verdict.
        score: JSON pointer to a risk in 0..1.
        categories: JSON pointer to a name or a list of names.
    """

    use: Literal["http_guard"] = "http_guard"
    url: str = Field(pattern=r"^https?://")
    body: Mapping[str, Any] = Field(min_length=1)
    api_key: Secret | None = None
    api_key_header: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]+$")
    headers: Mapping[str, str] = Field(default_factory=dict)
    verdict: str = Field(pattern=_POINTER)
    unsafe: tuple[str, ...] = Field(min_length=1)
    safe: tuple[str, ...] = Field(min_length=1)
    score: str | None = Field(default=None, pattern=_POINTER)
    categories: str | None = Field(default=None, pattern=_POINTER)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if _SLOT not in iterate_strings(self.body):
            msg = "body has no string '{text}' for the judged text"
            raise ValueError(msg)
        both = {word.casefold() for word in self.unsafe} & {word.casefold() for word in self.safe}
        if both:
            msg = f"{', '.join(sorted(both))} is both safe and unsafe"
            raise ValueError(msg)
        if self.api_key_header is not None and self.api_key is None:
            msg = "api_key_header has no effect without api_key"
            raise ValueError(msg)
        return self

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Judge every selected text."""
        return await judge_texts(self, self, exchange, context)

    def write(self, pieces: Sequence[Piece]) -> Request:
        """Write the body with the text in its places."""
        key: dict[str, str] = {}
        if self.api_key is not None:
            name = (self.api_key_header or "authorization").lower()
            key = {name: self.api_key.value if self.api_key_header else f"Bearer {self.api_key.value}"}
        return Request(self.url, _fill(self.body, pieces[0].text), {**self.headers, **key})

    def read(self, answer: object, pieces: Sequence[Piece]) -> Sequence[Finding]:
        """Read the verdict as a whole value, in any case of letters."""
        word = _to_word(_point(answer, self.verdict))
        bad = word in [value.casefold() for value in self.unsafe]
        if not bad and word not in [value.casefold() for value in self.safe]:
            raise Broken("unknown_label" if word else "missing_verdict")
        risk = to_number(_point(answer, self.score)) if self.score is not None else float(bad)
        extras: dict[str, object] = {"score_kind": "label" if self.score is None else "probability"}
        if not bad:
            return [Finding(Verdict(Label.SAFE, score=risk, extras=extras))]
        raw = _to_names(_point(answer, self.categories)) if self.categories is not None else ()
        if raw:
            extras["raw_categories"] = list(raw)
        found = load_taxonomies()["own"].to_canonical(raw)
        return [Finding(Verdict(Label.UNSAFE, score=risk, categories=found, extras=extras))]


def _fill(value: object, text: str) -> object:
    """Put the text in place of every string that is the slot as a whole: nothing is pasted into another string."""
    if isinstance(value, Mapping):
        return {key: _fill(member, text) for key, member in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_fill(entry, text) for entry in cast("Sequence[object]", value)]
    return text if value == _SLOT else value


def _point(value: object, pointer: str) -> object:
    """Follow a JSON pointer; None where there is nothing."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = cast("Mapping[str, object]", value).get(name)
        elif isinstance(value, list) and name.isascii() and name.isdigit():
            entries = cast("list[object]", value)
            value = entries[int(name)] if len(name) < 9 and int(name) < len(entries) else None
        else:
            return None
    return value


def _to_word(value: object) -> str:
    """Return a scalar as JSON writes it, casefolded; empty for anything else."""
    if isinstance(value, str):
        return value.strip().casefold()
    return json.dumps(value) if isinstance(value, bool | int | float) else ""


def _to_names(value: object) -> tuple[str, ...]:
    entries = cast("list[object]", value) if isinstance(value, list) else [value]
    return tuple([entry for entry in entries if isinstance(entry, str)])
