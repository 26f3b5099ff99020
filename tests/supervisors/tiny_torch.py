"""A BERT of a few thousand random weights, written as a hub has it: config, safetensors, tokenizer."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.supervisors.tiny_words import WORDS, write_tokenizer

NEEDED = ("torch", "transformers", "safetensors", "tokenizers")
MISSING = [name for name in NEEDED if find_spec(name) is None]


def write_model(folder: Path, *, names: tuple[str, ...] = ("BENIGN", "MALICIOUS"), types: int = 2) -> Path:
    """Write a model with random weights; what it says of a text means nothing, but is always the same.

    Args:
        folder: where to.
        names: of the classes in the model's config.
        types: kinds of tokens the model tells apart.
    """
    transformers: Any = import_module("transformers")
    torch: Any = import_module("torch")
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    config: Any = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        type_vocab_size=types,
        initializer_range=0.5,
        id2label=dict(enumerate(names)),
        label2id={name: index for index, name in enumerate(names)},
    )
    transformers.BertForSequenceClassification(config).save_pretrained(str(folder))
    write_tokenizer(folder / "tokenizer.json")
    return folder
