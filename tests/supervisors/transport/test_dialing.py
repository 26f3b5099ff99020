"""TLS and proxies."""

from __future__ import annotations

import asyncio
import base64
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from supervisors.transport import HttpClient, HttpRequest, TransportError
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.e2e.raw_server import serve_raw
from tests.timing import AT_ONCE_S


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate for 127.0.0.1 and "good.test"; key and certificate in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    names = "subjectAltName=IP:127.0.0.1,DNS:good.test"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    command += ["-addext", names, "-keyout", str(folder / "key"), "-out", str(folder / "cert")]
    subprocess.run(command, check=True, capture_output=True)
    whole = folder / "both.pem"
    whole.write_bytes((folder / "key").read_bytes() + (folder / "cert").read_bytes())
    return whole


@pytest.fixture
def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def client_tls(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Act as an HTTP proxy for CONNECT; the first line and headers are kept in `asked`."""
    asked.append(await reader.readuntil(b"\r\n\r\n"))
    host, _, port = asked[-1].split(b" ")[1].decode().rpartition(":")
    if port == "1":
        writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
        return
    far_reader, far_writer = await asyncio.open_connection(host, int(port))
    writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
        finally:
            sink.close()

    async with asyncio.TaskGroup() as group:
        group.create_task(copy(reader, far_writer))
        group.create_task(copy(far_reader, writer))


asked: list[bytes] = []


async def test_https_is_spoken_and_kept_alive(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    async with FakeUpstream(tls=server_tls) as up, HttpClient(tls=client_tls) as client:
        for body in (b"{}", b'{"a": "' + b"x" * 2**20 + b'"}'):
            request = HttpRequest("POST", f"{up.url}/chat/completions", body=body, timeout_s=5.0)
            assert (await client.send(request)).status == 200
        assert up.connections == 1
        up.close_connections()
        assert (await client.send(HttpRequest("GET", f"{up.url}/models", timeout_s=5.0))).status == 200


async def test_cancelling_over_tls_closes_the_connection(  # O-10
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async with FakeUpstream(tls=server_tls) as up, HttpClient(tls=client_tls) as client:
        up.script(Answer(frames=[b"one", b"two"], hold_at=1))
        async with client.stream(HttpRequest("GET", f"{up.url}/models")) as reply:
            assert await anext(reply) == b"one"
            left = asyncio.get_running_loop().time()
        received = await up.wait_finished()
        assert received.closed_at is not None
        assert received.closed_at - left < AT_ONCE_S


async def test_a_certificate_nobody_vouches_for_is_refused(server_tls: ssl.SSLContext) -> None:
    async with FakeUpstream(tls=server_tls) as up, HttpClient() as client:
        with pytest.raises(TransportError, match="TLS") as caught:
            await client.send(HttpRequest("GET", f"{up.url}/models", timeout_s=5.0))
        assert caught.value.fault == "connect"
        assert up.received == []


async def test_a_certificate_for_another_name_is_refused(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async with FakeUpstream(tls=server_tls) as up, HttpClient(tls=client_tls) as client:
        url = up.url.replace("127.0.0.1", "localhost")
        with pytest.raises(TransportError) as caught:
            await client.send(HttpRequest("GET", f"{url}/models", timeout_s=5.0))
        assert caught.value.fault == "connect"


async def test_plain_http_goes_through_a_proxy_in_absolute_form(up: FakeUpstream) -> None:
    proxy = up.origin.replace("http://", "http://me:w%40rd@")
    async with HttpClient(proxy=proxy) as client:
        await client.send(HttpRequest("GET", "http://far.test:81/v1/models?a=b", timeout_s=5.0))
    assert up.received[0].path == "http://far.test:81/v1/models?a=b"
    assert up.received[0].header("host") == "far.test:81"
    assert up.received[0].header("proxy-authorization") == "Basic " + base64.b64encode(b"me:w@rd").decode()


@pytest.mark.parametrize(("host", "reached"), [("3scale.test", True), ("2852039166", False), ("0xa9fea9fe", False)])
async def test_through_a_proxy_a_name_may_begin_with_a_digit_but_not_be_a_number(
    up: FakeUpstream, host: str, reached: bool
) -> None:
    async with HttpClient(proxy=up.origin) as client:
        call = client.send(HttpRequest("GET", f"http://{host}/v1/models", timeout_s=5.0))
        if reached:
            await call
        else:
            with pytest.raises(TransportError):
                await call
    assert [one.path for one in up.received] == ([f"http://{host}/v1/models"] if reached else [])


async def test_https_goes_through_a_tunnel_and_the_peer_does_not_see_the_proxys_credentials(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    asked.clear()
    async with (
        serve_raw(relay) as port,
        FakeUpstream(tls=server_tls) as up,
        HttpClient(tls=client_tls, proxy=f"http://me:word@127.0.0.1:{port}") as client,
    ):
        for _ in range(2):
            assert (await client.send(HttpRequest("GET", f"{up.url}/models", timeout_s=5.0))).status == 200
        assert up.connections == 1
        assert up.received[0].header("proxy-authorization") is None
    assert asked[0].startswith(b"CONNECT 127.0.0.1:")
    assert b"proxy-authorization: Basic " in asked[0]


async def test_a_tunnel_that_is_refused_is_a_connect_fault(client_tls: ssl.SSLContext) -> None:
    async with serve_raw(relay) as port, HttpClient(tls=client_tls, proxy=f"http://127.0.0.1:{port}") as client:
        with pytest.raises(TransportError, match="403") as caught:
            await client.send(HttpRequest("GET", "https://127.0.0.1:1/", timeout_s=5.0))
    assert caught.value.fault == "connect"


@pytest.mark.parametrize("proxy", ["https://h:1", "socks5://h:1", "h:1", "http://", "http://h/path", "http://h?x"])
def test_a_proxy_of_another_form_is_refused(proxy: str) -> None:
    with pytest.raises(ValueError, match="http://host:port"):
        HttpClient(proxy=proxy)


async def test_a_host_that_can_be_no_name_is_a_connect_fault() -> None:
    async with HttpClient() as client:
        with pytest.raises(TransportError) as caught:
            await client.send(HttpRequest("GET", f"http://a..{'b' * 70}/", timeout_s=5.0))
    assert caught.value.fault == "connect"
