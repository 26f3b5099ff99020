"""The one normal form."""

from __future__ import annotations

from evals.norm import norm_text


def test_the_normal_form_folds_width_case_and_white_space() -> None:  # DS-09
    assert norm_text(" Ｖiolet\u00a0\r\n STRASSE\u3000straße ") == "violet strasse strasse"
