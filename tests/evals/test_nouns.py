from __future__ import annotations

from evals.nouns import count_of


def test_one_is_no_plural_and_everything_else_is() -> None:
    assert [count_of(number, "trial") for number in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]


def test_the_verb_goes_with_the_number() -> None:
    said = [count_of(number, "trial is too few", "trials are too few") for number in (1, 2)]
    assert said == ["1 trial is too few", "2 trials are too few"]
