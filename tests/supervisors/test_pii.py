from __future__ import annotations

import pytest

from supervisors.patterns import Haystack
from supervisors.pii import luhn, mod97, pii_patterns

FOUND = [
    ("pii.email", "Write to ada.lovelace+x@mail.example.co.uk.", ["ada.lovelace+x@mail.example.co.uk"]),
    ("pii.email", "a@b.io, c@d.io;<e@f.io>", ["a@b.io", "c@d.io", "e@f.io"]),
    ("pii.phone", "Call +44 20 7946 0958 or +1 (555) 010-9999.", ["+44 20 7946 0958", "+1 (555) 010-9999"]),
    ("pii.phone", "0049 30 901820", ["0049 30 901820"]),
    ("pii.card", "card 4111 1111 1111 1111 exp", ["4111 1111 1111 1111"]),
    ("pii.card", "1 4111-1111-1111-1111 2", ["4111-1111-1111-1111"]),
    ("pii.card", "378282246310005, 5555555555554444", ["378282246310005", "5555555555554444"]),
    ("pii.iban", "pay DE89 3704 0044 0532 0130 00 NOW", ["DE89 3704 0044 0532 0130 00"]),
    ("pii.iban", "gb29nwbk60161331926819", ["gb29nwbk60161331926819"]),
    ("pii.ssn", "SSN 078-05-1120, 219-09-9999", ["078-05-1120", "219-09-9999"]),
    ("pii.ipv4", "from 203.0.113.7 to 10.0.0.1.", ["203.0.113.7", "10.0.0.1"]),
    ("pii.ipv6", "at 2001:db8::ff00:42:8329 and fe80::1", ["2001:db8::ff00:42:8329", "fe80::1"]),
]
NOT_FOUND = [
    ("pii.email", "user@localhost, @handle, a@b, x@.com, a..b@c.de@"),
    ("pii.phone", "5 + 12345678 = 12345683, a+1234567890, 00123456789, +12 34"),
    ("pii.card", "4111 1111 1111 1112, 1234567890123456, 0000000000000000, 3.14159265358979323846"),
    ("pii.iban", "DE89 3704 0044 0532 0130 01, XX89370400440532013000, version AB12CDEF3456"),
    ("pii.ssn", "000-12-3456 666-12-3456 900-12-3456 123-00-4567 123-45-0000 1123-45-67890 555-123-45-6789"),
    ("pii.ipv4", "127.0.0.1, 0.0.0.0, 1.2.3, 1.2.3.4.5, 256.1.1.1, 1.2.3.4a"),
    ("pii.ipv6", "12:34:56, ::1, std::vector, a::b, 1:2:3:4:5:6:7:8:9"),
]


def find(name: str, text: str) -> list[str]:
    (pattern,) = [pattern for pattern in pii_patterns() if pattern.name == name]
    return [text[start:end] for start, end in pattern.find(Haystack(text))]


@pytest.mark.parametrize(("name", "text", "found"), FOUND)
def test_personal_data_is_found_with_its_exact_place(name: str, text: str, found: list[str]) -> None:
    assert find(name, text) == found


@pytest.mark.parametrize(("name", "text"), NOT_FOUND)
def test_what_fails_the_check_is_left_alone(name: str, text: str) -> None:  # D-09
    assert find(name, text) == []


@pytest.mark.parametrize("pattern", pii_patterns(), ids=lambda pattern: pattern.name)
def test_every_pattern_is_bounded(pattern: object) -> None:
    assert getattr(pattern, "max_match_chars", None) is not None
    assert getattr(pattern, "max_match_chars") <= 256  # noqa: B009 - the parameter is only an object here


def test_check_digits() -> None:
    assert luhn("79927398713")
    assert not luhn("79927398710")
    assert mod97("3214282912345698765432161182") == 1  # the worked example of ISO 13616
