"""The tokenizer of the tiny models: seven words."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "violet", "umbrella")


def write_tokenizer(file: Path) -> None:
    """Write a tokenizer of seven words."""
    tokenizers: Any = import_module("tokenizers")
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    tokenizer: Any = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(file))
