"""Cards of guards in the process (GU-04, GU-26)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from supervisors.in_process.cards import InProcessCard, list_in_process, load_in_process, resolve_in_process
from supervisors.taxonomy import CANONICAL


@pytest.mark.parametrize("name", list_in_process())
def test_every_card_is_whole_and_maps_each_name(name: str) -> None:
    card = load_in_process(name)
    assert card.name == name
    assert card.revision is None  # PL-07: never invented
    assert all(words and set(words) <= set(CANONICAL) for words in card.categories.values())
    assert (card.dimensions > 0) == bool(card.embedding_model)


def test_the_three_heads_read_the_vectors_of_their_own_models() -> None:
    found = {name: load_in_process(name) for name in list_in_process() if name.startswith("lionguard")}
    assert {name: (card.embedding_model, card.dimensions) for name, card in found.items()} == {
        "lionguard-2": ("text-embedding-3-large", 3072),
        "lionguard-2.1": ("gemini-embedding-001", 3072),
        "lionguard-2-lite": ("google/embeddinggemma-300m", 768),
    }
    assert found["lionguard-2-lite"].prefix == "task: classification | query: "
    assert found["lionguard-2"].prefix == ""


def test_a_mapping_changes_what_it_names_and_nothing_of_its_base() -> None:
    own = InProcessCard.model_validate(resolve_in_process({"base": "lionguard-2", "threshold": 0.5}))
    assert (own.name, own.threshold, load_in_process("lionguard-2").threshold) == ("lionguard-2", 0.5, 0.85)


def test_unknown_names_go_to_other_and_mistakes_are_named() -> None:
    card = load_in_process("gliguard")
    assert card.to_canonical(("pii_exposure", "violet", "privacy_violation")) == ("privacy", "other")
    with pytest.raises(ValueError, match="unknown card 'violet'"):
        load_in_process("violet")
    with pytest.raises(ValidationError, match="not a canonical category: violet"):
        InProcessCard.model_validate(resolve_in_process({"base": "gliguard", "categories": {"x": ["violet"]}}))
