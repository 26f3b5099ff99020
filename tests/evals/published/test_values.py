from __future__ import annotations

from pathlib import Path

import pytest

from evals.published.values import Published, counted, dump, of_dataset, parse
from supervisors.errors import DatasetError

ONE = Published("xstest", "XSTest", "a", "recall", 0.5, "s", "c", 4, *counted(2, 4)[2:])
TWO = Published("xstest", "XSTest", "b", "recall", 0.75, "s", "c", note="seen in training")
ALARM = Published("xstest", "XSTest", "b", "fpr", 0.75, "s", "c")


def test_numbers_come_back_as_they_were_written() -> None:
    text = dump([ONE, TWO])
    assert parse(text, Path("x")) == (ONE, TWO)
    assert text.count("\n") == 4
    with pytest.raises(DatasetError, match=r"x: 0\.value"):
        parse('[{"dataset": "a", "named": "a", "system": "s", "metric": "m", "source": "", "cohort": ""}]', Path("x"))


def test_a_share_knows_its_interval_and_nothing_is_divided_by_nothing() -> None:
    assert ONE.text == "0.500 [0.150, 0.850] n 4"
    assert TWO.text == "0.750"
    with pytest.raises(DatasetError, match="0 of 0 is no share"):
        counted(0, 0)


def test_the_best_comes_first_whichever_way_is_better() -> None:
    better = Published("xstest", "XSTest", "c", "fpr", 0.1, "s", "c")
    assert [one.system for one in of_dataset([ONE, TWO, ALARM, better], "xstest")] == ["c", "b", "b", "a"]
    assert of_dataset([ONE], "other") == []
