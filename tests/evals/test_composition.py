"""Composition rules: exact texts in named places."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evals.composition import RULES, compose, messages_sha256, to_wire
from evals.types import Item, Message, Truth
from supervisors.errors import DatasetError

ITEM = Item(
    dataset="toy",
    split="all",
    index=0,
    item_id="toy/all/000000-abc",
    cluster_id="toy#0",
    level="prompt",
    prompt=" kite\r\n",
    truth=Truth.HARMFUL,
)
CONTEXT = replace(ITEM, context="a\nb", prompt="kite")


def text(item: Item, rule: str | None = None) -> str:
    return compose(item, rule)[-1].content


def test_text_is_sent_exactly_as_in_the_file() -> None:  # H-122, T-15
    assert to_wire(compose(ITEM)) == [{"role": "user", "content": " kite\r\n"}]
    assert compose(replace(ITEM, system=" s "))[0] == Message("system", " s ")


def test_the_place_of_the_context_is_the_rule() -> None:  # H-121, T-22
    assert text(CONTEXT, "hb-context-before-1") == "a\nb\n\n---\n\nkite"
    assert text(CONTEXT, "hb-context-after-1") == "kite\n\na\nb"
    assert text(CONTEXT, "hb-context-dropped-1") == "kite"
    assert len({messages_sha256(compose(CONTEXT, rule)) for rule in RULES if rule.startswith("hb-")}) == 3
    assert text(ITEM, "hb-context-before-1") == " kite\r\n"


def test_a_context_is_never_dropped_silently() -> None:  # T-22
    with pytest.raises(DatasetError, match="has a context: use hb-context-before-1"):
        compose(CONTEXT, "plain-1")


def test_the_items_own_rule_is_the_default() -> None:
    assert text(replace(CONTEXT, composition="hb-context-after-1")) == "kite\n\na\nb"


def test_an_unknown_rule_lists_the_known_ones() -> None:
    with pytest.raises(DatasetError, match=r"no composition rule 'plain'; known: .*plain-1"):
        compose(ITEM, "plain")


def test_an_item_without_text_cannot_be_sent() -> None:  # T-12
    with pytest.raises(DatasetError, match="cannot be sent: no text"):
        compose(replace(ITEM, prompt="", skip="no text"))


def test_an_unfilled_placeholder_is_an_error() -> None:  # T-28, N-03
    template = replace(ITEM, prompt="x [INSERT PROMPT HERE]", placeholder=r"\[INSERT PROMPT HERE\]")
    with pytest.raises(DatasetError, match="is not filled"):
        compose(template)
    assert text(replace(template, prompt="x kite")) == "x kite"


def test_statements_become_requests_with_their_slots_filled() -> None:  # HE-02, T-28
    item = replace(ITEM, prompt="{user_or_assistant1} should rest", placeholder=r"\{user_or_assistant\d\}")
    assert text(item, "persuade-1").endswith("Statement: the user should rest")
    with pytest.raises(DatasetError, match="is not filled"):
        compose(item, "plain-1")


@pytest.mark.parametrize("choices", ["A. red\nB. blue", ["red", "blue"]])
def test_choices_are_shown_with_letters(choices: object) -> None:
    assert "\n\nA. red\nB. blue\n\nAnswer" in text(replace(ITEM, meta={"choices": choices}), "mcq-1")
    with pytest.raises(DatasetError, match="no 'choices'"):
        compose(ITEM, "mcq-1")


def test_answers_are_rendered_for_the_output_stage() -> None:
    assert compose(replace(ITEM, response="ok"), "response-1")[1] == Message("assistant", "ok")
    assert compose(ITEM, "response-1") == (Message("assistant", " kite\r\n"),)


def test_an_attack_stands_between_the_halves_of_a_defence() -> None:
    item = replace(ITEM, system="before", prompt="kite", context="after")
    assert text(item, "sandwich-1") == "before\nkite\nafter"


def test_conversations_are_sent_as_they_are() -> None:
    turns = (Message("system", "s"), Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    assert compose(replace(ITEM, messages=turns)) == turns


def test_the_hash_is_of_canonical_json_and_takes_lone_surrogates() -> None:
    assert messages_sha256((Message("user", "kite"),)) == messages_sha256([Message("user", "kite")])
    assert len(messages_sha256((Message("user", "\ud800"),))) == 64


def test_an_answer_that_is_not_there_is_never_the_prompt() -> None:  # H-130
    item = replace(ITEM, response="", level="response", composition="response-1")
    with pytest.raises(DatasetError, match="has no answer"):
        compose(item)
