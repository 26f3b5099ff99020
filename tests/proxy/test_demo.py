"""The demo runs from an empty folder, shows one exchange of each kind, and counts what it shows."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from proxy.demo import PORT, Served, describe_blocks, describe_own_rule, flag_rates, serve_again
from proxy.demo_upstream import FAKE_MODEL, start_fake
from proxy.metrics import Exposition

ROOT = Path(__file__).resolve().parents[2]


def sample(label: str, cause: str = "none") -> tuple[str, tuple[tuple[str, str], ...]]:
    labels = {"supervisor": "embedded", "stage": "input", "label": label, "cause": cause}
    return "guardrail_verdicts_total", tuple(sorted(labels.items()))


def test_a_flag_rate_leaves_unknown_out_of_its_denominator_and_shows_it() -> None:
    counts = {sample("safe"): 6.0, sample("unsafe"): 2.0, sample("unknown", "timeout"): 3.0}
    skipped = {sample("unknown", "skipped"): 9.0}
    assert flag_rates(Exposition({}, {**counts, **skipped})) == ["embedded on input: flag rate 0.250 (2/8), unknown 3"]


def test_a_supervisor_without_a_verdict_has_no_rate() -> None:
    shown = flag_rates(Exposition({}, {sample("unknown", "error"): 1.0}))
    assert shown == ["embedded on input: flag rate none (0/0), unknown 1"]


def test_the_fake_upstream_repeats_what_it_was_told() -> None:
    with start_fake() as url:
        body = {"model": FAKE_MODEL, "messages": [{"role": "user", "content": "hello"}]}
        reply = httpx.post(f"{url}/chat/completions", json=body, timeout=10, trust_env=False).json()
    assert reply["choices"][0]["message"]["content"] == "You said: hello"


@pytest.mark.parametrize(("port", "option"), [(PORT, ""), (32781, " --port 32781")])
def test_the_demo_can_be_served_again_at_the_addresses_it_prints(port: int, option: str) -> None:
    served = Served(f"http://127.0.0.1:{port}", FAKE_MODEL, Path("config.yaml"))
    assert serve_again(served) == f"serve config.yaml{option}"


@contextmanager
def taken(port: int) -> Generator[None]:
    """Listen on a port, unless somebody else does."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of before are not a listener
        with suppress(OSError):
            listener.bind(("127.0.0.1", port))
            listener.listen()
        yield


@pytest.mark.slow
def test_the_demo_shows_each_kind_of_exchange_and_proves_its_journal(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # noqa: TID251 - the child needs the rest of it
    with taken(PORT):
        done = subprocess.run(
            [sys.executable, "-m", "proxy.demo", "--fake"],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAKE upstream" in done.stdout
    (port,) = re.findall(rf"Port {PORT} is taken, using (\d+) instead", done.stdout)
    assert f" --port {port}\n" in done.stdout
    assert f"base_url=http://127.0.0.1:{port}/v1" in done.stdout
    assert [line.split()[-1] for line in done.stdout.splitlines() if "status:" in line] == ["200", "400", "200"]
    assert "finish:     content_filter" in done.stdout
    assert "embedded on input: flag rate" in done.stdout
    assert "everything holds" in done.stdout
    assert (tmp_path / "runs" / "demo" / "config.yaml").is_file()
    reports = [line.removeprefix("report: ") for line in done.stdout.splitlines() if line.startswith("report: ")]
    assert len(reports) == 2
    assert all((tmp_path / report).is_file() for report in reports)
    assert "1 of 2 false positives (FPR) by `house`" in done.stdout
    assert "--ledger unsafe" not in done.stdout
    assert "safety gained" not in done.stdout or "n/a: no answer of the model alone" in done.stdout
    (blocked,) = re.findall(r"the guard blocked (\d+) of 89 rows; 52 of them ask for help", done.stdout)
    assert 0 < int(blocked) < 10


def test_the_demo_names_the_rows_that_a_guard_should_have_let_pass() -> None:
    def found(wrong: list[str]) -> list[str]:
        arm = {"all": {"blocked": 4, "helpful_rate": {"planned": 52}}}
        nessie = {"fake-1": {"lenient": {"with proxy": arm, "effect": {"false_blocks": wrong}}}}
        return describe_blocks({"results": {"nessie": nessie, "progress": {"planned": 178}}})

    assert found(["skill/x/y"])[:2] == [
        "the guard blocked 4 of 89 rows; 52 of them ask for help, and of these it blocked 1:",
        "  skill/x/y",
    ]
    assert found([])[0].endswith("of these it blocked 0")


@pytest.mark.parametrize(
    ("supervisors", "shown"),
    [
        ({"house@output": {"false_positive_rate": {"k": 1}}}, "1 of 2 false positives (FPR) by `house`"),
        ({"embedded@input": {}}, ""),
    ],
)
def test_the_demo_says_which_false_positives_are_its_own_rule(supervisors: dict[str, object], shown: str) -> None:
    section = {"rates": {"false_positive_rate": {"k": 2}}, "supervisors": supervisors}
    said = describe_own_rule({"results": {"sections": [section]}})
    assert shown in " ".join(said)
    assert bool(said) is bool(shown)
