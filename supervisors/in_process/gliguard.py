"""GLiGuard: the tasks that its model is asked, and what its answers mean (guards §7).

Source: the model's card and gliner2 2.1. Of a task with several labels the library returns those over the threshold, or
the likeliest one where none is: so every score is held against the threshold again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast

from supervisors.errors import ConfigError, ReplyError
from supervisors.in_process.cards import InProcessCard
from supervisors.types import Label, Verdict
from supervisors.windows import check_files, check_packages

EXTRA: Final = ("gliner2", "torch", "transformers")
BENIGN: Final = "benign"
SAFETY: Final = ("safe", "unsafe")
REFUSAL: Final = ("refusal", "compliance")
TOXICITY: Final = (
    *("violence_and_weapons", "non_violent_crime", "sexual_content", "hate_and_discrimination"),
    *("self_harm_and_suicide", "pii_exposure", "misinformation", "copyright_violation", "child_safety"),
    *("political_manipulation", "unethical_conduct", "regulated_advice", "privacy_violation", "other", BENIGN),
)
JAILBREAK: Final = (
    *("prompt_injection", "jailbreak_attempt", "policy_evasion", "instruction_override"),
    *("system_prompt_exfiltration", "data_exfiltration", "roleplay_bypass", "hypothetical_bypass"),
    *("obfuscated_attack", "multi_step_attack", "social_engineering", BENIGN),
)

_FILES: Final = ("config.json", "encoder_config/config.json", "model.safetensors")
"""Without the encoder's own config the library would fetch one from a hub."""

Side = Literal["prompt", "response"]


class Model(Protocol):
    """What is used of the library's model."""

    def classify_text(
        self, text: str, tasks: Mapping[str, object], *, include_confidence: bool
    ) -> Mapping[str, object]:
        """Answer every task about one text."""
        ...


def load_gliguard(folder: Path) -> Model:
    """Load the model from its folder, whose safetensors alone are read.

    Raises:
        MissingError: the library or a file is not there.
        ConfigError: the model cannot be loaded.
    """
    check_packages(EXTRA, "gliguard")
    check_files(folder, _FILES, "guardrail-proxy guard pull gliguard")
    _refuse_code(folder)
    kind: Any = import_module("gliner2").AutoExtractor  # an extra that takes seconds
    try:
        model: Any = kind.from_pretrained(str(folder), map_location="cpu", local_files_only=True)
    except (ImportError, OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        msg = f"the model in {folder} cannot be loaded: {type(error).__name__}"
        raise ConfigError(msg) from error
    model.eval()
    return cast("Model", model)


def _refuse_code(folder: Path) -> None:
    """Refuse configs that name code: the library would run it without a word."""
    for file in folder.rglob("*.json"):
        try:
            content: object = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            msg = f"{file} is not JSON"
            raise ConfigError(msg) from error
        if _member(content, "auto_map") is not None:
            msg = f"{file} names code of its own, which is not run here"
            raise ConfigError(msg)


def tasks_for(side: Side, card: InProcessCard) -> Mapping[str, object]:
    """Return what the model is asked about a prompt or a response."""
    threshold = card.category_threshold
    asked: dict[str, object] = {
        f"{side}_safety": list(SAFETY),
        f"{side}_toxicity": {"labels": list(TOXICITY), "multi_label": True, "cls_threshold": threshold},
    }
    if side == "prompt":
        asked["jailbreak_detection"] = {"labels": list(JAILBREAK), "multi_label": True, "cls_threshold": threshold}
    else:
        asked["response_refusal"] = list(REFUSAL)
    return asked


def read_gliguard(answer: object, side: Side, card: InProcessCard, threshold: float | None = None) -> Verdict:
    """Read the answer about one text: unsafe by its safety task, or by a jailbreak label that fires.

    Args:
        answer: of `classify_text` with confidences.
        side: what was asked about.
        card: thresholds and names.
        threshold: risk from which a text is unsafe, instead of the label the model chose.

    Raises:
        ReplyError: a task is missing, doubled in form, or has a label or a score that it cannot have.
    """
    label, confidence = _read_one(_member(answer, f"{side}_safety"), SAFETY)
    risk = confidence if label == "unsafe" else 1.0 - confidence
    toxic = tuple(_read_several(_member(answer, f"{side}_toxicity"), TOXICITY, card.category_threshold))
    extras: dict[str, object] = {"score_kind": "probability", "judged": side}
    attacks: Mapping[str, float] = {}
    if side == "prompt":
        attacks = dict(_read_several(_member(answer, "jailbreak_detection"), JAILBREAK, card.category_threshold))
    else:
        refusal, _ = _read_one(_member(answer, "response_refusal"), REFUSAL)
        extras["refusal"] = refusal == "refusal"
    by_safety = label == "unsafe" if threshold is None else risk >= threshold
    if not by_safety and not attacks:
        return Verdict(Label.SAFE, score=risk, extras=extras)
    raw = (*[name for name, _ in toxic], *attacks)
    score = max([risk if by_safety else 0.0, *attacks.values()])
    return Verdict(
        Label.UNSAFE, score=score, categories=card.to_canonical(raw), extras={**extras, "raw_categories": list(raw)}
    )


def _read_one(value: object, labels: tuple[str, ...]) -> tuple[str, float]:
    """Return the label of a task that has one, with its probability."""
    label = _member(value, "label")
    if not isinstance(label, str) or label not in labels:
        raise _wrong("missing_verdict" if value is None else "unknown_label")
    return label, _read_score(_member(value, "confidence"))


def _read_several(value: object, labels: tuple[str, ...], threshold: float) -> Iterator[tuple[str, float]]:
    """Yield the labels that fire; ``benign`` is a label, not a finding."""
    if not isinstance(value, list) or not value:
        raise _wrong("missing_field")
    seen: set[str] = set()
    for entry in cast("list[object]", value):
        label = _member(entry, "label")
        if not isinstance(label, str) or label not in labels:
            raise _wrong("unknown_label")
        if label in seen:
            raise _wrong("contradiction")
        seen.add(label)
        score = _read_score(_member(entry, "confidence"))
        if score >= threshold and label != BENIGN:
            yield label, score


def _read_score(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong("not_finite")
    if not -1e-6 <= value <= 1.0 + 1e-6:
        raise _wrong("missing_field")
    return min(1.0, max(0.0, float(value)))


def _wrong(detail: str) -> ReplyError:
    return ReplyError("the guard's answer cannot be used", detail=detail)


def _member(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None
