"""What is measured: the fake upstream itself, our proxy, and the peers that are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.bodies import BEHAVIOURS
from bench.native import Address, Invalid, build
from bench.process import Process, free_port, run

ROUTE: Final = "/v1/chat/completions"
BEHAVIOUR: Final = "/BEHAVIOUR"
"""Stands in header lines for the path options of the behaviour asked for."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server under load.

    Args:
        name: as printed.
        port: loopback port.
        process: whose CPU time is booked.
        by_path: how the behaviour of the fake upstream is asked for: by the path, or by the name of the model.
        prefix: in front of such a path.
        warm_s: seconds of load before it is measured.
        headers: header lines it wants, with `BEHAVIOUR` in them.
        journal: where our proxy keeps its records.
        fixed: it cannot be asked for another behaviour of the fake upstream than ``fast``.
    """

    name: str
    port: int
    process: Process
    by_path: bool = False
    prefix: str = ""
    warm_s: float = 2.0
    headers: tuple[str, ...] = ()
    journal: Path | None = None
    fixed: bool = False

    def address(self, behaviour: str) -> Address:
        """Return where to send a request for this behaviour of the fake upstream."""
        options = f"{self.prefix}{BEHAVIOURS[behaviour]}" if self.by_path else ""
        headers = tuple([line.replace(BEHAVIOUR, BEHAVIOURS[behaviour]) for line in self.headers])
        return Address(self.port, f"{options}{ROUTE}", headers)


@contextmanager
def fake_upstream(folder: Path) -> Generator[Target]:
    """Run the fake upstream on the core of the tools; as a target it is the direct way."""
    port = free_port()
    with run([str(build("upstream")), str(port)], port, folder, place="tools") as process:
        yield Target("direct", port, process, by_path=True)


@contextmanager
def ours(
    folder: Path, upstream: Target, name: str = "guardrail-proxy", options: Sequence[str] = (), kind: str = "guarded"
) -> Generator[Target]:
    """Run the proxy under test, one worker."""
    port = free_port()
    command = [sys.executable, "-m", "bench.serve", kind, "--port", str(port), "--upstream", str(upstream.port)]
    journal = folder / f"{port}.sqlite3"
    with run([*command, "--journal", str(journal), *options], port, folder) as process:
        yield Target(name, port, process, journal=journal)


@contextmanager
def relay(folder: Path, upstream: Target, kind: str = "relay") -> Generator[Target]:
    """Run our raw byte relay, or the pass-through on aiohttp."""
    port = free_port()
    command = [sys.executable, "-m", "bench.serve", kind, "--port", str(port)]
    with run(command, port, folder) as process:
        yield Target(kind, port, process, by_path=True, prefix=f"/{upstream.port}")


@contextmanager
def nginx(folder: Path, upstream: Target) -> Generator[Target]:
    """Run nginx as a plain reverse proxy with kept-alive upstream connections, one worker.

    Raises:
        Invalid: it is not installed.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        msg = "nginx is not installed"
        raise Invalid(msg)
    port = free_port()
    work = folder / "nginx"
    work.mkdir()
    config = work / "nginx.conf"
    config.write_text(NGINX.format(work=work, port=port, upstream=upstream.port))
    with run([program, "-c", str(config), "-p", str(work)], port, folder) as process:
        yield Target("nginx", port, process, by_path=True)


NGINX: Final = """daemon off; worker_processes 1; pid {work}/pid; error_log {work}/error.log;
events {{ worker_connections 2048; }}
http {{
  access_log off; keepalive_requests 100000000; client_body_buffer_size 256k; client_max_body_size 32m;
  client_body_temp_path {work}/b; proxy_temp_path {work}/p; fastcgi_temp_path {work}/f;
  uwsgi_temp_path {work}/u; scgi_temp_path {work}/s;
  upstream fake {{ server 127.0.0.1:{upstream}; keepalive 256; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} reuseport;
    location / {{
      proxy_pass http://fake; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""


def version_of(command: Sequence[str]) -> str:
    """Return what a program says about its version, or why it does not."""
    try:
        done = subprocess.run(list(command), capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"not available ({type(error).__name__})"
    return (done.stdout + done.stderr).strip().splitlines()[0] if done.stdout + done.stderr else "unknown"
