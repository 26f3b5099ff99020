"""A classifier of a few hundred bytes: unsafe if and only if the word ``violet`` is among the tokens."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.supervisors.tiny_words import WORDS, write_tokenizer

NEEDED = ("onnxruntime", "tokenizers", "numpy", "onnx")
MISSING = [name for name in NEEDED if find_spec(name) is None]


def write_model(folder: Path, *, names: tuple[str, str] = ("BENIGN", "MALICIOUS"), odd_output: bool = False) -> Path:
    """Write graph, tokenizer and config.

    Args:
        folder: where to.
        names: of the classes in the model's config; the risk is the second, or the first if its name says so.
        odd_output: the graph gives three numbers instead of two.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_graph(folder / "model.onnx", odd_output=odd_output)
    write_tokenizer(folder / "tokenizer.json")
    labels = {str(index): name for index, name in enumerate(names)}
    (folder / "config.json").write_text(json.dumps({"id2label": labels}))
    return folder


def _write_graph(file: Path, *, odd_output: bool) -> None:
    onnx: Any = import_module("onnx")
    helper: Any = onnx.helper
    whole, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    shape = ["batch", "sequence"]
    scale, shift = ([-8.0, 8.0, 0.0], [4.0, -4.0, 0.0]) if odd_output else ([-8.0, 8.0], [4.0, -4.0])
    nodes = [
        helper.make_node("Equal", ["input_ids", "word"], ["hit"]),
        helper.make_node("Cast", ["hit"], ["hits"], to=real),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=real),
        helper.make_node("Mul", ["hits", "mask"], ["counted"]),
        helper.make_node("ReduceMax", ["counted"], ["found"], axes=[1], keepdims=1),
        helper.make_node("Mul", ["found", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "shift"], ["logits"]),
    ]
    constants = [
        helper.make_tensor("word", whole, [1], [WORDS.index("violet")]),
        helper.make_tensor("scale", real, [len(scale)], scale),
        helper.make_tensor("shift", real, [len(shift)], shift),
    ]
    inputs = [helper.make_tensor_value_info(name, whole, shape) for name in ("input_ids", "attention_mask")]
    outputs = [helper.make_tensor_value_info("logits", real, ["batch", len(scale)])]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(file))
