"""Log lines: one JSON object each, nothing that breaks out, nothing a library quotes (operations O-23, L-09)."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from proxy.logs import JsonFormatter, LineFormatter

SECRET = "violet umbrella"


def render(
    name: str, message: str, *args: object, error: BaseException | None = None, **fields: object
) -> dict[str, Any]:
    record = logging.LogRecord(name, logging.WARNING, "/x/y/file.py", 7, message, args, None)
    if error is not None:
        record.exc_info = (type(error), error, error.__traceback__)
    vars(record).update(fields)
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    parsed: dict[str, Any] = json.loads(line)
    return parsed


@pytest.mark.parametrize(
    "value", ["a\nb", "\x1b[31mred", "\x9b31m", '"} {"level":"error"', "\u2028", "\ud800", "\x7f", "é"]
)
def test_no_value_breaks_out_of_its_line(value: str) -> None:  # L-09
    shown = render("proxy.line", "constant", model=value)
    assert shown["model"] == value
    assert shown["level"] == "warning"
    assert render("proxy.line", "got %s", value)["message"] == f"got {value}"


def test_fields_keep_their_types_and_are_cut() -> None:
    shown = render(
        "proxy.line", "constant", number=3, flag=True, nothing=None, odd=float("nan"), long="x" * 999, obj=[1]
    )
    assert (shown["number"], shown["flag"], shown["nothing"], shown["odd"], shown["obj"]) == (
        3,
        True,
        None,
        "nan",
        [1],
    )
    assert len(shown["long"]) == 200


@pytest.mark.parametrize("name", ["litellm", "LiteLLM Proxy", "asyncio", "httpx", "py.warnings", "root"])
def test_what_a_library_says_is_withheld(name: str) -> None:  # O-23
    shown = render(name, f"cannot send {SECRET}")
    assert shown["message"] == "withheld: said by file:7"
    assert SECRET not in json.dumps(render(name, "cannot send %s", SECRET))


def test_an_exception_shows_its_kind_and_place_and_not_its_words() -> None:  # O-23
    def fail() -> None:
        raise ValueError(SECRET)

    with pytest.raises(ValueError, match=SECRET) as caught:
        fail()
    shown = render("proxy.app", "bug", error=caught.value)
    assert shown["error"] == "ValueError"
    assert shown["at"][-1].startswith("test_logs.py:")
    assert SECRET not in json.dumps(shown)


def test_an_object_is_json_not_pythons_words_for_it() -> None:
    shown = render("proxy.store", "constant", previous={"boot": "b", "seq": 7, "hash": None}, seconds=0.5)
    assert (shown["previous"], shown["seconds"]) == ({"boot": "b", "seq": 7, "hash": None}, 0.5)


def test_a_person_sees_the_fields_of_a_warning() -> None:
    record = logging.makeLogRecord(
        {"name": "proxy.runtime", "levelname": "WARNING", "msg": "configuration warning", "setting": "policies"}
    )
    assert LineFormatter().format(record) == "warning: configuration warning; setting: policies"
