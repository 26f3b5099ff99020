"""What GLiGuard is asked and how its answers are read (guards §7): real shapes of gliner2, and everything else."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from supervisors.errors import ConfigError, MissingError, ReplyError
from supervisors.in_process.cards import load_in_process
from supervisors.in_process.gliguard import EXTRA, JAILBREAK, TOXICITY, load_gliguard, read_gliguard, tasks_for
from supervisors.types import Label

CARD = load_in_process("gliguard")


def one(label: str, confidence: object = 0.9) -> dict[str, object]:
    return {"label": label, "confidence": confidence}


def prompt(**changes: Any) -> dict[str, Any]:
    return {
        "prompt_safety": one("safe"),
        "prompt_toxicity": [one("benign", 0.8)],
        "jailbreak_detection": [one("benign", 0.7)],
        **changes,
    }


def response(**changes: Any) -> dict[str, Any]:
    return {
        "response_safety": one("safe", 0.8),
        "response_toxicity": [one("benign")],
        "response_refusal": one("refusal", 0.6),
        **changes,
    }


def test_the_labels_are_those_of_the_model() -> None:
    assert (len(TOXICITY), len(JAILBREAK)) == (15, 12)
    assert {*TOXICITY, *JAILBREAK} - {"benign"} == set(CARD.categories)


def test_each_side_has_its_tasks() -> None:
    asked = tasks_for("prompt", CARD)
    assert list(asked) == ["prompt_safety", "prompt_toxicity", "jailbreak_detection"]
    assert asked["prompt_safety"] == ["safe", "unsafe"]
    assert asked["jailbreak_detection"] == {"labels": list(JAILBREAK), "multi_label": True, "cls_threshold": 0.4}
    assert list(tasks_for("response", CARD)) == ["response_safety", "response_toxicity", "response_refusal"]


def test_a_safe_prompt() -> None:
    verdict = read_gliguard(prompt(), "prompt", CARD)
    assert (verdict.label, verdict.categories) == (Label.SAFE, ())
    assert verdict.score == pytest.approx(0.1)


def test_an_unsafe_prompt_has_its_toxicity_as_categories() -> None:
    found = prompt(
        prompt_safety=one("unsafe", 0.93), prompt_toxicity=[one("violence_and_weapons", 0.8), one("other", 0.5)]
    )
    verdict = read_gliguard(found, "prompt", CARD)
    assert (verdict.label, verdict.score) == (Label.UNSAFE, 0.93)
    assert verdict.categories == ("violence", "weapons", "other")
    assert verdict.extras["raw_categories"] == ["violence_and_weapons", "other"]


def test_toxicity_alone_is_no_finding() -> None:
    found = prompt(prompt_toxicity=[one("misinformation", 0.6)])
    assert read_gliguard(found, "prompt", CARD).label is Label.SAFE


@pytest.mark.parametrize(
    ("label", "category"),
    [
        ("prompt_injection", "injection"),
        ("instruction_override", "injection"),
        ("system_prompt_exfiltration", "prompt_leak"),
        ("data_exfiltration", "exfiltration"),
        ("roleplay_bypass", "jailbreak"),
    ],
)
def test_a_jailbreak_label_that_fires_is_unsafe_whatever_the_safety_task_says(label: str, category: str) -> None:
    verdict = read_gliguard(prompt(jailbreak_detection=[one("benign", 0.5), one(label, 0.4)]), "prompt", CARD)
    assert (verdict.label, verdict.score, verdict.categories) == (Label.UNSAFE, 0.4, (category,))


def test_the_likeliest_label_below_the_threshold_does_not_fire() -> None:  # the library names it for want of another
    found = prompt(jailbreak_detection=[one("social_engineering", 0.39)], prompt_toxicity=[one("other", 0.1)])
    assert read_gliguard(found, "prompt", CARD).label is Label.SAFE


def test_a_refusal_is_a_fact_and_no_label() -> None:
    verdict = read_gliguard(response(), "response", CARD)
    assert (verdict.label, verdict.extras["refusal"]) == (Label.SAFE, True)
    unsafe = read_gliguard(response(response_safety=one("unsafe", 0.7)), "response", CARD)
    assert (unsafe.label, unsafe.extras["refusal"]) == (Label.UNSAFE, True)


def test_a_threshold_decides_by_the_probability_instead_of_the_chosen_label() -> None:
    found = prompt(prompt_safety=one("safe", 0.7))
    assert read_gliguard(found, "prompt", CARD, 0.3).label is Label.UNSAFE  # GU-21: at the threshold
    assert read_gliguard(found, "prompt", CARD, 0.31).label is Label.SAFE


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        [],
        "safe",
        prompt(prompt_safety=None),
        prompt(prompt_safety="safe"),  # without its probability
        prompt(prompt_safety=one("Safe")),
        prompt(prompt_safety=one("benign")),
        prompt(prompt_safety=one("safe", math.nan)),
        prompt(prompt_safety=one("safe", 1.5)),
        prompt(prompt_safety=one("safe", "0.9")),
        prompt(prompt_safety=one("safe", True)),
        prompt(prompt_safety=[one("safe"), one("unsafe")]),
        prompt(prompt_toxicity=[]),
        prompt(prompt_toxicity=None),
        prompt(prompt_toxicity=one("benign")),
        prompt(jailbreak_detection=["benign"]),
        prompt(jailbreak_detection=[one("benign"), one("benign")]),
        prompt(jailbreak_detection=[one("violet")]),
        {key: value for key, value in prompt().items() if key != "jailbreak_detection"},
        response(),  # the other side's answer
    ],
)
def test_whatever_else_is_no_verdict(answer: object) -> None:
    with pytest.raises(ReplyError):
        read_gliguard(answer, "prompt", CARD)


@pytest.mark.skipif(all(find_spec(name) for name in EXTRA), reason="the extra is installed")
def test_without_the_library_the_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"pip install 'guardrail-proxy\[gliguard\]'"):
        load_gliguard(tmp_path)


def test_a_config_that_names_code_is_refused_before_the_library_sees_it(tmp_path: Path) -> None:
    pytest.importorskip("gliner2")
    (tmp_path / "encoder_config").mkdir()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(MissingError, match="encoder_config"):
        load_gliguard(tmp_path)
    (tmp_path / "encoder_config" / "config.json").write_text('{"auto_map": {"AutoModel": "violet.Violet"}}')
    with pytest.raises(ConfigError, match="names code of its own"):
        load_gliguard(tmp_path)
