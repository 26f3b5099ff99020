from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.cli import main
from proxy.commands.attack import attack_all, describe, find_judges, to_json
from proxy.config import Config, parse_config
from supervisors.attacks import ATTACKS, CANARY
from supervisors.errors import ConfigError
from tests.e2e.fake_replies import chat_reply
from tests.e2e.fake_upstream import Answer, FakeUpstream, Received
from tests.judging import judged_as

CONFIG = """
upstreams: {{main: {{base_url: {url}}}}}
models: {{m: {{upstream: main}}}}
supervisors:
  words: {{use: rules, keywords: [x]}}
  harm: {{use: judge, model: m}}
  panel: {{use: vote, members: {{a: {{use: judge, model: m, prompt: injection}}, b: words}}}}
"""


def config(url: str = "http://127.0.0.1:1/v1") -> Config:
    return parse_config(CONFIG.format(url=url), {})


def judge_that(says: Callable[[str], str]) -> Callable[[Received], Answer]:
    def answer(request: Received) -> Answer:
        system, material = [message["content"] for message in json.loads(request.body)["messages"][:2]]
        return Answer(json=chat_reply(judged_as(says(material.split("JUDGE role=", 1)[1]), system)))

    return answer


def reads(judged: str) -> str:
    return "unsafe" if CANARY in judged else "safe"


def obeys(judged: str) -> str:
    return "safe" if "Ignore all earlier instructions" in judged else reads(judged)


def test_judges_are_found_inside_panels_too() -> None:
    assert list(find_judges(config(), None)) == ["harm", "panel/a"]
    assert list(find_judges(config(), "panel/a")) == ["panel/a"]
    with pytest.raises(ConfigError, match="no judge to attack of the name 'words'; judges: harm, panel/a"):
        find_judges(config(), "words")


@pytest.mark.parametrize(("judge", "flips"), [(reads, 0), (obeys, 1)])
async def test_flips_are_counted_over_both_stages(judge: Callable[[str], str], flips: int) -> None:  # G-41
    async with FakeUpstream() as upstream:
        upstream.script(*[judge_that(judge)] * (2 * (len(ATTACKS) + 2)))
        found = config(upstream.url)
        reports = await attack_all(found, find_judges(found, "harm"), ("input", "output"))
    body = to_json(reports)["harm"]
    assert [body[stage]["flips"] for stage in ("input", "output")] == [flips, flips]
    assert body["input"]["sound"]
    (first, *rest) = describe("harm", "input", reports["harm"]["input"])
    assert first.startswith(f"harm, input: {flips} of 20 flipped")
    assert rest == (["  plain order: safe"] if flips else [])


async def test_a_judge_that_knows_nothing_is_not_sound() -> None:
    async with FakeUpstream() as upstream:
        upstream.script(*[judge_that(lambda _: "safe")] * (len(ATTACKS) + 2))
        found = config(upstream.url)
        reports = await attack_all(found, find_judges(found, "harm"), ("input",))
    lines = list(describe("harm", "input", reports["harm"]["input"]))
    assert "not sound" in lines[1]
    assert "and should say unsafe and safe" in lines[2]
    assert to_json(reports)["harm"]["input"]["rate"] is None
    assert len(to_json(reports)["harm"]["input"]["without_attack"]) == 2


def test_a_config_without_judges_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("upstreams: {main: {base_url: http://127.0.0.1:1/v1}}", "utf-8")
    assert main(["attack", str(path)]) == 2
    assert "no judge to attack; judges: none" in capsys.readouterr().err
