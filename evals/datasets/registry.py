"""The registry: finds, validates and names cards. A broken card is listed and stops nobody (DS-01)."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from evals.datasets.adapters import ADAPTERS
from evals.datasets.card import Card
from supervisors.errors import DatasetError

CARDS = Path(str(resources.files("evals.datasets"))) / "cards"
BUILTIN = Path(str(resources.files("evals.datasets"))) / "builtin"


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry of the registry: a usable card, or why it is broken."""

    id: str
    card: Card | None
    error: str | None = None


def list_cards(folder: Path = CARDS) -> tuple[Listed, ...]:
    """List every card of the folder by id, broken ones with their reason."""
    listed = [_read(path) for path in sorted(folder.glob("*.toml"))]
    return tuple(_without_clashes(listed))


def load_card(name: str, folder: Path = CARDS) -> Card:
    """Return the card with this id, or with this alias: old ids and moved owners resolve (T-24).

    Raises:
        DatasetError: no such card, or the card is broken.
    """
    listed = list_cards(folder)
    for entry in listed:
        if entry.id == name or (entry.card is not None and name in entry.card.aliases):
            if entry.card is None:
                msg = f"card {name!r} is broken: {entry.error}"
                raise DatasetError(msg)
            return entry.card
    msg = f"no data set {name!r}{_guess(name, listed)}; `evals list datasets` shows all"
    raise DatasetError(msg)


def _guess(name: str, listed: Sequence[Listed]) -> str:
    known = [entry.id for entry in listed]
    known += [alias for entry in listed if entry.card for alias in entry.card.aliases]
    near = difflib.get_close_matches(name, known, n=3)
    return f"; did you mean {', '.join(near)}?" if near else ""


def _read(path: Path) -> Listed:
    try:
        card = Card.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        places = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        return Listed(path.stem, None, "; ".join(places))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Listed(path.stem, None, f"cannot be read: {error}")
    if card.id != path.stem:
        return Listed(path.stem, None, f"id {card.id!r} differs from the file's name {path.name!r}")
    if card.adapter and card.adapter not in ADAPTERS:
        return Listed(path.stem, None, f"adapter {card.adapter!r} is none of {sorted(ADAPTERS)}")
    return Listed(card.id, card)


def _without_clashes(listed: Sequence[Listed]) -> list[Listed]:
    """Mark a card broken when one of its aliases already names another set (two benchmarks were called AHB)."""
    owners = {entry.id: entry.id for entry in listed}
    checked: list[Listed] = []
    for entry in listed:
        clash = [
            alias for alias in (entry.card.aliases if entry.card else ()) if owners.get(alias, entry.id) != entry.id
        ]
        owners |= {alias: entry.id for alias in (entry.card.aliases if entry.card else ()) if alias not in clash}
        checked.append(
            Listed(entry.id, None, f"alias {clash[0]!r} already names {owners[clash[0]]!r}") if clash else entry
        )
    return checked
