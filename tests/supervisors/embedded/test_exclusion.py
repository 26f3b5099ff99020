from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisors.embedded.exclusion import count_shared, find_near, refuse_sisters, word_set
from supervisors.embedded.reading import flatten_texts, read_column, read_json
from supervisors.embedded.sources import SOURCES
from supervisors.errors import DatasetError


def test_words_are_lower_case_letters_only() -> None:
    assert word_set("It's 2 Violet umbrellas, VIOLET!") == {"it", "s", "violet", "umbrellas"}


def test_the_highest_similarity_counts_and_low_ones_are_zero() -> None:  # LG-12 c
    near = find_near(["a violet umbrella", "roses and tulips"], ["violet umbrella", "a violet car"], 0.4)
    assert near == [pytest.approx(2 / 3), 0.0]


def test_a_text_without_words_is_near_nothing() -> None:
    assert find_near(["123", ""], ["456", "violet"], 0.4) == [0.0, 0.0]


def test_one_shared_text_is_counted_and_two_make_a_sister() -> None:  # LG-12 b
    headline = {"made-up": ["Violet  Umbrella", "red car", "blue boat"]}
    assert refuse_sisters("source", ["violet umbrella", "green bike"], headline) == {"made-up": 1}
    with pytest.raises(DatasetError, match="shares 2 texts with the headline set made-up"):
        refuse_sisters("source", ["violet umbrella", "RED car"], headline)


def test_catqa_would_be_refused_as_a_sister_of_bells(data_dir: Path) -> None:  # LG-12 b
    catqa = list(flatten_texts(read_json(data_dir, "catqa-harmfulqa/catqa_english.json")))
    bells = read_column(data_dir, "bells/non_adversarial_prompts.csv", "question")
    assert count_shared(catqa, bells) == 14
    with pytest.raises(DatasetError, match="shares 14 texts"):
        refuse_sisters("catqa", catqa, {"bells": bells})


def test_the_known_sisters_of_profile_clean_share_the_documented_numbers(data_dir: Path) -> None:  # LG-12
    sources = {source.dataset: [row.text for row in source.read(data_dir)] for source in SOURCES}
    rows: Any = read_json(data_dir, "benign-alpacaeval/text_davinci_003_outputs.json")
    instructions = [str(row["instruction"]) for row in rows]
    assert count_shared(sources["benign-vicuna-bench"], instructions) == 80
    beavertails: Any = read_json(data_dir, "beavertails-evaluation/BeaverTails-Evaluation.json")
    assert count_shared(sources["harmfulqa"], [str(row["prompt"]) for row in beavertails]) == 1
