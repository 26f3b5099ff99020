from __future__ import annotations

from pathlib import Path

import pytest

from evals.gate.rules import load_rules
from supervisors.errors import ConfigError

EXAMPLE = Path(__file__).resolve().parents[3] / "deploy" / "github" / "rules.yaml"


def test_the_shipped_example_is_read() -> None:  # H-165
    rules = load_rules(EXAMPLE)
    assert (len(rules.absolute), len(rules.relative)) == (2, 2)
    assert rules.limits.max_unknown == 0.02


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must hold a mapping"),
        ("limits: {max_error: 0.1}", "names no absolute and no relative rule"),
        ("absolute: [{metric: nonsense, max: 0.1}]", "no metric 'nonsense'; known are detection_rate"),
        ("absolute: [{metric: detection_rate}]", "give either max or min"),
        ("absolute: [{metric: detection_rate, min: 0.1, max: 0.2}]", "give either max or min"),
        ("absolute: [{metric: false_positive_rate, max: 0}]", "greater than 0"),
        ("absolute: [{metric: false_positive_rate, max: 5}]", "less than 1"),
        (
            "absolute: [{metric: false_positive_rate, max: 0.1, dataest: x}]",
            "dataest: no such rule member; known here are metric,",
        ),
        ("absolut: [{metric: detection_rate, min: 0.1}]", "absolut: no such .* are absolute, relative, limits$"),
        ("limits: {max_unknwon: 0.1}", "limits.max_unknwon: no such .* are max_unknown, max_error"),
        ("relative: [{metric: detection_rate}]", "margin: this setting is required"),
        ("relative: [{metric: borderline_flag_rate, margin: 0.1}]", "no harmful direction"),
        ("absolute: [", "not valid YAML"),
    ],
)
def test_a_wrong_rules_file_says_where_and_what(tmp_path: Path, text: str, said: str) -> None:  # H-165
    path = tmp_path / "rules.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=f"(?s)rules .*{said}"):
        load_rules(path)
