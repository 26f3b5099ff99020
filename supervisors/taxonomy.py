"""Category tables of guards: what a model version prints, mapped to the canonical ids (guards §10)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

CANONICAL = (
    "violence",
    "weapons",
    "cbrn",
    "crime",
    "drugs",
    "fraud",
    "cyber",
    "sexual",
    "sex_crime",
    "minors",
    "hate",
    "harassment",
    "threat",
    "self_harm",
    "privacy",
    "ip",
    "defamation",
    "advice",
    "politics",
    "misinformation",
    "manipulation",
    "extremism",
    "profanity",
    "bias",
    "unethical",
    "jailbreak",
    "injection",
    "prompt_leak",
    "exfiltration",
    "code_abuse",
    "url",
    "ungrounded",
    "off_topic",
    "tool_error",
    "evasive",
    "caution",
    "other",
)
"""Ids used in policies, metrics and redaction placeholders."""


def _check_ids(ids: tuple[str, ...]) -> tuple[str, ...]:
    strange = [name for name in ids if name not in CANONICAL]
    if strange:
        msg = f"not a canonical category: {', '.join(strange)}; known are {', '.join(CANONICAL)}"
        raise ValueError(msg)
    return ids


class Category(BaseModel):
    """One row of a table: further spellings of a key, and the canonical ids it stands for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: tuple[str, ...] = ()
    to: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_check_ids)]


class Taxonomy(BaseModel):
    """The codes and names one model version answers with. GU-26: nothing is lost, unknown ones become ``other``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: Mapping[str, Category]

    def find(self, raw: str) -> tuple[str, ...]:
        """Return the canonical ids of one code or name as printed; empty when it is unknown.

        GP-06: only the whole value counts; the exact spelling goes before the casefolded one. ``S1: Violent
        Crimes`` is read by its code.
        """
        value = raw.strip()
        code = value.partition(":")[0].strip()
        folded = value.casefold()
        for wanted, fold in ((value, False), (code, False), (folded, True), (code.casefold(), True)):
            for key, row in self.rows.items():
                names = [n.casefold() for n in (key, *row.name)] if fold else [key, *row.name]
                if wanted in names:
                    return row.to
        return (folded,) if folded in CANONICAL else ()

    def to_canonical(self, raws: Iterable[str]) -> tuple[str, ...]:
        """Return the ids of all values, deduplicated, in order of first appearance; unknown values give ``other``."""
        return tuple(dict.fromkeys(found for raw in raws for found in self.find(raw) or ("other",)))

    def find_code(self, word: str) -> str | None:
        """Return the key spelled like `word` in any case."""
        folded = word.casefold()
        return next((key for key in self.rows if key.casefold() == folded), None)


NO_TAXONOMY = Taxonomy(rows=MappingProxyType({}))
"""For guards that answer with the words of their own policy: canonical names are known, the rest is ``other``."""


@cache
def load_taxonomies() -> Mapping[str, Taxonomy]:
    """Read the tables of the package by name; ``own`` is the empty one."""
    text = (files("supervisors") / "taxonomies.toml").read_text(encoding="utf-8")
    tables = {name: Taxonomy.model_validate({"rows": rows}) for name, rows in tomllib.loads(text).items()}
    return MappingProxyType({"own": NO_TAXONOMY, **tables})
