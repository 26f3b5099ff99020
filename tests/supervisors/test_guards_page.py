"""docs/guards.md says what the code does: every card and option is there, every block of it is valid."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import cast

import pytest
import yaml

from supervisors.card import Card, list_cards, load_card
from supervisors.guard import Guard, ModelGuard
from supervisors.moderation import Moderation
from supervisors.parsers.registry import PARSERS
from supervisors.secret import Secret

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "guards.md").read_text(encoding="utf-8")
OWN = (DOCS / "writing-supervisors.md").read_text(encoding="utf-8").partition("## A supervisor in ten lines")[0]
BLOCKS = re.findall(r"^```(\w+)[^\n]*\n(.*?)^```$", PAGE + OWN, re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [text for found, text in BLOCKS if found == kind]


@pytest.mark.parametrize("name", list_cards())
def test_every_card_has_its_row(name: str) -> None:
    card = load_card(name)
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    assert f"| {card.hub_id or '–'} |" in row
    assert f"| {card.route} | `{card.parser}` |" in row


def test_every_option_and_format_is_described() -> None:
    options = PAGE.partition("## Options of `use: guard`")[2].partition("## Servers")[0]
    for name in ModelGuard.model_fields:
        assert f"`{name}`" in options or name == "use"
    moderation = PAGE.partition("## Options of `use: moderation`")[2]
    for name in Moderation.model_fields:
        assert f"`{name}`" in moderation or name == "use"
    for name, parser in PARSERS.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
        assert all(f"`{argument}" in row for argument in parser.model_fields)


@pytest.mark.parametrize("text", blocks("yaml"))
def test_every_config_block_builds_its_supervisors(text: str) -> None:
    entries = cast("dict[str, dict[str, dict[str, object]]]", yaml.safe_load(text))["supervisors"]
    assert entries
    for entry in entries.values():
        resolved = {**entry, "api_key": Secret("env:K", "k")} if "api_key" in entry else entry
        kind = Guard if entry["use"] == "guard" else Moderation
        assert hasattr(kind.model_validate(resolved), "assess")


@pytest.mark.parametrize("text", blocks("toml"))
def test_every_card_block_is_a_card(text: str) -> None:
    for name, fields in tomllib.loads(text).items():
        assert Card.model_validate({"name": name, **fields}).name == name


def test_there_are_blocks_of_every_kind() -> None:
    assert all(blocks(kind) for kind in ("yaml", "toml", "python"))


@pytest.mark.parametrize("text", blocks("python"))
def test_every_python_block_runs_and_holds_what_it_says(text: str) -> None:
    assert re.search(r"^(?:    )?assert ", text, re.MULTILINE), "a block says what comes of it"
    exec(compile(text, "docs/guards.md", "exec"), {})  # noqa: S102 - the documentation's own code
