"""Loading by card: drift, absence, the registry, refusals. All files are made up."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from evals.datasets import (
    how_to_obtain,
    list_cards,
    load,
    load_card,
    read_dataset,
    requires_labels,
    requires_negatives,
    state,
    verify,
)
from evals.datasets.card import Card
from evals.datasets.load import constant_columns, describe_pin
from evals.types import Truth
from supervisors.errors import DatasetError

BODY = b"goal,target\nviolet umbrella,Sure: one\ngreen kettle,Sure: two\n"
SWAPPED = b"target,goal\nviolet umbrella,Sure: one\ngreen kettle,Sure: two\n"


def toy(**more: object) -> Card:
    pin = {
        "name": "toy/toy.csv",
        "sha256": [hashlib.sha256(BODY).hexdigest()],
        "rows": 2,
        "container": "csv",
        "columns": ["goal", "target"],
    }
    facts = {
        "id": "toy",
        "title": "Toy",
        "licence": "MIT",
        "licence_class": "A",
        "source": {"kind": "local"},
        "columns": {"prompt": ["goal"]},
        "label": {"rule": "constant", "value": "harmful", "meaning": "all", "counts": {"harmful": 2}},
        "check": {"column": "target", "starts_with": "Sure", "share": 0.95},
        "files": [pin | {key: more.pop(key) for key in list(more) if key in pin}],
        "partner": "xstest",
    }
    return Card.model_validate(facts | more)


def place(folder: Path, body: bytes) -> Path:
    (folder / "toy").mkdir()
    (folder / "toy" / "toy.csv").write_bytes(body)
    return folder


def test_a_file_as_pinned_loads(tmp_path: Path) -> None:
    loaded = read_dataset(toy(), place(tmp_path, BODY))
    assert [item.prompt for item in loaded.items] == ["violet umbrella", "green kettle"]
    assert loaded.drifts == ()
    assert state(toy(), tmp_path) == "present"
    assert verify(toy(), tmp_path).reason == "as pinned"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sha256": ["0" * 64]}, "sha256"),
        ({"rows": 3}, "rows"),
        ({"columns": ["goal", "target", "id"]}, "columns"),
        ({"label": {"rule": "constant", "value": "harmful", "meaning": "m", "counts": {"harmful": 3}}}, "label count"),
        ({"check": {"column": "target", "starts_with": "Yes", "share": 0.95}}, "share of 'target'"),
    ],
)
def test_whatever_differs_from_the_card_is_named(tmp_path: Path, change: dict[str, object], field: str) -> None:
    with pytest.raises(DatasetError, match=field) as caught:  # DS-02
        read_dataset(toy(**change), place(tmp_path, BODY))
    assert caught.value.drifted


def test_accepted_drift_loads_and_is_reported(tmp_path: Path) -> None:  # DS-02
    loaded = read_dataset(toy(rows=3), place(tmp_path, BODY), accept_drift=True)
    assert len(loaded.items) == 2
    assert [str(drift) for drift in loaded.drifts] == ["toy: toy/toy.csv: rows is 2, expected 3"]


def test_a_swapped_header_is_refused_twice(tmp_path: Path) -> None:  # T-10
    found = verify(toy(), place(tmp_path, SWAPPED))
    assert found.state == "drifted"
    assert {drift.field for drift in found.drifts} == {"sha256", "share of 'target' starting with 'Sure'"}
    assert state(toy(), tmp_path) == "drifted"


def test_a_malformed_file_is_drifted_with_the_reason(tmp_path: Path) -> None:
    found = verify(toy(sha256=[]), place(tmp_path, b"goal,target\n1,2,3\n"))
    assert found.state == "drifted"
    assert "record 0 has 3 cells" in found.reason


def test_an_absent_file_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="place ") as caught:
        read_dataset(toy(), tmp_path)
    assert not caught.value.drifted
    assert f"missing toy/toy.csv in {tmp_path}; place {tmp_path / 'toy' / 'toy.csv'} (source: local)" in str(
        caught.value
    )
    assert str(caught.value).endswith("or --data-dir / $GUARDRAIL_DATA")
    assert state(toy(), tmp_path) == "missing"
    assert state(toy(gated="https://example.org/terms"), tmp_path) == "gated"
    assert "accept the terms at https://example.org/terms" in how_to_obtain(toy(gated="https://example.org/terms"))
    assert how_to_obtain(load_card("advbench")) == "evals data fetch advbench"
    assert how_to_obtain(load_card("bells")) == "evals data fetch bells --accept-licence bells"
    said = how_to_obtain(load_card("advbench"), Path("my data"))
    assert said == "evals data fetch advbench --data-dir 'my data'"
    assert how_to_obtain(load_card("biotier")) == "no public data exist"


def test_a_file_to_be_placed_is_named_with_its_path_in_the_source_and_on_disk() -> None:
    one = how_to_obtain(load_card("agentharm"))
    assert one == "place data/agentharm/test_public.json (source: hub ai-safety-institute/AgentHarm @ e23b3fe6)"
    assert "place data/anima/questions.jsonl" in how_to_obtain(load_card("anima"))
    assert "3 more, all named by `evals data show adaptive-attacks`" in how_to_obtain(load_card("adaptive-attacks"))
    card = load_card("bells")
    named = [describe_pin(card, pin, Path("here")) for pin in card.files]
    assert named[1] == "data/adversarial_prompts.csv as here/bells/adversarial_prompts.csv"


def test_a_broken_card_is_listed_and_stops_nobody(tmp_path: Path) -> None:  # DS-01
    good = 'id = "good"\ntitle = "G"\nlicence = "MIT"\nlicence_class = "A"\naliases = ["old"]\n'
    good += '[source]\nkind = "local"\n[label]\nrule = "none"\nmeaning = "m"\n'
    (tmp_path / "good.toml").write_text(good)
    (tmp_path / "typo.toml").write_text(good.replace('"good"', '"typo"').replace("title", "titel"))
    (tmp_path / "torn.toml").write_text("id = ")
    (tmp_path / "moved.toml").write_text(good)
    (tmp_path / "zlash.toml").write_text(good.replace('id = "good"', 'id = "zlash"'))
    listed = {entry.id: entry.error for entry in list_cards(tmp_path)}
    assert listed["good"] is None
    assert "titel: Extra inputs are not permitted" in str(listed["typo"])
    assert "cannot be read" in str(listed["torn"])
    assert "differs from the file's name" in str(listed["moved"])
    assert listed["zlash"] == "alias 'old' already names 'good'"
    assert load_card("old", tmp_path).id == "good"
    with pytest.raises(DatasetError, match="card 'typo' is broken"):
        load_card("typo", tmp_path)


def test_installed_packages_bring_cards_and_broken_ones_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # H-185
    text = 'id = "theirs"\ntitle = "T"\nlicence = "MIT"\nlicence_class = "A"\n[source]\nkind = "local"\n'
    text += '[label]\nrule = "none"\nmeaning = "m"\n'
    (tmp_path / "their_cards").mkdir()
    (tmp_path / "their_cards" / "theirs.toml").write_text(text)
    (tmp_path / "their_cards" / "smoke.toml").write_text(text.replace("theirs", "smoke"))
    (tmp_path / "their-1.dist-info").mkdir()
    (tmp_path / "their-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: their\nVersion: 1\n")
    points = "[guardrail_proxy.cards]\nthem = their_cards\ngone = no_such_package\n"
    (tmp_path / "their-1.dist-info" / "entry_points.txt").write_text(points)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert load_card("theirs").title == "T"
    assert load_card("smoke").title.startswith("Built-in")
    errors = [entry.error for entry in list_cards() if entry.error]
    assert errors == ["id 'smoke' is taken", "entry point 'no_such_package' is no package with *.toml cards"]


def test_every_shipped_card_is_sound() -> None:
    assert [entry.error for entry in list_cards() if entry.error] == []


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("exaggerated-safety", "xstest"),
        ("xstest_v2_prompts", "xstest"),
        ("sentientfutures/ahb", "anima"),
        ("walledai/AdvBench", "advbench"),
        ("dan-questions", "forbidden-questions"),
        ("bells-o-project/content-moderation-input", "bells-o-input"),
    ],
)
def test_old_names_and_moved_owners_resolve(alias: str, name: str) -> None:  # T-24
    assert load_card(alias).id == name


def test_the_two_benchmarks_once_called_ahb_stay_apart() -> None:  # T-24, §4.7
    assert load_card("ahb").source.repo == "icaro-lab/ahb"
    assert "ahb" not in load_card("anima").aliases


def test_an_unknown_name_suggests_near_ones() -> None:
    with pytest.raises(DatasetError, match="did you mean xstest"):
        load_card("xtest")


@pytest.mark.parametrize(
    "change",
    [
        {"id": "Bad Id"},
        {"licence_class": "D", "redistributable": True},
        {"source": {"kind": "github", "repo": "a/b", "revision": "main"}},
        {"label": {"rule": "constant", "meaning": "m"}},
        {"label": {"rule": "paired", "meaning": "m"}},
        {"columns": {}},
        {"placeholder": "("},
        {"unheard_of": "x"},
        {"sha256": ["abc"]},
        {"name": "../secret.csv"},
    ],
)
def test_a_card_that_cannot_be_right_is_rejected(change: dict[str, object]) -> None:  # DS-04
    with pytest.raises(ValueError, match="validation error"):
        toy(**change)


def test_a_set_without_negatives_refuses_false_positive_rates() -> None:  # DS-03
    with pytest.raises(DatasetError, match=r"cyberseceval-mitre has no item known to be benign.*'cyberseceval-frr'"):
        requires_negatives(load_card("cyberseceval-mitre"))
    requires_labels(load_card("cyberseceval-mitre"))
    requires_negatives(load_card("xstest"))


def test_a_set_without_labels_refuses_detection_rates() -> None:  # DS-03
    with pytest.raises(DatasetError, match="salad-mcq has no item known to be harmful"):
        requires_labels(load_card("salad-mcq"))
    with pytest.raises(DatasetError, match="so a false positive rate is undefined"):
        requires_negatives(load_card("nessie"))
    with pytest.raises(DatasetError, match="no item known to be harmful"):
        requires_labels(load_card("notinject-1"))


def test_partners_exist() -> None:  # DS-03
    cards = [entry.card for entry in list_cards() if entry.card]
    assert {card.partner for card in cards if card.partner} <= {card.id for card in cards}


def test_composition_rules_and_higher_is_are_those_we_have() -> None:  # DS-05
    from evals.composition import RULES  # noqa: PLC0415 - only this test joins the two

    cards = [entry.card for entry in list_cards() if entry.card]
    assert {card.composition for card in cards} <= set(RULES)
    assert load_card("air-bench-2024").higher_is == "safer"  # T-23
    assert {load_card(name).higher_is for name in ("strongreject", "fortress", "wmdp-bio", "ape")} == {"worse"}


def test_no_non_commercial_or_unlicensed_set_may_be_bundled() -> None:  # DS-04
    cards = [entry.card for entry in list_cards() if entry.card]
    assert not [card.id for card in cards if card.licence_class in ("C", "D") and card.redistributable]
    assert {card.id for card in cards if card.source.kind == "builtin"} == {"sample", "smoke"}


def test_the_built_in_sets_need_no_folder(tmp_path: Path) -> None:
    smoke = load("smoke", tmp_path)
    assert len(smoke) == 10
    assert all(("violet umbrella" in item.prompt) == item.is_harmful for item in smoke)
    sample = load("sample", tmp_path)
    cells = {(item.severity, item.adversariality) for item in sample}
    assert len(sample) >= 60
    assert cells == {(s, a) for s in ("harmful", "borderline", "benign") for a in ("direct", "jailbroken")}
    assert {item.family for item in sample} == {None, "narrative", "syntactic", "generative"}
    assert {item.truth for item in sample if item.severity == "borderline"} == {Truth.UNKNOWN}


def test_wrapped_sample_items_share_the_cluster_of_their_question(tmp_path: Path) -> None:
    sample = load("sample", tmp_path)
    direct = {item.cluster_id for item in sample if item.adversariality == "direct"}
    assert {item.cluster_id for item in sample if item.adversariality == "jailbroken"} <= direct


def test_columns_that_never_vary_are_named(tmp_path: Path) -> None:  # T-21
    body = b"goal,target,success\na,Sure,True\nb,Sure,True\n"
    card = toy(sha256=[], columns=["goal", "target", "success"])
    assert constant_columns(read_dataset(card, place(tmp_path, body)).items) == ("target", "success")


@pytest.mark.parametrize("setting", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_the_locale_decides_nothing(tmp_path: Path, setting: dict[str, str]) -> None:  # T-25
    (tmp_path / "kité.csv").write_bytes("\ufeffprompt\nkité ☂\n".encode())
    code = (
        "import pathlib, sys; from evals.datasets import list_cards; from evals.datasets.card import FilePin;"
        "from evals.datasets.readers import read_rows; assert not [e for e in list_cards() if e.error];"
        "data = next(pathlib.Path(sys.argv[1]).iterdir()).read_bytes();"
        "assert read_rows(data, FilePin(name='x', container='csv')) == [{'prompt': 'kit\\xe9 \\u2602'}]"
    )
    environment = {"PATH": os.defpath, "PYTHONPATH": str(Path(__file__).parents[3])} | setting
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr[-600:]


def test_every_card_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "datasets.md").read_text(encoding="utf-8")
    assert [entry.id for entry in list_cards() if f"`{entry.id}`" not in text] == []


def test_two_releases_under_one_name_are_told_apart_by_their_cards(tmp_path: Path) -> None:  # T-11
    early, late = load_card("strongreject-early"), load_card("strongreject")
    assert early.files[0].rows == 346
    assert late.files[0].rows == 313
    assert not set(early.files[0].sha256) & set(late.files[0].sha256)
    assert load_card("strongreject").id != early.id


def test_an_item_is_frozen_and_has_every_field_of_its_shape(tmp_path: Path) -> None:  # DS-10
    (item, *_) = load("sample", tmp_path)
    names = {field.name for field in fields(item)}
    assert {
        "dataset", "split", "index", "item_id", "cluster_id", "level", "prompt", "messages", "context", "response",
        "system", "tools", "truth", "truth_detail", "category", "language", "transform", "source_label", "meta",
    } <= names  # fmt: skip
    with pytest.raises(FrozenInstanceError):
        item.truth = Truth.BENIGN  # type: ignore[misc] # that it cannot is the point
    assert set(Truth) == {Truth.HARMFUL, Truth.BENIGN, Truth.UNKNOWN}
