"""One entry a hosted guard, with the replies its service gives to a harmless and to a harmful text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from supervisors.plugins import find_plugins
from supervisors.secret import Secret
from supervisors.types import Supervisor

KEY = "k-violet-umbrella"


def secret(name: str = "KEY", value: str = KEY) -> Secret:
    return Secret(f"env:{name}", value)


@dataclass(frozen=True, slots=True)
class Sample:
    """A service.

    Args:
        options: of its entry, without `use` and `url`.
        safe: its reply to a harmless text.
        unsafe: its reply to a harmful one.
        secrets: names of its credentials.
        required: those of them without which the entry is refused.
        path: where it is called.
        base: what follows the host in `url`.
        categories: what the harmful reply means.
    """

    options: Mapping[str, object]
    safe: object
    unsafe: object
    path: str
    secrets: tuple[str, ...] = ("api_key",)
    required: tuple[str, ...] = ()
    base: str = ""
    categories: tuple[str, ...] = ()

    def entry(self, use: str, root: str) -> dict[str, object]:
        """Return the config entry for a service at `root`."""
        keys = {name: secret(name) for name in self.secrets}
        return {"use": use, **self.options, **keys, "url": root + self.base}


def _azure(**severities: int) -> dict[str, object]:
    found = {"Hate": 0, "SelfHarm": 0, "Sexual": 0, "Violence": 0, **severities}
    return {"blocklistsMatch": [], "categoriesAnalysis": [{"category": k, "severity": v} for k, v in found.items()]}


def armor(state: str, **result: object) -> dict[str, object]:
    inner = {"executionState": "EXECUTION_SUCCESS", "matchState": state, "confidenceLevel": "HIGH"}
    filters = {"pi_and_jailbreak": {"piAndJailbreakFilterResult": inner}}
    found = {"filterMatchState": state, "invocationResult": "SUCCESS", "filterResults": filters, **result}
    return {"sanitizationResult": found}


def _checks(severity: float) -> dict[str, object]:
    return {
        "results": {
            "contentFilter": {"results": [{"category": "VIOLENCE", "severityScore": 0.0}]},
            "promptAttack": {"results": [{"category": "JAILBREAK", "severityScore": severity}]},
        },
        "usage": {},
    }


_AWS = ("access_key_id", "secret_access_key")
_GUARDRAIL: Mapping[str, object] = {"guardrail_id": "gr1", "guardrail_version": "3", "region": "eu-west-1"}
_TOPIC: Mapping[str, object] = {"topicPolicy": {"topics": [{"name": "rain", "type": "DENY", "action": "BLOCKED"}]}}
_TEMPLATE: Mapping[str, object] = {"project": "p-1", "location": "europe-west4", "template": "strict"}
_LAKERA_HIT: Mapping[str, object] = {
    "flagged": True,
    "breakdown": [{"detector_type": "prompt_attack", "detected": True, "result": "l2_very_likely"}],
}

NOTHING: list[object] = []
"""An empty JSON array of a known type."""

SAMPLES: Mapping[str, Sample] = {
    "lakera": Sample(
        {}, {"flagged": False, "breakdown": []}, _LAKERA_HIT, "/v2/guard", base="/v2", categories=("injection",),
    ),
    "azure_text": Sample(
        {}, _azure(), _azure(Violence=4), "/contentsafety/text:analyze?api-version=2024-09-01", required=("api_key",),
        categories=("violence",),
    ),
    "azure_shields": Sample(
        {}, {"userPromptAnalysis": {"attackDetected": False}, "documentsAnalysis": NOTHING},
        {"userPromptAnalysis": {"attackDetected": True}, "documentsAnalysis": NOTHING},
        "/contentsafety/text:shieldPrompt?api-version=2024-09-01", required=("api_key",), categories=("jailbreak",),
    ),
    "bedrock": Sample(
        _GUARDRAIL, {"action": "NONE", "outputs": NOTHING, "assessments": NOTHING},
        {"action": "GUARDRAIL_INTERVENED", "outputs": [{"text": "No."}], "assessments": [_TOPIC]},
        "/guardrail/gr1/version/3/apply", secrets=_AWS, required=_AWS, categories=("other",),
    ),
    "bedrock_checks": Sample(
        {"region": "eu-west-1"}, _checks(0.0), _checks(0.8), "/guardrail-checks/invoke", secrets=_AWS, required=_AWS,
        categories=("jailbreak",),
    ),
    "model_armor": Sample(
        _TEMPLATE, armor("NO_MATCH_FOUND"), armor("MATCH_FOUND"),
        "/v1/projects/p-1/locations/europe-west4/templates/strict:sanitizeUserPrompt", secrets=("token",),
        required=("token",), categories=("injection",),
    ),
    "trustgate": Sample(
        {"policy_id": "pol"}, {"metadata": [{"plugin_name": "neuraltrust_jailbreak", "data": {"blocked": False}}]},
        {"metadata": [{"plugin_name": "neuraltrust_jailbreak", "data": {"blocked": True}}]}, "/v1/actions", base="/v1",
        required=("api_key",), categories=("jailbreak",),
    ),
    "jailbreak_detect": Sample(
        {}, {"jailbreak": False, "score": -0.9}, {"jailbreak": True, "score": 0.8}, "/v1/classify",
        categories=("jailbreak",),
    ),
    "opencc": Sample({}, {"decision": "allow"}, {"decision": "block"}, "/check"),
    "llm_guard": Sample(
        {}, {"is_valid": True, "scanners": {"Toxicity": 0.0}, "sanitized_prompt": "x"},
        {"is_valid": False, "scanners": {"Toxicity": 0.9}, "sanitized_prompt": "x"}, "/analyze/prompt",
    ),
    "detectors": Sample(
        {"detector": "pii-detector"}, [NOTHING],
        [[{"start": 2, "end": 8, "detection": "EmailAddress", "detection_type": "privacy", "score": 0.9}]],
        "/api/v1/text/contents", categories=("privacy",),
    ),
    "http_guard": Sample(
        {"body": {"input": "{text}"}, "verdict": "/verdict", "unsafe": ["bad"], "safe": ["good"]}, {"verdict": "good"},
        {"verdict": "BAD"}, "/judge", base="/judge",
    ),
    "systemone": Sample(
        {"questions": {"violence": "It calls for violence."}}, {"answers": {"violence": {"noul": 0.1}}},
        {"answers": {"violence": {"noul": 0.9}}}, "/v1/systemone", categories=("violence",),
    ),
    "gemini_safety": Sample(
        {"model": "gemini-x"}, {"candidates": [{"finishReason": "STOP", "safetyRatings": NOTHING}]},
        {"promptFeedback": {"blockReason": "SAFETY"}}, "/v1beta/models/gemini-x:generateContent", base="/v1beta",
        required=("api_key",), categories=("other",),
    ),
}  # fmt: skip


@cache
def kind_of(use: str) -> Any:
    """Return the class behind the entry point; looking it up again and again would be most of these tests' time."""
    return find_plugins()[use].load()


def build(use: str, root: str = "https://guard.example", /, **options: object) -> Supervisor:
    """Build the sample's supervisor, with further options."""
    return cast("Supervisor", kind_of(use).model_validate({**SAMPLES[use].entry(use, root), **options}))


def body_of(sent: object) -> dict[str, Any]:
    return cast("dict[str, Any]", sent)
