"""Which of our cards a set is that somebody else named; a name that is not here has no card of ours."""

from __future__ import annotations

from collections.abc import Mapping

GUARDBENCH: Mapping[str, str] = {
    "AdvBench Behaviors": "advbench",
    "AdvBench Strings": "advbench-strings",
    "BeaverTails 330k": "beavertails",
    "CatQA": "catqa",
    "Do Anything Now Questions": "forbidden-questions",
    "DoNotAnswer": "do-not-answer",
    "HarmBench Behaviors": "harmbench-test",
    "HarmfulQA Questions": "harmfulqa",
    "I-CoNa": "i-cona",
    "I-Controversial": "i-controversial",
    "I-MaliciousInstructions": "i-malicious",
    "MITRE": "cyberseceval-mitre",
    "MaliciousInstruct": "malicious-instruct",
    "OpenAI Moderation Dataset": "openai-moderation",
    "SimpleSafetyTests": "simplesafetytests",
    "StrongREJECT Instructions": "strongreject",
    "TDCRedTeaming": "tdc2023",
    "Toxic Chat": "toxicchat",
    "XSTest": "xstest",
}
GUARDRAIL_BENCH: Mapping[str, str] = {
    "aegis": "aegis-2",
    "bipia_email": "bipia-email",
    "bipia_table": "bipia-table",
    "deepset_pi": "deepset-injections",
    "gandalf": "gandalf",
    "jbb": "jailbreakbench",
    "notinject": "notinject",
    "openai_moderation": "openai-moderation",
    "orbench": "or-bench-hard-1k",
    "wildguardmix": "wildguardmix",
    "xstest": "xstest",
}
HELM: Mapping[str, str] = {
    "HarmBench": "harmbench",
    "SimpleSafetyTests": "simplesafetytests",
    "XSTest": "xstest",
}
HELM_ITEMS: Mapping[str, int] = {
    "HarmBench": 400,
    "SimpleSafetyTests": 100,
    "XSTest": 450,
    "BBQ": 1000,
    "AnthropicRedTeam": 1000,
}
"""Instances of each scenario. Source: the tables of the file itself (`# eval`)."""
