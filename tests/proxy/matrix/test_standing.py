"""A config that stands on scripted servers: nothing calls out, everything that decides is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proxy.config import Config, parse_config
from proxy.declared import UpstreamConfig
from proxy.matrix.cells import CANARY
from proxy.matrix.models import guard_model, judge_model, moderation_model
from proxy.matrix.standing import StandIn, stand
from supervisors.judge import Judge
from supervisors.nesting import walk
from supervisors.rules import Rules
from supervisors.testing import exchange

ORIGIN = "http://127.0.0.1:1"
YAML = """
upstreams: {main: {base_url: "https://api.example/v1", vendor: anthropic}}
keys: {app: {sha256: "%s", tags: [team]}}
supervisors:
  panel:
    use: vote
    members:
      words: {use: rules, keywords: [red]}
      judge: {use: judge, model: m, url: "https://judge.example/v1", vendor: other}
      service: {use: moderation, url: "https://service.example/v1"}
  steps:
    use: cascade
    steps:
      - {supervisor: {use: guard, card: llama-guard-3-8b, url: "https://guard.example/v1"}}
      - {supervisor: {use: guard, card: embedded, scopes: [system]}}
policies: {p: {input: {forced: [panel]}}}
server: {allowed_hosts: [guard.example]}
""" % ("a" * 64)


def standing(tmp_path: Path, *, native: bool = False) -> Any:
    return stand(parse_config(YAML, {}), ORIGIN, tmp_path, native=native)


def test_every_address_is_that_of_the_scripted_servers(tmp_path: Path) -> None:
    config: Config = standing(tmp_path).config
    parts = [part for name, one in config.supervisors.items() for _, part in walk(name, one)]
    urls = [getattr(part, "url", ORIGIN) for part in parts]
    urls += [one.base_url for one in config.upstreams.values() if isinstance(one, UpstreamConfig)]
    assert all(url.startswith(ORIGIN) for url in urls)
    assert [part.vendor for part in parts if isinstance(part, Judge)] == ["openai"]


def test_servers_keep_speaking_messages_where_that_is_asked_for(tmp_path: Path) -> None:
    for native, vendor in ((True, "anthropic"), (False, "openai")):
        main = standing(tmp_path, native=native).config.upstreams["main"]
        assert main.vendor == vendor


def test_rules_keep_their_words_and_look_for_the_canary(tmp_path: Path) -> None:
    config: Config = standing(tmp_path).config
    rules = dict(walk("panel", config.supervisors["panel"]))["panel/words"]
    assert isinstance(rules, Rules)
    assert rules.keywords == ("red", CANARY)


async def test_a_stand_in_looks_where_its_model_is_set_to_look(tmp_path: Path) -> None:
    made = standing(tmp_path)
    stand_in = dict(walk("steps", made.config.supervisors["steps"]))["steps/step2"]
    assert isinstance(stand_in, StandIn)
    assert made.stand_ins == ["steps/step2"]
    assert (await stand_in.assess(exchange(CANARY), None)).label == "safe"
    assert (await stand_in.assess(exchange("x", system=CANARY), None)).label == "unsafe"


def test_policies_ask_everybody_and_keys_are_made_up(tmp_path: Path) -> None:
    made = standing(tmp_path)
    assert made.config.policies["p"].input.exhaustive
    assert made.config.keys["app"].tags == ("team",)
    assert made.config.keys["app"].digest != "a" * 64
    assert made.config.server.allowed_hosts == ()


def test_scripted_models_say_unsafe_for_the_canary_only() -> None:
    judge = Judge.model_validate({"use": "judge", "model": "m", "labels": {"fine": "safe", "bad": "unsafe"}})
    for text, word, first, flagged in ((CANARY, "bad", "unsafe\nS1", True), ("tea", "fine", "safe", False)):
        asked = f"<<<ab JUDGE role=user>>>\n{text}\n<<<ab END>>>\n\n... whose nonce is ab."
        reply = judge_model(judge)({"messages": [{"role": "user", "content": asked}]})
        assert f'"label": "{word}"' in reply["choices"][0]["message"]["content"]
        guard = guard_model({"messages": [{"role": "user", "content": text}]})
        assert guard["choices"][0]["message"]["content"] == first
        assert moderation_model({"input": [text]})["results"][0]["flagged"] is flagged
    context = f"<<<ab CONTEXT role=user>>>\n{CANARY}\n<<<ab END>>>\n\n... whose nonce is ab."
    reply = judge_model(judge)({"messages": [{"role": "user", "content": context}]})
    assert '"label": "fine"' in reply["choices"][0]["message"]["content"]
