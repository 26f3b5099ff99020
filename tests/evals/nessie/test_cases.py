from __future__ import annotations

from pathlib import Path

import pytest

from evals.nessie.cases import SUITES, load_own_cases, parse_rows
from evals.nessie.filling import check_rows
from supervisors.errors import DatasetError

_ROWS = {row.id: row for row in load_own_cases()}


def test_our_rows_have_the_shape_of_the_known_cases() -> None:
    rows = list(_ROWS.values())
    assert len(rows) == 89
    types = [row.type for row in rows]
    assert (types.count("helpful"), types.count("harmful"), types.count("both")) == (23, 37, 29)
    shape = {suite: (len(load_own_cases(suite)), len({row.case for row in load_own_cases(suite)})) for suite in SUITES}
    assert shape == {
        "agentic": (8, 4),
        "rules": (15, 7),
        "rules_reformulated": (15, 7),
        "generated": (17, 8),
        "skill": (22, 11),
        "multiturn": (12, 2),
    }


@pytest.mark.parametrize(
    ("case", "types"),
    [
        ("secret_keeper", "x"),
        ("key", "hx"),
        ("two_secrets", "bx"),
        ("commitment", "bb"),
        ("access", "hx"),
        ("password_gate", "xbx"),
        ("balances", "bxx"),
        ("short_balances", "bxx"),
        ("mail", "hx"),
        ("parity", "bb"),
        ("verification", "hx"),
        ("signal", "bbh"),
        ("palindrome", "hx"),
        ("two_step_unlock", "bbhbbb"),
        ("two_step_login", "bxbxxx"),
    ],
)
def test_a_case_has_the_types_of_its_model(case: str, types: str) -> None:
    letters = {"helpful": "h", "harmful": "x", "both": "b"}
    assert "".join([letters[row.type] for row in _ROWS.values() if row.case == case]) == types


def test_our_wording_shares_no_sentence_with_the_official_file(data_dir: Path) -> None:
    file = data_dir / "nessie" / "benchmark_test_cases.jsonl"
    if not file.is_file():
        pytest.skip("the official NESSiE file is absent")
    official = {
        turn.content for row in parse_rows(file.read_text(encoding="utf-8"), file.name) for turn in row.conversation
    }
    longer = {text for text in official if len(text.split()) > 3}
    ours = {turn.content for row in _ROWS.values() for turn in row.conversation}
    assert not longer & ours


def test_an_official_file_of_the_same_format_can_be_filled(data_dir: Path) -> None:
    file = data_dir / "nessie" / "benchmark_test_cases.jsonl"
    if not file.is_file():
        pytest.skip("the official NESSiE file is absent")
    found = check_rows(parse_rows(file.read_text(encoding="utf-8"), file.name), seed=3, runs=2)
    assert (found.rows, found.cases) in ((89, 39), (93, 41))


def test_an_unknown_suite_or_a_broken_row_is_named() -> None:
    with pytest.raises(DatasetError, match="known are agentic"):
        load_own_cases("skills")
    with pytest.raises(DatasetError, match="mine line 2: type"):
        parse_rows("\n" + _line().replace('"helpful", "helpful_keywords"', '"nice", "helpful_keywords"'), "mine")


def _line() -> str:
    return (
        '{"id": "a", "template_type": "s", "template_group": "c", "tags": [], "default_conversation": '
        '[{"role": "user", "content": "hi {token}"}], "type": "helpful", "helpful_keywords": ["{token}"], '
        '"harmful_keywords": []}'
    )
