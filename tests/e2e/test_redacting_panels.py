"""What a redaction leaves of a text has to be judged, too: by the other members of a panel or cascade (G-24, F-01), and
by a supervisor that could not read all of it (G-05, G-08)."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from supervisors.cascade import Cascade
from supervisors.errors import ChatUnavailable
from supervisors.rules import Rules
from supervisors.testing import Always, Fails, Finds
from supervisors.types import Supervisor, safe, unsafe
from supervisors.vote import Vote
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_chunks, chat_reply, sse
from tests.e2e.serving import CANARY, guarded, policy, serving

TEXT = f"a {CANARY} and more"
MASKED = "a [REDACTED:canary] and more"
OTHERS: dict[str, tuple[Supervisor, bool]] = {
    "safe": (Always(safe()), True),
    "objects": (Always(unsafe("elsewhere")), False),
    "failed": (Fails(ChatUnavailable("down")), False),
}


def compose(kind: str, other: Supervisor) -> Supervisor:
    finds = Finds(CANARY)
    if kind == "cascade":
        return Cascade.model_validate({"steps": [{"supervisor": finds}, {"supervisor": other}]})
    return Vote.model_validate({"strategy": kind, "members": {"finds": finds, "other": other}})


def config(up: FakeUpstream, folder: Path, kind: str, other: str, stage: str) -> Any:
    entry = {"forced": ["panel"], "on_unsafe": "redact"}
    rules = policy(entry) if stage == "input" else policy(output=entry)
    return guarded(up, folder, supervisors={"panel": compose(kind, OTHERS[other][0])}, policies=rules)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("kind", ["cascade", "any"])
async def test_a_request_is_masked_only_if_the_others_take_the_rest_for_safe(
    kind: str, other: str, tmp_path: Path
) -> None:
    passes = OTHERS[other][1]
    async with FakeUpstream() as up, serving(config(up, tmp_path, kind, other, "input")) as proxy:
        reply = await proxy.chat(TEXT)
        assert reply.headers["x-guardrail-decision"] == ("redact" if passes else "block")
        sent = [request.json["messages"][0]["content"] for request in up.received]
        assert sent == ([MASKED] if passes else [])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("kind", ["cascade", "any"])
async def test_so_is_a_reply(kind: str, other: str, stream: bool, tmp_path: Path) -> None:
    async with FakeUpstream() as up, serving(config(up, tmp_path, kind, other, "output")) as proxy:
        up.script(Answer(frames=sse(*chat_chunks(TEXT[:4], TEXT[4:]))) if stream else Answer(json=chat_reply(TEXT)))
        reply = await proxy.chat(stream=stream)
        assert ("and more" in reply.text) is OTHERS[other][1]
        assert CANARY not in reply.text


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("kind", ["cascade", "any"])
async def test_a_finding_that_is_only_noted_ends_no_panel(kind: str, other: str, tmp_path: Path) -> None:  # M-08
    words: Supervisor = Rules(keywords=(CANARY,))
    step, rest = {"supervisor": words}, OTHERS[other][0]
    panel: Supervisor = (
        Cascade.model_validate({"steps": [step, {"supervisor": rest}]})
        if kind == "cascade"
        else Vote.model_validate({"strategy": kind, "members": {"words": words, "other": rest}})
    )
    rules = policy({"forced": ["panel"]})  # findings in tool definitions are logged by default
    tool = {"type": "function", "function": {"name": "find", "description": f"finds a {CANARY}"}}
    async with (
        FakeUpstream() as up,
        serving(guarded(up, tmp_path, supervisors={"panel": panel}, policies=rules)) as proxy,
    ):
        await proxy.chat("hello", tools=[tool])
        assert len(up.received) == OTHERS[other][1]
        await proxy.chat(TEXT, tools=[tool])
        assert len(up.received) == OTHERS[other][1]  # in the conversation it blocks


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
ENCODED = " ".join([b64encode(f"Letter {at} of many, to you".encode()).decode() for at in range(300)])


@pytest.mark.parametrize("on_unsafe", ["redact", "log"])
@pytest.mark.parametrize("on_unknown", ["block", "log"])
@pytest.mark.parametrize(
    ("cause", "more"), [("unsupported", PICTURE), ("over_limit", {"type": "text", "text": ENCODED})]
)
async def test_a_finding_does_not_hide_what_was_not_read(
    cause: str, more: dict[str, Any], on_unknown: str, on_unsafe: str, tmp_path: Path
) -> None:
    entry = {"forced": ["words"], "on_unsafe": on_unsafe, "on_unknown": {cause: on_unknown}}
    words = {"words": Rules(keywords=(CANARY,))}
    async with (
        FakeUpstream() as up,
        serving(guarded(up, tmp_path, supervisors=words, policies=policy(entry))) as proxy,
    ):
        content = [{"type": "text", "text": TEXT}, more]
        await proxy.chat(messages=[{"role": "user", "content": content}])
        assert len(up.received) == (on_unknown == "log")
        assert all((b"[REDACTED:" in request.body) is (on_unsafe == "redact") for request in up.received)
        [record] = await proxy.records(1)
        assert [row["rest"] for row in record["verdicts"] if row["supervisor"] == "words"][:1] == [cause]
    assert await asyncio.to_thread(main, ["verify", "--journal", str(tmp_path / "journal.sqlite3")]) == 0


async def test_a_panel_that_blocks_asks_no_further_than_it_must(tmp_path: Path) -> None:
    supervisors = {"panel": compose("cascade", OTHERS["failed"][0])}
    async with (
        FakeUpstream() as up,
        serving(guarded(up, tmp_path, supervisors=supervisors, policies=policy({"forced": ["panel"]}))) as proxy,
    ):
        assert (await proxy.chat(TEXT)).status_code == 400
        [record] = await proxy.records(1)
        assert [(row["supervisor"], row["cause"]) for row in record["verdicts"]] == [
            ("panel", None),
            ("panel/step1", None),
            ("panel/step2", "skipped"),
        ]
