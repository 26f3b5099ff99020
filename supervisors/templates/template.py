"""Built-in request templates: a text with slots. No template engine runs on judged text (GU-19)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

_SLOT = re.compile(r"\{\{([a-z_]+)\}\}")
_SLOTS = (
    "prompt",
    "response",
    "conversation",
    "text",
    "categories",
    "policy",
    "criterion",
    "criterion_name",
    "mode",
    "side",
    "unsafe_word",
    "safe_word",
)

_MARKS = (
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<</SYS>>",
    "<s>",
    "</s>",
    "<bos>",
    "<eos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<guardian>",
    "</guardian>",
    "<BEGIN UNSAFE CONTENT CATEGORIES>",
    "<END UNSAFE CONTENT CATEGORIES>",
    "<BEGIN CONVERSATION>",
    "<END CONVERSATION>",
)
_SPECIAL = r"<\|[^|<>\n]{1,60}\|>"
_BREAK = "\u200b"


class Shape(BaseModel):
    """The texts of a request for one side; `text` is for the completions route, the others for chat."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    system: str = ""
    user: str = ""
    text: str = ""

    @model_validator(mode="after")
    def _check(self) -> Shape:
        if bool(self.text) == bool(self.user):
            msg = "a shape has either 'text' (completions) or 'user' (chat)"
            raise ValueError(msg)
        for name in _SLOT.findall(self.system + self.user + self.text):
            if name not in _SLOTS:
                msg = f"unknown slot {{{{{name}}}}}; known are {', '.join(_SLOTS)}"
                raise ValueError(msg)
        return self


class Template(BaseModel):
    """How a request is written.

    Args:
        layout: ``slots`` puts the texts into the user message; ``conversation`` sends the turns as messages and
            the template's user text after them.
        marks: closing marks of this template; inside judged text they are broken.
        user_name: name of the user in a transcript.
        assistant_name: name of the assistant in a transcript.
        label_single: name the speaker of a transcript that is one user turn.
        empty_response: what stands in the response slot when only the prompt is judged.
        prompt: texts when a prompt is judged.
        response: texts when a response is judged.
        both: texts for both sides.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    layout: Literal["slots", "conversation"] = "slots"
    marks: tuple[str, ...] = ()
    user_name: str = "User"
    assistant_name: str = "Assistant"
    label_single: bool = True
    empty_response: str = ""
    prompt: Shape | None = None
    response: Shape | None = None
    both: Shape | None = None

    @model_validator(mode="after")
    def _check(self) -> Template:
        if any(mark[:1] not in ("<", "[") for mark in self.marks):
            msg = f"a mark begins with < or [, unlike {self.marks}"
            raise ValueError(msg)
        if (self.both is None) == (self.prompt is None) or (self.prompt is None) != (self.response is None):
            msg = "a template has 'both', or 'prompt' and 'response'"
            raise ValueError(msg)
        return self

    def has_slot(self, name: str) -> bool:
        """Say whether some text of this template takes the value `name`."""
        shapes = [shape for shape in (self.prompt, self.response, self.both) if shape is not None]
        return any(f"{{{{{name}}}}}" in shape.system + shape.user + shape.text for shape in shapes)

    def shape(self, side: Literal["prompt", "response"]) -> Shape:
        """Return the texts for a side."""
        found = self.both or (self.prompt if side == "prompt" else self.response)
        assert found is not None, "checked at load"  # noqa: S101 - narrows the type
        return found

    @property
    def route(self) -> Literal["chat", "completions"]:
        """Return the API this template is written for."""
        return "completions" if self.shape("prompt").text else "chat"

    @cached_property
    def mark_pattern(self) -> re.Pattern[str]:
        """Return the pattern of everything that must not stand in judged text."""
        return compile_marks(self.marks)


@cache
def compile_marks(marks: tuple[str, ...] = ()) -> re.Pattern[str]:
    """Return the pattern of the beginning of special tokens, the usual closing marks, and `marks`.

    Args:
        marks: further marks; each begins with ``<`` or ``[``.
    """
    words = sorted({*_MARKS, *marks}, key=len, reverse=True)
    # The first character only, with the rest looked at: a mark may begin inside another one.
    return re.compile(f"(?=(?:{'|'.join([_SPECIAL, *[re.escape(word) for word in words]])}))[<\\[]", re.IGNORECASE)


def neutralise(text: str, pattern: re.Pattern[str]) -> tuple[str, int]:
    """Break every mark by U+200B after its first character and count them (GU-19)."""
    return pattern.subn(lambda match: match.group() + _BREAK, text)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values into slots in one pass: braces inside a value stay as they are."""
    return _SLOT.sub(lambda match: values.get(match.group(1), match.group()), text)


@cache
def load_templates() -> Mapping[str, Template]:
    """Read the templates of the package by name."""
    found: dict[str, Template] = {}
    for file in sorted((files("supervisors") / "templates").iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".toml"):
            content = tomllib.loads(file.read_text(encoding="utf-8"))
            found[file.name.removesuffix(".toml")] = Template.model_validate(content)
    return MappingProxyType(found)
