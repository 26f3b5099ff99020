"""Replies whose choices count themselves oddly: judged and recorded under their own index, or a 502 (W-10, O-11)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_reply, sse
from tests.e2e.serving import CANARY, guarded, serving

ROUTES: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": [{"role": "user", "content": "x"}]},
    "completions": {"prompt": "x"},
}


def reply_of(*indexes: object, said: str = "fine") -> dict[str, Any]:
    made = [{"index": index, "message": {"role": "assistant", "content": said}, "text": said} for index in indexes]
    return {**chat_reply("x"), "choices": [{**choice, "finish_reason": "stop"} for choice in made]}


async def verifies(folder: Path) -> bool:
    return await asyncio.to_thread(main, ["verify", "--journal", str(folder / "journal.sqlite3")]) == 0


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("said", ["fine", CANARY])
@pytest.mark.parametrize("indexes", [(7,), (3, 0), (9, 7, 8)])
async def test_finish_reasons_belong_to_the_choices_own_indexes(
    tmp_path: Path, route: str, said: str, indexes: tuple[int, ...]
) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(json=reply_of(*indexes, said=said)))
        reply = await proxy.client.post(f"/v1/{route}", json={"model": "gpt", **ROUTES[route]})
        reason = "stop" if said == "fine" else "content_filter"
        assert [choice["finish_reason"] for choice in reply.json()["choices"]] == [reason] * len(indexes)
        assert (await proxy.records())[0]["client"]["finish_reasons"] == [reason] * len(indexes)
    assert await verifies(tmp_path)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("indexes", [(-1,), (True,), (0, "x"), (0, None), (0, 0), (1.5,), ("0",), ({},)])
async def test_a_choice_without_an_index_of_its_own_is_a_502(
    tmp_path: Path, route: str, indexes: tuple[object, ...]
) -> None:
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(json=reply_of(*indexes)))
        reply = await proxy.client.post(f"/v1/{route}", json={"model": "gpt", **ROUTES[route]})
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_error")
        assert (await proxy.records())[0]["client"]["finish_reasons"] == []
    assert await verifies(tmp_path)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("index", [-1, True, "x"])
async def test_a_frame_without_an_index_cuts_the_stream(tmp_path: Path, route: str, index: object) -> None:  # W-06
    choice = {"index": index, "delta": {"content": "fine"}, "text": "fine", "finish_reason": None}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(frames=sse({"id": "c", "choices": [choice]})))
        reply = await proxy.client.post(f"/v1/{route}", json={"model": "gpt", "stream": True, **ROUTES[route]})
        assert "upstream_error" in reply.text
        assert "fine" not in reply.text
    assert await verifies(tmp_path)
