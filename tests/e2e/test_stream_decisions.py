"""A stream blocked for what its joined verdicts do not tell is recorded, counted and proven as blocked (G-37, O-11)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest

from proxy.cli import main
from supervisors.testing import Finds
from supervisors.types import Exchange, Supervisor, Verdict
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.families import FAMILIES, Family, families_tree, frames_for
from tests.e2e.serving import CANARY, Serving, policy, serving

LONG = "a door of the old and very small town"
"""Longer than a window: its first half leaves before a supervisor that declares no longest match sees the second."""
SPLIT = (
    "well, here comes a door of",
    " the old bridge, a door of",
    " the old and very small",
    " town, and so",
    " on and on, and on",
)


@dataclass(frozen=True, slots=True)
class FindsThenFails(Finds):
    """Find the phrase in the first two passes, and break in those that follow."""

    passes: list[int] = field(default_factory=list[int])

    async def assess(self, exchange: Exchange, context: object, /) -> Verdict:
        """Judge twice."""
        if len(self.passes) == 2:
            msg = "down"
            raise RuntimeError(msg)
        self.passes.append(1)
        return await Finds.assess(self, exchange, context)


class Undeclared(Finds):
    """Find the phrase, and declare no longest match: what was judged safe leaves at once."""

    def holdback_chars(self) -> int:
        """Return nothing to hold back."""
        return 0


def with_key(frames: list[bytes]) -> list[bytes]:
    """Return a stream whose third event has a member with the canary for a name: no redaction reaches it."""
    head, _, data = frames[2].rpartition(b"data: ")
    frames[2] = head + b"data: " + orjson.dumps({**orjson.loads(data), "extra": {CANARY: 1}}) + b"\n\n"
    return frames


async def holds(proxy: Serving, folder: Path) -> bool:
    arguments = ["verify", "--journal", str(folder / "journal.sqlite3"), "--metrics", f"{proxy.url}/metrics"]
    return await asyncio.to_thread(main, arguments) == 0


cases = [(family, "key") for family in FAMILIES if family.name != "translated"]  # which has no place for new members
cases += [(family, case) for family in FAMILIES for case in ("late", "fails") if family.name in ("chat", "responses")]


@pytest.mark.parametrize(("family", "case"), cases, ids=[f"{family.name}-{case}" for family, case in cases])
async def test_what_blocks_a_stream_blocks_its_record(tmp_path: Path, family: Family, case: str) -> None:
    seen: dict[str, Supervisor] = {
        "key": Finds(CANARY),
        "late": Undeclared(LONG, capability="windowed"),
        "fails": FindsThenFails(CANARY),
    }
    texts = (f"a {CANARY} here, ", *SPLIT[2:], *SPLIT[2:]) if case == "fails" else SPLIT
    frames = frames_for(family.upstream, *texts)
    window = {"window_chars": 16, "overlap_chars": 40}
    rules = policy(output={"forced": ["words"], "on_unsafe": "redact", "stream": window})
    tree = {"policies": rules, "supervisors": {"words": seen[case]}}
    async with FakeUpstream() as up, serving(families_tree(up, tmp_path, **tree)) as proxy:
        up.script(Answer(frames=with_key(frames) if case == "key" else frames))
        reply = await proxy.client.post(family.route, json=family.body(stream=True))
        assert reply.status_code == 200
        assert CANARY not in reply.text
        assert "town" not in reply.text
        (record,) = await proxy.records()
        assert record["outcome"] == ("unavailable" if case == "fails" else "blocked_output")
        assert [(row["action"], row["redacted"]) for row in record["decisions"]] == [("block", False)]
        assert [row["late_spans"] for row in record["decisions"]] == [1 if case == "late" else 0]
        assert await holds(proxy, tmp_path)
