"""Rows to items: labels in three values, positions, clusters, views, on made-up rows."""

from __future__ import annotations

import pytest

from evals.datasets.adapters import ADAPTERS
from evals.datasets.card import Card, FilePin, LabelRule
from evals.datasets.items import Record, build_items
from evals.datasets.labels import fold_label, judge_row
from evals.datasets.readers import Row, column_names
from evals.types import Item, Truth, make_item_id
from supervisors.errors import DatasetError

PIN = FilePin(name="made/up.csv", container="csv")
CONSTANT = {"rule": "constant", "value": "harmful", "meaning": "all"}


def card(**more: object) -> Card:
    facts = {
        "id": "made-up-1.0",
        "title": "Made up",
        "licence": "MIT",
        "licence_class": "A",
        "source": {"kind": "local"},
        "columns": {"prompt": ["prompt"]},
        "label": CONSTANT,
    }
    return Card.model_validate(facts | more)


def build(rows: list[Row], using: Card, pin: FilePin = PIN) -> list[Item]:
    records = [Record(index, row) for index, row in enumerate(rows)]
    if using.adapter:
        records = ADAPTERS[using.adapter](records)
    return build_items(using, pin, records, column_names([record.row for record in records]))


def test_ten_identical_prompts_are_ten_items_of_one_cluster() -> None:  # H-113, H-28, BO-12, T-17
    items = build([{"prompt": "violet umbrella"}] * 10, card())
    assert len({item.item_id for item in items}) == 10
    assert len({item.cluster_id for item in items}) == 1
    assert items[7].item_id == make_item_id("made-up-1.0", "all", 7, "violet umbrella")
    assert items[7].item_id.startswith("made-up-1.0/all/000007-")


def test_positions_are_those_of_the_file_whatever_is_filtered() -> None:  # DS-08
    rows: list[Row] = [{"prompt": f"p{n}", "kind": "keep" if n % 2 else "drop"} for n in range(6)]
    items = build(rows, card(keep={"column": "kind", "values": ["keep"]}))
    assert [item.index for item in items] == [1, 3, 5]


def test_text_is_kept_exactly_and_normalised_apart() -> None:  # T-15, DS-09, H-122
    item = build([{"prompt": "  Ｖiolet\r\n Umbrella "}], card())[0]
    assert item.prompt == "  Ｖiolet\r\n Umbrella "
    assert item.norm == "violet umbrella"


@pytest.mark.parametrize("row", [{"system": "s"}, {"prompt": None}, {"prompt": ""}])
def test_a_row_without_text_is_skipped_with_the_reason(row: Row) -> None:  # T-12, T-14
    items = build([row, {"prompt": "kite"}], card())
    assert items[0].skip == "no text in 'prompt'"
    assert items[0].prompt == ""
    assert items[1].skip is None


def test_a_missing_column_lists_the_columns_found() -> None:  # DS-12
    with pytest.raises(DatasetError, match=r"expected a column 'prompt', found \['question', 'n'\]"):
        build([{"question": "kite", "n": 1}], card())


def test_synonyms_of_a_column_are_accepted() -> None:  # T-08, T-24
    using = card(columns={"prompt": ["prompts_final", "prompt"]})
    assert build([{"prompts_final": "kite"}], using)[0].prompt == "kite"
    assert build([{"prompt": "kite"}], using)[0].prompt == "kite"


def test_a_prompt_that_is_not_text_is_an_error() -> None:  # T-08
    with pytest.raises(DatasetError, match="row 0: column 'prompt' holds list, expected text"):
        build([{"prompt": [{"prompt": "kite"}]}], card())


@pytest.mark.parametrize(
    ("value", "folded"),
    [
        (True, "true"), ("TRUE", "true"), ("True ", "true"), (False, "false"),
        (1, "1"), (1.0, "1"), ("1.0", "1"), ("0.0", "0"), ("0.25", "0.25"),
        (None, None), ("", None), ("  ", None), (float("nan"), None), ("Unclear", "unclear"),
    ],
)  # fmt: skip
def test_labels_are_compared_in_one_spelling(value: object, folded: str | None) -> None:  # T-18, DS-11
    assert fold_label(value) == folded


@pytest.mark.parametrize("value", ["Unclear", "", None, "None", "2", float("nan")])
def test_a_label_outside_the_map_is_unknown_and_never_benign(value: object) -> None:  # DS-11
    rule = LabelRule.model_validate(
        {"rule": "column", "column": "label", "map": {"true": "harmful", "false": "benign"}, "meaning": "m"}
    )
    assert judge_row(rule, {"label": value}, PIN, None)[0] is Truth.UNKNOWN
    assert judge_row(rule, {}, PIN, None) == (Truth.UNKNOWN, None)


def test_everything_but_one_value_can_be_positive() -> None:  # BO-01
    rule = LabelRule.model_validate(
        {"rule": "column", "column": "c", "map": {"Benign": "benign", "!Benign": "harmful"}, "meaning": "m"}
    )
    assert judge_row(rule, {"c": "Cyber"}, PIN, None)[0] is Truth.HARMFUL
    assert judge_row(rule, {"c": "benign "}, PIN, None)[0] is Truth.BENIGN
    assert judge_row(rule, {"c": ""}, PIN, None)[0] is Truth.UNKNOWN


@pytest.mark.parametrize(
    ("row", "truth"),
    [
        ({"S": 0, "H": 1}, Truth.HARMFUL), ({"H": 1}, Truth.HARMFUL), ({"S": 0, "H": 0}, Truth.BENIGN),
        ({"S": 0}, Truth.UNKNOWN), ({}, Truth.UNKNOWN), ({"S": 0, "H": None}, Truth.UNKNOWN),
    ],
)  # fmt: skip
def test_an_absent_moderation_label_is_missing_and_not_zero(row: Row, truth: Truth) -> None:  # T-14, H-44
    rule = LabelRule.model_validate({"rule": "any_of", "columns": ["S", "H"], "meaning": "m"})
    assert judge_row(rule, row, PIN, None)[0] is truth


def test_categories_are_stripped_and_split_only_where_the_card_says_so() -> None:  # T-19
    plain = card(columns={"prompt": ["prompt"], "category": ["category"]})
    row: Row = {"prompt": "p", "category": "Start\nPrompt: "}
    assert build([row], plain)[0].category == ("Start Prompt",)
    both: Row = {"prompt": "p", "category": "a|b "}
    assert build([both], plain)[0].category == ("a|b",)
    split = card(columns={"prompt": ["prompt"], "category": ["category"]}, category_split="|")
    assert build([both], split)[0].category == ("a", "b")
    renamed = card(columns={"prompt": ["prompt"], "category": ["category"]}, category_map={"a|b": "ab"})
    assert build([both], renamed)[0].category == ("ab",)


def test_a_frame_around_prompts_is_taken_off_only_when_it_is_whole() -> None:  # T-09
    using = card(unwrap={"prefix": "### I:\n", "suffix": "\n### R:\n"})
    items = build([{"prompt": "### I:\nkite\n### R:\n"}, {"prompt": "### I:\nkite"}], using)
    assert [item.prompt for item in items] == ["kite", "### I:\nkite"]


def test_a_matched_pair_is_one_cluster_of_two_items() -> None:  # DS-21
    using = card(
        columns={},
        label={"rule": "paired", "meaning": "m"},
        views=[
            {"name": "adversarial", "prompt": ["a"], "truth": "harmful", "adversariality": "jailbroken"},
            {"name": "benign", "prompt": ["b"], "truth": "benign", "transform": "twin"},
        ],
        cluster={"by": "row"},
        sample_unit="cluster",
    )
    bad, good = build([{"a": "storm", "b": "breeze"}], using)
    assert (bad.truth, good.truth) == (Truth.HARMFUL, Truth.BENIGN)
    assert bad.cluster_id == good.cluster_id
    assert bad.split == "adversarial"
    assert bad.paired
    assert good.transform is not None
    assert good.transform.parent == bad.item_id


def test_the_unnamed_column_is_never_taken_for_a_root() -> None:
    assert build([{"": "0", "prompt": "kite"}], card())[0].root is None


def test_severity_and_adversariality_come_from_the_row_or_the_card() -> None:  # B-04
    using = card(
        columns={"prompt": ["prompt"], "severity": ["harm"], "adversariality": ["how"]},
        label={"rule": "column", "column": "harm", "map": {"harmful": "harmful"}, "meaning": "m"},
    )
    items = build([{"prompt": "a", "harm": "borderline", "how": "direct"}, {"prompt": "b", "harm": "harmful"}], using)
    assert (items[0].severity, items[0].truth, items[0].adversariality) == ("borderline", Truth.UNKNOWN, "direct")
    assert (items[1].severity, items[1].adversariality) == ("harmful", None)


def test_guardreasoner_rows_are_unwrapped_and_labelled_from_both_forms() -> None:  # T-09
    using = card(
        columns={"prompt": ["prompt"], "response": ["response"], "truth_detail": ["behaviour"]},
        label={
            "rule": "column",
            "column": "response_label",
            "map": {"harmful": "harmful", "unharmful": "benign"},
            "meaning": "m",
        },
        adapter="guardreasoner",
    )
    wrapped = "Human user:\nkite\n\nAI assistant:\n{}\n\n"
    block = "Answers: \nRequest: harmful\nCompletion: refusal\nResponse: {}\n"
    items = build(
        [
            {"input": wrapped.format("None"), "output": "harmful"},
            {"input": wrapped.format("a\n\nb"), "output": block.format("unharmful")},
            {"input": wrapped.format("c"), "output": block.format("None")},
            {"input": wrapped.format("d"), "output": "refusal"},
        ],
        using,
    )
    assert [item.prompt for item in items] == ["kite"] * 4
    assert [item.response for item in items] == [None, "a\n\nb", "c", "d"]
    assert [item.truth for item in items] == [Truth.HARMFUL, Truth.BENIGN, Truth.UNKNOWN, Truth.UNKNOWN]
    assert items[3].truth_detail == "refusal"  # T-20: behaviour is no harm label


def test_conversations_keep_their_messages_and_judge_the_last_user_text() -> None:
    using = card(columns={"messages": ["turns"]}, label={"rule": "none", "meaning": "m"})
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "kite"}]
    item = build([{"turns": turns}], using)[0]
    assert [message.role for message in item.messages] == ["system", "user"]
    assert item.prompt == "kite"
    with pytest.raises(DatasetError, match="expected a role"):
        build([{"turns": [{"role": "wizard", "content": "s"}]}], using)


def test_one_answer_a_model_gets_an_id_of_its_own() -> None:
    using = card(columns={"prompt": ["q"], "response": ["response"]}, adapter="do-not-answer-responses")
    row: Row = {"q": "kite", "A_response": "x", "A_harmful": "1", "A_action": "5", "B_response": "y"}
    items = build([row], using)
    assert [(item.split, item.response, item.meta["harmful"]) for item in items] == [("A", "x", "1"), ("B", "y", None)]
    assert len({item.item_id for item in items}) == 2
