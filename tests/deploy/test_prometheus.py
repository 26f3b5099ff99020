"""Rules, alerts and dashboard: they parse, they ask only for metrics that exist, and the rates are what they say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.metrics import Metrics
from proxy.store.rules import Labels

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
_WORD = re.compile(r"\b(?:guardrail|proxy|config)_[a-z_]+\b")
_RECORDED = re.compile(r"\bguardrail:[a-z0-9_:]+")


def exposed() -> set[str]:
    families = Metrics("0" * 64, Labels()).collect()
    names: set[str] = set()
    for family in families:
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        names |= {family.name + suffix for suffix in suffixes}
    return names


def rules(file: str) -> list[dict[str, Any]]:
    loaded = yaml.safe_load((PROMETHEUS / file).read_text("utf-8"))
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    for file in ("rules.yml", "alerts.yml"):
        for rule in rules(file):
            yield rule.get("record") or rule["alert"], rule["expr"]
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "dashboard.json").read_text("utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def test_every_expression_asks_for_metrics_that_the_proxy_exposes() -> None:
    known, recorded = exposed(), {rule["record"] for rule in rules("rules.yml")}
    wrong = {title: set(_WORD.findall(text)) - known for title, text in expressions()}
    assert {title: names for title, names in wrong.items() if names} == {}
    missing = {title: set(_RECORDED.findall(text)) - recorded for title, text in expressions()}
    assert {title: names for title, names in missing.items() if names} == {}


def test_every_recorded_rate_is_used_or_documented() -> None:
    metrics = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    assert [rule["record"] for rule in rules("rules.yml") if rule["record"] not in metrics] == []
    assert [rule["alert"] for rule in rules("alerts.yml") if rule["alert"] not in metrics] == []


def promtool(*arguments: str, cwd: Path) -> None:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    done = subprocess.run([tool, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_itself_accepts_the_files() -> None:
    promtool("check", "config", "prometheus.yml", cwd=PROMETHEUS)


def test_the_rates_have_the_numerators_and_denominators_they_name(tmp_path: Path) -> None:  # O-19
    for file in ("rules.yml", "alerts.yml"):
        shutil.copy(PROMETHEUS / file, tmp_path)
    shutil.copy(Path(__file__).with_name("rules_test.yml"), tmp_path)
    promtool("test", "rules", "rules_test.yml", cwd=tmp_path)
