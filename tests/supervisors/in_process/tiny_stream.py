"""A repository as Qwen3Guard-Stream's: a tokenizer with a chat template, and code that judges token by token."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
)
_CODE = '''
import torch
from transformers import PretrainedConfig, PreTrainedModel


class VioletConfig(PretrainedConfig):
    model_type = "violet_stream"


class VioletModel(PreTrainedModel):
    """Unsafe is every token of the word with this id; what is fed is written down."""

    config_class = VioletConfig

    def __init__(self, config):
        super().__init__(config)
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.post_init()
        self.fed, self.closed = [], 0

    def stream_moderate_from_ids(self, ids, role, stream_state=None):
        self.fed.append((role, ids.tolist()))
        levels = ["Unsafe" if one == self.config.violet else "Safe" for one in ids.tolist()]
        return {"risk_level": levels, "category": ["Violent"] * len(levels)}, stream_state or object()

    def close_stream(self, stream_state):
        self.closed += 1
'''


def write_repository(folder: Path) -> Path:
    """Write tokenizer, weights and code."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizers: Any = import_module("tokenizers")
    transformers: Any = import_module("transformers")
    safetensors: Any = import_module("safetensors.torch")
    words = ["[UNK]", "user", "assistant", "violet", "umbrella", "how", "<", "think", ">", "/", "|", "im_end"]
    made: Any = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    wrapped: Any = transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]")
    wrapped.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    wrapped.chat_template = _TEMPLATE
    wrapped.save_pretrained(str(folder))
    told = {
        "model_type": "violet_stream",
        "violet": words.index("violet"),
        "auto_map": {"AutoConfig": "violet.VioletConfig", "AutoModel": "violet.VioletModel"},
    }
    (folder / "config.json").write_text(json.dumps(told))
    (folder / "violet.py").write_text(_CODE)
    torch: Any = import_module("torch")
    safetensors.save_file({"weight": torch.zeros(1)}, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
