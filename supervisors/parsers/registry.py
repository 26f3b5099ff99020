"""The formats by the name a card uses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from supervisors.parsers.fields import Fields
from supervisors.parsers.objects import JsonFields, JsonPolicy
from supervisors.parsers.reading import Parser
from supervisors.parsers.tags import AnswerTag, LabelTag, ScoreTag
from supervisors.parsers.words import (
    Digit,
    FirstCode,
    Float,
    LastLine,
    ResultBlock,
    SafeUnsafe,
    SpecialToken,
    YesNo,
)

Format = (
    SafeUnsafe
    | YesNo
    | ScoreTag
    | Fields
    | JsonFields
    | LabelTag
    | AnswerTag
    | SpecialToken
    | FirstCode
    | LastLine
    | Digit
    | JsonPolicy
    | ResultBlock
    | Float
)

PARSERS: Mapping[str, type[Format]] = MappingProxyType(
    {
        "safe_unsafe": SafeUnsafe,
        "yes_no": YesNo,
        "score_tag": ScoreTag,
        "fields": Fields,
        "json_fields": JsonFields,
        "label_tag": LabelTag,
        "answer_tag": AnswerTag,
        "special_token": SpecialToken,
        "first_code": FirstCode,
        "last_line": LastLine,
        "digit": Digit,
        "json_policy": JsonPolicy,
        "result_block": ResultBlock,
        "float": Float,
    }
)


def build_parser(name: str, args: Mapping[str, object]) -> Parser:
    """Return the parser a card names, with its arguments checked.

    Raises:
        ValueError: no such parser, or an argument it does not have.
    """
    kind = PARSERS.get(name)
    if kind is None:
        msg = f"unknown parser {name!r}; known are {', '.join(PARSERS)}"
        raise ValueError(msg)
    return kind.model_validate(dict(args))
