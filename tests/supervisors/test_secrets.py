from __future__ import annotations

import pytest

from supervisors.patterns import Haystack, Pattern
from supervisors.secrets import secret_patterns

AWS = "AKIA" + "IOSFODNN7EXAMPLE"
BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
PAT = "github_pat_" + "a1" * 11 + "_" + "b" * 59
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY"
HOOK = "hooks.slack.com/services/T00000000/B00000000/" + "X" * 24
GOOGLE = "AIza" + "Sy-0_1aB" * 4 + "abc"
JWT = "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "c2lnbmF0dXJl"
BLOCK = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----"
HALF_BLOCK = f"-----BEGIN PRIVATE KEY-----\n{BODY}"
MIXED = "a1B2" * 10

FOUND = [
    ("secrets.aws_access_key", f"key {AWS}.", AWS),
    ("secrets.aws_secret_key", f"aws_secret_access_key = {AWS_SECRET}", AWS_SECRET),
    ("secrets.github_token", "ghp_" + "a1B2" * 9, "ghp_" + "a1B2" * 9),
    ("secrets.github_token", PAT, PAT),
    ("secrets.gitlab_token", f"use glpat-{MIXED[:20]} here", f"glpat-{MIXED[:20]}"),
    ("secrets.npm_token", f"npm_{MIXED[:36]}", f"npm_{MIXED[:36]}"),
    ("secrets.huggingface_token", f"hf_{MIXED[:34]}", f"hf_{MIXED[:34]}"),
    ("secrets.url_password", "postgres://app:hunter22@db.example/x", "postgres://app:hunter22@"),
    ("secrets.openai_key", f"sk-proj-{MIXED}", f"sk-proj-{MIXED}"),
    ("secrets.anthropic_key", f"sk-ant-api03-{MIXED}", f"sk-ant-api03-{MIXED}"),
    ("secrets.slack_token", "xoxb-" + "123456789012-abc", "xoxb-" + "123456789012-abc"),
    ("secrets.slack_webhook", f"https://{HOOK}", HOOK),
    ("secrets.google_key", GOOGLE, GOOGLE),
    ("secrets.stripe_key", f"sk_live_{MIXED}", f"sk_live_{MIXED}"),
    ("secrets.jwt", f"Bearer {JWT} ok", JWT),
    ("secrets.private_key", f"a {BLOCK} b", BLOCK),
    ("secrets.private_key", HALF_BLOCK, HALF_BLOCK),
    ("secrets.password", "use password=hunter2, please", "password=hunter2"),
    ("secrets.password", "password=correcthorse", "password=correcthorse"),
    ("secrets.password", "My password is Tr0ub4dor&3.", "password is Tr0ub4dor&3"),
    ("secrets.password", 'api_key: "abcdefgh"', 'api_key: "abcdefgh'),
]
NOT_FOUND = [
    ("secrets.aws_access_key", "AKIA is a prefix; akiaiosfodnn7example; XAKIAIOSFODNN7EXAMPLE9"),
    ("secrets.openai_key", "sk-learn-is-a-nice-library-name sk-short1"),
    ("secrets.github_token", "ghp_short and gha_workflow_name"),
    ("secrets.url_password", "https://user:password@host.example http://host:8080/a@b git@host.example:a/b"),
    ("secrets.slack_token", "xoxo-love-and-kisses"),
    ("secrets.private_key", "A file that begins with -----BEGIN PRIVATE KEY----- holds a key."),
    ("secrets.jwt", "eyJhbGciOiJIUzI1NiJ9 alone"),
    ("secrets.password", "The password is wrong. I forgot my password: what now? password=$PASSWORD pwd = getpass()"),
    (
        "secrets.password",
        "how do I choose a good password? secret: none; compass=north, password = null; pwd: expected",
    ),
]


def find(name: str, text: str) -> list[str]:
    (pattern,) = [pattern for pattern in secret_patterns() if pattern.name == name]
    return [text[start:end] for start, end in pattern.find(Haystack(text))]


@pytest.mark.parametrize(("name", "text", "found"), FOUND)
def test_a_credential_is_found_with_its_exact_place(name: str, text: str, found: str) -> None:
    assert find(name, text) == [found]


@pytest.mark.parametrize(("name", "text"), NOT_FOUND)
def test_talk_about_credentials_is_left_alone(name: str, text: str) -> None:  # D-09
    assert find(name, text) == []


@pytest.mark.parametrize("pattern", secret_patterns(), ids=lambda pattern: pattern.name)
def test_every_finding_is_bounded(pattern: Pattern) -> None:
    assert pattern.max_match_chars is not None
    long = {"secrets.private_key": 4096, "secrets.jwt": 2048}
    assert pattern.max_match_chars <= long.get(pattern.name, 256)


def test_a_key_block_without_end_is_cut_at_its_bound() -> None:
    (found,) = find("secrets.private_key", "-----BEGIN PRIVATE KEY-----\n" + "Ab1+" * 3000)
    assert len(found) == 4096
