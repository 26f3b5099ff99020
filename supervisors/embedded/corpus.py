"""The project-written training corpus: original texts, stored encoded.

The texts name harmful subjects (and harmless ones in the same words), so they lie in the repository as base64 of
zlib-compressed JSON lines: neither scanners nor readers meet them by accident.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

GROUPS = ("harmful", "twins", "wrapped_harmful", "wrapped_benign", "everyday")


@dataclass(frozen=True, slots=True)
class CorpusItem:
    """One own text.

    Args:
        text: the request.
        harmful: asks for something harmful.
        wrapped: is inside a jailbreak or instruction-override wrapping.
        group: file it comes from.
    """

    text: str
    harmful: bool
    wrapped: bool
    group: str


def decode_group(content: str) -> list[str]:
    """Return the texts of one encoded file."""
    lines = zlib.decompress(base64.b64decode(content)).decode()
    return [json.loads(line) for line in lines.split("\n") if line]


def encode_group(texts: Iterable[str]) -> str:
    """Return the encoded form of one file, 76 characters a line."""
    lines = "\n".join(json.dumps(text, ensure_ascii=False) for text in texts)
    return base64.encodebytes(zlib.compress(lines.encode(), 9)).decode()


def read_corpus() -> list[CorpusItem]:
    """Return all items, groups in the order of `GROUPS`, each in stored order."""
    folder = files("supervisors.embedded") / "corpus"
    return [
        CorpusItem(text, group in ("harmful", "wrapped_harmful"), group.startswith("wrapped"), group)
        for group in GROUPS
        for text in decode_group((folder / f"{group}.b64").read_text("ascii"))
    ]
