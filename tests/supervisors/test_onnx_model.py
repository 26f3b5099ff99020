"""An encoder in the process (guards §7, GU-22, GU-23, G-12). Runs where the extra onnx and the package onnx are."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisors.encoder import EncoderCard, WrongScores, resolve_encoder
from supervisors.errors import ConfigError, MissingError
from supervisors.onnx_model import EXTRA, OnnxModel, check_extra
from supervisors.windows import Text
from tests.supervisors.tiny_onnx import MISSING, write_model

needs_extra = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def card(**changes: object) -> EncoderCard:
    fields = {"base": "llama-prompt-guard-2-86m", "max_tokens": 32, "overlap_tokens": 8, **changes}
    return EncoderCard.model_validate(resolve_encoder(fields))


@pytest.mark.skipif(not [name for name in EXTRA if name in MISSING], reason="the extra is installed")
def test_without_the_extra_the_command_is_named() -> None:
    with pytest.raises(MissingError, match=r"pip install 'guardrail-proxy\[onnx\]'"):
        check_extra()


@needs_extra
def test_a_word_anywhere_in_a_long_text_is_found_and_every_token_is_in_a_window(tmp_path: Path) -> None:
    model = OnnxModel(write_model(tmp_path), card(), 1)
    for place in range(0, 200, 7):
        words = ["a"] * 200
        words[place] = "violet"
        rows = model.score(Text(" ".join(words)))
        assert len(rows) == model.count_windows(Text(" ".join(words))) > 1
        assert max(row[1] for row in rows) > 0.99, place
    assert max(row[1] for row in model.score(Text("a " * 200))) < 0.01


@needs_extra
def test_a_batch_gives_the_scores_of_single_calls_and_padding_is_masked(tmp_path: Path) -> None:
    model = OnnxModel(write_model(tmp_path), card(), 1)
    whole = model.score(Text("a " * 29 + "violet"))
    assert len(whole) == 1
    long = model.score(Text("a " * 45 + "violet"))
    assert long[0] == pytest.approx(model.score(Text("a " * 30))[0], abs=1e-4)
    assert long[-1] == pytest.approx(whole[0], abs=1e-4)


@needs_extra
def test_a_pair_is_judged_by_its_second_text_in_windows_of_its_own(tmp_path: Path) -> None:
    model = OnnxModel(write_model(tmp_path), card(pair=True), 1)
    rows = model.score(Text("a " * 100 + "violet", "umbrella " * 400))
    assert len(rows) > 4
    assert rows[-1][1] > 0.99
    assert rows[0][1] < 0.01


@needs_extra
def test_a_card_by_name_takes_the_order_of_the_models_config(tmp_path: Path) -> None:
    named = card(by="name")
    turned = OnnxModel(write_model(tmp_path / "turned", names=("malicious", "benign")), named, 1)
    assert turned.score(Text("violet"))[0][0] > 0.99
    with pytest.raises(ConfigError, match="names no class MALICIOUS; it has benign, odd"):
        OnnxModel(write_model(tmp_path / "odd", names=("benign", "odd")), named, 1)
    folder = write_model(tmp_path / "bare")
    (folder / "config.json").unlink()
    with pytest.raises(ConfigError, match="no readable id2label"):
        OnnxModel(folder, named, 1)


@needs_extra
def test_a_graph_of_another_shape_is_unreadable(tmp_path: Path) -> None:
    model = OnnxModel(write_model(tmp_path, odd_output=True), card(), 1)
    with pytest.raises(WrongScores):
        model.score(Text("violet"))


@needs_extra
@pytest.mark.parametrize(("name", "message"), [("model.onnx", "cannot be loaded"), ("tokenizer.json", "is not JSON")])
def test_a_broken_file_is_named(tmp_path: Path, name: str, message: str) -> None:
    folder = write_model(tmp_path)
    (folder / name).write_bytes(b"junk")
    with pytest.raises(ConfigError, match=message):
        OnnxModel(folder, card(), 1)
    (folder / name).unlink()
    with pytest.raises(MissingError, match="guard pull llama-prompt-guard-2-86m"):
        OnnxModel(folder, card(), 1)
