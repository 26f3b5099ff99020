from __future__ import annotations

from pathlib import Path

import pytest

from evals.cli import main
from evals.reasons import reason_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of one item."""
    folder = tmp_path_factory.mktemp("runs")
    made = ["replay", "smoke", "--target", "fake", "--limit", "1", "--yes", "--quiet", "--run-name", "run"]
    assert main([*made, "--runs-dir", str(folder)]) == 0
    return folder


def test_a_missing_file_has_no_number(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing") as caught:
        (tmp_path / "nothing").read_text()
    assert reason_of(caught.value) == "No such file or directory"


def test_bytes_that_are_no_text_are_counted_to() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        b"violet \xff umbrella".decode()
    assert reason_of(caught.value) == "not UTF-8: byte 7 cannot be read"


def test_any_other_error_is_one_line() -> None:
    assert reason_of(ValueError("one\n  two")) == "one two"


@pytest.mark.parametrize(
    "asked",
    [
        ("score", "run", "--panel", "nothing"),
        ("gate", "run", "--rules", "nothing"),
        ("direct", "smoke", "--config", "nothing"),
        ("direct", "smoke", "--guard", "nothing"),
        ("replay", "smoke", "--target", "fake", "--system", "nothing"),
        ("replay", "smoke", "--target", "recorded:nothing"),
        ("report", "run", "--published", "nothing"),
        ("traces", "nothing"),
        ("import", "inspect", "nothing"),
        ("nessie", "--target", "fake", "--rows", "nothing"),
    ],
    ids=" ".join,
)
def test_no_command_shows_the_number_of_an_error(
    asked: tuple[str, ...], runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*asked, "--runs-dir", str(runs)]) != 0
    said = capsys.readouterr().err
    assert "nothing: " in said
    assert "Errno" not in said
