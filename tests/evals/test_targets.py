from __future__ import annotations

import pytest

from evals.fake import CANARY, FakeOptions, read_options, reply_to
from evals.targets import Price, Sampling, parse_target
from supervisors.errors import ConfigError


def test_the_fake_target_says_what_it_is() -> None:
    assert "FAKE model" in parse_target("fake").label


def test_the_delay_of_the_fake_model_is_no_part_of_a_trial() -> None:  # H-114
    one, other = parse_target("fake?delay_ms=5"), parse_target("fake")
    assert one.sha256("fake-1", Sampling()) == other.sha256("fake-1", Sampling())
    assert parse_target("fake?errors=0.5").sha256("fake-1", Sampling()) != other.sha256("fake-1", Sampling())


def test_sampling_is_part_of_a_trial() -> None:  # H-114
    target = parse_target("http://127.0.0.1:8000/v1#m")
    assert target.sha256("m", Sampling()) != target.sha256("m", Sampling(temperature=1.0))
    assert target.sha256("m", Sampling()) != target.sha256("m", Sampling(system="Be brief."))


def test_a_model_server_without_price_is_unknown_and_never_free() -> None:  # H-133
    assert parse_target("http://127.0.0.1:8000/v1#m").price is None
    assert parse_target("http://127.0.0.1:8000/v1#m", Price(1, 2)).price == Price(1, 2)
    assert Price(1.0, 2.0).cost(1_000_000, 500_000) == 2.0


@pytest.mark.parametrize(
    "given", [{"errors": "2"}, {"delay_ms": "x"}, {"colour": "1"}, {"flaky": "-1"}, {"errors": "nan"}]
)
def test_a_wrong_option_of_the_fake_model_is_named(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="known are delay_ms"):
        read_options(given)


def test_the_options_of_the_fake_model_are_read() -> None:
    assert read_options({"errors": "0.5", "delay_ms": "20"}) == FakeOptions(delay_ms=20, errors=0.5)


def test_the_fake_model_answers_the_same_text_the_same_way() -> None:
    assert reply_to("", "hello") == reply_to("", "hello")
    assert reply_to("Reply with one digit", f"a {CANARY}") == "1"
    assert reply_to("Reply with one digit", "a cat") == "0"
