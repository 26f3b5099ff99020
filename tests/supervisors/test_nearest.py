"""The name somebody probably meant."""

from __future__ import annotations

import pytest

from supervisors.nearest import candidates, did_you_mean, nearest


def test_the_nearest_name_is_found_whatever_its_case() -> None:
    assert nearest("Judge-X", ["assistant", "judge-a"]) == "judge-a"
    assert nearest("zzz", ["assistant", "judge-a"]) is None


def test_a_hint_is_said_only_where_there_is_one() -> None:
    assert did_you_mean("ttl", ["ttl_s", "scope"]) == "; did you mean 'ttl_s'?"
    assert did_you_mean("zzz", ["ttl_s", "scope"]) == ""


CARDS = ["wildguard", "llama-guard-1", "llama-guard-3-8b", "llama-guard-3-1b", "llama-prompt-guard-2-86m", "embedded"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("llama-guard-3", ("llama-guard-3-1b", "llama-guard-3-8b")),
        ("Llama-Guard-3-8", ("llama-guard-3-8b",)),
        ("prompt-guard", ("llama-prompt-guard-2-86m",)),
        ("guard-2", ("llama-prompt-guard-2-86m",)),
        ("embeded", ("embedded",)),
        ("gliguard", ("wildguard",)),
        ("violet", ()),
    ],
)
def test_a_name_that_is_only_begun_is_like_those_that_go_on(name: str, meant: tuple[str, ...]) -> None:
    assert candidates(name, CARDS) == meant
