"""The registry: finds, validates and names cards. A broken card is listed and stops nobody (DS-01)."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from pydantic import ValidationError

from evals.datasets.adapters import ADAPTERS
from evals.datasets.card import Card
from evals.datasets.crossing import JOINERS
from evals.reasons import reason_of
from supervisors.errors import DatasetError

CARDS = Path(str(resources.files("evals.datasets"))) / "cards"
ENTRY_POINTS = "guardrail_proxy.cards"
"""Entry-point group of packages that bring cards: `mine = "my_package"`."""
BUILTIN = Path(str(resources.files("evals.datasets"))) / "builtin"


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry of the registry: a usable card, or why it is broken."""

    id: str
    card: Card | None
    error: str | None = None


def list_cards(folder: Path | None = None) -> tuple[Listed, ...]:
    """List every card by id, broken ones with their reason.

    Args:
        folder: where to look; None takes our own cards and those of installed packages (H-185).
    """
    ours = CARDS if folder is None else folder
    listed = [_read(path) for path in sorted(ours.glob("*.toml"))]
    if folder is None:
        listed += _plugin_cards()
    return tuple(_without_clashes(listed))


def _plugin_cards() -> list[Listed]:
    """List the cards of packages named by entry points: folders of TOML files; no code of theirs is run."""
    listed: list[Listed] = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            spec = find_spec(point.value)
        except (ImportError, ValueError, AttributeError) as error:
            listed.append(Listed(point.name, None, f"entry point {point.value!r} cannot be found: {error}"))
            continue
        folders = list(spec.submodule_search_locations or ()) if spec else []
        paths = [path for folder in folders for path in sorted(Path(folder).glob("*.toml"))]
        listed += [_read(path) for path in paths]
        if not paths:
            listed.append(Listed(point.name, None, f"entry point {point.value!r} is no package with *.toml cards"))
    return listed


def load_card(name: str, folder: Path | None = None) -> Card:
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
        return Listed(path.stem, None, f"cannot be read: {reason_of(error)}")
    if card.id != path.stem:
        return Listed(path.stem, None, f"id {card.id!r} differs from the file's name {path.name!r}")
    known = {*ADAPTERS, *JOINERS}
    if card.adapter and card.adapter not in known:
        return Listed(path.stem, None, f"adapter {card.adapter!r} is none of {sorted(known)}")
    return Listed(card.id, card)


def _without_clashes(listed: Sequence[Listed]) -> list[Listed]:
    """Mark a card broken when one of its aliases already names another set (two benchmarks were called AHB)."""
    owners = {entry.id: entry.id for entry in listed}
    checked: list[Listed] = []
    for position, entry in enumerate(listed):
        if entry.card and any(entry.id == earlier.id for earlier in listed[:position]):
            checked.append(Listed(entry.id, None, f"id {entry.id!r} is taken"))
            continue
        clash = [
            alias for alias in (entry.card.aliases if entry.card else ()) if owners.get(alias, entry.id) != entry.id
        ]
        owners |= {alias: entry.id for alias in (entry.card.aliases if entry.card else ()) if alias not in clash}
        checked.append(
            Listed(entry.id, None, f"alias {clash[0]!r} already names {owners[clash[0]]!r}") if clash else entry
        )
    return checked
