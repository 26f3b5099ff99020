from __future__ import annotations

from pathlib import Path

from supervisors.embedded.contamination import ContaminationReport, classify_contamination
from supervisors.embedded.heldout import read_held_out
from supervisors.embedded.items import encode_items
from supervisors.embedded.model import Header, SourceFile, TrainedOn
from supervisors.embedded.shipped import shipped_weights
from supervisors.embedded.sources import SOURCES

CLEAN = shipped_weights().header


def full() -> Header:
    trained = tuple(
        TrainedOn(
            dataset=source.dataset,
            files=tuple(SourceFile(path=path, sha256=sha256) for path, sha256 in source.files),
            items=1,
            role=source.role,
            licence=source.licence,
        )
        for source in SOURCES
    )
    return CLEAN.model_copy(update={"trained_on": trained, "profile": "full"})


def kind(dataset: str, header: Header = CLEAN, *shas: str) -> str:
    return classify_contamination(dataset, shas, ["violet umbrella"], header).kind


def test_with_profile_full_strongreject_was_trained_on_and_bells_is_a_sister() -> None:  # LG-24
    assert kind("strongreject", full()) == "trained_on"
    assert kind("bells", full()) == "sister"


def test_with_profile_clean_neither_is_and_sg_bench_is_a_sister() -> None:  # LG-24
    assert kind("strongreject") == kind("bells") == "clean"
    assert kind("sg-bench") == "sister"


def test_wrapped_bells_prompts_are_a_sister_of_the_wild_jailbreaks() -> None:  # LG-21
    assert kind("bells-wrapped") == kind("bells-wrapped", full()) == "sister"


def test_the_file_decides_whatever_the_set_is_called() -> None:  # LG-23
    sha256 = next(source for source in CLEAN.trained_on if source.dataset == "harmfulqa").files[0].sha256
    found = classify_contamination("renamed", [sha256], [])
    assert (found.kind, found.source) == ("trained_on", "harmfulqa")


def test_shared_items_are_named_by_position() -> None:  # LG-24
    texts = [f"violet umbrella {number}" for number in range(100)]
    items = encode_items([texts[7].upper(), texts[41], texts[99]])
    found = classify_contamination("new-set", [], texts, CLEAN, items)
    assert found == ContaminationReport("overlap", (7, 41, 99), 100)
    assert str(found) == "overlap 3/100"
    assert found.total - len(found.shared) == 97


def test_no_test_text_is_in_the_shipped_list(data_dir: Path) -> None:  # LG-13
    for held in read_held_out(data_dir):
        report = classify_contamination("test", [], held.texts)
        assert (held.name, report.kind) == (held.name, "clean")
