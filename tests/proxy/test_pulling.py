"""Pulling guards from a hub that is ours (embedded §8, PL-01 to PL-06 and PL-08)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.hub import Hub
from proxy.pulling import Source, Wish, find_source, pull, remove, verify
from supervisors.errors import ConfigError, GuardrailError, PullError
from supervisors.lock import LockedGuard, read_lock
from tests.proxy.fake_hub import COMMIT, FakeHub, serve_hub
from tests.timing import PATIENCE_S

SAID: list[str] = []
SOURCE = Source("violet", "house/violet", None, remote_code=False, graph="onnx/model.onnx")


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serve_hub(FakeHub()) as served:
        yield served


def fetch(hub: FakeHub, root: Path, source: Source = SOURCE, **wish: object) -> LockedGuard:
    fields = {"licence": "apache-2.0", **wish}
    wanted = Wish(root / "guards.lock", "guards/violet", **fields)  # type: ignore[arg-type] # tests name its fields
    return pull(source, wanted, Hub(hub.url), SAID.append)


def left(root: Path) -> list[str]:
    return sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())


def test_a_guard_is_fetched_checked_and_locked(hub: FakeHub, tmp_path: Path) -> None:
    entry = fetch(hub, tmp_path)
    files = ["README.md", "config.json", "onnx/model.onnx", "tokenizer.json"]
    assert sorted(file.path for file in entry.files) == files  # no pickle, no second set of weights, no dot files
    assert left(tmp_path) == ["guards.lock", *[f"guards/violet/{name}" for name in files]]
    assert (entry.revision, entry.licence.id, entry.repo) == (COMMIT, "apache-2.0", "house/violet")
    assert read_lock(tmp_path / "guards.lock").guards == {"violet": entry}
    assert list(verify(tmp_path / "guards.lock", [])) == []
    assert all(f"/resolve/{COMMIT}/" in path for path in hub.asked[1:])  # of one commit, whatever moves meanwhile


def test_pulling_twice_changes_nothing_and_a_broken_file_is_fetched_again(hub: FakeHub, tmp_path: Path) -> None:
    first = fetch(hub, tmp_path)
    asked = len(hub.asked)
    assert fetch(hub, tmp_path, licence=None) == first
    assert len(hub.asked) == asked + 1
    (tmp_path / "guards/violet/tokenizer.json").write_text("[]")
    assert [line.split(" ")[0] for line in verify(tmp_path / "guards.lock", ["violet"])] == ["violet:"]
    fetch(hub, tmp_path)
    assert list(verify(tmp_path / "guards.lock", [])) == []


def test_the_published_weights_of_an_encoder_take_the_place_of_its_graph(hub: FakeHub, tmp_path: Path) -> None:
    fetch(hub, tmp_path)
    weights = Source("violet", "house/violet", None, remote_code=False, safetensors=True)
    entry = fetch(hub, tmp_path, weights)
    found = sorted(file.path for file in entry.files)
    assert found == ["README.md", "config.json", "model.safetensors", "tokenizer.json"]
    assert not (tmp_path / "guards/violet/onnx").exists()
    assert list(verify(tmp_path / "guards.lock", [])) == []
    assert find_source("harmaug", safetensors=True).graph == ""


@pytest.mark.parametrize("licence", [None, "Apache-2.0", "mit", ""])
def test_the_licence_must_be_accepted_by_its_exact_id(hub: FakeHub, tmp_path: Path, licence: str | None) -> None:
    with pytest.raises(ConfigError, match=r"--accept-licence apache-2\.0"):
        fetch(hub, tmp_path, licence=licence)
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"announced": {"onnx/model.onnx": 99}}, "has 12 bytes, 99 were announced"),
        ({"announced": {"onnx/model.onnx": 3}}, "has more than 3 bytes, 3 were announced"),
        ({"hashes": {"onnx/model.onnx": "0" * 64}}, "has hash"),
        ({"hashes": {"tokenizer.json": "0" * 40}}, "has hash"),
        ({"cut": {"onnx/model.onnx"}}, "broke off"),
        ({"redirect": "http://evil.example"}, "redirects to evil.example"),
        ({"status": 403}, "accept its terms at"),
        ({"status": 401}, "--token-env"),
        ({"status": 500}, "answered 500"),
        ({"commit": "main"}, "a full commit"),
    ],
)
def test_what_goes_wrong_is_named_and_leaves_nothing_behind(
    hub: FakeHub, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    for name, value in change.items():
        setattr(hub, name, value)
    with pytest.raises(PullError, match=message):
        fetch(hub, tmp_path)
    assert left(tmp_path) == []


def test_a_failed_pull_leaves_the_guard_that_was_there(hub: FakeHub, tmp_path: Path) -> None:
    first = fetch(hub, tmp_path)
    hub.commit, hub.cut = "f" * 40, {"tokenizer.json"}
    with pytest.raises(PullError):
        fetch(hub, tmp_path)
    assert read_lock(tmp_path / "guards.lock").guards == {"violet": first}
    assert list(verify(tmp_path / "guards.lock", [])) == []
    hub.cut = set()
    assert fetch(hub, tmp_path).revision == "f" * 40


def test_bodies_may_come_from_a_content_host_that_is_named_and_the_token_stays_at_the_hub(tmp_path: Path) -> None:
    with serve_hub(FakeHub()) as content, serve_hub(FakeHub(redirect=content.url)) as hub:
        host = content.url.removeprefix("http://")
        wish = Wish(tmp_path / "guards.lock", "guards/violet", licence="apache-2.0")
        with pytest.raises(PullError, match="no content host"):  # plain http elsewhere is none
            pull(SOURCE, wish, Hub(hub.url, "hf_violet", [host]), SAID.append)
        assert set(hub.tokens) == {"Bearer hf_violet"}
        assert content.tokens == []


def test_a_card_with_code_needs_a_word_of_its_own(hub: FakeHub, tmp_path: Path) -> None:
    coded = Source("violet", "house/violet", None, remote_code=True)
    hub.files["modeling_violet.py"] = b"print()"
    with pytest.raises(ConfigError, match="--allow-remote-code"):
        fetch(hub, tmp_path, coded)
    entry = fetch(hub, tmp_path, coded, remote_code=True)
    assert "modeling_violet.py" in [file.path for file in entry.files]
    assert "modeling_violet.py" not in [file.path for file in fetch(hub, tmp_path / "plain").files]


def test_a_repository_with_pickles_only_is_refused(hub: FakeHub, tmp_path: Path) -> None:
    hub.files = {"pytorch_model.bin": b"pickle", "config.json": b"{}"}
    with pytest.raises(ConfigError, match=r"no onnx/model.onnx; pytorch_model.bin could run code and is refused"):
        fetch(hub, tmp_path)


def test_paths_that_lead_elsewhere_are_not_fetched(hub: FakeHub, tmp_path: Path) -> None:
    hub.files |= {"../evil.json": b"{}", "/etc/evil.json": b"{}", "a/../../evil.json": b"{}", ".hidden/x.json": b"{}"}
    assert not any("evil" in file.path or "hidden" in file.path for file in fetch(hub, tmp_path).files)


def test_two_pulls_at_once_wait_for_each_other(hub: FakeHub, tmp_path: Path) -> None:
    failed: list[GuardrailError] = []

    def once() -> None:
        try:
            fetch(hub, tmp_path)
        except GuardrailError as error:
            failed.append(error)

    threads = [threading.Thread(target=once) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert failed == []
    assert list(verify(tmp_path / "guards.lock", [])) == []
    assert len([path for path in hub.asked if path.endswith("model.onnx")]) == 1


def test_a_guard_is_removed_with_its_files(hub: FakeHub, tmp_path: Path) -> None:
    fetch(hub, tmp_path)
    remove(tmp_path / "guards.lock", "violet")
    assert left(tmp_path) == ["guards.lock"]
    assert json.loads((tmp_path / "guards.lock").read_text()) == {"guards": {}, "version": 1}
    for name in ("violet", "other"):
        with pytest.raises(ConfigError, match="no entry"):
            remove(tmp_path / "guards.lock", name)
        with pytest.raises(ConfigError, match="no entry"):
            list(verify(tmp_path / "guards.lock", [name]))


def test_a_hub_that_is_not_there_is_named(tmp_path: Path) -> None:
    wish = Wish(tmp_path / "guards.lock", "guards/violet", licence="x")
    with pytest.raises(PullError, match="cannot be reached: ConnectError at "):
        pull(SOURCE, wish, Hub("http://127.0.0.1:9"), SAID.append)


def test_a_card_says_where_its_weights_are() -> None:
    assert find_source("protectai-injection-v2").graph == "onnx/model.onnx"
    assert find_source("qwen3guard-gen-0.6b").repo == "Qwen/Qwen3Guard-Gen-0.6B"
    with pytest.raises(ConfigError, match="no weights"):
        find_source("binary-judge")
    with pytest.raises(ConfigError, match="unknown card 'violet'; `guardrail-proxy guard list` names them all"):
        find_source("violet")
    with pytest.raises(ConfigError, match="did you mean 'protectai-injection-v2'"):
        find_source("protectai-injection-v2x")


@pytest.mark.parametrize(
    ("answer", "cut", "words"),
    [
        (b'{"sha": "0123', False, "is not JSON"),
        (b"\xff\xfe{", False, "is not JSON"),
        (b"[" * 100_000, False, "is not JSON"),
        (b"", False, "is not JSON"),
        (b"[1]", False, "is not an object"),
        (b'{"sha": 1}', False, "lacks its commit or its files"),
        (b'{"sha": "0123456789abcdef0123456789abcdef01234567", "siblings": ["x"]}', False, "lacks its commit"),
        (None, True, "broke off: RemoteProtocolError"),
    ],
)
def test_an_answer_about_a_repository_that_cannot_be_read_is_one_line(
    hub: FakeHub, tmp_path: Path, answer: bytes | None, cut: bool, words: str
) -> None:
    hub.answer, hub.cut_answer = answer, cut
    with pytest.raises(PullError, match=words):
        fetch(hub, tmp_path)
    assert not (tmp_path / "guards.lock").exists()
