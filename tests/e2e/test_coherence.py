"""A self-judge on the input puts the model's coherence into record and metrics (C-01, operations §5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisors.self_judge import SelfJudge
from tests.e2e.fake_upstream import Answer, FakeUpstream, chat_reply
from tests.e2e.serving import policy, serving, tree


@pytest.mark.parametrize(
    ("own", "answer", "state"),
    [
        ("1", "Sure. First, take the umbrella, then open it slowly.", "incoherent"),
        ("1", "I'm sorry, but I can't help with that.", "coherent"),
        ("0", "Sure. First, take the umbrella, then open it slowly.", "coherent"),
        ("perhaps", "Sure. First, take the umbrella, then open it slowly.", "unknown"),
    ],
)
async def test_the_record_says_whether_the_model_follows_its_own_verdict(
    tmp_path: Path, own: str, answer: str, state: str
) -> None:
    supervisors = {"self": SelfJudge(style="digit")}
    rules = policy({"forced": ["self"], "mode": "shadow"})
    async with FakeUpstream() as up, serving(tree(up.url, tmp_path, supervisors=supervisors, policies=rules)) as proxy:
        up.script(Answer(json=chat_reply(answer)), Answer(json=chat_reply(own)))
        assert (await proxy.chat("about umbrellas")).status_code == 200
        record = (await proxy.wait_records())[0]
        assert record["coherence"]["state"] == state
        metrics = (await proxy.client.get("/metrics")).text
        assert f'guardrail_coherence_total{{model="gpt",state="{state}"}} 1.0' in metrics
