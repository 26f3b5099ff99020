"""Patterns for instructions that are aimed at the model's rules instead of its task: overrides, personas, leaks.

They know the wording of attacks that are passed around, nothing of intent: a text that quotes an attack is found too.
Words are joined by "anything that is no letter or digit", so that the same pattern finds a phrase in the glued,
leetspeak, rot13 and reversed variants, which have no spaces.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from supervisors.patterns import Pattern, built_in

_GAP = "[^0-9a-z]{0,4}"
"""What may stand between two words; nothing, in a glued text."""

_RULES = "instructions?|prompts?|rules|guidelines|directives|commands|orders|programming|restrictions|safeguards"
_WHOSE = "previous|prior|above|earlier|preceding|foregoing|former|initial|original|existing|system|developer"
_DROP = "ignore|disregard|forget|override|bypass|neglect|discard|overlook"
_LIMITS = (
    "rules|restrictions|limitations|limits|guidelines|filters?|censorship|ethic(?:s|al)|moral(?:s|ity)?|boundaries"
)


def _phrase(*words: str) -> str:
    """Join alternatives of words into an expression; a word that ends in ``?`` may be missing."""
    parts = [f"(?:(?:{word[:-1]}){_GAP})?" if word.endswith("?") else f"(?:{word}){_GAP}" for word in words[:-1]]
    return "".join([*parts, f"(?:{words[-1]})"])


_SOURCES: dict[str, tuple[str, ...]] = {
    "override": (
        _phrase(_DROP, "all|any|every|each|completely?", "of?", "the|your|my|these|those|its|their?", _WHOSE, _RULES),
        _phrase(_DROP, "all|any|every", "of?", "the|your|its|their?", _RULES),
        _phrase(_DROP, "everything|anything|all", "that?", "is|was|has been?", "above|before|said|written|told|prior"),
        _phrase(_DROP, "what|everything", "you", "were|have been", "told|taught|instructed"),
        _phrase("do not|dont|never", "follow|obey|comply with|listen to", "the|your|any", _WHOSE, _RULES),
        _phrase("from now on|henceforth", "you", "are|will|must|shall", "no longer|not", "bound|follow|obey|refuse"),
    ),
    "persona": (
        _phrase(
            "you", "are", "now?", "going to?", "act as|pretend to be|dan", "an?", "ai|dan|aim|stan|dude|jailbroken"
        ),
        _phrase("dan|for|can|could|able to|ability to|as|called|named|mode", "do", "anything", "now"),
        _phrase("god|sudo|unrestricted|jailbreak|dan", "mode", "enabled|activated|on|output"),
        _phrase("developer", "mode", "outputs?|responses?"),
        _phrase("chatgpt|gpt|ai|assistant|model", "with", "developer", "mode"),
        _phrase("enable|enter|activate|switch to", "the|your?", "god|sudo|jailbreak|dan|unrestricted", "mode"),
        _phrase(
            "unfiltered|uncensored|amoral|unrestricted|jailbroken|unethical|rule free",
            "and|or|completely?",
            "unfiltered|uncensored|amoral|unethical|evil?",
            "ai|chatbot|assistant|model|language model|persona|character|version|response|bot",
        ),
    ),
    "no_rules": (
        _phrase(
            "without|no|free (?:of|from)|ignoring|regardless of|not bound by",
            "any|all|the|your|its?",
            "ethical|moral|legal|content|safety|openai|usual|typical?",
            "and|or?",
            "moral|ethical|legal?",
            _LIMITS,
        ),
        _phrase(
            "broken|break|freed?", "free?", "of|from|the", "typical|usual|all|any|the|your", "confines|rules|limits"
        ),
        _phrase(
            "does|do|did|will|is|are|has|have",
            "not",
            "have|bound by|adhere to|follow|obey",
            "any?",
            "ethical|moral|content|openai|safety",
            "or?",
            "moral|ethical?",
            _LIMITS + "|policy|policies",
        ),
    ),
    "refusal_ban": (
        _phrase(
            "never|do not|dont|cannot|cant|must not|not allowed to|will not",
            "ever?",
            "refuse|decline|reject",
            "to|any|a|my",
        ),
        _phrase(
            "never|do not|dont|must not",
            "say|write|use|include|mention|reply with",
            "the?",
            "words?|phrases?|sentences?",
            "i cannot|i cant|im sorry|i am sorry|sorry|unfortunately|unable|however|as an ai",
        ),
        _phrase(
            "start|begin|open",
            "your|the|every|each",
            "response|reply|answer|message|output",
            "with",
            "sure|absolutely|of course|certainly|yes",
        ),
    ),
    "prompt_leak": (
        _phrase(
            "reveal|show|print|repeat|output|display|give me|tell me|disclose|leak|write out|copy",
            "me|us?",
            "back|verbatim|exactly?",
            "all?",
            "of?",
            "your|the|its",
            "full|entire|exact|complete|whole|hidden|secret|initial|original|above|own?",
            "system|hidden|initial|secret|original|developer|pre",
            "prompts?|messages?|instructions?|configuration",
        ),
        _phrase(
            "repeat|print|output|write",
            "everything|the text|the words|all the text|all text|all words",
            "that is?",
            "above|before this",
        ),
        _phrase("what", "is|are|was|were", "your", "system|initial|original|hidden|secret", "prompts?|instructions?"),
    ),
    "exfiltration": (
        _phrase(
            "send|forward|post|upload|e-?mail|transmit|exfiltrate",
            "all?",
            "of?",
            "the|your|this|my|users?",
            "entire|whole|full?",
            "conversation|chat|history|api keys?|credentials?|passwords?|secrets|context|system prompt",
            "to",
        ),
        r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{1,120}[?&][^)\s=]{1,24}=[^)\s]{0,40}(?:\{|%7b|\$|<)",
    ),
    "markup": (
        r"<\|(?:im_start|im_end|system|assistant|endoftext|start_header_id|eot_id)\|>",
        r"(?:\[/?inst\]|<</?sys>>)",
        r"(?:^|\n)[ \t]{0,4}(?:#{2,4}|\[|<)[ \t]{0,2}(?:new |updated |real )?(?:system|developer) ?"
        r"(?:prompt|message|instructions?|note|override)?[ \t]{0,2}(?::|\]|>)",
    ),
}

_LONGEST = 320
"""More than any of these can match; the widths of `_GAP` add up."""


@lru_cache(maxsize=1)
def injection_patterns() -> tuple[Pattern, ...]:
    """Return the patterns of the preset ``injection``, compiled once."""
    return tuple([_build(name, sources) for name, sources in _SOURCES.items()])


def _build(name: str, sources: tuple[str, ...]) -> Pattern:
    pattern = built_in(f"injection.{name}", "|".join(sources), _LONGEST, ignore_case=True)
    return pattern if name == "markup" else replace(pattern, loose=True)
