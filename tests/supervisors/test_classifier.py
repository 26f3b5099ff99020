"""Classifiers as supervisors: servers and the process (guards §7, GU-05, GU-09, GU-10; row 91)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from supervisors.ask import ask, judged_stages
from supervisors.classifier import Classifier
from supervisors.guard import Guard
from supervisors.hashes import hash_file
from supervisors.lock import Licence, Lock, LockedFile, LockedGuard
from supervisors.secret import Secret
from supervisors.testing import FakeContext, check_hosted, exchange
from supervisors.types import Cause, Exchange, Label, Media, Segment, Verdict
from tests.supervisors.tiny_onnx import MISSING, write_model

needs_extra = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
URL = "http://127.0.0.1:8080"


def server(route: str = "classify", **options: object) -> Classifier:
    entry = {"card": "llama-prompt-guard-2-86m", "route": route, "url": URL, **options}
    return Classifier.model_validate(entry)


def rows(*risks: float) -> tuple[int, object]:
    data = [{"index": index, "probs": [1 - risk, risk]} for index, risk in enumerate(risks)]
    return 200, {"data": data}


def labels(risk: float) -> list[dict[str, object]]:
    return [{"label": "MALICIOUS", "score": risk}, {"label": "BENIGN", "score": 1 - risk}]


async def judge(guard: Classifier, *posts: tuple[int, object], found: Exchange | None = None) -> Verdict:
    return (await ask("c", guard, found or exchange("violet umbrella"), FakeContext(posts=posts))).verdict


async def test_the_worst_of_several_chunks_decides_and_is_named() -> None:  # 91
    guard = server(max_chars=300, overlap=0)
    verdict = await judge(guard, rows(0.1, 0.7, 0.2), found=exchange("x" * 800))
    assert (verdict.label, verdict.score, verdict.extras["chunk"]) == (Label.UNSAFE, 0.7, 1)
    assert verdict.categories == ("injection",)


@pytest.mark.parametrize(
    ("filler", "planted"), [("the harbour is quiet today and ", "violet umbrella"), ("港口今天很安静而且", "紫色雨伞")]
)
async def test_what_is_planted_after_the_600th_word_is_asked_about_whole(filler: str, planted: str) -> None:
    """No text is cut off at a model's 512 tokens: each overlapping chunk is asked about, any one decides (H-45)."""
    text = filler * 120 + planted
    guard = server()
    context = FakeContext(posts=[rows(0.1)])  # one row for many chunks: unreadable, but it shows what was asked
    lost = (await ask("c", guard, exchange(text), context)).verdict
    chunks = cast("list[str]", cast("dict[str, Any]", context.posted[0][1])["input"])
    assert lost.label is Label.UNKNOWN or len(chunks) == 1
    assert all(len(chunk) <= 1_200 for chunk in chunks)
    assert "".join([chunks[0], *[chunk[guard.overlap :] for chunk in chunks[1:]]]) == text
    risks = [0.9 if planted in chunk else 0.1 for chunk in chunks]
    found = await judge(guard, rows(*risks), found=exchange(text))
    assert (found.label, found.score) == (Label.UNSAFE, 0.9)


@pytest.mark.parametrize(
    ("route", "path", "body", "reply"),
    [
        ("classify", "/classify", {"model": "meta-llama/Llama-Prompt-Guard-2-86M", "input": ["hello"]}, rows(0.9)),
        ("predict", "/predict", {"inputs": ["hello"], "raw_scores": False, "truncate": False}, (200, labels(0.9))),
        ("hf", "", {"inputs": ["hello"]}, (200, [labels(0.9)])),
    ],
)
async def test_each_route_has_its_request_and_reply(
    route: str, path: str, body: object, reply: tuple[int, object]
) -> None:
    context = FakeContext(posts=[reply])
    guard = server(route, api_key=Secret("env:K", "k-1"))
    verdict = (await ask("c", guard, exchange("hello"), context)).verdict
    assert (verdict.label, verdict.score) == (Label.UNSAFE, 0.9)
    assert context.posted == [(URL + path, body, {"authorization": "Bearer k-1"})]


@pytest.mark.parametrize("route", ["classify", "predict", "hf"])
async def test_every_fault_is_unknown_with_its_cause(route: str) -> None:
    assert await check_hosted(server(route)) == []


async def test_what_the_server_finds_too_long_is_halved_once() -> None:  # GU-10
    text = "a" * 900
    guard = server("predict", overlap=100)
    split = await judge(guard, (422, {}), (200, [labels(0.1), labels(0.8)]), found=exchange(text))
    assert (split.label, split.score) == (Label.UNSAFE, 0.8)
    assert (await judge(guard, (413, {}), (413, {}), found=exchange(text))).cause is Cause.OVER_LIMIT


async def test_tool_results_count_by_the_classes_for_documents() -> None:
    reply = (200, {"data": [{"index": 0, "probs": [0.2, 0.6, 0.2]}]})
    guard = server(card="prompt-guard-86m")
    assert (await judge(guard, reply)).label is Label.SAFE
    tool = Segment("/messages/0/content", "tool", "tool_result", "violet umbrella")
    assert (await judge(guard, reply, found=Exchange("i", "m", "input", (tool,)))).label is Label.UNSAFE


async def test_a_model_for_pairs_sees_the_prompt_before_a_reply() -> None:
    context = FakeContext(posts=[(200, {"data": [{"index": 0, "probs": [0.9, 0.1]}]})])
    guard = server(card="harmaug")
    await ask("c", guard, exchange("question", stage="output", reply="answer"), context)
    await ask("c", guard, exchange("question"), context)
    assert [cast("dict[str, Any]", body)["input"] for _, body, _ in context.posted] == [
        [["question", "answer"]],
        ["question"],
    ]


async def test_encoded_runs_are_judged_too_and_media_are_not_supported() -> None:
    hidden = exchange("read dmlvbGV0IHVtYnJlbGxhIGNhbmFyeSB0ZXh0 now")
    verdict = await judge(server(), rows(0.1, 0.9), found=hidden)
    assert (verdict.label, verdict.transform) == (Label.UNSAFE, "base64")
    image = Segment("/messages/0/content/0", "user", "media", "", media=Media("image/png", 1, "0" * 64))
    text = Segment("/messages/0/content/1", "user", "text", "hello")
    assert (
        await judge(server(), rows(0.1), found=Exchange("i", "m", "input", (image, text)))
    ).cause is Cause.UNSUPPORTED
    assert (await judge(server(), found=exchange(" "))).cause is Cause.SKIPPED


async def test_a_band_abstains_and_too_many_chunks_are_over_the_limit() -> None:
    assert (await judge(server(abstain=[0.2, 0.6]), rows(0.5))).cause is Cause.ABSTAINED
    assert (
        await judge(server(max_chunks=1, max_chars=300, overlap=0), found=exchange("x" * 900))
    ).detail == "max_chunks"


def test_a_card_serves_its_side_unless_told_otherwise() -> None:
    assert judged_stages(server()) == {"input"}
    assert judged_stages(server(judge="prompt")) == {"input", "output"}
    assert judged_stages(server(card="rejection")) == {"output"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"card": "piguard", "route": "onnx"}, "needs code of its own"),
        ({"route": "onnx", "url": URL}, "url has no effect"),
        ({"route": "onnx", "lock": None}, "needs path"),
        ({"route": "predict"}, "needs url"),
        ({"route": "predict", "url": URL, "path": "x"}, "path has no effect"),
        ({"route": "predict", "url": URL, "abstain": [0.6, 0.5]}, "abstain is"),
        ({"route": "predict", "url": URL, "overlap": 700}, "more than half"),
        ({"card": "violet-guard"}, "unknown encoder card"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Classifier.model_validate({"card": "llama-prompt-guard-2-86m", **options})


@pytest.mark.skipif(not MISSING, reason="the extra is installed")
def test_without_the_extra_the_entry_is_refused_with_the_command() -> None:
    with pytest.raises(ValidationError, match=r"pip install 'guardrail-proxy\[onnx\]'"):
        Classifier.model_validate({"card": "llama-prompt-guard-2-86m", "path": "x", "lock": None})


def test_a_guard_entry_that_names_an_encoder_is_a_classifier() -> None:
    guard = Guard.model_validate({"use": "guard", "card": "llama-prompt-guard-2-86m", "route": "predict", "url": URL})
    assert isinstance(guard, Classifier)


def lock_folder(root: Path, folder: str) -> Path:
    """Lock a written model."""
    names = ("model.onnx", "tokenizer.json")
    files = [
        LockedFile(path=name, size=(root / folder / name).stat().st_size, sha256=hash_file(root / folder / name))
        for name in names
    ]
    licence = Licence(id="x", accepted="2026-01-31T12:00:00Z")
    entry = LockedGuard(repo="a/b", revision="0" * 40, licence=licence, folder=folder, files=tuple(files))
    file = root / "guards.lock"
    file.write_text(Lock(guards={"llama-prompt-guard-2-86m": entry}).to_text())
    return file


@needs_extra
async def test_a_locked_model_judges_in_the_process(tmp_path: Path) -> None:
    write_model(tmp_path / "pg2")
    guard = Classifier.model_validate({"card": "llama-prompt-guard-2-86m", "lock": str(lock_folder(tmp_path, "pg2"))})
    async with guard:
        assert (await judge(guard, found=exchange("a violet umbrella"))).label is Label.UNSAFE
        assert (await judge(guard, found=exchange("a a umbrella"))).label is Label.SAFE
        long = exchange("a " * 5_000 + "violet")
        assert (await judge(guard, found=long)).label is Label.UNSAFE
    few = guard.model_copy(update={"max_chunks": 3})
    assert (await judge(few, found=long)).detail == "max_chunks"


@needs_extra
async def test_a_file_that_is_not_what_was_locked_stops_the_start(tmp_path: Path) -> None:
    write_model(tmp_path / "pg2")
    lock = lock_folder(tmp_path, "pg2")
    with (tmp_path / "pg2" / "model.onnx").open("ab") as stream:
        stream.write(b"x")
    guard = Classifier.model_validate({"card": "llama-prompt-guard-2-86m", "lock": str(lock)})
    with pytest.raises(Exception, match="are locked"):
        await guard.__aenter__()


@needs_extra
def test_a_model_that_is_not_locked_names_the_command(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "pg2")
    entry = {"card": "llama-prompt-guard-2-86m", "path": str(folder), "lock": str(tmp_path / "guards.lock")}
    with pytest.raises(ValidationError, match="guard pull llama-prompt-guard-2-86m"):
        Classifier.model_validate(entry)
    assert Classifier.model_validate({**entry, "lock": None}).load_model()
