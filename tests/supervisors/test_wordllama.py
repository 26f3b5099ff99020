"""Static embeddings in the process (embedded §5, LX-02, LX-03). Runs where the extra and the package of data are."""

from __future__ import annotations

import socket
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.errors import ConfigError, MissingError
from supervisors.testing import FakeContext, exchange
from supervisors.topics import Topics
from supervisors.types import Label
from supervisors.wordllama import DIMENSIONS, WordLlama, find_files

NEEDED = ("numpy", "safetensors", "tokenizers", "wordllama")
MISSING = [name for name in NEEDED if find_spec(name) is None]
needs_model = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

BREAD = "How do I bake a loaf of bread?"
LOAF = "What is the way to make bread at home?"
ROAD = "The council will repair the road next spring."


@pytest.mark.skipif(not MISSING, reason="the vectors are installed")
def test_what_is_missing_is_named_with_the_commands() -> None:
    with pytest.raises(MissingError, match=r"pip install --no-deps wordllama==0\.4\.0\.post1"):
        find_files()
    with pytest.raises(ValidationError, match=r"guardrail-proxy\[embeddings\]"):
        Topics.model_validate({"topics": {"bread": [BREAD]}, "engine": "wordllama"})


@pytest.mark.skipif(bool({"safetensors", "tokenizers"} & set(MISSING)), reason="the extra is not installed")
def test_another_file_than_the_known_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "wordllama"
    (package / "tokenizers").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "tokenizers" / "l2_supercat_tokenizer_config.json").write_text("{}")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ConfigError, match="is known"):
        find_files()


@needs_model
def test_a_text_is_nearest_to_itself_and_nearer_to_its_paraphrase(monkeypatch: pytest.MonkeyPatch) -> None:  # LX-02
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(socket.socket, "connect", refuse)  # LX-03
    bread, shouted, loaf, road, nothing = WordLlama().embed([BREAD, BREAD.upper(), LOAF, ROAD, ""])
    assert bread.shape == (DIMENSIONS,)
    assert bread @ bread == pytest.approx(1.0, abs=1e-5)
    assert bread @ shouted == pytest.approx(1.0, abs=1e-5)
    assert bread @ loaf >= bread @ road + 0.2
    assert abs(bread @ nothing) < 0.2
    assert "wordllama" not in sys.modules


@needs_model
async def test_topics_are_judged_by_static_vectors() -> None:
    entry = {"topics": {"baking": [LOAF, "Recipes for cakes"]}, "engine": "wordllama", "threshold": 0.4}
    guard = Topics.model_validate(entry)
    verdict = (await ask("t", guard, exchange(BREAD), FakeContext())).verdict
    assert (verdict.label, verdict.categories, verdict.tokens) == (Label.UNSAFE, ("baking",), None)
    assert (await ask("t", guard, exchange(ROAD), FakeContext())).verdict.label is Label.SAFE
