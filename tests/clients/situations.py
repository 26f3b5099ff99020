"""The seven situations every client is put into: what the proxy does, and what the model server says."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from supervisors.testing import Fails, Finds
from supervisors.types import Supervisor
from tests.e2e.fake_upstream import FakeUpstream
from tests.e2e.serving import CANARY, guarded, policy

WINDOW = {"window_chars": 12, "overlap_chars": 20}
NOTICE = "This request cannot be completed because of a content policy."
FINDS_HELLO: Mapping[str, Supervisor] = {"words": Finds("hello")}
DOWN: Mapping[str, Supervisor] = {"words": Fails(RuntimeError("down"))}
LONG = "All is well here, and it goes on. "
BUSY = {"error": {"message": "busy", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"}}


def blocks_input(up: FakeUpstream, folder: Path) -> dict[str, Any]:
    """Return a config that blocks what these clients say."""
    return guarded(up, folder, supervisors=FINDS_HELLO, policies=policy({"forced": ["words"]}))


def redacts(up: FakeUpstream, folder: Path) -> dict[str, Any]:
    """Return a config that takes the canary out of replies."""
    return guarded(up, folder, policies=policy(output={"forced": ["words"], "on_unsafe": "redact", "stream": WINDOW}))


def is_down(up: FakeUpstream, folder: Path) -> dict[str, Any]:
    """Return a config whose supervisor fails."""
    return guarded(up, folder, supervisors=DOWN)


REDACTED = f"a {CANARY} here".replace(CANARY, "[REDACTED:canary]")


async def use(python: Path, script: Path, url: str, *cases: str) -> Sequence[dict[str, Any]]:
    """Run a script of a client's own Python, and return what it prints."""
    process = await asyncio.create_subprocess_exec(
        str(python), str(script), url, *cases, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with asyncio.timeout(120):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    results: list[dict[str, Any]] = json.loads(out)
    return results
