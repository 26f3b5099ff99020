"""How a record becomes a row: sealed into its chain, its content salted, the columns that queries need beside it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

from proxy.record import Record
from proxy.store.chain import Link, Origin, Sealed, seal, storable
from proxy.store.schema import found_bits


class Sealer:
    """Seals the records of one chain.

    Args:
        origin: whose chain it is.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._salt = hashlib.sha256(secrets.token_bytes(32))
        self._salted = 0

    def seal(self, record: Record, last: Link, config: str | None) -> Sealed:
        """Put a record behind the last one; `config` is the digest of its archived config text."""
        salt = self._next_salt() if record.content is not None else ""
        return seal(record, self._origin, last, config, salt)

    def _next_salt(self) -> str:
        # Unpredictable without asking the kernel for every record.
        self._salted += 1
        salt = self._salt.copy()
        salt.update(self._salted.to_bytes(8, "big"))
        return salt.hexdigest()


def judged_names(body: Mapping[str, Any]) -> list[str]:
    """Return who judged, and who said what, sorted: ``panel/a`` and ``panel/a=unsafe``, for an index over both."""
    found = {str(verdict["supervisor"]) for verdict in body["verdicts"]}
    return sorted(found | {f"{verdict['supervisor']}={verdict['label']}" for verdict in body["verdicts"]})


def to_columns(record: Record, sealed: Sealed) -> tuple[object, ...]:
    """Return the values of `proxy.store.schema.COLUMNS`."""
    body = sealed.body
    mode = body["content"]["mode"] if sealed.content is not None else None
    return (
        body["boot"],
        sealed.link.seq,
        sealed.link.hash,
        storable(record.id),
        storable(record.request_id),
        body["time"],
        storable(record.model),
        found_bits(body),
        sealed.text,
        mode,
        sealed.content,
    )
