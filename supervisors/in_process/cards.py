"""Cards of guards that run in the process by a library of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from supervisors.shelf import Shelf, check_canonical

Family = Literal["gliguard", "lionguard", "qwen_stream"]


class InProcessCard(BaseModel):
    """How one such guard is loaded, and what its names mean.

    Args:
        name: id used in configs.
        family: which library, and whose answers.
        hub_id: where the weights are published.
        revision: 40 hex digits once known.
        judges: side it was trained to assess.
        threshold: risk from which a text is unsafe, itself included.
        category_threshold: score from which a category counts, itself included.
        categories: canonical categories of each name it uses.
        max_chars: longest text in one call.
        overlap: characters two chunks share.
        embedding_model: whose vectors it reads, for those that read vectors.
        dimensions: of these vectors.
        prefix: put before each text that is turned into a vector.
        licence: for orientation; the model's own page counts.
        gated: the hub asks for acceptance of terms.
        remote_code: code of its repository is run.
        size_mb: size of the weights where known.
        languages: languages it was made for.
        trained_on: data sets it has seen.
        notes: what an operator has to know.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    family: Family
    hub_id: str
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    judges: Literal["prompt", "response", "both"]
    threshold: float = Field(default=0.5, ge=0.0, le=1.0)
    category_threshold: float = Field(default=0.4, ge=0.0, le=1.0)
    categories: Mapping[str, tuple[str, ...]]
    max_chars: int = Field(ge=300)
    overlap: int = Field(default=200, ge=0)
    embedding_model: str = ""
    dimensions: int = Field(default=0, ge=0)
    prefix: str = ""
    licence: str
    gated: bool = False
    remote_code: bool = False
    size_mb: int | None = None
    languages: tuple[str, ...] = ()
    trained_on: tuple[str, ...] = ()
    notes: str = ""

    @model_validator(mode="after")
    def _check(self) -> InProcessCard:
        check_canonical(self.categories.values())
        return self

    def to_canonical(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the canonical categories of names, unknown ones as ``other``, in order of first appearance."""
        return tuple(dict.fromkeys([word for name in names for word in self.categories.get(name, ("other",))]))


_SHELF: Final = Shelf("supervisors.in_process", "cards.toml", "card")


def list_in_process() -> tuple[str, ...]:
    """Return the names of the cards."""
    return _SHELF.names


def resolve_in_process(entry: object) -> object:
    """Turn what `card:` may hold, a name or a mapping with `base:`, into the fields of a card.

    Raises:
        ValueError: an unknown name.
    """
    return _SHELF.resolve(entry)


def load_in_process(name: str) -> InProcessCard:
    """Build a built-in card.

    Raises:
        ValueError: unknown name.
    """
    return InProcessCard.model_validate(resolve_in_process(name))
