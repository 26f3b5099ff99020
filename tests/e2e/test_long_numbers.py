"""Numbers that no double holds: kept as they came in the reply, read as numbers in the record."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from proxy.cli import main
from tests.e2e.fake_messages import ask
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.serving import guarded, policy, serving

USAGE = (
    '{"prompt_tokens":1e2,"completion_tokens":3,"input_tokens":100000000000000000000,"output_tokens":3,'
    '"cost":0.000012345678901234567}'
)
CALL = r'{"id":"c","type":"function","function":{"name":"f","arguments":"{\"n\":123456789012345678901234567890}"}}'
CHOICE = f'{{"index":0,"message":{{"role":"assistant","content":"hi","tool_calls":[{CALL}]}},"finish_reason":"stop"}}'
CHAT = f'{{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{CHOICE}],"usage":{USAGE}}}'
REDACT = policy({}, {"forced": ["words"], "on_unsafe": "redact"})


@pytest.mark.parametrize("messages", [False, True])
async def test_long_numbers_in_a_reply_do_not_spoil_its_record(tmp_path: Path, *, messages: bool) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=REDACT)) as proxy:
        for text in ("hi", "a violet umbrella"):
            body = CHAT.replace('"hi"', f'"{text}"').encode()
            up.script(Answer(body=body, headers={"content-type": "application/json"}))
            reply = await ask(proxy) if messages else await proxy.chat()
            assert reply.status_code == 200
            assert b"123456789012345678901234567890" in reply.content
            assert b"violet" not in reply.content
        for record in await proxy.records(2):
            assert record["usage"]["output_tokens"] == 3
    assert await asyncio.to_thread(main, ["verify", "--journal", str(tmp_path / "journal.sqlite3")]) == 0
