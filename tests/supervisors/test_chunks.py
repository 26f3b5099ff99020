from __future__ import annotations

from supervisors.chunks import combine
from supervisors.types import Cause, Label, Verdict, safe, unknown, unsafe


def test_pieces_of_which_one_is_undecided_have_no_score() -> None:  # GP-14
    found = combine([safe(score=0.1), unknown(Cause.TIMEOUT)])
    assert (found.label, found.cause, found.score) == (Label.UNKNOWN, Cause.TIMEOUT, None)


def test_decided_pieces_have_the_highest_score() -> None:  # GP-14
    assert combine([safe(score=0.1), safe(score=0.3)]).score == 0.3
    assert combine([unsafe("canary", score=0.9), unknown(Cause.TIMEOUT)]).score == 0.9


def test_a_view_in_one_piece_keeps_what_was_said_of_it() -> None:
    alone = Verdict(Label.UNKNOWN, Cause.ABSTAINED, score=0.5)
    assert combine([alone]) == alone
