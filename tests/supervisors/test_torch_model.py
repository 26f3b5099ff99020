"""An encoder in the process from safetensors (guards §7, GU-22, GU-23, G-12). Runs where the extra transformers is."""

from __future__ import annotations

import json
import math
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.classifier import Classifier
from supervisors.encoder import EncoderCard, WrongScores, resolve_encoder
from supervisors.errors import ConfigError, MissingError
from supervisors.testing import FakeContext, exchange
from supervisors.torch_model import EXTRA, TorchModel, check_extra, check_folder
from supervisors.types import Label
from supervisors.windows import Text
from tests.supervisors.tiny_torch import MISSING, write_model
from tests.supervisors.tiny_words import WORDS

needs_extra = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def card(**changes: object) -> EncoderCard:
    fields = {"base": "llama-prompt-guard-2-86m", "max_tokens": 32, "overlap_tokens": 8, **changes}
    return EncoderCard.model_validate(resolve_encoder(fields))


def logits(folder: Path, *words: str) -> list[float]:
    """Ask the library itself about one window."""
    torch: Any = import_module("torch")
    kind: Any = import_module("transformers").BertForSequenceClassification
    ids = [WORDS.index(word) for word in ("[CLS]", *words, "[SEP]")]
    with torch.inference_mode():
        found: Any = kind.from_pretrained(str(folder)).eval()(input_ids=torch.tensor([ids])).logits
    row: list[float] = found[0].tolist()
    return row


@pytest.mark.skipif(not [name for name in EXTRA if name in MISSING], reason="the extra is installed")
def test_without_the_extra_the_command_is_named() -> None:
    with pytest.raises(MissingError, match=r"pip install 'guardrail-proxy\[transformers\]'"):
        check_extra()
    with pytest.raises(ValidationError, match=r"pip install 'guardrail-proxy\[transformers\]'"):
        Classifier.model_validate({"card": "harmaug", "route": "transformers", "path": "x", "lock": None})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "http://127.0.0.1:1"}, "url has no effect with route transformers"),
        ({"card": "piguard"}, "needs code of its own, which is not run here"),
        ({"lock": None}, "route transformers needs path"),
        ({"device": "tpu"}, "String should match pattern"),
    ],
)
def test_mistakes_are_refused_before_anything_is_loaded(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Classifier.model_validate({"card": "harmaug", "route": "transformers", **options})


def test_a_device_is_for_this_route_only() -> None:
    with pytest.raises(ValidationError, match="device has no effect with route onnx"):
        Classifier.model_validate({"card": "harmaug", "device": "cuda:0"})


def test_a_folder_without_safetensors_names_the_command(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(MissingError, match="guard pull llama-prompt-guard-2-86m --format safetensors"):
        check_folder(tmp_path, card())
    (tmp_path / "pytorch_model.bin").write_bytes(b"")  # a pickle is no substitute
    with pytest.raises(MissingError, match="safetensors"):
        check_folder(tmp_path, card())


@needs_extra
def test_a_window_has_the_probabilities_of_the_library(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    model = TorchModel(folder, card(), 1)
    row = model.score(Text("a violet umbrella"))[0]
    low, high = logits(folder, "a", "violet", "umbrella")
    assert row[1] == pytest.approx(1 / (1 + math.exp(low - high)), abs=1e-5)
    assert sum(row) == pytest.approx(1.0)


@needs_extra
def test_windows_alone_and_together_have_the_same_scores(tmp_path: Path) -> None:  # GU-23
    model = TorchModel(write_model(tmp_path), card(), 1)
    long = Text("a violet umbrella " * 60)
    rows = model.score(long)
    assert len(rows) == model.count_windows(long) > 5
    assert rows[0] == pytest.approx(model.score(Text("a violet umbrella " * 10))[0], abs=1e-4)
    assert len({round(row[1], 6) for row in rows}) > 1


@needs_extra
def test_a_pair_tells_its_two_texts_apart(tmp_path: Path) -> None:
    model = TorchModel(write_model(tmp_path), card(pair=True), 1)
    assert model.score(Text("violet", "a"))[0] != pytest.approx(model.score(Text("a", "violet"))[0], abs=1e-6)


@needs_extra
def test_a_card_by_name_takes_the_order_of_the_models_config(tmp_path: Path) -> None:  # GU-22
    straight = TorchModel(write_model(tmp_path), card(), 1).score(Text("violet"))[0]
    turned = write_model(tmp_path / "turned", names=("malicious", "benign"))
    assert TorchModel(turned, card(by="name"), 1).score(Text("violet"))[0] == pytest.approx(straight[::-1], abs=1e-6)
    with pytest.raises(ConfigError, match="names no class MALICIOUS"):
        TorchModel(write_model(tmp_path / "odd", names=("benign", "odd")), card(by="name"), 1)


@needs_extra
def test_a_model_with_other_classes_is_unreadable(tmp_path: Path) -> None:
    model = TorchModel(write_model(tmp_path, names=("a", "b", "c")), card(), 1)
    with pytest.raises(WrongScores):
        model.score(Text("violet"))


@needs_extra
def test_weights_without_their_head_are_refused_not_filled_with_chance(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    torch: Any = import_module("safetensors.torch")
    kept = {
        name: one for name, one in torch.load_file(folder / "model.safetensors").items() if "classifier" not in name
    }
    torch.save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"the weights lack classifier\.bias"):
        TorchModel(folder, card(), 1)


@needs_extra
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_broken_file_is_named(tmp_path: Path, name: str) -> None:
    folder = write_model(tmp_path)
    (folder / name).write_bytes(b"junk")
    with pytest.raises(ConfigError, match="cannot be loaded on cpu"):
        TorchModel(folder, card(), 1)


@needs_extra
def test_code_in_the_folder_is_not_run(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    told = json.loads((folder / "config.json").read_text())
    named = {"AutoModelForSequenceClassification": "violet.Violet", "AutoConfig": "violet.VioletConfig"}
    (folder / "config.json").write_text(json.dumps({**told, "auto_map": named}))
    (folder / "violet.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n")
    TorchModel(folder, card(), 1).score(Text("a"))
    assert not (tmp_path / "ran").exists()


@needs_extra
async def test_a_classifier_judges_in_the_process(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    entry = {"card": card().model_dump(), "route": "transformers", "path": str(folder), "lock": None}
    risk = TorchModel(folder, card(), 1).score(Text("violet"))[0][1]
    for threshold, label in ((risk - 0.01, Label.UNSAFE), (risk + 0.01, Label.SAFE)):
        guard = Classifier.model_validate({**entry, "threshold": threshold})
        async with guard:
            verdict = (await ask("c", guard, exchange("violet"), FakeContext())).verdict
        assert verdict.label is label
        assert verdict.score == pytest.approx(risk)
