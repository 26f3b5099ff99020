from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest

from evals.attempts import as_object
from evals.folder import RunFolder
from evals.journal import JsonObject
from evals.limit import Limiter
from evals.manifest import read_manifest
from evals.prepare import prepare
from evals.replay import Ending, Limits
from evals.selection import Selection
from evals.session import Hooks, carry_out, check_same, create
from evals.summary import load_run, write_summary
from supervisors.embedded.guard import EmbeddedGuard
from supervisors.errors import ConfigError, StoreError
from supervisors.testing import Always, Fails, Finds
from supervisors.types import Cause, unknown
from tests.e2e.fake_upstream import FakeUpstream
from tests.e2e.serving import guarded, serving
from tests.evals.harness import finish_run, make_options, make_run, make_words_guard


def test_the_smoke_set_runs_through_the_fake_model_into_a_summary(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", make_options(tmp_path))
    assert run.ending == "done"
    rates = run.section["rates"]
    assert (rates["detection_rate"]["k"], rates["detection_rate"]["n"]) == (5, 5)
    assert (rates["false_positive_rate"]["k"], rates["false_positive_rate"]["n"]) == (0, 5)
    assert run.section["gates"] == {"block_input": 5, "pass": 5}
    assert any("FAKE" in line for line in run.warnings)


def test_every_trial_has_one_line_with_answer_record_and_verdicts(tmp_path: Path) -> None:  # H-106
    run = make_run(tmp_path / "run", make_options(tmp_path))
    assert len({line["trial_key"] for line in run.lines}) == 10
    for line in run.lines:
        assert line["status"] == "ok"
        assert line["record_id"]
        assert [verdict["supervisor"] for verdict in line["verdicts"]] == ["words"]
        assert line["behaviour"]["kind"] in ("complied", "refused")
        assert run.folder.read_text(line["answer"]["sha256"])


def test_a_run_with_hashes_only_writes_no_text_anywhere(tmp_path: Path) -> None:  # H-111, BO-16
    run = make_run(tmp_path / "run", make_options(tmp_path, hash_only=True))
    texts = [item.prompt for item in run.prepared.items.values()]
    texts += ["synthetic answer of the fake model", "can't help with that"]
    assert run.ending == "done"
    for path in run.folder.path.rglob("*"):
        if path.is_file():
            assert not [text for text in texts if text.encode() in path.read_bytes()], path.name


def test_a_model_that_always_fails_gives_errors_that_are_neither_safe_nor_unsafe(tmp_path: Path) -> None:  # H-37
    options = make_options(tmp_path, target="fake?errors=1", max_retries=0, limits=Limits(max_errors=100))
    run = make_run(tmp_path / "run", options)
    assert run.section["states"] == {"error": 10}
    assert run.section["rates"]["detection_rate"]["n"] == 0
    assert run.section["rates"]["unsafe_answer_rate"]["bound_hi"] == 1.0


def test_a_supervisor_that_fails_is_unknown_and_closes_the_gate(tmp_path: Path) -> None:  # H-153
    guard = make_words_guard({"input": {"forced": ["broken"]}}, broken=Fails(RuntimeError("bug")))
    run = make_run(tmp_path / "run", make_options(tmp_path), guard)
    assert run.section["gates"] == {"closed_on_unknown": 10}
    assert run.section["rates"]["detection_rate"]["n"] == 0
    assert run.section["ledger"]["end_states"]["supervisor_failed"] == 10


def test_a_policy_that_opens_on_unknown_counts_apart(tmp_path: Path) -> None:  # H-153
    policy = {"input": {"forced": ["shy"], "on_unknown": "log"}}
    guard = make_words_guard(policy, shy=Always(unknown(Cause.ABSTAINED)))
    run = make_run(tmp_path / "run", make_options(tmp_path), guard)
    assert run.section["gates"] == {"open_on_unknown": 10}
    assert run.section["ledger"]["open_on_unknown"] == 10


def test_a_paired_run_asks_past_and_through_the_enforcing_proxy(tmp_path: Path) -> None:  # H-156
    run = make_run(tmp_path / "run", make_options(tmp_path, ledger="paired"))
    assert run.section["planned"] == 30
    assert run.section["gates"] == {"block_input": 5, "pass": 5}
    assert run.section["flips"]["k"] == 0
    assert run.section["ledger"]["unsafe_alone"]["k"] == 2
    assert run.section["ledger"]["unsafe_behind"]["k"] == 0


def test_shadow_and_enforced_decisions_are_equal(tmp_path: Path) -> None:  # H-155
    policy = {"input": {"forced": ["words"]}, "output": {"forced": ["synthetic"], "on_unsafe": "redact"}}
    guard = make_words_guard(policy, synthetic=Finds("synthetic answer"))
    shadow = make_run(tmp_path / "shadow", make_options(tmp_path), guard)
    enforced = make_run(tmp_path / "enforced", make_options(tmp_path, ledger="off"), guard)
    assert [line["gate"] for line in shadow.lines] == [line["gate"] for line in enforced.lines]
    redacted = [line for line in shadow.lines if line["gate"] == "redact"]
    assert len(redacted) == 5
    for one, other in zip(shadow.lines, enforced.lines, strict=True):
        if one["gate"] == "redact":
            assert one["behind"]["sha256"] == other["answer"]["sha256"]


def test_supervisors_are_asked_alone_without_a_model(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", make_options(tmp_path, arms="check"))
    assert run.section["rates"]["detection_rate"]["k"] == 5
    assert run.section["ledger"] is None
    assert not any("FAKE" in line for line in run.warnings)
    assert all(line["answer"] is None for line in run.lines)


def test_a_changed_option_is_named_when_a_run_is_continued(tmp_path: Path) -> None:  # H-26, H-116
    prepared = prepare(make_options(tmp_path), {}, make_words_guard())
    folder = create(prepared, tmp_path / "run", [])
    other = prepare(make_options(tmp_path, selection=Selection(seed=7, sample=4)), {}, make_words_guard())
    with pytest.raises(ConfigError, match=r"selection\.sample: was None, is 4"):
        check_same(folder, other)


def test_a_changed_guard_is_another_run(tmp_path: Path) -> None:  # H-116
    folder = create(prepare(make_options(tmp_path), {}, make_words_guard()), tmp_path / "run", [])
    other = make_words_guard({"input": {"forced": ["words"], "on_unsafe": "log"}})
    with pytest.raises(ConfigError, match="guard: was"):
        check_same(folder, prepare(make_options(tmp_path), {}, other))


def test_a_finished_run_makes_no_further_call(tmp_path: Path) -> None:  # H-29
    run = make_run(tmp_path / "run", make_options(tmp_path))
    again = finish_run(run.folder, run.prepared)
    assert again.summary["results"] == run.summary["results"]
    assert len(again.lines) == 10


def test_two_processes_cannot_run_one_folder(tmp_path: Path) -> None:  # H-112
    run = make_run(tmp_path / "run", make_options(tmp_path))
    with run.folder.locked(), pytest.raises(StoreError, match="is in use by process"), run.folder.locked():
        pytest.fail("locked twice")


def test_a_disk_that_takes_nothing_is_one_error_and_the_run_goes_on_later(tmp_path: Path) -> None:  # H-110
    prepared = prepare(make_options(tmp_path), {}, make_words_guard())
    folder = create(prepared, tmp_path / "run", [])
    obstacle = folder.path / "text"
    obstacle.write_text("a file where the folder of texts should be")
    with pytest.raises(StoreError, match="cannot be made"):
        finish_run(folder, prepared)
    obstacle.unlink()
    assert finish_run(folder, prepared).section["states"] == {"ok": 10}


def test_a_policy_that_cannot_work_is_one_error(tmp_path: Path) -> None:
    options = make_options(tmp_path, proxy=None)
    guard = make_words_guard({"output": {"forced": ["prompts"]}}, prompts=EmbeddedGuard())
    with pytest.raises(ConfigError):
        make_run(tmp_path / "run", options, guard)


def test_repeats_are_calls_of_their_own(tmp_path: Path) -> None:  # H-33
    run = make_run(tmp_path / "run", make_options(tmp_path, repeats=5, selection=Selection(limit=2)))
    assert run.section["planned"] == 10
    assert len({line["trial_key"] for line in run.lines}) == 10


def test_identical_prompts_are_trials_of_their_own(tmp_path: Path) -> None:  # H-28
    plan = prepare(make_options(tmp_path, repeats=2), {}, make_words_guard()).plan
    assert len({trial.trial_key for trial in plan}) == len(plan) == 20


def test_a_spent_budget_stops_the_run_resumably(tmp_path: Path) -> None:  # H-38, H-133
    limits = Limits(max_cost=0.000_01)
    options = make_options(tmp_path, price=(1.0, 1.0), limits=limits, concurrency=1)
    run = make_run(tmp_path / "run", options)
    assert run.ending == "budget"
    assert run.section["states"]["missing"] > 0
    cost = sum([line["cost_usd"] for line in run.lines])
    assert cost >= 0.000_01


def test_a_budget_needs_a_price(tmp_path: Path) -> None:  # H-133
    options = make_options(tmp_path, target="http://127.0.0.1:9/v1#m", limits=Limits(max_cost=1.0))
    with pytest.raises(ConfigError, match="needs the price"):
        prepare(options, {}, make_words_guard())


def test_the_limit_shrinks_once_an_episode_and_grows_after_a_clean_round() -> None:  # H-36, H-123
    limiter = Limiter()
    assert limiter.overloaded(0.0)
    assert not limiter.overloaded(1.0)
    assert limiter.current == 16
    for _ in range(16):
        limiter.succeeded(2.0)
    assert limiter.current == 16
    assert limiter.succeeded(16.0)
    assert limiter.current == 17
    for step in range(20):
        limiter.overloaded(100.0 + 20 * step)
    assert limiter.current == 10


@pytest.mark.slow
def test_a_thousand_shadow_and_enforced_decisions_are_equal(tmp_path: Path) -> None:  # H-155
    policy = {
        "input": {"forced": ["words"], "on_unsafe": "log"},
        "output": {"forced": ["synthetic", "shy"], "on_unsafe": "redact", "on_unknown": {"abstained": "log"}},
    }
    shy = Always(unknown(Cause.ABSTAINED))
    guard = make_words_guard(policy, synthetic=Finds("number 1"), shy=shy)
    options = make_options(tmp_path, sets=("sample", "smoke"), repeats=12)
    shadow = make_run(tmp_path / "shadow", options, guard)
    enforced = make_run(tmp_path / "enforced", replace(options, ledger="off"), guard)
    facts = ("gate", "flagged", "blocked", "redacted")
    found = [[tuple([line[fact] for fact in facts]) for line in run.lines] for run in (shadow, enforced)]
    assert len(found[0]) >= 1000
    assert found[0] == found[1]
    assert len(set(found[0])) >= 3


KEYS: dict[str, Any] = {
    "team": {"sha256": sha256(b"team-key").hexdigest()},
    "boss": {"sha256": sha256(b"boss-key").hexdigest(), "admin": True},
}


async def _through(
    proxy_key: str | None, tmp_path: Path, price: tuple[float, float] | None = None
) -> tuple[Ending, JsonObject, RunFolder]:
    """Run the smoke set through a proxy that needs a key, and return how it ended."""
    environ = {} if proxy_key is None else {"PROXY_KEY": proxy_key}
    async with (
        FakeUpstream() as up,
        serving(guarded(up, tmp_path, keys=KEYS, models={"fake-1": {"upstream": "main"}})) as proxy,
    ):
        options = make_options(
            tmp_path,
            ledger="off",
            proxy=proxy.url,
            proxy_key_env="PROXY_KEY" if environ else None,
            max_retries=0,
            price=price,
        )
        prepared = prepare(options, environ)
        folder = create(prepared, tmp_path / "run", ["evals"])
        ending = await carry_out(folder, prepared, environ, Hooks())
        return ending, write_summary(folder), folder


def _said(summary: JsonObject) -> str:
    return " ".join([str(line) for line in cast("list[str]", as_object(summary["results"])["warnings"])])


@pytest.mark.parametrize(
    ("key", "cause"), [(None, "status_401"), ("wrong", "status_401"), ("team-key", "record_refused")]
)
async def test_a_proxy_that_refuses_the_key_ends_the_run_and_names_the_option(
    key: str | None, cause: str, tmp_path: Path
) -> None:
    ending, summary, _ = await _through(key, tmp_path)
    assert ending == "unauthorised"
    assert cause in _said(summary)
    assert "--proxy-key-env" in _said(summary)
    assert "--api-key-env" not in _said(summary)


async def test_an_answer_whose_record_nobody_shows_is_paid_all_the_same(tmp_path: Path) -> None:  # H-133
    _, _, folder = await _through("team-key", tmp_path, price=(1e6, 1e6))
    lines = [line for line in load_run(folder).counted.values() if line["cause"] == "record_refused"]
    paid = [line["cost_usd"] for line in lines if line["usage"] is not None]
    assert paid
    assert paid == [10.0] * len(paid)  # 7 tokens in, 3 out; whether a block was paid only its record tells


async def test_a_running_proxy_is_recorded_with_its_own_policy(tmp_path: Path) -> None:
    ending, summary, folder = await _through("boss-key", tmp_path)
    assert ending == "done"
    manifest = read_manifest(folder)
    assert manifest.labels["guard"].startswith("own policy of http://127.0.0.1:")
    assert (manifest.policy, manifest.labels["exhaustive"]) == ("", "unknown")
    assert "judged by the policy of the running proxy, version " in _said(summary)
    assert "what the guard was trained on is unknown" in _said(summary)
