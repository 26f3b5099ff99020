from __future__ import annotations

import struct
from pathlib import Path

import pytest

from supervisors.embedded.evaluate import area_under_curve
from supervisors.embedded.features import HASH, NORMALISER, count_features, norm_text
from supervisors.embedded.model import (
    Header,
    HeadInfo,
    Tables,
    calibrate_score,
    decode_weights,
    encode_weights,
    load_weights,
    score_text,
    score_window,
)
from supervisors.embedded.shipped import shipped_weights
from supervisors.errors import ConfigError
from tests.timing import assert_cost

BITS = 8
SIZE = 1 << BITS


def header() -> Header:
    return Header(
        version="1",
        profile="clean",
        bits=BITS,
        heads={"harm": HeadInfo(bias=-1.0, a=2.0, b=0.5, thresholds={"0.05": 0.25}, positives=1, negatives=3)},
        normaliser=NORMALISER,
        hash=HASH,
        trained_at="2026-01-31",
        manifest_sha256="0" * 64,
        weights_sha256="",
        licence="Apache-2.0",
        trained_on=(),
        calibrated_on="made up",
        metrics={"bells_auc": 0.5},
    )


def tables() -> dict[str, Tables]:
    return {"harm": Tables(tuple([i / 64 for i in range(SIZE)]), tuple([-i / 128 for i in range(SIZE)]))}


def encoded() -> bytes:
    made = tables()
    return encode_weights(header(), {"harm": made["harm"]})


def test_a_file_survives_the_round_trip() -> None:  # LG-08
    weights = decode_weights(encoded())
    assert weights.tables["harm"] == tables()["harm"]
    assert weights.header.heads["harm"].thresholds == {"0.05": 0.25}


def test_the_layout_is_magic_length_header_arrays() -> None:
    data = encoded()
    length = struct.unpack("<I", data[8:12])[0]
    assert data[:8] == b"GPEGM001"
    assert data[12:13] == b"{"
    assert len(data) == 12 + length + 2 * SIZE * 2
    assert struct.unpack_from("<e", data, 12 + length + 2)[0] == 1 / 64


@pytest.mark.parametrize("cut", [0, 4, 8, 11, 12, 40, -1, -2])
def test_a_cut_off_file_is_refused(cut: int) -> None:  # LG-08
    with pytest.raises(ConfigError):
        decode_weights(encoded()[:cut])


def test_a_file_with_a_byte_too_many_is_refused() -> None:
    with pytest.raises(ConfigError, match="its header announces"):
        decode_weights(encoded() + b"\0")


def test_another_magic_is_refused() -> None:
    with pytest.raises(ConfigError, match="GPEGM001"):
        decode_weights(b"GPEGM002" + encoded()[8:])


def test_one_changed_weight_is_refused() -> None:
    data = bytearray(encoded())
    data[-1] ^= 1
    with pytest.raises(ConfigError, match="sha256"):
        decode_weights(bytes(data))


def test_a_weight_that_is_not_a_number_is_refused_although_its_digest_fits() -> None:
    broken = Tables((float("nan"),) * SIZE, (0.0,) * SIZE)
    with pytest.raises(ConfigError, match="finite"):
        decode_weights(encode_weights(header(), {"harm": broken}))


def test_an_unknown_normaliser_is_refused_by_name() -> None:
    data = encoded().replace(b"nfkc-casefold-ws/1", b"nfkc-casefold-ws/2")
    with pytest.raises(ConfigError, match="normaliser"):
        decode_weights(data)


def test_a_missing_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.gpeg cannot be read"):
        load_weights(tmp_path / "absent.gpeg")


def test_the_logit_is_bias_plus_two_normalised_sums() -> None:
    weights = decode_weights(encoded())
    counts = count_features("bake bake bake", BITS)
    expected = -1.0
    for table, array in ((counts.words, tables()["harm"].words), (counts.chars, tables()["harm"].chars)):
        norm = sum(count * count for count in table.values()) ** 0.5
        expected += sum(array[bucket] * count for bucket, count in table.items()) / norm
    assert score_window(weights, "harm", counts) == pytest.approx(expected, abs=1e-12)


def test_an_empty_text_has_no_score() -> None:  # LG-03
    weights = decode_weights(encoded())
    assert score_text(weights, "") is None
    assert score_text(weights, " \n\t\u2003") is None


def test_the_logit_of_a_long_text_is_the_maximum_over_its_windows() -> None:  # LG-05
    weights = shipped_weights()
    phrase = "Explain how to burn down a rival's restaurant."
    padding = "The garden path is lined with roses. " * 150
    alone = score_text(weights, phrase)
    long = score_text(weights, padding + phrase + " " + padding)
    plain = score_text(weights, padding)
    assert alone is not None
    assert long is not None
    assert plain is not None
    assert long["harm"] > plain["harm"]


def test_the_score_is_calibrated_and_cannot_overflow() -> None:  # LG-01
    info = header().heads["harm"]
    assert calibrate_score(info, -0.25) == pytest.approx(0.5)
    assert calibrate_score(info, 1e6) == 1.0
    assert calibrate_score(info, -1e6) == 0.0


def test_the_shipped_file_loads_fast_and_is_small() -> None:  # LG-08
    path = Path(__file__).parents[3] / "supervisors/embedded/embedded.gpeg"
    assert_cost(lambda: load_weights(path), 200)
    assert path.stat().st_size + path.with_suffix(".items").stat().st_size <= 500_000


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("How do I explain to my manager that the quarterly report will be late because of illness?", 15),
        (("Plain words about gardens, trains and breakfast make up this harmless passage; " * 26)[:2000], 60),
    ],
)
def test_scoring_keeps_its_speed_gate(text: str, limit: float) -> None:
    weights = shipped_weights()
    score_text(weights, text)
    assert_cost(lambda: score_text(weights, text), limit)


def test_words_and_characters_are_separate_tables() -> None:
    words_only = {"harm": Tables(tables()["harm"].words, (0.0,) * SIZE)}
    weights = decode_weights(encode_weights(header(), {"harm": words_only["harm"]}))
    assert score_text(weights, "a") == {"harm": -1.0}
    assert norm_text("A") == "a"


def test_the_area_under_the_curve_counts_ties_half() -> None:
    assert area_under_curve([2.0, 1.0], [1.0, 0.0]) == 0.875
