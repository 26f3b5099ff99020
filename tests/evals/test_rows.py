from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evals.alike import Alike
from evals.cautions import count_behaviours
from evals.journal import JsonObject
from evals.rows import Row, Rows, alone, behaviour_of, join, to_outcome, what_failed
from evals.scoring import AnswerVerdict
from evals.summary import load_run
from supervisors.testing import Always, Fails
from supervisors.types import Label, unsafe
from tests.evals.harness import Run, make_options, make_run, make_words_guard


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    path: Path = tmp_path_factory.mktemp("run")
    run = load_run(make_run(path / "r", make_options(path, ledger="paired")).folder)
    return join(run.plan, run.counted, None)


def test_rows_are_in_plan_order_and_hold_their_lines(rows: Rows) -> None:
    assert len(rows) == 30
    assert [row.planned.trial_key for row in rows] == [row.fields["trial_key"] for row in rows]
    assert rows[-1] == list(rows)[-1]
    assert list(rows[3:6]) == list(rows)[3:6]


def test_a_part_of_the_rows_keeps_their_order(rows: Rows) -> None:
    direct = rows.where(lambda trial: trial.arm == "direct")
    assert list(direct) == [row for row in rows if row.planned.arm == "direct"]
    assert [trial.arm for trial in direct.planned] == ["direct"] * 20
    assert len(direct.where(lambda trial: trial.repeat == 1)) == 10


def test_groups_cover_every_row_once(rows: Rows) -> None:
    groups = rows.grouped(lambda trial: (trial.arm, str(trial.repeat)))
    assert {key: len(group) for key, group in groups.items()} == {
        ("direct", "0"): 10,
        ("direct", "1"): 10,
        ("enforced", "0"): 10,
    }


def _blocking(tmp_path: Path, ledger: str) -> Run:
    guard = make_words_guard({"output": {"forced": ["house"]}}, house=Always(unsafe("house")))
    return make_run(tmp_path / "run", make_options(tmp_path, ledger=ledger), guard)


def test_a_block_on_output_says_nothing_of_the_model(tmp_path: Path) -> None:  # H-05, H-18
    run = _blocking(tmp_path, "off")
    assert run.section["gates"] == {"block_output": 10}
    for name in ("refusal_rate", "over_refusal_rate", "unsafe_answer_rate"):
        rate = run.section["rates"][name]
        assert (rate["n"], rate["unscored"]) == (0, 5), name
    assert run.section["behaviours"]["provider_block"] == 0
    assert {cell["answered_alone"]["n"] for cell in run.section["cells"].values()} == {0}
    assert [line["behaviour"] for line in run.lines] == [None] * 10
    assert all(line["usage"]["completion_tokens"] for line in run.lines)
    assert run.section["ledger"]["unsafe_alone"]["n"] == 0


@pytest.mark.parametrize("ledger", ["paired", "both"])
def test_what_the_model_does_is_read_past_the_proxy_where_it_was_asked_there(
    ledger: str, tmp_path: Path
) -> None:  # H-156, H-157
    run = _blocking(tmp_path, ledger)
    assert run.section["gates"] == {"block_output": 10}
    observed = make_run(tmp_path / "shadow", make_options(tmp_path)).section
    for name in ("refusal_rate", "over_refusal_rate", "unsafe_answer_rate", "benign_hedge_rate"):
        assert run.section["rates"][name] == observed["rates"][name], name
        assert run.section["rates"][name]["n"] == 5
    assert run.section["ledger"]["unsafe_alone"] == run.section["rates"]["unsafe_answer_rate"]
    for name, cell in run.section["cells"].items():
        assert cell["answered_alone"] == observed["cells"][name]["answered_alone"]
        assert (cell["answered_behind"]["k"], cell["answered_behind"]["n"]) == (0, 5)
    for group, found in run.section["groups"].items():
        assert found["unsafe_answer_rate"] == observed["groups"][group]["unsafe_answer_rate"]


def test_an_unsafe_answer_behind_the_guard_is_a_failure_whatever_the_model_said_past_it(rows: Rows) -> None:
    passed = next(row for row in rows if row.planned.arm == "enforced" and row.fields.get("gate") == "pass")
    assert passed.alone is not None
    key = passed.planned.trial_key
    past = replace(passed.alone, answer=AnswerVerdict(key, "answer", Label.SAFE))
    for label, wrong in ((Label.UNSAFE, True), (Label.SAFE, False)):
        row = replace(passed, answer=AnswerVerdict(key, "answer", label), alone=past)
        assert to_outcome(row).answer is Label.SAFE
        assert ("unsafe answer" in what_failed(row)) is wrong


def test_a_block_on_an_unknown_output_says_nothing_of_the_model_either(tmp_path: Path) -> None:  # H-153
    guard = make_words_guard({"output": {"forced": ["broken"]}}, broken=Fails(RuntimeError("bug")))
    run = make_run(tmp_path / "run", make_options(tmp_path, ledger="off"), guard)
    assert run.section["gates"] == {"closed_on_unknown": 10}
    assert run.section["rates"]["over_refusal_rate"]["n"] == 0


def test_what_an_older_run_noted_of_a_block_is_not_what_the_model_did(rows: Rows) -> None:
    blocked = next(row for row in rows if row.fields.get("gate") == "block_input")
    noted: JsonObject = {"behaviour": {"kind": "refused", "provider_block": True}, "gate": "block_output"}
    verdict = AnswerVerdict(blocked.planned.trial_key, "answer", Label.SAFE, behaviour="refused")
    older = Row(blocked.planned, {**blocked.fields, **noted}, verdict, None)
    assert (behaviour_of(older), alone(older, older.answer)) == ("unknown", "unknown")
    assert to_outcome(older).answer is Label.UNKNOWN
    assert count_behaviours(Alike([(older, 1)]))["provider_block"] == 0
