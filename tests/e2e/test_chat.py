"""Whole replies over real sockets: fake upstream, proxy, HTTP client (wire §3, §5.1; guarding §5, §8)."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from supervisors.rules import Rules
from supervisors.testing import Finds, Sleeps
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_reply
from tests.e2e.serving import CANARY, guarded, hang_up, policy, serving, until
from tests.timing import HANGS_S


async def test_a_blocked_input_is_a_400_and_never_reaches_the_model(tmp_path: Path) -> None:  # D-01, E-02
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for stream in (False, True):
            reply = await proxy.chat(f"a {CANARY}", stream=stream)
            assert reply.status_code == 400
            error = reply.json()["error"]
            assert (error["code"], error["type"], error["param"]) == (
                "content_filter",
                "invalid_request_error",
                "messages",
            )
            assert error["guardrail"]["stage"] == "input"
            assert CANARY not in reply.text
            assert reply.headers["x-should-retry"] == "false"
        assert up.received == []
        records = await proxy.records(2)
        assert [record["outcome"] for record in records] == ["blocked_input", "blocked_input"]


async def test_a_blocked_output_is_a_200_with_the_notice(tmp_path: Path) -> None:  # wire §5.1, W-24
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(json=chat_reply(f"take a {CANARY}")))
        reply = await proxy.chat()
        choice = reply.json()["choices"][0]
        assert reply.status_code == 200
        assert choice["finish_reason"] == "content_filter"
        assert choice["message"]["content"] == choice["message"]["refusal"]
        assert choice["logprobs"] is None
        assert reply.json()["usage"]["total_tokens"] == 10
        assert CANARY not in reply.text


async def test_one_blocked_choice_does_not_block_its_siblings(tmp_path: Path) -> None:  # W-10, M-05
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        body = chat_reply("fine")
        second = {"index": 1, "message": {"role": "assistant", "content": CANARY}, "finish_reason": "stop"}
        body["choices"] = [*body["choices"], second]
        up.script(Answer(json=body))
        choices = (await proxy.chat(n=2)).json()["choices"]
        assert choices[0]["message"]["content"] == "fine"
        assert choices[1]["finish_reason"] == "content_filter"


async def test_a_json_caller_gets_the_notice_in_refusal_only(tmp_path: Path) -> None:  # W-22
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(json=chat_reply(CANARY)))
        reply = await proxy.chat(response_format={"type": "json_object"})
        message = reply.json()["choices"][0]["message"]
        assert message["content"] is None
        assert message["refusal"]


async def test_input_redaction_changes_what_the_model_receives(tmp_path: Path) -> None:  # G-38, M-03
    rules = policy({"forced": ["words"], "on_unsafe": "redact"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        reply = await proxy.chat(f"my {CANARY} and my {CANARY}")
        assert reply.status_code == 200
        sent = up.received[0].json["messages"][0]["content"]
        assert sent == "my [REDACTED:canary] and my [REDACTED:canary]"
        assert reply.headers["x-guardrail-decision"] == "redact"


async def test_output_redaction_masks_text_and_logprobs(tmp_path: Path) -> None:  # W-09
    rules = policy(output={"forced": ["words"], "on_unsafe": "redact"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        body = chat_reply(f"a {CANARY}!")
        tokens = ["a ", "violet", " umbrella", "!"]
        body["choices"][0]["logprobs"] = {"content": [{"token": token, "logprob": -1.0} for token in tokens]}
        up.script(Answer(json=body))
        choice = (await proxy.chat()).json()["choices"][0]
        assert choice["message"]["content"] == "a [REDACTED:canary]!"
        assert [entry["token"] for entry in choice["logprobs"]["content"]] == ["a ", "!"]


async def test_a_hit_in_a_key_of_tool_arguments_blocks(tmp_path: Path) -> None:  # G-37
    rules = policy(output={"forced": ["words"], "on_unsafe": "redact"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        body = chat_reply("")
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"violet umbrella": 1}'}}
        body["choices"][0]["message"] = {"role": "assistant", "content": None, "tool_calls": [call]}
        up.script(Answer(json=body))
        choice = (await proxy.chat()).json()["choices"][0]
        assert choice["finish_reason"] == "content_filter"
        assert "tool_calls" not in choice["message"]


async def test_shadow_changes_nothing_and_is_recorded(tmp_path: Path) -> None:  # §5 shadow
    rules = policy({"forced": ["words"], "mode": "shadow"}, {"forced": ["words"], "mode": "shadow"})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:
        up.script(Answer(json=chat_reply(f"a {CANARY}")))
        reply = await proxy.chat(f"a {CANARY}")
        assert reply.status_code == 200
        assert CANARY in reply.text
        assert reply.headers["x-guardrail-applied"] == ""
        record = (await proxy.wait_records())[0]
        assert {(row["stage"], row["mode"], row["label"]) for row in record["verdicts"]} == {
            ("input", "shadow", "unsafe"),
            ("output", "shadow", "unsafe"),
        }
        assert all(row["mode"] == "shadow" for row in record["decisions"])


async def test_a_check_never_calls_the_model(tmp_path: Path) -> None:  # D-02, W-35
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        reply = await proxy.client.post("/v1/guardrails/check", json={"input": f"a {CANARY}", "stage": "input"})
        assert reply.json()["status"] == "blocked"
        both = {
            "stage": "both",
            "messages": [{"role": "user", "content": "x"}],
            "reply": {"role": "assistant", "content": CANARY},
        }
        second = (await proxy.client.post("/v1/guardrails/check", json=both)).json()
        assert [(row["stage"], row["blocked"]) for row in second["decisions"]] == [("input", False), ("output", True)]
        assert up.received == []
        assert [record["kind"] for record in await proxy.records(2)] == ["check", "check"]


@pytest.mark.parametrize("messages", [{}, {"messages": []}])
async def test_a_reply_alone_is_judged_on_output(tmp_path: Path, messages: dict[str, Any]) -> None:  # W-35
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        reply = {"role": "assistant", "content": f"the {CANARY}"}
        asked = {"stage": "output", "reply": reply, **messages}
        found = (await proxy.client.post("/v1/guardrails/check", json=asked)).json()
        (record,) = await proxy.records()
        needs = await proxy.client.post("/v1/guardrails/check", json={"stage": "both", "reply": reply})
    assert found["status"] == "blocked"
    assert [verdict["stage"] for verdict in record["verdicts"]] == ["output"]
    assert record["view"]["segments"] == 1
    assert needs.status_code == 400


async def test_a_check_that_nobody_judged_does_not_say_passed(tmp_path: Path) -> None:  # W-35, G-18
    one_model = {"one": {"attach": {"models": ["gpt"]}, "input": {"forced": ["words"]}}}
    both = {"stage": "both", "input": "hello", "reply": {"role": "assistant", "content": "hi"}}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=one_model)) as proxy:

        async def check(**fields: Any) -> tuple[str, list[str]]:
            found = (await proxy.client.post("/v1/guardrails/check", json={**both, **fields})).json()
            return found["status"], found["not_judged"]

        assert await check() == ("not_judged", ["input", "output"])
        assert await check(model="gpt") == ("not_judged", ["output"])
        assert await check(model="gpt", input=CANARY) == ("blocked", ["output"])
        assert await check(model="gpt", dry_run=True) == ("not_judged", ["input", "output"])
        only_input = {"stage": "input", "model": "gpt", "input": "hello"}
        found = (await proxy.client.post("/v1/guardrails/check", json=only_input)).json()
    assert (found["status"], found["not_judged"], found["decisions"][0]["policy"]) == ("passed", [], "one")


async def test_a_check_is_about_the_stages_that_were_asked_for(tmp_path: Path) -> None:  # W-35
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        asked = {"stage": "output", "reply": {"role": "assistant", "content": "hi"}}
        found = (await proxy.client.post("/v1/guardrails/check", json=asked)).json()
    assert (found["status"], found["not_judged"]) == ("passed", [])


async def test_a_check_ends_when_its_caller_leaves(tmp_path: Path) -> None:  # O-10
    slow = {"words": Sleeps(HANGS_S)}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=slow)) as proxy:
        asked = proxy.client.post("/v1/guardrails/check", json={"stage": "input", "input": "x"})
        await hang_up(asked, until(lambda: proxy.app.gateway.in_flight == 1))
        (record,) = await proxy.wait_records()
        assert (record["kind"], record["outcome"], record["client"]["status"]) == ("check", "cancelled", 499)
        assert [row["cause"] for row in record["verdicts"]] == ["skipped"]
        await until(lambda: proxy.app.gateway.in_flight == 0)
    assert main(["verify", "--journal", str(tmp_path / "journal.sqlite3")]) == 0


async def test_supervisors_are_added_to_a_check_too_or_refused(tmp_path: Path) -> None:  # wire §2.4, W-35
    rules = policy({"optional": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=rules)) as proxy:

        async def check(header: str | None = None, **fields: Any) -> str:
            headers = {} if header is None else {"x-guardrail-add": header}
            asked = {"stage": "input", "input": CANARY, **fields}
            found = (await proxy.client.post("/v1/guardrails/check", json=asked, headers=headers)).json()
            return str(found["status"] if "status" in found else found["error"]["code"])

        assert await check() == "not_judged"
        assert await check(guardrails=["words"]) == "blocked"
        assert await check("words") == "blocked"
        assert await check("nobody") == "unknown_guardrail"
        assert await check("words", policy="default") == "invalid_guardrails"
        assert await check(policy=7) == "invalid_value"


async def test_the_guardrails_of_a_model_are_listed_when_it_is_named(tmp_path: Path) -> None:  # W-36
    one_model = {"one": {"attach": {"models": ["gpt"]}, "input": {"forced": ["words"]}}}
    key = {"app": {"sha256": sha256(b"k" * 40).hexdigest(), "models": ["gpt"]}}
    headers = {"authorization": f"Bearer {'k' * 40}"}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies=one_model, keys=key)) as proxy:
        every = await proxy.client.get("/v1/guardrails", headers=headers)
        named = await proxy.client.get("/v1/guardrails?model=gpt", headers=headers)
        other = await proxy.client.get("/v1/guardrails?model=other", headers=headers)
    assert every.json()["data"] == []
    assert named.json()["data"] == [{"name": "words", "stages": ["input"], "optional": False}]
    assert other.status_code == 403


async def test_the_journal_holds_after_mixed_traffic(tmp_path: Path) -> None:  # L-01, §4.3
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        for text in ("hello", CANARY):
            for stream in (False, True):
                up.script(Answer(), Answer())
                await proxy.chat(text, stream=stream)
        await proxy.client.post("/v1/chat/completions", content=b"{")
        await proxy.app.gateway.journal.flush()
        address = f"{proxy.url}/metrics"
        code = await asyncio.to_thread(
            main, ["verify", "--journal", str(tmp_path / "journal.sqlite3"), "--metrics", address]
        )
        assert code == 0


async def test_a_supervisor_with_nothing_in_scope_is_no_difference(tmp_path: Path) -> None:  # G-17, §4.3
    narrow = {"words": Rules(keywords=(CANARY,), roles=("tool",))}
    rules = policy({"forced": ["words"]}, {"forced": ["words"]})
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=narrow, policies=rules)) as proxy:
        for stream in (False, True):
            assert (await proxy.chat(stream=stream)).status_code == 200
        found = [(row["stage"], row["detail"]) for record in await proxy.records(2) for row in record["verdicts"]]
        assert found == [("input", "nothing_in_scope"), ("output", "nothing_in_scope")] * 2
    assert await asyncio.to_thread(main, ["verify", "--journal", str(tmp_path / "journal.sqlite3")]) == 0


async def test_only_what_a_rule_redacts_is_redacted(tmp_path: Path) -> None:  # G-34, D-08b
    supervisors = {"words": Finds(CANARY), "names": Finds("Ada", category="name")}
    policies = {
        "mask": {"input": {"forced": ["words"], "on_unsafe": "redact"}},
        "watch": {"input": {"forced": ["names"], "on_unsafe": "log"}},
    }
    async with (
        FakeUpstream() as up,
        serving(guarded(up, tmp_path, supervisors=supervisors, policies=policies)) as proxy,
    ):
        await proxy.chat(f"Ada has a {CANARY}")
        assert up.received[0].json["messages"][0]["content"] == "Ada has a [REDACTED:canary]"


async def test_output_supervisors_see_the_request_as_it_was_sent(tmp_path: Path) -> None:  # L-03
    seen: list[str] = []

    class Watch(Finds):
        async def assess(self, exchange: Any, context: object, /) -> Any:
            seen.extend([segment.text for segment in exchange.request])
            return await super().assess(exchange, context)

    rules = policy({"forced": ["words"], "on_unsafe": "redact"}, {"forced": ["watch"]})
    supervisors = {"words": Finds(CANARY), "watch": Watch("nothing")}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, supervisors=supervisors, policies=rules)) as proxy:
        await proxy.chat(f"my {CANARY}")
        assert seen == ["my [REDACTED:canary]"]


async def test_a_policy_for_a_model_pattern_holds_under_a_wildcard_model(tmp_path: Path) -> None:  # G-15
    rules = {"strict": {"attach": {"models": ["gpt-4*"]}, "input": {"forced": ["words"]}}}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, models={}, policies=rules)) as proxy:
        assert (await proxy.chat(CANARY, model="gpt-4o")).status_code == 400
        assert (await proxy.chat(CANARY, model="small")).status_code == 200


async def test_an_odd_reply_passes_where_nobody_judges_it(tmp_path: Path) -> None:  # W-07
    async with FakeUpstream() as up, serving(guarded(up, tmp_path, policies={})) as proxy:
        up.script(Answer(json={"answer": 42}), Answer(json={"answer": 42}))
        assert (await proxy.chat()).json() == {"answer": 42}
    async with FakeUpstream() as up, serving(guarded(up, tmp_path)) as proxy:
        up.script(Answer(json={"answer": 42}))
        assert (await proxy.chat()).status_code == 502
