"""What of a text is kept, and that equal texts meet without being guessable (O-25)."""

from __future__ import annotations

import hmac

import pytest

from proxy.store.content import Texts, build_content, segments_hmac, text_hmac
from supervisors.types import Media, Segment

SECRET = b"s" * 32
ASKED = Segment("/messages/0/content", "user", "text", "violet umbrella")
ANSWER = Segment("/choices/1/message/content", "assistant", "text", "green hat", 1, 1)
IMAGE = Segment("/messages/0/content/1", "user", "media", "", media=Media("image/png", 9, "0" * 64))


def test_full_keeps_the_text_hashed_keeps_a_digest_and_off_keeps_nothing() -> None:  # O-25
    content = build_content([Texts("input", "full", [ASKED]), Texts("output", "hashed", [ANSWER])], SECRET)
    place = {"path": ANSWER.path, "role": "assistant", "kind": "text", "choice": 1, "chars": 9}
    assert content == {
        "mode": "full",
        "input": [{"path": ASKED.path, "role": "user", "kind": "text", "chars": 15, "text": "violet umbrella"}],
        "output": [{**place, "hmac": text_hmac(SECRET, "green hat")}],
    }
    hashed = build_content([Texts("input", "hashed", [ASKED]), Texts("output", "off", [ANSWER])], SECRET)
    assert hashed is not None
    assert (hashed["mode"], "output" in hashed, "violet" in str(hashed)) == ("hashed", False, False)
    assert build_content([Texts("input", "off", [ASKED])], b"") is None


def test_media_are_described_never_kept() -> None:
    for mode in ("full", "hashed"):
        content = build_content([Texts("input", mode, [IMAGE])], SECRET)
        assert content is not None
        assert content["input"][0]["media"] == {"mime": "image/png", "size_bytes": 9}
        assert "text" not in content["input"][0]


def test_the_digest_depends_on_text_secret_and_boundaries() -> None:  # O-25
    # RFC 4231, test case 2.
    assert text_hmac(b"Jefe", "what do ya want for nothing?").startswith("5bdcc146bf60754e6a042426089575c7")
    for length in (1, 32, 63, 64, 65, 200):  # a key longer than a block is hashed first
        key = b"k" * length
        assert text_hmac(key, "violet umbrella") == hmac.new(key, b"violet umbrella", "sha256").hexdigest()
    assert text_hmac(SECRET, "a") != text_hmac(b"t" * 32, "a")
    assert text_hmac(SECRET, "\ud800") != text_hmac(SECRET, "?")

    def parts(*texts: str) -> list[Segment]:
        return [Segment("/x", "user", "text", text) for text in texts]

    assert segments_hmac(SECRET, parts("ab", "c")) != segments_hmac(SECRET, parts("a", "bc"))
    assert segments_hmac(SECRET, parts("ab")) == segments_hmac(SECRET, parts("ab"))
    assert segments_hmac(SECRET, parts("")) is None


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 32 characters, or content mode off"):
        build_content([Texts("input", "hashed", [ASKED])], b"")
