"""Static embeddings in the process: WordLlama, a vector a token and their mean (embedded §5). Extra: embeddings.

Source: WordLlama (L. Miller, MIT), `l2_supercat_256` of the package wordllama 0.4.0.post1: 32,000 tokens, 256
dimensions. The package is not imported, and both files are known by their hashes. A vector knows words, not their
order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from supervisors.known_files import KnownFile, check_libraries, find_known

HINT: Final = "pip install 'guardrail-proxy[embeddings]' && pip install --no-deps wordllama==0.4.0.post1"
DIMENSIONS: Final = 256
_LIBRARIES: Final = ("numpy", "safetensors", "tokenizers")
_TOKENIZER: Final = KnownFile(
    "wordllama",
    "tokenizers/l2_supercat_tokenizer_config.json",
    "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
)
_WEIGHTS: Final = KnownFile(
    "wordllama",
    "weights/l2_supercat_256.safetensors",
    "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
)


def find_files() -> tuple[Path, Path]:
    """Return tokenizer and weights, without importing their package.

    Raises:
        MissingError: a library or the package is not installed; says how to install it.
        ConfigError: a file is another than the known one.
    """
    check_libraries(_LIBRARIES, HINT)
    return find_known(_TOKENIZER, HINT), find_known(_WEIGHTS, HINT)


class WordLlama:
    """The loaded vectors. A sentence takes about 0.05 ms.

    Raises:
        MissingError: what it needs is not installed.
        ConfigError: a file is another than the known one.
    """

    def __init__(self) -> None:
        tokenizer, weights = find_files()
        self._numpy: Any = import_module("numpy")
        half: Any = import_module("safetensors.numpy").load_file(weights)["embedding.weight"]
        self._vectors: Any = half.astype(self._numpy.float32)  # 33 MB, widened once
        self._tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed(self, texts: Iterable[str]) -> Any:
        """Return an array of a row of 256 numbers a text, of length one: the mean over its tokens.

        Texts are read in lower case with single spaces: capitals and tabs would make other tokens of the same words.
        """
        shown = [" ".join(text.lower().split()) for text in texts]
        found = self._tokenizer.encode_batch_fast(shown, add_special_tokens=False)
        return self._numpy.stack([self._mean(each.ids) for each in found])

    def _mean(self, tokens: Sequence[int]) -> Any:
        """Return the direction of the mean of the tokens' vectors; zeros when there is none."""
        total: Any = self._vectors.take(tokens or [0], axis=0).sum(axis=0)
        length: Any = self._numpy.linalg.norm(total)
        return total / length if length else total
