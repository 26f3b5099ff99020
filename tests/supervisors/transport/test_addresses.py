"""X-03: which base URLs a config may hold, and which addresses are never called."""

from __future__ import annotations

import pytest

from supervisors.transport import HttpClient, HttpRequest, TransportError, check_base_url
from supervisors.transport.addresses import is_forbidden


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/v1",
        "https://api.example.com/v1/",
        "http://localhost/v1",
        "http://[::1]:8000/v1",
        "http://judge_1.internal:1",
        "https://xn--bcher-kva.example",
        "http://10.0.0.7/v1",
        "https://host.example./v1",
    ],
)
def test_ordinary_base_urls_are_accepted(url: str) -> None:
    check_base_url(url)
    with pytest.raises(ValueError, match="user info"):
        check_base_url(url.replace("://", "://user:secret@"))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://host/v1", "http://"),
        ("file:///etc/hosts", "http://"),
        ("host/v1", "http://"),
        ("http:///v1", "http://"),
        ("http://user:word@host/v1", "user info"),
        ("http://user@host/v1", "user info"),
        ("http://host/v1?key=1", "query"),
        ("http://host/v1?", "query"),
        ("http://host/v1#a", "fragment"),
        ("http://good.example#@evil.example/", "fragment"),
        ("http://host/v1 ", "white space"),
        ("http://ho\tst/v1", "white space"),
        ("http://good.example\\@evil.example/", "backslash"),
        ("http://host:0/v1", "port"),
        ("http://host:99999/v1", "port"),
        ("http://host:x/v1", "port"),
        ("http://host:/v1", "port"),
        ("http://2130706433/v1", "odd way"),
        ("http://0x7f000001/v1", "odd way"),
        ("http://0x7f.0.0.1/v1", "odd way"),
        ("http://0177.0.0.1/v1", "odd way"),
        ("http://127.1/v1", "odd way"),
        ("http://127.0.0.1./v1", "odd way"),
        ("http://[0:0:0:0:0:0:0:1]/v1", "odd way"),
        ("http://[::ffff:127.0.0.1]/v1", "odd way"),
        ("http://-host/v1", "host name"),
        ("http://bücher.example/v1", "host name"),
        ("http://ho%73t/v1", "host name"),
        ("http://169.254.169.254/latest", "link-local"),
        ("http://169.254.1.1/v1", "link-local"),
        ("http://[fe80::1]/v1", "link-local"),
        ("http://[fd00:ec2::254]/v1", "link-local"),
        ("http://100.100.100.200/", "link-local"),
        ("http://0.0.0.0:8000/v1", "link-local"),
        ("http://[::]/v1", "link-local"),
        ("http://224.0.0.1/v1", "link-local"),
        ("http://metadata.google.internal/v1", "link-local"),
        ("http://METADATA/v1", "link-local"),
    ],
)
def test_base_urls_that_could_lead_elsewhere_are_refused_with_the_reason(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_base_url(url)


def test_link_local_addresses_can_be_permitted() -> None:
    check_base_url("http://169.254.169.254/v1", allow_link_local=True)
    with pytest.raises(ValueError, match="link-local"):
        check_base_url("http://169.254.169.254/v1", allow_link_local=False)


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fe80::1%eth0", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "ff02::1"],
)
def test_forbidden_addresses_are_known_in_every_form(address: str) -> None:
    assert is_forbidden(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "192.168.1.1", "::1", "2606:4700::1111", "fd00::1"])
def test_loopback_and_private_addresses_may_be_called(address: str) -> None:
    assert not is_forbidden(address)


@pytest.mark.parametrize("proxy", [None, "http://127.0.0.1:9"])
async def test_a_forbidden_address_is_refused_before_anything_is_sent(proxy: str | None) -> None:
    async with HttpClient(proxy=proxy) as client:
        with pytest.raises(TransportError, match="may be called") as caught:
            await client.send(HttpRequest("GET", "http://169.254.169.254/latest", timeout_s=5.0))
    assert (caught.value.fault, caught.value.sent) == ("connect", False)
