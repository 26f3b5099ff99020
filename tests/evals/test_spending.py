"""What a trial costs: the answer and the verdicts, and a budget that counts both (H-38, H-133)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from evals.cli import main
from evals.client import Guard, make_guard
from evals.journal import JsonObject
from evals.prepare import prepare
from evals.replay import Ending, Limits, Used
from evals.serving import serve
from evals.session import Hooks, carry_out, create
from evals.spending import Costs, Prices, count_unpriced, spent_by, unpriced_supervisors
from evals.summary import load_run
from evals.targets import Price
from proxy.config import Config
from supervisors.errors import ConfigError
from supervisors.testing import Finds
from tests.evals.harness import make_options
from tests.evals.judges import Asked, JudgeServer
from tests.timing import PATIENCE_S

PRICES = Prices(Price(1e6, 2e6), frozenset({"words"}), frozenset({"judge", "panel/a", "panel/b"}))


def row(name: str, **fields: Any) -> JsonObject:
    return {"supervisor": name, "label": "safe", "cause": None, **fields}


@pytest.mark.parametrize(
    ("rows", "costs"),
    [
        ([], Costs()),
        ([row("judge", cost=0.5)], Costs(0.5)),
        ([row("judge", cost=0.5), row("words")], Costs(0.5)),
        ([row("judge", tokens={"input": 5, "output": 1})], Costs(0.0, ("judge",))),
        ([row("judge", label="unknown", cause="timeout")], Costs(0.0, ("judge",))),
        ([row("judge", label="unknown", cause="skipped")], Costs()),
        ([row("judge", cached=True)], Costs()),
        ([row("panel", cost=0.5), row("panel/a", cost=0.25), row("panel/b", cost=0.25)], Costs(0.5)),
        ([row("panel"), row("panel/a", cost=0.25), row("panel/b")], Costs(0.25, ("panel/b",))),
        ([row("judge", cost=0.5, stage="input"), row("judge", stage="output")], Costs(0.5, ("judge",))),
    ],
)
def test_verdicts_cost_what_their_calls_did(rows: list[Any], costs: Costs) -> None:  # H-133
    assert PRICES.of_verdicts({"verdicts": rows}) == costs


def test_what_a_running_proxy_does_not_price_is_unknown_where_it_used_tokens() -> None:  # H-133
    prices = Prices(None, paid=None)
    assert prices.of_verdicts({"verdicts": [row("a"), row("b", cost=1.0)]}) == Costs(1.0)
    assert prices.of_verdicts({"verdicts": [row("a", tokens={"input": 1, "output": 1})]}) == Costs(0.0, ("a",))


def test_a_cost_with_an_unknown_part_is_unknown_and_its_known_part_is_spent() -> None:  # H-133
    usage: JsonObject = {"usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    whole = PRICES.of_answer(usage).plus(Costs(0.5)).to_fields()
    assert (whole, spent_by(whole)) == ({"cost_usd": 5.5}, 5.5)
    part = PRICES.of_answer(usage).plus(PRICES.of_lost_verdicts()).to_fields()
    assert (part["cost_usd"], spent_by(part)) == (None, 5.0)
    assert count_unpriced([part, whole, part]) == {"judge": 2, "panel/a": 2, "panel/b": 2}
    used = Used()
    for line in (whole, part):
        used.take(1, {"type": "trial", **line})
    assert used.cost == 10.5


def judged(url: str, *, price: object = None, **supervisors: object) -> Guard:
    """Return a guard with a judge behind a model alias, beside a local rule."""
    named = {"judge": {"use": "judge", "model": "j"}, "words": Finds("violet umbrella"), **supervisors}
    config = Config.model_validate(
        {
            "upstreams": {"target": {"base_url": "http://127.0.0.1:9/v1"}, "judges": {"base_url": url}},
            "models": {"j": {"upstream": "judges", "price": price}},
            "supervisors": named,
            "policies": {"default": {"input": {"forced": list(named), "exhaustive": True}}},
        }
    )
    return make_guard("judged", config)


@pytest.mark.parametrize(
    ("price", "supervisors", "missing"),
    [
        ([1, 2], {}, {}),
        ([0, 0], {}, {}),
        (None, {}, {"judge": "models.j.price"}),
        ([1, 2], {"self": {"use": "self_judge"}}, {"self": "the price of the target"}),
    ],
)
def test_who_has_no_price_is_named_with_what_is_missing(
    price: object, supervisors: dict[str, Any], missing: dict[str, str]
) -> None:
    assert unpriced_supervisors(judged("http://127.0.0.1:9/v1", price=price, **supervisors), None) == missing


def test_members_and_hosted_guards_without_a_price_are_named() -> None:
    far = {"use": "moderation", "url": "http://127.0.0.1:9/v1"}
    own = {"use": "judge", "model": "m", "url": "http://127.0.0.1:9/v1"}
    panel = {"use": "vote", "strategy": "any", "members": {"far": far, "own": own, "near": Finds("x")}}
    found = unpriced_supervisors(judged("http://127.0.0.1:9/v1", price=[1, 2], panel=panel), Price(0, 0))
    assert sorted(found) == ["panel/far", "panel/own"]


def test_a_budget_needs_the_price_of_every_supervisor_or_leave(tmp_path: Path) -> None:  # H-133
    guard, options = judged("http://127.0.0.1:9/v1"), make_options(tmp_path, arms="check", limits=Limits(max_cost=1.0))
    with pytest.raises(ConfigError, match=r"judge \(models.j.price\); --allow-unpriced"):
        prepare(options, {}, guard)
    prepare(make_options(tmp_path, arms="check", limits=Limits(max_cost=1.0), allow_unpriced=True), {}, guard)
    prepare(options, {}, judged("http://127.0.0.1:9/v1", price=[1, 1]))


def say_safe(_: Asked) -> dict[str, object]:
    return {"label": "safe", "categories": [], "reason": ""}


async def make_direct_run(tmp_path: Path, price: object, max_cost: float) -> tuple[Ending, list[JsonObject], int]:
    app = JudgeServer(say_safe)
    async with serve(app) as url:
        limits = Limits(max_cost=max_cost)
        options = make_options(tmp_path, arms="check", limits=limits, concurrency=1, allow_unpriced=True)
        prepared = prepare(options, {}, judged(f"{url}/v1", price=price))
        folder = create(prepared, tmp_path / "run", ["evals"])
        ending = await carry_out(folder, prepared, {}, Hooks())
    return ending, list(load_run(folder).counted.values()), app.calls["j"]


async def test_what_judges_cost_stops_a_run_of_supervisors_alone(tmp_path: Path) -> None:  # H-38, H-133
    ending, lines, calls = await make_direct_run(tmp_path, [1.0, 1.0], 0.000_001)
    assert (ending, len(lines), calls) == ("budget", 1, 1)
    (line,) = lines
    verdicts: Any = line["verdicts"]
    paid = {one["supervisor"]: one["cost"] for one in verdicts}
    assert paid["words"] == 0.0
    assert line["cost_usd"] == paid["judge"] > 0.000_001


async def test_what_nobody_prices_is_named_in_every_line(tmp_path: Path) -> None:  # H-133
    ending, lines, calls = await make_direct_run(tmp_path, None, 1.0)
    assert (ending, len(lines)) == ("done", calls)
    assert {(str(line["cost_usd"]), str(line["unpriced"])) for line in lines} == {("None", "['judge']")}


def judge_beside(started: Queue[str], ended: threading.Event) -> None:
    """Serve a judge in a thread until told: a command takes the main one."""

    async def run() -> None:
        async with serve(JudgeServer(say_safe)) as url:
            started.put(url)
            await asyncio.to_thread(ended.wait)

    asyncio.run(run())


@pytest.fixture
def judge_url() -> Iterator[str]:
    started, ended = Queue[str](), threading.Event()
    thread = threading.Thread(target=judge_beside, args=(started, ended))
    thread.start()
    try:
        yield started.get(timeout=PATIENCE_S)
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize(
    ("price", "extra", "code"), [(", price: [1, 1]", (), 12), ("", (), 2), ("", ("--allow-unpriced",), 0)]
)
def test_the_command_ends_as_replay_does_and_says_what_it_could_not_count(  # H-121, H-133
    tmp_path: Path, capsys: pytest.CaptureFixture[str], judge_url: str, price: str, extra: tuple[str, ...], code: int
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f"""
upstreams: {{judges: {{base_url: "{judge_url}/v1"}}}}
models: {{j: {{upstream: judges{price}}}}}
supervisors: {{judge: {{use: judge, model: j}}}}
policies: {{default: {{input: {{forced: [judge]}}}}}}
""")
    asked = ("direct", "smoke", "--guard", str(file), "--max-cost", "0.000001", "--concurrency", "1", *extra)
    assert main([*asked, "--runs-dir", str(tmp_path / "runs"), "--data-dir", str(tmp_path)]) == code
    said = capsys.readouterr().err
    assert ("not in the budget, for nobody says what it cost: judge in" in said) is (code == 0)
    assert ("models.j.price" in said) is (code == 2)
    assert ("the budget is spent" in said) is (code == 12)
