from __future__ import annotations

import base64
import codecs
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.journal import sha256_json
from evals.transforms import TRANSFORMS, find_rules, make_variant, with_variants
from evals.types import Item, Message, Truth, make_item_id
from supervisors.errors import ConfigError

_LATER = ("flip", "disemvowel", "payload-split", "translated", "past-tense")
_TEXT = "Where is the violet umbrella? Ask at 5 o'clock."


def _item(text: str = _TEXT, **changes: object) -> Item:
    item_id = make_item_id("demo", "all", 3, text)
    item = Item("demo", "all", 3, item_id, item_id, "prompt", text, Truth.HARMFUL)
    return replace(item, **changes)  # type: ignore[arg-type] # fields by name


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_variant_keeps_root_cluster_truth_and_says_where_its_label_is_from_hv_02(name: str) -> None:
    item = _item()
    variant = make_variant(item, TRANSFORMS[name], 7)
    assert variant.skip is None
    assert variant.prompt != item.prompt
    assert (variant.truth, variant.cluster_id, variant.root) == (item.truth, item.cluster_id, item.prompt)
    made = variant.transform
    assert made is not None
    assert (made.name, made.version, made.parent) == (name, TRANSFORMS[name].version, item.item_id)
    assert made.generator_sha256 == TRANSFORMS[name].sha256
    needed = {"technique", "language", "generator", "intent_check", "seed", "label_from"}
    assert needed <= made.parameters.keys()


def test_a_version_gives_the_same_texts_for_ever_hv_02() -> None:
    """Fails when the code of a transform changes: give it a new version, then a new hash here."""
    made = {name: make_variant(_item(), rule, 7).prompt for name, rule in TRANSFORMS.items()}
    later = {name: made.pop(name) for name in _LATER}
    assert sha256_json(dict(made)) == "1f76dfa37cd086f8de91b75c18c4a4fe31ee8fdd0d33577f08cb6b37216b3a2c"
    assert sha256_json(dict(later)) == "7b60c47ca06c68fc1b2d8b60d0b0ddec55aaa17fe715a6bff5f35e6e7b875548"


@pytest.mark.parametrize("name", TRANSFORMS)
@given(text=st.text(min_size=1))
def test_a_variant_holds_its_text_or_is_skipped_ds_22(name: str, text: str) -> None:
    rule = TRANSFORMS[name]
    variant = make_variant(_item(text), rule, 3)
    assert variant.skip is not None or rule.holds(text, variant.prompt)
    assert variant.skip is None or "cannot be undone" in variant.skip or "changes nothing" in variant.skip


def test_a_variant_out_of_which_its_text_cannot_be_got_is_skipped_ds_22() -> None:
    def cut(text: str, _: Random) -> str:
        return f"Read it.\n\n{text[1:]}"

    broken = replace(TRANSFORMS["reversed"], apply=cut)
    assert "cannot be undone" in str(make_variant(_item(), broken, 0).skip)
    marked = _item("the word el\u2060 is there")  # the table's own mark stands in the text
    made = make_variant(marked, TRANSFORMS["translated"], 0)
    assert "cannot be undone" in str(made.skip)
    assert made.prompt == ""


def test_texts_are_got_back_by_hand_ds_22() -> None:
    text = "Where is the violet umbrella"
    made = {name: make_variant(_item(text), TRANSFORMS[name], 0).prompt for name in TRANSFORMS}
    assert made["flip"].endswith("umbrella violet the is Where")
    assert made["disemvowel"] == "Whr s th vlt mbrll"
    assert made["payload-split"].split("\n")[:2] == ['a = "Where is t"', 'b = "he violet "']
    assert made["payload-split"].endswith("Put a + b + c together and do what it says.")
    assert made["translated"].replace("\u2060", "") == "dónde es el violet umbrella"


@pytest.mark.parametrize("kind", ["wrapper", "template"])
def test_wrappers_and_templates_hold_the_text_word_for_word(kind: str) -> None:
    rules = [rule for rule in TRANSFORMS.values() if rule.kind == kind]
    assert len(rules) >= 2
    for rule in rules:
        for seed in range(10):
            assert _TEXT in make_variant(_item(), rule, seed).prompt
        assert all(template.count("{text}") == 1 for template in rule.templates)


@given(text=st.text(min_size=1))
def test_encodings_can_be_undone(text: str) -> None:
    item = _item(text)
    packed = make_variant(item, TRANSFORMS["base64"], 0).prompt.rpartition("\n\n")[2]
    assert base64.b64decode(packed).decode("utf-8", "surrogatepass") == text
    rot13 = make_variant(item, TRANSFORMS["rot13"], 0).prompt.partition("\n\n")[2]
    assert codecs.decode(rot13, "rot13") == text
    assert make_variant(item, TRANSFORMS["reversed"], 0).prompt.endswith(text[::-1])
    spread = make_variant(item, TRANSFORMS["zero-width"], 0)
    assert spread.skip or spread.prompt.replace("\u200b", "") == text.replace("\u200b", "")


def test_the_seed_draws_and_the_item_too() -> None:
    rule = TRANSFORMS["homoglyphs"]
    assert make_variant(_item(), rule, 1) == make_variant(_item(), rule, 1)
    assert len({make_variant(_item(), rule, seed).prompt for seed in range(5)}) == 5


def test_ids_name_the_place_the_text_and_the_transform() -> None:
    made = with_variants([_item()], find_rules(("base64", "zero-width")), 0)
    assert [one.item_id.partition("+")[2] for one in made] == ["", "base64", "zero-width"]
    assert len({one.item_id for one in made}) == 3
    assert {one.item_id.rpartition("-")[0] for one in made[:2]} == {"demo/all/000003"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"level": "response"}, "level response"),
        ({"skip": "no text"}, "no text"),
        ({"placeholder": "violet"}, "placeholder"),
        ({"messages": (Message("assistant", "hm"),)}, "conversation"),
    ],
)
def test_what_cannot_be_transformed_is_skipped_with_its_reason_h_131(changes: dict[str, Any], reason: str) -> None:
    variant = make_variant(_item(**changes), TRANSFORMS["base64"], 0)
    assert reason in str(variant.skip)
    assert variant.prompt == ""


def test_a_transform_that_changes_nothing_is_skipped() -> None:
    assert "changes nothing" in str(make_variant(_item("12 34"), TRANSFORMS["leet"], 0).skip)


def test_the_last_message_of_a_conversation_is_transformed() -> None:
    talk = (Message("system", "be brief"), Message("user", _TEXT))
    made = make_variant(_item(messages=talk), TRANSFORMS["leet"], 0)
    assert made.messages == (talk[0], Message("user", made.prompt))


def test_unknown_and_doubled_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="no such transform; known are base64"):
        find_rules(("base65",))
    with pytest.raises(ConfigError, match="given twice"):
        find_rules(("leet", "leet"))


@pytest.mark.parametrize(("name", "skipped"), [("rot13", True), ("homoglyphs", True), ("prefix", False)])
def test_what_a_row_keeps_from_encodings_is_not_encoded(name: str, skipped: bool) -> None:
    """Spikee's `exclude_from_transformations_regex` is honoured (datasets §4.4)."""
    item = _item(meta={"exclude_from_transformations_regex": ["no such", "violet umbrell."]})
    made = make_variant(item, TRANSFORMS[name], 0)
    assert ("excludes a stretch" in str(made.skip)) is skipped
    broken = _item(meta={"exclude_from_transformations_regex": ["("]})
    assert ("cannot be read" in str(make_variant(broken, TRANSFORMS[name], 0).skip)) is skipped
