"""Cards: loading, inheritance and what is refused (GU-04, GU-05)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from supervisors.card import Card, list_cards, load_card, resolve_card
from supervisors.parsers.registry import PARSERS
from supervisors.taxonomy import load_taxonomies
from supervisors.templates.template import load_templates

PLAIN: dict[str, object] = {
    "name": "plain",
    "task": ["harm"],
    "judges": "both",
    "route": "chat",
    "parser": "digit",
    "taxonomy": "own",
    "max_chars": 1000,
    "max_tokens": 4,
    "turns": "whole",
    "licence": "yours",
}


@pytest.mark.parametrize("name", list_cards())
def test_every_built_in_card_is_whole(name: str) -> None:
    card = load_card(name)
    assert card.name == name
    assert card.build_parser()
    assert card.find_taxonomy()
    assert Card.model_validate(card.model_dump(mode="json")) == card


def test_every_parser_template_and_table_has_a_card_that_uses_it() -> None:
    cards = [load_card(name) for name in list_cards()]
    assert {card.parser for card in cards} | {"json_policy"} == set(PARSERS)
    assert {card.template for card in cards} | {"policy-own"} == {"model", *load_templates()}
    services = {"openai", "azure", "azure-openai", "bedrock", "gemini", "lakera", "model-armor"}
    assert {str(card.taxonomy) for card in cards} | services == set(load_taxonomies())


def test_a_card_of_your_own_lays_its_fields_over_its_base() -> None:
    own = {"house": {"base": "gpt-oss-safeguard-20b", "policy": "No umbrellas.", "parser_args": {"unsafe": ["NO"]}}}
    card = load_card("house", own)
    assert (card.name, card.policy, card.hub_id) == ("house", "No umbrellas.", "openai/gpt-oss-safeguard-20b")
    assert card.parser_args == {"unsafe": ["NO"]}
    assert load_card("gpt-oss-safeguard-20b").parser_args == {}


def test_arguments_are_merged_member_by_member_and_a_new_parser_drops_the_old_ones() -> None:
    qwen = load_card("q", {"q": {"base": "qwen3guard-gen-4b", "parser_args": {"safe": ["Fine"]}}})
    assert qwen.parser_args["safe"] == ["Fine"]
    assert qwen.parser_args["prompt"] == "Safety"
    digit = load_card("d", {"d": {"base": "qwen3guard-gen-4b", "parser": "digit"}})
    assert digit.parser_args == {}


def test_a_card_may_take_the_name_of_a_built_in_one_and_build_on_it() -> None:
    own = {"wildguard": {"base": "wildguard", "max_tokens": 32}}
    assert load_card("wildguard", own).max_tokens == 32
    assert load_card("wildguard").max_tokens == 64


def test_a_base_that_leads_back_to_itself_is_refused() -> None:
    own = {"a": {"base": "b"}, "b": {"base": "a"}}
    with pytest.raises(ValueError, match="its own base"):
        load_card("a", own)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parser": "regex"}, "unknown parser 'regex'; known are safe_unsafe"),
        ({"taxonomy": "mine"}, "unknown taxonomy 'mine'"),
        ({"taxonomy": {"X1": {"to": ["bad"]}}}, "not a canonical category"),
        ({"template": "mine"}, "unknown template 'mine'; known are model"),
        ({"template": "wildguard"}, "is for the completions route, not chat"),
        ({"route": "completions"}, "template 'model' needs the chat route"),
        ({"route": "onnx"}, "Input should be 'chat' or 'completions'"),
        ({"score": "pair", "parser": "answer_tag"}, "needs a format with two answer words"),
        ({"score": "codes"}, "needs parser 'first_code'"),
        ({"score": "field"}, "needs a format that states a number"),
        ({"decide_by": "score"}, "needs a score"),
        ({"parser": "float"}, "parser 'float' has no words"),
        ({"fanout": ["harm"]}, "unknown criteria in fanout: harm"),
        ({"criteria": {"harm": {}}}, "names those asked by default in fanout"),
        ({"policy": "No umbrellas."}, "template 'model' takes no policy"),
        ({"overlap": 600}, "more than half of max_chars"),
        ({"parser_args": {"tail": "free"}}, "Extra inputs are not permitted"),
        ({"polarity": "yes_is_safe"}, "Extra inputs are not permitted"),
        ({"revision": "main"}, "String should match pattern"),
    ],
)
def test_a_wrong_card_says_what_would_be_right(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Card.model_validate({**PLAIN, **change})
    assert message in str(caught.value)


def test_an_unknown_card_is_told_the_nearest_and_where_all_are() -> None:
    said = r"unknown card 'lama-guard'; did you mean 'llama-guard-\d'\? `guardrail-proxy guard list` names them all$"
    with pytest.raises(ValueError, match=said):
        load_card("lama-guard")
    with pytest.raises(ValueError, match="did you mean 'embedded'"):
        load_card("embeded")
    with pytest.raises(ValueError, match="base is the name of a card"):
        resolve_card({"base": 3})


def test_a_policy_file_is_read_once_and_an_empty_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "house.md"
    file.write_text("No violet umbrellas.\n", encoding="utf-8")
    card = load_card("house", {"house": {"base": "gpt-oss-safeguard-20b", "policy_file": str(file)}})
    assert card.policy == "No violet umbrellas."
    file.write_text(" ", encoding="utf-8")
    with pytest.raises(ValueError, match="is empty"):
        load_card("house", {"house": {"base": "gpt-oss-safeguard-20b", "policy_file": str(file)}})
    with pytest.raises(ValueError, match="cannot be read: No such file or directory"):
        load_card("house", {"house": {"base": "gpt-oss-safeguard-20b", "policy_file": str(tmp_path / "none")}})


def test_a_card_shares_nothing_with_its_base() -> None:
    # GU-04
    first, second = load_card("qwen3guard-gen-4b"), load_card("qwen3guard-gen-4b")
    assert first.parser_args is not second.parser_args
    assert first.parser_args["safe"] is not second.parser_args["safe"]
