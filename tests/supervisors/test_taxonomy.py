"""Category tables (GU-26)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from supervisors.taxonomy import CANONICAL, NO_TAXONOMY, Category, load_taxonomies


@pytest.mark.parametrize("name", [name for name in load_taxonomies() if name != "own"])
def test_every_code_and_name_maps_to_canonical_ids(name: str) -> None:
    table = load_taxonomies()[name]
    for key, row in table.rows.items():
        assert row.to
        assert set(row.to) <= set(CANONICAL)
        for spelling in (key, *row.name):
            assert table.find(spelling) == row.to
            assert table.find(spelling.upper()) == row.to


def test_versions_two_and_three_of_llama_guard_number_differently() -> None:
    two, three = load_taxonomies()["llama-guard-2"], load_taxonomies()["llama-guard-3"]
    for number in range(5, 12):
        assert two.find(f"S{number}") != three.find(f"S{number}")
    for number in range(1, 5):
        assert two.find(f"S{number}") == three.find(f"S{number}")


def test_a_name_inside_a_longer_one_is_not_taken_for_it() -> None:
    # GP-06
    table = load_taxonomies()["nemotron-23"]
    assert table.find("Sexual (minor)") == ("minors",)
    assert table.find("Sexual") == ("sexual",)
    assert table.find("Sexual things") == ()


def test_unknown_values_become_other_once() -> None:
    table = load_taxonomies()["llama-guard-3"]
    assert table.to_canonical(["S99", "S1", "violet", "S1"]) == ("other", "violence")
    assert NO_TAXONOMY.to_canonical(["Hate", "house rule 3"]) == ("hate", "other")


def test_a_code_with_its_name_is_read_by_the_code() -> None:
    assert load_taxonomies()["md-judge-1"].find("O5: Malicious Use") == ("crime",)


def test_a_table_of_your_own_must_use_canonical_ids() -> None:
    with pytest.raises(ValidationError, match="not a canonical category: viol"):
        Category.model_validate({"to": ["viol"]})
