"""Windows of an encoder's tokens (G-12, GU-22); the tokenizer library comes with litellm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisors.encoder import EncoderCard, resolve_encoder
from supervisors.errors import ConfigError, MissingError
from supervisors.windows import Text, Windows, check_files, check_packages, find_order
from tests.supervisors.tiny_words import WORDS, write_tokenizer

NAMES = "tokenizer.json", "*.safetensors"


def card(**changes: object) -> EncoderCard:
    fields = {"base": "llama-prompt-guard-2-86m", "max_tokens": 32, "overlap_tokens": 8, **changes}
    return EncoderCard.model_validate(resolve_encoder(fields))


def open_windows(folder: Path, **changes: object) -> Windows:
    pytest.importorskip("tokenizers")
    write_tokenizer(folder / "tokenizer.json")
    return Windows(folder, card(**changes))


def test_every_token_is_in_a_window_and_neighbours_share_the_overlap(tmp_path: Path) -> None:
    windows = open_windows(tmp_path)
    found = [list(window.ids) for window in windows.cut(Text("a violet umbrella " * 50))]
    inner = [ids[1:-1] for ids in found]
    assert max(len(ids) for ids in found) == 32
    joined = inner[0] + [token for ids in inner[1:] for token in ids[8:]]
    assert joined == [WORDS.index(word) for word in ("a", "violet", "umbrella")] * 50


@pytest.mark.parametrize("before", ["violet " * 200, "a." * 200])  # a token in many characters, and one in each
def test_a_pair_keeps_the_end_of_its_prompt_and_cuts_the_judged_text(tmp_path: Path, before: str) -> None:
    windows = open_windows(tmp_path, pair=True)
    found = windows.cut(Text("a " * 60, before + "umbrella"))
    prompts = [[token for token, kind in zip(one.ids, one.type_ids, strict=True) if kind == 0] for one in found]
    assert len(found) > 2
    assert all(ids[-2] == WORDS.index("umbrella") and len(ids) == 8 + 2 for ids in prompts)


def test_what_is_missing_is_named_with_its_command(tmp_path: Path) -> None:
    check_packages(("json",), "onnx")
    with pytest.raises(MissingError, match=r"violet_umbrella is not installed: pip install 'guardrail-proxy\[onnx\]'"):
        check_packages(("json", "violet_umbrella"), "onnx")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(MissingError, match=r"\*.safetensors is not there; `guard pull x` fetches it"):
        check_files(tmp_path, NAMES, "guard pull x")
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(b"")
    check_files(tmp_path, NAMES, "guard pull x")


def test_classes_by_name_are_found_in_the_models_config(tmp_path: Path) -> None:
    assert find_order(tmp_path, card()) == (0, 1)
    named = card(by="name")
    with pytest.raises(ConfigError, match="no readable id2label"):
        find_order(tmp_path, named)
    (tmp_path / "config.json").write_text(json.dumps({"id2label": {"0": "malicious", "1": "Benign"}}))
    assert find_order(tmp_path, named) == (1, 0)


@pytest.mark.parametrize(("text", "message"), [("junk", "is not JSON"), ("{}", "no member model")])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ConfigError, match=message):
        Windows(tmp_path, card())
