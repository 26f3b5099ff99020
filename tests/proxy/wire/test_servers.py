"""MCP servers that a caller names (wire §2.3, X-02)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire.errors import RequestError
from proxy.wire.servers import Allowed, check_server, refuse_servers

KNOWN = "https://mcp.example.com/tools"
ALLOWED = ((KNOWN,),)


def tool(url: object, **more: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function"}, {"type": "mcp", "server_url": url, **more}]}


def is_refused(body: dict[str, Any], allowed: Allowed) -> bool:
    try:
        refuse_servers(body, allowed)
    except RequestError:
        return True
    return False


@pytest.mark.parametrize(
    "url", [KNOWN, f"{KNOWN}/", f"{KNOWN}/a/b", "https://MCP.example.com:443/tools", f"{KNOWN}/a?x=1"]
)
def test_an_allowed_server_may_be_named_with_its_credentials(url: str) -> None:
    named = tool(url, authorization="t", headers={"a": "b"})
    listed = {"mcp_servers": [{"type": "url", "url": url, "authorization_token": "t"}]}
    assert [is_refused(body, ALLOWED) for body in (named, listed)] == [False, False]
    assert [is_refused(body, ()) for body in (named, listed)] == [True, True]


@pytest.mark.parametrize(
    "url",
    [
        "https://mcp.example.com/",
        "https://mcp.example.com/toolsmith",
        "https://mcp.example.com/tools/../admin",
        "https://mcp.example.com/tools/%2e%2e/admin",
        "https://mcp.example.com/tools\\..\\admin",
        "https://mcp.example.com:8443/tools",
        "https://mcp.example.com@evil.example/tools",
        "https://evil.example/tools#https://mcp.example.com/tools",
        "https://mcp.example.com.evil.example/tools",
        "http://mcp.example.com/tools",
        "//mcp.example.com/tools",
        " https://mcp.example.com/tools",
        "https://mcp.example.com:99999/tools",
        "https://[mcp/tools",
        "",
        7,
        None,
        [KNOWN],
    ],
)
def test_any_other_is_refused_with_its_path(url: object) -> None:
    with pytest.raises(RequestError) as caught:
        refuse_servers(tool(url, authorization="t"), ALLOWED)
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "tools[1].authorization")
    with pytest.raises(RequestError, match="no policy allows"):
        refuse_servers({"mcp_servers": [{"url": KNOWN}, {"url": url}]}, ALLOWED)


@pytest.mark.parametrize("allowed", [(), ((),), ((KNOWN,), ())])
def test_every_policy_must_allow_it(allowed: tuple[tuple[str, ...], ...]) -> None:  # G-16
    with pytest.raises(RequestError):
        refuse_servers(tool(KNOWN), allowed)
    with pytest.raises(RequestError):
        refuse_servers({"input": [{"type": "additional_tools", **tool(KNOWN)}]}, allowed)


@pytest.mark.parametrize("servers", [{"url": KNOWN}, "x", 3, [3], [{}]])
def test_servers_of_another_shape_are_refused(servers: object) -> None:
    with pytest.raises(RequestError):
        refuse_servers({"mcp_servers": servers}, ALLOWED)


@pytest.mark.parametrize("servers", [None, [], {}])
def test_no_server_is_no_problem(servers: object) -> None:
    assert not is_refused({"mcp_servers": servers, "tools": [{"type": "mcp", "connector_id": "c"}]}, ())


@pytest.mark.parametrize(
    "url", ["http://a.example", "https://u:p@a.example", "https://a.example/?x=1", "a.example", "https:///x"]
)
def test_an_address_in_the_config_is_checked(url: str) -> None:
    with pytest.raises(ValueError, match="must be an address such as"):
        check_server(url)
    assert check_server(KNOWN) == KNOWN
