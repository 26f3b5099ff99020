"""Guards from installed packages and from addresses (embedded PL-01 to PL-03, PL-06, PL-08)."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path

import pytest

from proxy.cli import main
from proxy.origins import Links, Package
from supervisors.errors import ConfigError, MissingError
from supervisors.lock import read_lock
from tests.proxy.fake_files import FakeFiles, serve_files

CARD = "harmaug"
FILES = {"model.onnx": b"violet graph", "tokenizer.json": b"{}", "config.json": b"{}"}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def run(*words: str) -> int:
    return main(["guard", *words])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("GUARDRAIL_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def install(site: Path, monkeypatch: pytest.MonkeyPatch, *, licence: str = "License-Expression: MIT") -> Path:
    """Lay a package of weights out as pip would."""
    data, about = site / "violet_weights" / "data", site / "violet_weights-1.2.dist-info"
    data.mkdir(parents=True)
    about.mkdir()
    listed: list[str] = []
    for name, content in {**FILES, "pickled.bin": b"no"}.items():
        (data / name).write_bytes(content)
        told = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        listed.append(f"violet_weights/data/{name},sha256={told},{len(content)}")
    (site / "violet_weights" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: violet-weights\nVersion: 1.2\n{licence}\n")
    (about / "RECORD").write_text(
        "\n".join([*listed, "violet_weights/__init__.py,,", "violet_weights-1.2.dist-info/RECORD,,"])
    )
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    return data


def test_a_package_is_copied_by_its_own_list_and_never_imported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(folder / "site", monkeypatch)
    monkeypatch.setenv("GUARDRAIL_OFFLINE", "1")  # nothing is fetched, so nothing is in the way
    assert run("pull", CARD, "--package", "violet-weights") == 2
    assert "give --accept-licence MIT" in capsys.readouterr().err
    assert run("pull", CARD, "--package", "violet-weights", "--accept-licence", "MIT") == 0
    entry = read_lock(folder / "guards.lock").guards[CARD]
    assert (entry.repo, entry.revision, entry.licence.id) == ("package:violet-weights", "1.2", "MIT")
    assert {file.path: file.sha256 for file in entry.files} == {name: digest(FILES[name]) for name in FILES}
    assert run("verify") == 0
    assert run("pull", CARD, "--package", "violet-weights") == 0  # the same again is no change and no question
    assert "already pulled" in capsys.readouterr().out


def test_a_package_that_is_not_what_it_lists_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = install(folder / "site", monkeypatch)
    (data / "model.onnx").write_bytes(b"violet grapf")
    assert run("pull", CARD, "--package", "violet-weights", "--accept-licence", "MIT") == 1
    assert "model.onnx has hash" in capsys.readouterr().err
    (data / "model.onnx").unlink()
    (data / "model.onnx").symlink_to("/etc/hostname")
    assert run("pull", CARD, "--package", "violet-weights", "--accept-licence", "MIT") == 1
    assert "leads out of where packages are" in capsys.readouterr().err
    assert not (folder / "guards.lock").exists()


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ("License: Apache-2.0", "Apache-2.0"),
        ("Classifier: License :: OSI Approved :: MIT License", "MIT License"),
        ("Summary: none", "unknown"),
    ],
)
def test_the_licence_is_what_the_package_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, metadata: str, licence: str
) -> None:
    install(folder / "site", monkeypatch, licence=metadata)
    assert Package("violet-weights").find("", None).licence == licence


def test_another_version_or_no_package_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder / "site", monkeypatch)
    with pytest.raises(ConfigError, match=r"violet-weights 1\.2 is installed, not 1\.3"):
        Package("violet-weights").find("", "1.3")
    with pytest.raises(MissingError, match="pip install --no-deps violet-umbrella"):
        Package("violet-umbrella")


def words(files: FakeFiles, **hashes: str) -> list[str]:
    made: list[str] = []
    for name, content in FILES.items():
        made += ["--url", f"{files.url}/{name}", "--sha256", hashes.get(name, digest(content))]
    return made


def test_addresses_are_fetched_checked_and_locked(folder: Path) -> None:
    with serve_files(FakeFiles(FILES, cuts=[3])) as files:
        assert run("pull", CARD, *words(files), "--accept-licence", "unknown") == 0
        entry = read_lock(folder / "guards.lock").guards[CARD]
        assert {file.path: file.sha256 for file in entry.files} == {name: digest(FILES[name]) for name in FILES}
        assert [file.size for file in entry.files] == [len(FILES[file.path]) for file in entry.files]
        assert (entry.repo, len(entry.revision)) == (f"url:{files.url.removeprefix('http://')}", 64)
        asked = len(files.asked)
        assert run("pull", CARD, *words(files)) == 0
        assert len(files.asked) == asked  # what is there is known by its hashes
    assert run("verify") == 0


def test_another_content_leaves_nothing_behind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serve_files(FakeFiles(FILES | {"model.onnx": b"other"})) as files:
        assert run("pull", CARD, *words(files), "--accept-licence", "unknown") == 1
    assert f"model.onnx has hash {digest(b'other')}" in capsys.readouterr().err
    assert [file.name for file in folder.rglob("*") if file.is_file()] == []


def test_offline_no_address_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARDRAIL_OFFLINE", "1")
    with serve_files(FakeFiles(FILES)) as files:
        assert run("pull", CARD, *words(files), "--accept-licence", "unknown") == 3
        assert files.asked == []


def test_a_pickle_stays_where_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serve_files(FakeFiles({"model.bin": b"pickle"})) as files:
        named = ["--url", f"{files.url}/model.bin", "--sha256", digest(b"pickle"), "--accept-licence", "unknown"]
        assert run("pull", CARD, *named) == 2
        assert files.asked == []
    assert "could run code and is refused" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"http://weights.example/model.onnx": "0" * 64}, "takes https addresses"),
        ({"ftp://127.0.0.1/model.onnx": "0" * 64}, "takes https addresses"),
        ({"https://me:secret@weights.example/model.onnx": "0" * 64}, "takes no credentials"),
        ({"https://weights.example/model.onnx": "0" * 40}, "64 hex digits"),
        ({"https://weights.example/model.onnx": "F" * 64}, "64 hex digits"),
        ({"https://weights.example/": "0" * 64}, "names no file"),
        ({"../model.onnx=https://weights.example/x": "0" * 64}, "names no file"),
        ({"https://a.example/x.onnx": "0" * 64, "https://b.example/x.onnx": "1" * 64}, "write PATH=URL"),
    ],
)
def test_addresses_that_are_none_are_refused(entries: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Links(entries)


def test_a_path_of_its_own_and_a_revision_that_cannot_move() -> None:
    links = Links({"onnx/model.onnx=https://weights.example/download?id=1": "0" * 64})
    found = links.find("", None)
    assert [file.path for file in found.files] == ["onnx/model.onnx"]
    assert found == Links({"onnx/model.onnx=https://weights.example/download?id=1": "0" * 64}).find("", None)
    assert found.revision != Links({"onnx/model.onnx=https://weights.example/x": "1" * 64}).find("", None).revision
    with pytest.raises(ConfigError, match="--revision has no effect"):
        links.find("", "1.0")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--url", "https://weights.example/x.onnx"], "there are 1 and 0"),
        (["--sha256", "0" * 64], "there are 0 and 1"),
        (["--url", "https://a.example/x", "--sha256", "0" * 64, "--package", "x"], "--package or --url, not both"),
    ],
)
def test_options_that_do_not_go_together_are_named(
    folder: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("pull", CARD, *options) == 2
    assert message in capsys.readouterr().err
    assert not list(folder.rglob("*.onnx"))


def test_the_lock_is_readable(folder: Path) -> None:
    with serve_files(FakeFiles(FILES)) as files:
        assert run("pull", CARD, *words(files), "--accept-licence", "unknown") == 0
    assert json.loads((folder / "guards.lock").read_text())["guards"][CARD]["folder"] == f"guards/{CARD}"
