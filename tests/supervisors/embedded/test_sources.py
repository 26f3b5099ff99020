from __future__ import annotations

from pathlib import Path

import pytest

from supervisors.embedded.features import norm_text
from supervisors.embedded.heldout import WILD_HELD_OUT, read_calibration, read_held_out
from supervisors.embedded.model import Profile
from supervisors.embedded.prepare import prepare_rows, select_sources
from supervisors.embedded.sources import SOURCES, WILD_CHARS, Source, check_source, split_wild
from supervisors.errors import DatasetError

HEADLINE = {
    *("bells", "nessie", "advbench", "do-not-answer", "harmbench", "salad-mcq", "strongreject", "ailuminate-en", "ape"),
    *("air-bench-2024", "cyberseceval-mitre", "fortress", "ahb", "jailbreakbench", "tdc2023", "forbidden-questions"),
    *("simplesafetytests", "xstest", "notinject-1", "notinject"),
}


def test_no_source_of_profile_clean_is_a_headline_set_or_a_known_sister() -> None:  # LG-10
    names = {source.dataset for source in select_sources("clean")}
    assert not names & (HEADLINE | {"catqa", "adversarialqa", "malicious-instruct", "dangerousqa"})


@pytest.mark.parametrize("profile", ["clean", "full"])
def test_only_permissive_licences_are_used(profile: Profile) -> None:  # LG-13
    assert {source.licence for source in select_sources(profile)} <= {"Apache-2.0", "MIT", "CC-BY-4.0"}


def test_a_file_that_differs_from_its_card_is_refused(tmp_path: Path) -> None:  # LG-13
    (tmp_path / "x.csv").write_text("prompt\nviolet umbrella\n")
    source = Source("made-up", (("x.csv", "0" * 64),), "h+", "MIT", frozenset({"clean"}), lambda _: [])
    with pytest.raises(DatasetError, match=r"x\.csv has sha256 .*, the card of made-up says 000") as caught:
        check_source(source, tmp_path)
    assert caught.value.drifted


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"catqa-harmfulqa/harmfulqa\.json is missing"):
        check_source(next(source for source in SOURCES if source.dataset == "harmfulqa"), tmp_path)


def test_the_sources_have_the_documented_rows(data_dir: Path) -> None:
    rows = {source.dataset: source.read(data_dir) for source in SOURCES}
    counts = {name: len(found) for name, found in rows.items() if name != "own-corpus"}
    assert counts == {
        "harmfulqa": 1960,
        "openai-moderation": 1680,
        "inthewild-jailbreaks": 300,
        "giskard-injections": 35,
        "benign-self-instruct": 427,
        "benign-mt-bench": 80,
        "benign-vicuna-bench": 80,
        "xstest": 450,
        "notinject": 339,
        "dangerousqa": 200,
        "strongreject": 313,
        "simplesafetytests": 100,
    }
    assert sum(row.harm == 1 for row in rows["openai-moderation"]) == 522
    assert sum(row.harm == 0 for row in rows["xstest"]) == 250


def test_the_held_out_sets_have_the_documented_sizes(data_dir: Path) -> None:
    sizes = {held.name: len(held.texts) for held in read_held_out(data_dir)}
    assert [sizes[f"bells/{cut}"] for cut in ("harmful", "borderline", "benign")] == [82, 38, 50]
    assert [sizes[f"bells/wrapped-{cut}"] for cut in ("harmful", "benign")] == [72, 11]
    assert sizes["harmbench"] == 300
    assert len(read_calibration(data_dir)) == 1342  # LG-18


def test_training_and_held_out_jailbreaks_are_disjoint(data_dir: Path) -> None:  # LG-14
    training, held_out = split_wild(data_dir)
    assert len(training) == 300
    assert not {norm_text(text) for text in training} & {norm_text(text) for text in held_out}


def test_a_jailbreak_that_differs_from_a_held_out_one_only_at_its_far_end_is_dropped(data_dir: Path) -> None:
    held_out = read_held_out(data_dir)
    rows = prepare_rows(data_dir, "clean", held_out, []).rows
    wild = next(held for held in held_out if held.dataset == WILD_HELD_OUT)
    assert not {row.text for _, row in rows} & {text[:WILD_CHARS] for text in wild.texts}
