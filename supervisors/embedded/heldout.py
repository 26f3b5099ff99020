"""Texts that are never trained on: the test sets of the build report and the calibration set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisors.embedded.features import norm_text
from supervisors.embedded.reading import read_bytes, read_column, read_json, read_lines, read_table
from supervisors.embedded.sources import split_wild

CALIBRATION_NAME = "benign-fuzzyai + benign-ifeval"
WILD_HELD_OUT = "wild-held-out"
"""The in-the-wild jailbreaks that are not in training."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One test set, cut by label.

    Args:
        name: dataset id, then the label or cut after a slash.
        texts: in file order.
        harmful: label, None where there is no right answer (borderline).
    """

    name: str
    texts: tuple[str, ...]
    harmful: bool | None

    @property
    def dataset(self) -> str:
        """Return the dataset id."""
        return self.name.split("/")[0]


def drop_repeats(texts: Iterable[str]) -> list[str]:
    """Return the texts without repeats of their normalised form, the first kept."""
    kept: dict[str, str] = {}
    for text in texts:
        kept.setdefault(norm_text(text), text)
    return list(kept.values())


def read_calibration(data: Path) -> list[str]:
    """Return the benign texts that set the shipped thresholds."""
    lines = read_bytes(data, "benign-fuzzyai/benign_prompts.txt").decode().split("\n")
    prompts = [row["prompt"] for row in read_lines(data, "benign-ifeval/full_input_data.jsonl")]
    return drop_repeats([text for text in [*lines, *prompts] if text.strip()])


def read_held_out(data: Path) -> list[HeldOut]:
    """Return all test sets of the build report."""
    plain = read_table(data, "bells/non_adversarial_prompts.csv")
    xstest = read_table(data, "xstest/xstest_prompts.csv")
    harmbench = read_table(data, "harmbench/harmbench_behaviors_text_all.csv")
    return [
        *_cut("bells", plain, "question", lambda row: row["harm_level"], ("harmful", "borderline", "benign")),
        *_read_wrapped_bells(data),
        *_cut("xstest", xstest, "prompt", lambda row: row["label"], ("unsafe", "safe")),
        HeldOut("notinject", tuple(_read_notinject(data)), harmful=False),
        HeldOut(
            "harmbench", tuple(r["Behavior"] for r in harmbench if r["FunctionalCategory"] != "copyright"), harmful=True
        ),
        _column(data, "advbench", "advbench/harmful_behaviors.csv", "goal"),
        _column(data, "jailbreakbench", "jailbreakbench/harmful_behaviors_jailbreakbench.csv", "Goal"),
        _column(data, "tdc2023", "harmbench/tdc2023_test_phase_behaviors.csv", "Behavior"),
        _column(data, "forbidden-questions", "jailbreak-prompts/questions.csv", "question"),
        _column(data, "strongreject", "strongreject/strongreject_dataset.csv", "forbidden_prompt"),
        _column(data, "simplesafetytests", "simplesafetytests/SimpleSafetyTests - test cases.csv", "prompts_final"),
        HeldOut(WILD_HELD_OUT, tuple(split_wild(data)[1]), harmful=True),
    ]


def _column(data: Path, name: str, file: str, column: str) -> HeldOut:
    return HeldOut(name, tuple(read_column(data, file, column)), harmful=True)


def _cut(
    name: str,
    rows: list[dict[str, str]],
    column: str,
    label: Callable[[dict[str, str]], str],
    labels: tuple[str, ...],
) -> list[HeldOut]:
    meaning = {"harmful": True, "unsafe": True, "borderline": None}
    return [
        HeldOut(
            f"{name}/{wanted}",
            tuple([row[column] for row in rows if label(row) == wanted]),
            meaning.get(wanted, False),
        )
        for wanted in labels
    ]


def _read_wrapped_bells(data: Path) -> list[HeldOut]:
    labels: dict[str, str] = {}
    for row in read_table(data, "bells/metacognitive_results.csv"):
        if row["dataset"] != "non_adversarial_prompts":
            labels.setdefault(row["prompt"], row["ground_truth"])
    return [
        HeldOut(f"bells/wrapped-{name}", tuple([text for text, found in labels.items() if found == truth]), harmful)
        for name, truth, harmful in (("harmful", "harmful", True), ("benign", "not_harmful", False))
    ]


def _read_notinject(data: Path) -> list[str]:
    texts: list[str] = []
    for word in ("one", "two", "three"):
        items: Any = read_json(data, f"notinject/NotInject_{word}.json")
        texts += [item["prompt"] for item in items]
    return texts
