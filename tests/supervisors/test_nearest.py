"""The name somebody probably meant."""

from __future__ import annotations

from supervisors.nearest import did_you_mean, nearest


def test_the_nearest_name_is_found_whatever_its_case() -> None:
    assert nearest("Judge-X", ["assistant", "judge-a"]) == "judge-a"
    assert nearest("zzz", ["assistant", "judge-a"]) is None


def test_a_hint_is_said_only_where_there_is_one() -> None:
    assert did_you_mean("ttl", ["ttl_s", "scope"]) == "; did you mean 'ttl_s'?"
    assert did_you_mean("zzz", ["ttl_s", "scope"]) == ""
