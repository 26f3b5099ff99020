from __future__ import annotations

from pathlib import Path

import pytest

from proxy.cli import main
from proxy.config import parse_config

CONFIG = """
model_list: [{model_name: m, litellm_params: {model: openai/m, api_key: os.environ/OPENAI_API_KEY}}]
guardrails:
  - guardrail_name: words
    litellm_params:
      guardrail: litellm_content_filter
      mode: [pre_call, post_call]
      default_on: true
      blocked_words: [{keyword: violet umbrella, action: BLOCK}]
"""
UNKNOWN = CONFIG + "  - {guardrail_name: x, litellm_params: {guardrail: aporia, mode: pre_call}}\n"


def write(folder: Path, text: str) -> str:
    file = folder / "litellm.yaml"
    file.write_text(text, "utf-8")
    return str(file)


def test_a_config_that_maps_is_written_and_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "ours.yaml"
    assert main(["import", "litellm", write(tmp_path, CONFIG), "--out", str(out)]) == 0
    config = parse_config(out.read_text("utf-8"), {"OPENAI_API_KEY": "x"})
    assert list(config.supervisors) == ["words"]
    assert "mapped: guardrails[0]: guardrail 'words' → rules" in capsys.readouterr().err
    assert main(["import", "litellm", write(tmp_path, CONFIG), "--out", str(out)]) == 2  # nothing is overwritten


def test_a_config_that_does_not_map_is_written_with_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.txt"
    assert main(["import", "litellm", write(tmp_path, UNKNOWN), "--report", str(report)]) == 1
    assert "keywords:" in capsys.readouterr().out
    assert report.read_text("utf-8").startswith("unmapped: guardrails[1]: guardrail 'x' of kind 'aporia'")


def test_what_our_own_validation_finds_is_in_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CONFIG + "policies: {p: {guardrails: {add: [words]}}}\npolicy_attachments: [{policy: p, keys: [kids]}]\n"
    assert main(["import", "litellm", write(tmp_path, text)]) == 1
    assert (
        "unmapped: written config: error: policies.p-words.attach.keys: 'kids' matches nothing"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(("text", "message"), [("a: [", "not valid YAML"), ("- a", "holds no mapping")])
def test_a_file_that_is_no_config_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    assert main(["import", "litellm", write(tmp_path, text)]) == 2
    assert message in capsys.readouterr().err
    assert main(["import", "litellm", str(tmp_path / "none.yaml")]) == 2


def test_a_config_of_our_own_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "proxy.yaml"
    path.write_text("upstreams: {main: {base_url: http://127.0.0.1:8000/v1}}\n")
    assert main(["import", "litellm", str(path)]) == 2
    assert "this is not a LiteLLM config" in capsys.readouterr().err
