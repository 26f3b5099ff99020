from __future__ import annotations

from pathlib import Path

import pytest

from proxy.locating import name_file

TEXT = """\
models:
  gpt-4: {upstream: main}
  gpt-4.1: {upstream: other}
input:
  supervisors:
    words:
      use: rules
      keywords: [one, two]
policies: {default: {}}
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("models", ":1:1"),
        ("models.gpt-4.upstream", ":2:11"),
        ("models.gpt-4.1.upstream", ":3:13"),  # names hold dots
        ("supervisors.words.keywords.1", ":8:23"),  # the short form
        ("policies.default.input.supervisors", ":5:3"),
        ("policies.default.output", ":9:12"),  # not there: where it would be
        ("models.gpt-4.upstream.more", ":2:11"),
        ("input.supervisors.words.keywords.7", ":8:7"),
        ("nope", ""),
    ],
)
def test_a_line_says_where_its_setting_stands(tmp_path: Path, path: str, place: str) -> None:  # operations §2.2, O-05
    file = tmp_path / "c.yaml"
    file.write_text(TEXT)
    assert name_file(file, [f"{path}: wrong"]) == f"{file}{place}: {path}: wrong"


def test_a_file_that_cannot_be_read_has_a_name_only(tmp_path: Path) -> None:
    broken = tmp_path / "c.yaml"
    broken.write_text("a: [")
    for file in (broken, tmp_path / "gone.yaml"):
        assert name_file(file, ["a: wrong", "no path at all"]) == f"{file}: a: wrong\n{file}: no path at all"


def test_a_line_that_names_the_file_stays_and_without_a_name_all_do(tmp_path: Path) -> None:
    assert name_file(tmp_path, [f"cannot read {tmp_path}"]) == f"cannot read {tmp_path}"
    assert name_file(None, ["a: wrong", "b: wrong"]) == "a: wrong\nb: wrong"
