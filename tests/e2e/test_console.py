"""The console: its files are served with a strict policy, and nothing else is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from urllib.parse import urljoin

import pytest

from proxy.console import read_file
from tests.e2e.serving import serving, tree
from tests.timing import HANGS_S


@pytest.mark.parametrize("name", ["index.html", "console.js", "console.css"])
async def test_its_files_come_with_a_strict_content_security_policy(tmp_path: Path, name: str) -> None:
    async with serving(tree("http://127.0.0.1:9/v1", tmp_path)) as proxy:
        reply = await proxy.client.get(f"/console/{name}")
        assert reply.status_code == 200
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert "http:" not in reply.text.replace("http://www.w3.org/2000/svg", "")
        assert "innerHTML" not in reply.text


async def test_it_has_no_other_files_and_a_door(tmp_path: Path) -> None:
    async with serving(tree("http://127.0.0.1:9/v1", tmp_path)) as proxy:
        assert (await proxy.client.get("/console/__init__.py")).status_code == 404
        assert (await proxy.client.get("/console/..%2fapp.py")).status_code == 404
        door = await proxy.client.get("/console")
        assert (door.status_code, door.headers["location"]) == (307, "console/index.html")


_BROWSER = """
const node = new Proxy(function () {}, {
  get: (_, name) => (name === Symbol.toPrimitive ? () => "" : node),
  set: (_, name, value) => { if (name === "textContent") console.log(value); return true; },
  apply: () => node,
});
globalThis.document = node;
globalThis.sessionStorage = { getItem: () => KEY };
globalThis.FormData = class { *[Symbol.iterator]() {} };
globalThis.setInterval = () => {};
globalThis.fetch = async () => ({ status: STATUS, ok: false });
"""
"""As much of a browser as an answer without data needs."""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs a runtime for its script")
@pytest.mark.parametrize(
    ("key", "status", "said"),
    [
        ("", 401, "an admin key is needed"),
        ("k", 401, "this key is unknown here"),
        ("k", 403, "this key is known, but no admin key (admin: true)"),
    ],
)
def test_it_says_what_is_wrong_with_a_key(key: str, status: int, said: str) -> None:
    script = (
        _BROWSER.replace("KEY", repr(key)).replace("STATUS", str(status)) + (read_file("console.js") or b"").decode()
    )
    ran = subprocess.run(
        ["node", "-e", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS_S,
    )
    assert ran.stdout.splitlines() == [said]


@pytest.mark.parametrize("door", ["/console", "/console/"])
async def test_its_door_leads_to_the_page_with_and_without_a_slash(tmp_path: Path, door: str) -> None:
    async with serving(tree("http://127.0.0.1:9/v1", tmp_path)) as proxy:
        page = await proxy.client.get(door, follow_redirects=True)
        assert (page.status_code, page.url.path) == (200, "/console/index.html")
        sent_to = (await proxy.client.get(door)).headers["location"]
        assert urljoin(f"http://host/prefix{door}", sent_to) == "http://host/prefix/console/index.html"


@pytest.mark.parametrize(("door", "up"), [("/console//", "../"), ("/console///", "../../")])
async def test_slashes_too_many_lead_up_to_the_page(tmp_path: Path, door: str, up: str) -> None:
    async with serving(tree("http://127.0.0.1:9/v1", tmp_path)) as proxy:
        found = await proxy.client.get(
            door
        )  # urljoin takes no empty segment for one, as RFC 3986 §5.2.4 and browsers do
        assert (found.status_code, found.headers["location"]) == (307, f"{up}index.html")
        assert (await proxy.client.get("/console/more/of.it")).json()["error"]["code"] == "unknown_route"
