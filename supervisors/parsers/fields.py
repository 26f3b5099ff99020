"""The format of lines ``Key: value``, with a verdict a side."""

from __future__ import annotations

import re
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from supervisors.parsers.reading import Asked, Pair, Reading, Side, Unreadable, judge_sides, spell, split_list

_EMPHASIS = " \t*`"
_FALLBACK_CHARS = 300


class Fields(BaseModel):
    """Lines ``Key: value`` in any order.

    Args:
        prompt: key of the verdict on the prompt.
        response: key of the verdict on the response; may be the same.
        safe: values that mean safe.
        unsafe: values that mean unsafe.
        controversial: values between the two; their wording is kept as severity.
        refusal: key that says whether the response declines.
        prompt_categories: key of the categories of a prompt.
        response_categories: key of the categories of a response.
        after: only what follows the line that begins with this word is read, two such lines contradict each other
            (GP-03); without one, the last 300 characters are read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: str
    response: str
    safe: tuple[str, ...] = Field(min_length=1)
    unsafe: tuple[str, ...] = Field(min_length=1)
    controversial: tuple[str, ...] = ()
    refusal: str = ""
    prompt_categories: str = ""
    response_categories: str = ""
    after: str = ""

    pair: ClassVar[Pair | None] = None
    short: ClassVar[bool] = False
    keeps_marks: ClassVar[bool] = False

    def read(self, text: str, asked: Asked) -> Reading:
        """Read the verdict line of the judged side; the other side never stands in for it (GU-03)."""
        body, prose = self._body(text)
        folded = body.casefold()
        for key in {self.prompt.casefold(), self.response.casefold()}:
            if len(re.findall(rf"(?<!\w){re.escape(key)}[ \t*`]*:", folded)) > 1:
                raise Unreadable("contradiction")
        values, stray = self._collect(body, prose=prose)
        stated: dict[Side, str | None] = {
            "prompt": values.get(self.prompt.casefold()),
            "response": values.get(self.response.casefold()),
        }
        found = judge_sides(stated, spell(self.unsafe, self.safe, self.controversial), asked.side)
        listed = self.prompt_categories if asked.side == "prompt" else self.response_categories
        two_sided = self.prompt.casefold() != self.response.casefold()
        return Reading(
            found[asked.side] or "unsafe",
            not stray,
            split_list(values.get(listed.casefold(), "")),
            refusal=self._refusal(values) if asked.side == "response" else None,
            severity=stated[asked.side] if self.controversial else None,
            prompt=found["prompt"] if two_sided else None,
            response=found["response"] if two_sided else None,
        )

    def _body(self, text: str) -> tuple[str, bool]:
        """Return the text to read and whether prose may precede its first field."""
        if not self.after:
            return text, False
        lines = text.split("\n")
        word = self.after.casefold()
        starts = [i for i, line in enumerate(lines) if line.strip(_EMPHASIS + "#").casefold().startswith(word)]
        if not starts:
            return text[-_FALLBACK_CHARS:], True
        if len(starts) > 1:
            raise Unreadable("contradiction")
        return "\n".join([lines[starts[0]].partition(":")[2], *lines[starts[0] + 1 :]]), False

    def _collect(self, body: str, *, prose: bool) -> tuple[dict[str, str], bool]:
        """Return values by casefolded key, and whether any other text was there."""
        known = {
            key.casefold()
            for key in (self.prompt, self.response, self.refusal, self.prompt_categories, self.response_categories)
            if key
        }
        values: dict[str, str] = {}
        stray = False
        for line in body.split("\n"):
            left, colon, right = line.partition(":")
            key = left.strip(_EMPHASIS).casefold()
            if colon and key in known and key not in values:
                values[key] = right.strip(_EMPHASIS)
            elif line.strip(_EMPHASIS) and (values or not prose):
                stray = True
        return values, stray

    def _refusal(self, values: dict[str, str]) -> bool | None:
        value = values.get(self.refusal.casefold(), "").casefold()
        if value in ("yes", "refusal"):
            return True
        return False if value in ("no", "compliance") else None
