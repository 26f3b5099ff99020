"""GLiGuard and LionGuard as supervisors (guards §7, GP-14, GU-05)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from supervisors.ask import ask, judged_stages
from supervisors.errors import ConfigError
from supervisors.guard import Guard
from supervisors.hashes import hash_file
from supervisors.in_process.guard import InProcess
from supervisors.in_process.stream import QwenStream
from supervisors.lock import Licence, Lock, LockedFile, LockedGuard
from supervisors.testing import FakeContext, exchange
from supervisors.types import Cause, Exchange, Label, Verdict

URL = "http://127.0.0.1:8004/v1"


class Model:
    """Answers as gliner2 does: unsafe where the canary is, and anything that a test wants."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, list[str]]] = []

    def classify_text(
        self, text: str, tasks: Mapping[str, object], *, include_confidence: bool
    ) -> Mapping[str, object]:
        assert include_confidence
        self.asked.append((text, list(tasks)))
        if self.answer is not None:
            return cast("Mapping[str, object]", self.answer)
        label = "unsafe" if "violet" in text else "safe"
        first = {name: {"label": label, "confidence": 0.9} for name in tasks if name.endswith("_safety")}
        several = [{"label": "benign", "confidence": 0.9}]
        more = {name: several for name in tasks if name.endswith(("_toxicity", "_detection"))}
        return {**first, **more, "response_refusal": {"label": "compliance", "confidence": 1.0}}


class Head:
    def predict(self, vectors: object, /) -> Mapping[str, object]:
        rows = cast("Any", vectors).tolist()
        return {"binary": [0.9 if row[0] > 0.5 else 0.1 for row in rows], "insults": [0.7 for _ in rows]}


def gliguard(model: Model, **options: object) -> InProcess:
    guard = InProcess.model_validate({"card": "gliguard", "path": "unused", "lock": None, **options})
    guard.attach(model=model)
    return guard


def lionguard(**options: object) -> InProcess:
    card = {"base": "lionguard-2", "dimensions": 2}
    entry = {"card": card, "url": URL, "allow_code": ["lionguard-2"], **options}
    guard = InProcess.model_validate(entry)
    guard.attach(head=Head())
    return guard


def vectors(*rows: list[float]) -> tuple[int, object]:
    return 200, {"data": [{"index": index, "embedding": row} for index, row in enumerate(rows)]}


async def judge(guard: InProcess, *posts: tuple[int, object], found: Exchange | None = None) -> Verdict:
    return (await ask("g", guard, found or exchange("a violet umbrella"), FakeContext(posts=posts))).verdict


async def test_every_position_of_a_long_text_is_judged() -> None:
    model = Model()
    guard = gliguard(model)
    for place in (0, 2_500, 4_990):
        text = "a" * place + "violet" + "a" * (5_000 - place)
        verdict = await judge(guard, found=exchange(text))
        assert (verdict.label, verdict.score) == (Label.UNSAFE, 0.9)
    assert (await judge(guard, found=exchange("a" * 5_000))).label is Label.SAFE
    assert max(len(text) for text, _ in model.asked) <= 1_200
    few = gliguard(model, max_chunks=2)
    assert (await judge(few, found=exchange("a" * 5_000))).cause is Cause.OVER_LIMIT


async def test_the_stage_says_which_side_is_asked_about_and_an_option_may_say_otherwise() -> None:
    model = Model()
    await judge(gliguard(model))
    await judge(gliguard(model, judge="response"))
    assert [tasks[0] for _, tasks in model.asked] == ["prompt_safety", "response_safety"]
    assert judged_stages(gliguard(model)) == {"input", "output"}


async def test_an_answer_of_another_shape_is_unknown_and_an_unsafe_chunk_stands_beside_it() -> None:
    odd = await judge(gliguard(Model({"prompt_safety": "safe"})))
    assert (odd.label, odd.cause) == (Label.UNKNOWN, Cause.UNPARSABLE)
    assert (await judge(gliguard(Model([])))).cause is Cause.UNPARSABLE


async def test_lionguard_reads_the_vectors_of_a_server() -> None:
    pytest.importorskip("numpy")
    context = FakeContext(posts=[vectors([1.0, 0.0])])
    verdict = (await ask("g", lionguard(), exchange("violet"), context)).verdict
    assert (verdict.label, verdict.score, verdict.categories) == (Label.UNSAFE, 0.9, ("harassment",))
    body = {"model": "text-embedding-3-large", "input": ["violet"], "encoding_format": "float"}
    assert context.posted == [(f"{URL}/embeddings", body, {})]
    assert (await judge(lionguard(), vectors([0.0, 1.0]))).label is Label.SAFE
    lite = lionguard(card={"base": "lionguard-2-lite", "dimensions": 2}, allow_code=["lionguard-2-lite"])
    context = FakeContext(posts=[vectors([1.0, 0.0])])
    await ask("g", lite, exchange("violet"), context)
    assert cast("dict[str, Any]", context.posted[0][1])["input"] == ["task: classification | query: violet"]


@pytest.mark.parametrize(
    ("post", "cause"),
    [
        (vectors([1.0, 0.0, 0.0]), Cause.UNPARSABLE),
        ((200, "nothing"), Cause.UNPARSABLE),
        ((401, "no"), Cause.ERROR),
        ((500, "no"), Cause.ERROR),
    ],
)
async def test_without_its_vectors_it_is_unknown(post: tuple[int, object], cause: Cause) -> None:
    verdict = await judge(lionguard(), post)
    assert (verdict.label, verdict.cause) == (Label.UNKNOWN, cause)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"card": "violet"}, "unknown card 'violet'; built in are gliguard"),
        ({"card": "lionguard-2", "allow_code": ["lionguard-2"]}, "url names the server that makes them"),
        ({"card": "lionguard-2", "url": URL}, r"then allow_code: \[lionguard-2\]"),
        ({"card": "lionguard-2", "url": URL, "allow_code": ["lionguard-2.1"]}, "runs code of its repository"),
        ({"card": "gliguard", "url": URL}, "url has no effect with gliguard"),
        ({"card": "gliguard", "model": "x"}, "model has no effect with gliguard"),
        ({"card": "gliguard", "lock": None}, "give path, or a lock"),
        (
            {"card": "lionguard-2", "url": URL, "allow_code": ["lionguard-2"], "path": "x", "lock": None},
            "runs from a lock only",
        ),
    ],
)
def test_mistakes_are_refused_with_what_would_be_right(entry: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        InProcess.model_validate(entry)


async def test_what_is_not_locked_is_not_loaded(tmp_path: Path) -> None:
    guard = InProcess.model_validate({"card": "gliguard", "lock": str(tmp_path / "guards.lock")})
    with pytest.raises(ConfigError, match="guard pull gliguard"):
        await guard.__aenter__()
    assert (await judge(guard)).cause is Cause.ERROR
    file = LockedFile(path="config.json", size=2, sha256="0" * 64)
    entry = LockedGuard(repo="a/b", revision="0" * 40, licence=Licence(id="x", accepted="x"), folder="g", files=(file,))
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "config.json").write_text("{}")
    (tmp_path / "guards.lock").write_text(Lock(guards={"gliguard": entry}).to_text())
    with pytest.raises(ConfigError, match="has sha256"):
        await guard.__aenter__()


@pytest.mark.parametrize(
    ("locked", "present", "message"),
    [
        (["config.json"], ["config.json"], "pull it with --allow-remote-code"),
        (["config.json", "violet.py"], ["config.json", "violet.py", "other.py"], "other.py is not in the lock"),
    ],
)
async def test_code_that_is_not_in_the_lock_is_not_run(
    tmp_path: Path, locked: list[str], present: list[str], message: str
) -> None:
    folder = tmp_path / "g"
    folder.mkdir()
    for name in present:
        (folder / name).write_text(f"raise SystemExit  # {name}")
    files = tuple(
        [LockedFile(path=name, size=(folder / name).stat().st_size, sha256=hash_file(folder / name)) for name in locked]
    )
    code, licence = len(locked) > 1, Licence(id="x", accepted="x")
    entry = LockedGuard(repo="a/b", revision="0" * 40, licence=licence, folder="g", files=files, remote_code=code)
    (tmp_path / "guards.lock").write_text(Lock(guards={"lionguard-2": entry}).to_text())
    options = {"card": "lionguard-2", "lock": str(tmp_path / "guards.lock"), "url": URL, "allow_code": ["lionguard-2"]}
    with pytest.raises(ConfigError, match=message):
        await InProcess.model_validate(options).__aenter__()


def test_a_guard_entry_that_names_one_of_their_cards_is_the_same() -> None:
    plain = {"use": "guard", "path": "unused", "lock": None}
    assert isinstance(Guard.model_validate({**plain, "card": "gliguard"}), InProcess)
    stream = {"use": "guard", "card": "qwen3guard-stream-4b", "allow_code": ["qwen3guard-stream-4b"]}
    assert isinstance(Guard.model_validate(stream), QwenStream)
    with pytest.raises(ValidationError, match=r"then allow_code: \[lionguard-2\]"):
        Guard.model_validate({"use": "guard", "card": "lionguard-2", "url": URL})
