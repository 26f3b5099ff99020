from __future__ import annotations

from pathlib import Path

import pytest

from evals.datasets import list_cards
from evals.published.shipped import SOURCES, collect, shipped


@pytest.mark.data
def test_the_stored_numbers_are_those_of_the_files(data_dir: Path) -> None:
    if not all((data_dir / name).is_file() for name in SOURCES):
        pytest.skip("not all on disk")
    assert shipped() == collect(data_dir)


def test_every_stored_number_is_a_share_of_a_set_with_a_card() -> None:
    known = {listed.id for listed in list_cards()}
    found = shipped()
    assert len(found) > 300
    assert {one.dataset for one in found} - known == set()
    assert all(0 <= one.value <= 1 for one in found)
