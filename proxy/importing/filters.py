"""LiteLLM's content filter and Presidio settings as rules: patterns, words, entities, split by what a finding does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from proxy.importing.notes import Entry
from proxy.wire.segments import as_list, as_object
from supervisors.errors import why_no_yaml
from supervisors.patterns import compile_regex

_ACTIONS: Mapping[str, str] = {"BLOCK": "block", "MASK": "redact"}

_PREBUILT: Mapping[str, str] = {
    "us_ssn": "pii.ssn",
    "email": "pii.email",
    "visa": "pii.card",
    "mastercard": "pii.card",
    "amex": "pii.card",
    "discover": "pii.card",
    "credit_card": "pii.card",
    "us_phone": "pii.phone",
    "iban": "pii.iban",
    "ipv4": "pii.ipv4",
    "ipv6": "pii.ipv6",
    "aws_access_key": "secrets.aws_access_key",
    "aws_secret_key": "secrets.aws_secret_key",
    "github_token": "secrets.github_token",
    "slack_token": "secrets.slack_token",
    "openai_api_key": "secrets.openai_key",
    "anthropic_api_key": "secrets.anthropic_key",
    "gemini_api_key": "secrets.google_key",
    "generic_api_key": "secrets.password",
}
_NARROWER: Mapping[str, str] = {
    "us_phone": "found with its country code only",
    "visa": "every issuer's numbers are found, if their check digit is right",
    "mastercard": "every issuer's numbers are found, if their check digit is right",
    "amex": "every issuer's numbers are found, if their check digit is right",
    "discover": "every issuer's numbers are found, if their check digit is right",
    "aws_secret_key": "found beside the words aws and secret or key only, not as any forty characters",
    "generic_api_key": "found as a word such as api_key with its value",
}
_ENTITIES: Mapping[str, tuple[str, ...]] = {
    "EMAIL_ADDRESS": ("pii.email",),
    "PHONE_NUMBER": ("pii.phone",),
    "CREDIT_CARD": ("pii.card",),
    "IBAN_CODE": ("pii.iban",),
    "IP_ADDRESS": ("pii.ipv4", "pii.ipv6"),
    "US_SSN": ("pii.ssn",),
}
_PRESIDIO = frozenset(
    {
        *("CRYPTO", "DATE_TIME", "LOCATION", "MAC_ADDRESS", "MEDICAL_LICENSE", "NRP", "PERSON", "UK_NHS"),
        *("US_BANK_NUMBER", "US_DRIVER_LICENSE", "US_ITIN", "US_PASSPORT"),
    }
)
"""Entities that only the extra `presidio` finds."""

Found = tuple[str, Mapping[str, Any]]
"""An action of ours and the supervisor whose findings it holds for."""


def read_filter(params: Entry, folder: Path) -> Iterator[Found]:
    """Yield one rules supervisor an action, with the patterns and words of that action."""
    rules: dict[str, dict[str, list[Any]]] = {}
    for index, value in enumerate(as_list(params.take("patterns")) or []):
        _read_pattern(Entry(f"{params.path}.patterns[{index}]", as_object(value) or {}, params.report), rules)
    words = list(as_list(params.take("blocked_words")) or [])
    words += _read_words_file(params, folder)
    for index, value in enumerate(words):
        word = Entry(f"{params.path}.blocked_words[{index}]", as_object(value) or {}, params.report)
        action, keyword = _action(word), word.take("keyword")
        word.drop({"description": "our findings name a category"})
        if action is not None and isinstance(keyword, str) and keyword.strip():
            rules.setdefault(action, {}).setdefault("keywords", []).append(keyword)
        word.finish()
    for index, value in enumerate(as_list(params.take("categories")) or []):
        name = (as_object(value) or {}).get("category")
        text = f"the word list of {name!r} belongs to LiteLLM; the embedded guard or a guard model judges such subjects"
        params.report.add("unmapped", f"{params.path}.categories[{index}]", text)
    params.drop({"severity_threshold": "belongs to categories"})
    for name in ("pattern_redaction_format", "keyword_redaction_tag"):
        params.note("changed", name, "redacted text reads [REDACTED:category]")
    for action, entry in rules.items():
        yield action, {"use": "rules", **entry}


def _action(entry: Entry) -> str | None:
    action = str(entry.take("action")).upper()
    if action not in _ACTIONS:
        entry.report.add("unmapped", f"{entry.path}.action", f"unknown action {action!r}")
        return None
    return _ACTIONS[action]


def _read_pattern(pattern: Entry, rules: dict[str, dict[str, list[Any]]]) -> None:
    action = _action(pattern)
    kind, prebuilt = pattern.take("pattern_type"), str(pattern.take("pattern_name"))
    name, regex = pattern.take("name"), pattern.take("pattern")
    pattern.finish()
    if action is None:
        return
    if kind == "prebuilt":
        preset = _find_preset(pattern, prebuilt)
        presets = rules.setdefault(action, {}).setdefault("presets", []) if preset is not None else []
        if preset not in presets:
            presets.append(preset)
    elif kind == "regex" and isinstance(regex, str):
        if _compiles(pattern, regex):
            label = str(name or regex)
            found = {"name": label, "regex": regex, "ignore_case": True, "category": label}
            rules.setdefault(action, {}).setdefault("patterns", []).append(found)
    else:
        pattern.report.add("unmapped", pattern.path, f"pattern_type {kind!r} with what it needs")


def _find_preset(pattern: Entry, prebuilt: str) -> str | None:
    ours = _PREBUILT.get(prebuilt)
    if ours is None:
        pattern.report.add("unmapped", pattern.path, f"no pattern of ours finds what {prebuilt!r} finds")
    elif prebuilt in _NARROWER:
        pattern.report.add("changed", pattern.path, f"{prebuilt} → {ours}: {_NARROWER[prebuilt]}")
    return ours


def _compiles(pattern: Entry, regex: str) -> bool:
    try:
        compile_regex(regex, ignore_case=True)
    except ValueError as error:
        pattern.report.add("unmapped", f"{pattern.path}.pattern", str(error))
        return False
    return True


def _read_words_file(params: Entry, folder: Path) -> list[Any]:
    name = params.take("blocked_words_file")
    if not isinstance(name, str):
        return []
    try:
        tree: Any = yaml.safe_load((folder / name).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = why_no_yaml(name, error) if isinstance(error, yaml.YAMLError) else " ".join(str(error).split())
        params.report.add("unmapped", f"{params.path}.blocked_words_file", f"cannot be read: {why}")
        return []
    words = as_list((as_object(tree) or {}).get("blocked_words")) or []
    params.report.add("mapped", f"{params.path}.blocked_words_file", f"its {len(words)} words were copied")
    return words


def read_presidio(params: Entry) -> Iterator[Found]:
    """Yield rules for the entities that our patterns know, and Presidio itself for the others, an action each."""
    wanted = as_object(params.take("pii_entities_config"))
    if wanted is None:
        params.report.add("changed", params.path, "without pii_entities_config: all entities ours and Presidio's know")
        wanted = dict.fromkeys([*_ENTITIES, "PERSON", "LOCATION"], "MASK")
    floor = _read_floor(params)
    _check_presidio(params)
    for action, entities in _by_action(params, wanted).items():
        ours = [name for entity in entities for name in _ENTITIES.get(entity, ())]
        presidio = [entity for entity in entities if entity not in _ENTITIES]
        if ours:
            known = ", ".join([entity for entity in entities if entity in _ENTITIES])
            text = f"{known} → rules with the presets {', '.join(ours)}, on_unsafe: {action}"
            params.report.add("mapped", f"{params.path}.pii_entities_config", text)
            yield action, {"use": "rules", "presets": ours}
        if presidio:
            text = (
                f"{', '.join(presidio)} → use: presidio, on_unsafe: {action}; "
                "needs the extra: pip install 'guardrail-proxy[presidio]'"
            )
            params.report.add("changed", f"{params.path}.pii_entities_config", text)
            yield action, {"use": "presidio", "entities": presidio, **floor}


def _by_action(params: Entry, wanted: Mapping[str, Any]) -> Mapping[str, list[str]]:
    """Return the entities that have a counterpart, by what a finding does."""
    found: dict[str, list[str]] = {}
    for entity, action in wanted.items():
        path = f"{params.path}.pii_entities_config.{entity}"
        if str(action).upper() not in _ACTIONS:
            params.report.add("unmapped", path, f"unknown action {action!r}")
        elif entity not in _ENTITIES and entity not in _PRESIDIO:
            params.report.add("unmapped", path, "neither our patterns nor our Presidio pipeline know it")
        else:
            found.setdefault(_ACTIONS[str(action).upper()], []).append(entity)
    return found


def _read_floor(params: Entry) -> dict[str, Any]:
    floors = as_object(params.take("presidio_score_thresholds")) or {}
    strange = [name for name in floors if name != "ALL"]
    if strange:
        path = f"{params.path}.presidio_score_thresholds"
        params.report.add("unmapped", path, "one threshold holds for all entities: there is none for single ones")
    return {"threshold": floors["ALL"]} if "ALL" in floors else {}


def _check_presidio(params: Entry) -> None:
    if params.take("output_parse_pii"):
        params.report.add("unmapped", f"{params.path}.output_parse_pii", "redaction is not reversible")
    if params.take("presidio_language") not in (None, "en"):
        params.report.add("unmapped", f"{params.path}.presidio_language", "English only")
    if params.take("presidio_filter_scope") not in (None, "both"):
        params.report.add("unmapped", f"{params.path}.presidio_filter_scope", "say it with mode")
    params.drop(
        {
            "presidio_analyzer_api_base": "Presidio runs in this process",
            "presidio_anonymizer_api_base": "redaction is ours",
            "presidio_analyze_chunk_size_bytes": "long texts are cut with overlap",
        }
    )
