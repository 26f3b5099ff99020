"""Patterns for personal data, each with the check that its kind of number has.

Sources: ISO 13616 and the SWIFT registry for IBAN lengths, ISO 7064 for mod 97, ISO/IEC 7812 for Luhn and the issuers'
published number ranges, E.164 for telephone numbers, the SSA's rules for numbers never assigned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from supervisors.offsets import Place
from supervisors.patterns import Pattern, built_in

_IBAN_LENGTHS: Mapping[int, str] = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
_IBAN_LENGTH: Mapping[str, int] = {
    country: length for length, countries in _IBAN_LENGTHS.items() for country in countries.split()
}


@lru_cache(maxsize=1)
def pii_patterns() -> tuple[Pattern, ...]:
    """Return the patterns of the preset ``pii``, compiled once."""
    octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
    return (
        built_in(
            "pii.email",
            r"(?:^|[^A-Za-z0-9._%+-])([A-Za-z0-9_%+][A-Za-z0-9._%+-]{0,47}@[A-Za-z0-9.-]{1,55}\.[A-Za-z]{2,24})",
            128,
            check=_email,
        ),
        built_in("pii.phone", r"(?:^|[^0-9A-Za-z+])((?:\+|00)[1-9](?:[ ().-]{0,2}[0-9]){6,14})", 48, check=_phone),
        built_in("pii.card", r"(?:^|[^0-9A-Za-z.])([0-9](?:[ -]?[0-9]){11,27})\b", 56, check=_cards),
        built_in("pii.iban", r"\b([A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,30})", 64, check=_iban),
        built_in(
            "pii.ssn",
            r"(?:^|[^0-9A-Za-z-])([0-9]{3}-[0-9]{2}-[0-9]{4}|[0-9]{3} [0-9]{2} [0-9]{4})(?:$|[^0-9A-Za-z-])",
            11,
            check=_ssn,
        ),
        built_in(
            "pii.ipv4",
            rf"(?:^|[^0-9A-Za-z.])({octet}(?:\.{octet}){{3}})(?:$|[^0-9A-Za-z.]|\.(?:$|[^0-9]))",
            15,
            check=_ipv4,
        ),
        built_in(
            "pii.ipv6",
            r"(?:^|[^0-9A-Za-z:.])([0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7})(?:$|[^0-9A-Za-z:])",
            39,
            check=_ipv6,
        ),
    )


def _email(text: str) -> Iterator[Place]:
    local, _, domain = text.partition("@")
    if ".." not in text and not local.endswith(".") and not domain.startswith((".", "-")):
        yield Place(0, len(text))


def _phone(text: str) -> Iterator[Place]:
    digits = "".join(filter(str.isdigit, text)).removeprefix("00")
    plain_00 = text.startswith("00") and text.isdigit()  # an account or article number as likely
    if 8 <= len(digits) <= 15 and not plain_00 and text.count("(") == text.count(")"):
        yield Place(0, len(text))


def _cards(text: str) -> Iterator[Place]:
    """Find card numbers among groups of digits: each begins and ends with a group."""
    at = [i for i, char in enumerate(text) if char.isdigit()]
    digits = "".join([text[i] for i in at])
    first = 0
    while first < len(at):
        for last in range(min(first + 19, len(at)), first + 12, -1):
            ends = last == len(at) or at[last] != at[last - 1] + 1
            if ends and _is_card(digits[first:last]):
                yield Place(at[first], at[last - 1] + 1)
                first = last - 1
                break
        first += 1
        while first < len(at) and at[first] == at[first - 1] + 1:
            first += 1


def _is_card(number: str) -> bool:
    return len(number) in _lengths(number) and len(set(number)) > 1 and luhn(number)


def _lengths(number: str) -> tuple[int, ...]:
    """Return the lengths that the issuer of a number uses; empty when nobody issues it."""
    two, three, four = int(number[:2]), int(number[:3]), int(number[:4])
    known: tuple[tuple[bool, tuple[int, ...]], ...] = (
        (number[0] == "4", (13, 16, 19)),
        (51 <= two <= 55 or 2221 <= four <= 2720, (16,)),
        (two in (34, 37), (15,)),
        (four == 6011 or 644 <= three <= 649 or two in (62, 65), (16, 17, 18, 19)),
        (3528 <= four <= 3589, (16, 17, 18, 19)),
        (two in (36, 38, 39) or 300 <= three <= 305, (14, 16, 19)),
    )
    return next((lengths for fits, lengths in known if fits), ())


def luhn(number: str) -> bool:
    """Say whether the check digit of a string of digits is right."""
    total = 0
    for i, char in enumerate(reversed(number)):
        digit = int(char) * (1 + i % 2)
        total += digit - 9 if digit > 9 else digit
    return total % 10 == 0


def _iban(text: str) -> Iterator[Place]:
    at = [i for i, char in enumerate(text) if char.isalnum()]
    number = "".join([text[i] for i in at]).upper()
    length = _IBAN_LENGTH.get(number[:2])
    if length is None or len(number) < length:
        return
    ends = length == len(at) or at[length] != at[length - 1] + 1
    if ends and mod97(number[4:length] + number[:4]) == 1:
        yield Place(0, at[length - 1] + 1)


def mod97(number: str) -> int:
    """Return a number with letters read as 10 to 35, modulo 97."""
    return int("".join([str(int(char, 36)) for char in number])) % 97


def _ssn(text: str) -> Iterator[Place]:
    area, group, serial = int(text[:3]), int(text[4:6]), int(text[7:])
    if area not in (0, 666) and area < 900 and group and serial:
        yield Place(0, len(text))


def _ipv4(text: str) -> Iterator[Place]:
    address = IPv4Address(text)
    if not (address.is_loopback or address.is_unspecified or text == "255.255.255.255"):
        yield Place(0, len(text))


def _ipv6(text: str) -> Iterator[Place]:
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return
    if any(map(str.isdigit, text)) and not (address.is_loopback or address.is_unspecified):
        yield Place(0, len(text))
