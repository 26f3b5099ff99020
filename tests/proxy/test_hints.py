"""A misspelt setting is told the nearest one of the object it stands in."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.config import parse_config
from supervisors.errors import ConfigError

BASE = 'upstreams: {main: {base_url: "http://127.0.0.1:9/v1"}}\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("suprvisors: {}", "suprvisors: unknown setting; did you mean 'supervisors'?"),
        ("policies: {p: {input: {forcd: []}}}", "policies.p.input.forcd: unknown setting; did you mean 'forced'?"),
        ("limits: {max_body: 1}", "limits.max_body: unknown setting; did you mean 'max_body_bytes'?"),
        ("upstreams: {main: {base_url: 'http://h/v1', timout_s: 3}}", "main.timout_s: unknown setting; did you mean"),
        ("supervisors: {w: {use: rules, keyword: [a]}}", "supervisors.w.keyword: unknown setting; did you mean 'keyw"),
        (
            "supervisors: {v: {use: vote, strategy: any, members: {a: {use: rules, keyword: [a]}}}}",
            "supervisors.v.members.a.keyword: unknown setting; did you mean 'keywords'?",
        ),
        (
            "supervisors: {w: {use: rules, keywords: [a], cache: {ttl: 3}}}",
            "supervisors.w.cache.ttl: unknown setting; did you mean 'ttl_s'?",
        ),
        (
            "supervisors: {w: {use: rules, keywords: [a]}, v: {use: vote, strategy: any, members: {c: ww}}}",
            "supervisors.v.members.c: unknown supervisor 'ww'; known: v, w; did you mean 'w'?",
        ),
        (
            "policies: {p: {input: {on_unsafe: blok}}}",
            "should be 'block', 'redact' or 'log'; did you mean 'block'?",
        ),
        ("policies: {p: {input: {mode: parrallel}}}", "did you mean 'parallel'?"),
        (
            "supervisors: {v: {use: vote, strategy: majorit, members: {a: {use: rules, keywords: [a]}}}}",
            "did you mean 'majority'?",
        ),
        (
            "models: {m: {upstream: mian}}",
            "unknown upstream 'mian'; known: main; did you mean 'main'?",
        ),
        (
            "supervisors: {embedded: {use: guard, card: embedded}}\npolicies: {p: {input: {forced: [embeded]}}}",
            "policies.p.input.forced: unknown supervisor 'embeded'; known: embedded; did you mean 'embedded'?",
        ),
        (
            "policies: {p: {stream: {mode: hold}}}",
            "policies.p.stream: unknown setting; it belongs under policies.p.output; `",
        ),
        (
            "policies: {p: {input: {stream: {mode: hold}}}}",
            "input.stream: unknown setting; it belongs under policies.p.output",
        ),
        ("policies: {p: {models: [gpt]}}", "policies.p.models: unknown setting; it belongs under policies.p.attach"),
        ("policies: {p: {input: {attach: {}}}}", "input.attach: unknown setting; it belongs under policies.p;"),
        ("policies: {p: {output: {mode: blocking, overlap_chars: 9}}}", "it belongs under policies.p.output.stream"),
        ("server: {max_tokens: 9}", "server.max_tokens: unknown setting; it belongs under limits;"),
        (
            "supervisors: {w: {use: rules, keywords: [a], path: b}}",
            "w.path: unknown setting; `guard",
        ),
        ("port: 8080", "port: unknown setting; it belongs under server;"),
        ("server: {port: 8080, tracing: {}}", "server.tracing: unknown setting; it belongs at the top of the file;"),
        ("limits: {max_body: 1}", "did you mean 'max_body_bytes'? `guardrail-proxy schema` lists the known ones"),
        (
            "supervisors: {j: {use: judge, model: m, prompt: injektion}}",
            "supervisors.j: unknown prompt 'injektion'; built in are: harm, injection; did you mean 'injection'?",
        ),
    ],
)
def test_the_nearest_setting_is_suggested(text: str, said: str) -> None:
    head: Any = "" if text.startswith("upstreams") else BASE
    with pytest.raises(ConfigError) as raised:
        parse_config(head + text, {})
    assert said in str(raised.value)
