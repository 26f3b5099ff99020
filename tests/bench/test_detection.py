"""The table of docs/supervisors.md: what is measured for it, and how that gets into the page."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from bench.detection import PAGE, draw, list_rows, merge, parse, plan

HEAD = "| supervisor | detection, mean of 1 set | false positives, mean of 1 set | ms, median and p95 |"
MEASURED = f"""{HEAD}
|---|---|---|---|
| `violet` | 0.300 [0.100, 0.500] n=9 | 0.020 [0.000, 0.060] n=8 | 0.50, 1.00 |
| `umbrella` | – | 0.010 [0.000, 0.060] n=8 | 2.00, 3.00 |

| detection | `a` |
|---|---|
| `violet` | 0.30 [0.10, 0.50] 3/10 |
| `umbrella` | – |

| false positives | `b` |
|---|---|
| `violet` | 0.02 [0.00, 0.06] 2/100 |
| `umbrella` | 0.01 [0.00, 0.06] 1/100 |
"""
OLD = MEASURED.replace("0.50, 1.00", "9.99, 9.99").replace("3/10", "1/1000").replace("`umbrella`", "`coat`")


def test_a_measured_row_replaces_that_of_the_page_and_others_stay() -> None:
    page = merge(f"before\n\n{OLD}\nafter\n", MEASURED)
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    assert "9.99" not in page
    assert [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")] == [
        "| `violet`", "| `coat`", "| `umbrella`",
    ] * 3  # fmt: skip
    assert merge(page, MEASURED) == page


def test_a_rate_of_fewer_prompts_and_no_rate_leave_what_is_there() -> None:
    page = merge(OLD, MEASURED.replace("0.300 [0.100, 0.500] n=9", "–"))
    assert "| `violet` | 0.300 [0.100, 0.500] n=9 |" in page
    assert "1/1000" in page
    assert "3/10 |" not in page


def test_a_page_without_the_tables_is_told() -> None:
    with pytest.raises(ValueError, match="no table begins with the column 'supervisor'"):
        merge("nothing", MEASURED)


def test_every_row_is_measured_alone_one_prompt_at_a_time() -> None:
    rows = list_rows()
    assert [row.name for row in rows][:2] == ["injection-phrases", "secrets-and-pii"]
    runs = dict(plan(rows[:1], ["supervisors.yaml"]))
    assert list(runs) == ["s-injection-phrases", "s-injection-phrases-attacks", "all-supervisors.yaml"]
    alone = ["--only", "injection-phrases", "--concurrency", "1", "--sample", "3"]
    assert runs["s-injection-phrases-attacks"][-6:] == alone


def test_the_page_has_every_row_and_its_figure_shows_them() -> None:
    page = PAGE.read_text("utf-8")
    assert [row.name for row in list_rows() if f"| `{row.name}` |" not in page] == []
    figure = draw(page)
    assert ET.fromstring(figure).tag.endswith("svg")  # noqa: S314 - our own figure
    assert "injection-phrases" in figure
    assert merge(page, page) == page


@pytest.mark.parametrize(("words", "said"), [(["--row", "x"], "no row x"), (["--all", "x"], "unknown policy file x")])
def test_a_wrong_name_is_told(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--data", "d", *words])
    assert said in capsys.readouterr().err
