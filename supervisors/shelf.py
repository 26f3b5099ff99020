"""Cards that are kept in a file of the package: their names, and what one inherits from another."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import cast

from supervisors.nearest import candidates
from supervisors.taxonomy import CANONICAL


@dataclass(frozen=True)
class Shelf:
    """The cards of one kind; read at first use.

    Args:
        package: that holds the file.
        file: its name.
        kind: what such a card is called in messages.
    """

    package: str
    file: str
    kind: str

    @cached_property
    def _raw(self) -> Mapping[str, Mapping[str, object]]:
        text = (files(self.package) / self.file).read_text(encoding="utf-8")
        return MappingProxyType(tomllib.loads(text))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the cards."""
        return tuple(self._raw)

    def resolve(self, entry: object) -> object:
        """Turn what `card:` may hold, a name or a mapping with `base:`, into the fields of a card.

        Raises:
            ValueError: an unknown name.
        """
        if isinstance(entry, str):
            return {"name": entry, **self._inherit(entry)}
        if not isinstance(entry, Mapping):
            return entry
        fields = dict(cast("Mapping[str, object]", entry))
        base = fields.pop("base", None)
        return {"name": "inline", **fields} if base is None else {"name": base, **self._inherit(str(base)), **fields}

    def _inherit(self, name: str) -> dict[str, object]:
        fields = self._raw.get(name)
        if fields is None:
            near = " or ".join([repr(one) for one in candidates(name, self.names)])
            meant = f"did you mean {near}? " if near else ""
            msg = f"unknown {self.kind} {name!r}; {meant}built in are {', '.join(self.names)}"
            raise ValueError(msg)
        own = dict(fields)
        base = own.pop("base", None)
        return {**self._inherit(str(base)), **own} if base is not None else own


def check_canonical(categories: Iterable[Iterable[str]]) -> None:
    """Refuse categories that are none of ours.

    Raises:
        ValueError: says which, and which there are.
    """
    odd = [word for words in categories for word in words if word not in CANONICAL]
    if odd:
        msg = f"not a canonical category: {', '.join(odd)}; known are {', '.join(CANONICAL)}"
        raise ValueError(msg)
