from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evals.alike import count_alike
from evals.cautions import NOT_EXHAUSTIVE, warn_of_run
from evals.client import Guard, make_guard
from evals.manifest import read_manifest
from evals.report.html import About, to_page
from evals.report.table import results_table
from evals.rows import join
from evals.selection import Selection
from evals.session import Hooks
from evals.summary import load_run
from proxy.config import Config
from supervisors.testing import Always, Fails, Finds
from supervisors.types import safe
from tests.evals.harness import CANARY, Shown, make_options, make_run, make_words_guard


def _watched_guard() -> Guard:
    """Return a guard that enforces one supervisor and lets one that always fails watch."""
    config = Config.model_validate(
        {
            "upstreams": {"target": {"base_url": "http://127.0.0.1:9/v1"}},
            "supervisors": {"words": Finds(CANARY), "broken": Fails(RuntimeError("broken"))},
            "policies": {
                "default": {"input": {"forced": ["words"]}},
                "watch": {"input": {"forced": ["broken"], "mode": "shadow"}},
            },
        }
    )
    return make_guard("watched", config)


@pytest.mark.parametrize("ledger", ["off", "shadow", "paired"])
def test_a_failing_supervisor_that_only_watches_changes_no_result(ledger: str, tmp_path: Path) -> None:
    alone = make_run(tmp_path / "alone", make_options(tmp_path, ledger=ledger))
    shown = Shown()
    options = make_options(tmp_path, ledger=ledger)
    watched = make_run(tmp_path / "watched", options, _watched_guard(), Hooks(shown.states.append))
    for name in ("detection_rate", "false_positive_rate", "unknown_rate", "failure_rate"):
        assert watched.section["rates"][name] == alone.section["rates"][name], name
    assert watched.section["gates"] == alone.section["gates"]
    assert shown.states[-1]["unknown"] == watched.section["rates"]["unknown_rate"]["k"] == 0
    assert watched.section["watching"] == ["broken@input"]
    assert any("broken@input only watches" in line and "10 unknown" in line for line in watched.warnings)
    page = to_page(watched.summary, About("watched", read_manifest(watched.folder)), {})
    assert "broken@input (shadow)" in page


def test_progress_calls_unknown_what_the_tables_call_unknown(tmp_path: Path) -> None:
    shown = Shown()
    guard = make_words_guard(
        {"input": {"forced": ["words", "broken"], "on_unknown": "log"}}, broken=Fails(RuntimeError("broken"))
    )
    run = make_run(tmp_path / "run", make_options(tmp_path), guard, Hooks(shown.states.append))
    assert shown.states[-1]["unknown"] == run.section["rates"]["unknown_rate"]["k"] == 5


def test_the_warning_of_a_policy_that_is_not_exhaustive_says_what_to_do(tmp_path: Path) -> None:  # H-134
    guard = make_words_guard({"input": {"forced": ["words", "other"]}}, other=Always(safe()))
    run = make_run(tmp_path / "run", make_options(tmp_path), guard)
    assert NOT_EXHAUSTIVE in run.warnings
    assert "exhaustive: true" in NOT_EXHAUSTIVE
    assert "H-" not in NOT_EXHAUSTIVE


def test_safety_gained_is_not_known_where_blocked_items_were_not_asked_alone(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", make_options(tmp_path, ledger="off"))
    assert run.section["ledger"]["marginal_safety"] is None
    assert "--ledger off" in run.section["ledger"]["no_marginal_safety"]
    row = next(line for line in results_table(run.summary) if "safety gained" in line)
    assert "n/a: no answer of the model alone" in row


NONE_OF = "no jailbroken item of family "


@pytest.mark.parametrize(
    ("dataset", "families", "said"),
    [
        ("bells", (), "narrative, syntactic, generative is in this run, so there is no BELLS score and no bells.html;"),
        ("bells", ("narrative", "syntactic"), "generative is in this run, so there is no BELLS score;"),
        ("bells", ("narrative", "syntactic", "generative"), None),
        ("x", (), None),
    ],
)
def test_a_run_of_bells_without_a_family_says_why_it_has_no_score(
    dataset: str, families: tuple[str, ...], said: str | None, tmp_path: Path
) -> None:  # B-08
    run = make_run(tmp_path / "run", make_options(tmp_path, selection=Selection(limit=4)))
    loaded = load_run(run.folder)
    manners = [("jailbroken", family) for family in families]
    places = [*manners, *[("direct", None)] * 4][:4]
    plan = [
        replace(trial, dataset=dataset, adversariality=manner, family=family)
        for trial, (manner, family) in zip(loaded.plan, places, strict=True)
    ]
    warnings = warn_of_run(loaded.manifest, count_alike(join(plan, loaded.counted, None)))
    found = [line for line in warnings if NONE_OF in line]
    assert len(found) == (said is not None)
    assert said is None or found[0].startswith(f"bells: {NONE_OF}{said}")
    assert all("take more" not in line for line in found)
