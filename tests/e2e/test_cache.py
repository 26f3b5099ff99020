"""Kept verdicts from the file to header, journal and metrics (guarding G-43, G-44)."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proxy.config import parse_config
from supervisors.errors import ConfigError
from tests.e2e.fake_upstream import FakeUpstream
from tests.e2e.serving import CANARY, policy, serving, tree

JUDGE: dict[str, Any] = {"use": "rules", "keywords": [CANARY]}


def config(up: FakeUpstream, folder: Path, cache: dict[str, Any], **parts: Any) -> Any:
    rules = policy({"forced": ["words"]}, {"forced": ["words"]})
    made = tree(up.url, folder, supervisors={"words": {**JUDGE, "cache": cache}}, policies=rules, **parts)
    return parse_config(json.dumps(made, default=str))


async def test_a_kept_verdict_decides_like_a_new_one_and_shows(tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(config(up, tmp_path, {"ttl_s": 60, "max_entries": 10})) as proxy:
        for text, status in ((CANARY, 400), ("hello", 200)):
            for cached in (False, True):
                assert (await proxy.chat(text)).status_code == status
                (record,) = await proxy.records()
                ran = [row["cached"] for row in record["verdicts"] if row["cause"] != "skipped"]
                assert ran == [cached] * len(ran)
        metrics = (await proxy.client.get("/metrics")).text
        assert 'guardrail_cache_total{result="hit",supervisor="words"} 3.0' in metrics
        assert 'guardrail_cache_total{result="miss",supervisor="words"} 3.0' in metrics


@pytest.mark.parametrize(("scope", "hits"), [("key", 0), ("global", 1)])
async def test_callers_share_only_what_the_config_lets_them(tmp_path: Path, scope: str, hits: int) -> None:
    keys = {name: {"sha256": sha256(name.encode() * 40).hexdigest(), "admin": True} for name in ("a", "b")}
    async with FakeUpstream() as up, serving(config(up, tmp_path, {"scope": scope}, keys=keys)) as proxy:
        for name in keys:
            proxy.client.headers["authorization"] = f"Bearer {name * 40}"
            assert (await proxy.chat(CANARY)).status_code == 400
        found = [row["cached"] for record in await proxy.records(2) for row in record["verdicts"]]
        assert sum(found) == hits


def test_a_cache_without_a_supervisor_is_an_error(tmp_path: Path) -> None:
    made = tree("http://127.0.0.1:1/v1", tmp_path, caches={"nobody": {}})
    with pytest.raises(ConfigError, match=r"caches\.nobody: unknown supervisor"):
        parse_config(json.dumps(made, default=str))
