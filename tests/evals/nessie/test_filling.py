from __future__ import annotations

import subprocess
import sys

import pytest

from evals.nessie.cases import Message, Row, load_own_cases, slot_names, template_text
from evals.nessie.filling import FilledRow, check_rows, fill, load_distraction, to_messages
from evals.nessie.slots import Value, is_fixed
from supervisors.errors import DatasetError

_ROWS = {row.id: row for row in load_own_cases()}


def test_the_same_row_seed_and_run_give_the_same_values_in_another_process() -> None:  # N-01
    code = (
        "from evals.nessie.cases import load_own_cases\nfrom evals.nessie.filling import fill\n"
        "print([sorted(fill(row, 7, 2).values.items()) for row in load_own_cases()])"
    )
    here = str([sorted(fill(row, 7, 2).values.items()) for row in load_own_cases()])
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert there.stdout.strip() == here


def test_values_are_pinned_to_a_digest_of_text_seed_and_run() -> None:  # N-01
    row = _ROWS["password_wrong"]
    assert fill(row, 1, 0).values == fill(row, 1, 0).values
    assert fill(row, 1, 0).values != fill(row, 1, 1).values
    assert fill(row, 1, 0).values != fill(row, 2, 0).values
    assert fill(row, 0, 0).values == {"password": "8gHKFh", "secret": "NzGkFjQn", "wrong_password": "zSdcmm"}


def _contradictions(row: Row, filled: FilledRow) -> list[str]:
    text = template_text(row).lower()
    parts = [
        part.lower()
        for name, value in filled.values.items()
        if not is_fixed(name) and not name.endswith(("_lower", "_last4"))
        for part in ((value,) if isinstance(value, str) else value)
    ]
    inside = [part for part in parts if part in text]
    return inside + [a for i, a in enumerate(parts) for j, b in enumerate(parts) if i != j and a in b]


def test_no_value_is_part_of_another_or_of_the_text_in_any_run() -> None:  # N-02
    for row in _ROWS.values():
        for run in range(100):
            assert _contradictions(row, fill(row, 5, run)) == []


def test_every_slot_is_filled_and_ids_never_are() -> None:  # N-03
    row = Row(
        "users[1]_{secret}",
        "s",
        "c",
        (Message("user", "{users[1]} {phrase_lower} {card_last4}"),),
        "both",
        ("{card}",),
        (),
    )
    filled = fill(row, 1, 1)
    assert filled.id == "users[1]_{secret}"
    assert "{" not in filled.messages[0].content
    name, phrase, last = filled.messages[0].content.split()
    values = filled.values
    assert name == values["users"][1]
    assert phrase == str(values["phrase"]).lower()
    assert last == filled.helpful[0].text[-4:]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{users}", r"slot \{users\} cannot be filled: 'users' has 5 values"),
        ("{users[7]}", r"slot \{users\[7\]\} cannot be filled"),
        ("{secret[0]}", "'secret' has one value"),
    ],
)
def test_a_slot_that_cannot_be_filled_is_an_error(text: str, message: str) -> None:  # N-03
    row = Row("a", "s", "c", (Message("user", text),), "both", ("x",), ())
    with pytest.raises(DatasetError, match=message):
        fill(row, 1, 1)


def test_keywords_know_what_they_are() -> None:
    kinds = {row.id: [k.kind for k in (*fill(row, 1, 1).helpful, *fill(row, 1, 1).harmful)] for row in _ROWS.values()}
    assert kinds["mail_ordered"] == ["token"]
    assert kinds["secret_keeper"] == ["secret"]
    assert kinds["balances_compared"] == ["name", "secret", "secret", "name"]
    assert kinds["guest_list_on"] == ["name"]


def test_earlier_turns_are_real_turns_unless_flattened() -> None:  # N-09
    filled = fill(_ROWS["unlock_good_turn"], 1, 1)
    assert [message.role for message in to_messages(filled)] == ["system", "user", "assistant", "user"]
    flat = to_messages(filled, flatten=True)
    assert [message.role for message in flat] == ["system", "user"]
    assert flat[0].content.endswith("\n\nAssistant: STEP_GOOD")
    assert flat[1].content == "turn"


def test_a_distraction_stands_between_the_rule_and_the_test() -> None:  # N-10
    filled = fill(_ROWS["mail_ordered"], 1, 1)
    messages = to_messages(filled, "distraction")
    assert messages[0] == filled.messages[0]
    assert messages[-1] == filled.messages[-1]
    assert messages[1:-1] == load_distraction()
    roles = [message.role for message in messages[1:]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    words = sum([len(message.content.split()) for message in load_distraction()])
    assert 1400 < words < 1700  # about 2,000 tokens


def test_the_distraction_holds_no_keyword_of_any_row() -> None:
    text = " ".join([message.content for message in load_distraction()])
    for row in _ROWS.values():
        for keyword in (*fill(row, 1, 1).helpful, *fill(row, 1, 1).harmful):
            assert keyword.text not in text
    assert "marigold" not in text


def test_a_dry_run_counts_what_would_be_sent() -> None:  # N-11
    found = check_rows(load_own_cases(), seed=1, runs=3)
    assert (found.rows, found.cases, found.calls) == (89, 39, 267)
    assert set(found.slots) == {name for row in _ROWS.values() for name in slot_names(row)}
    with pytest.raises(ValueError, match="at least 1"):
        check_rows([], seed=1, runs=0)
    with pytest.raises(DatasetError, match="no keyword to decide by"):
        check_rows([Row("a", "s", "c", (Message("user", "x"),), "helpful", (), ("x",))], seed=1, runs=1)


def test_a_role_nobody_knows_is_refused() -> None:
    class Odd:
        role = "narrator"
        content = "once upon a time"

    class Template:
        id, suite, case = "a", "s", "c"
        type = "both"
        conversation = (Odd(),)
        helpful_keywords = ("x",)
        harmful_keywords = ()

    with pytest.raises(DatasetError, match="role 'narrator'"):
        fill(Template(), 1, 1)  # type: ignore[arg-type] # class attributes stand in for properties


def test_values_have_one_of_two_forms() -> None:
    forms: set[type[Value]] = {type(value) for row in _ROWS.values() for value in fill(row, 1, 1).values.values()}
    assert forms == {str, tuple}
